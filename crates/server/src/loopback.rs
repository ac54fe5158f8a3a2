//! Host names that refer to this machine.

use std::net::IpAddr;

/// Returns true if a host, without brackets and port, is this machine.
pub(crate) fn is_loopback_host(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}
