//! Where connections may lead.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use tower::util::BoxCloneSyncService;

use crate::problem::Problem;

type Resolver = BoxCloneSyncService<Name, std::vec::IntoIter<SocketAddr>, io::Error>;
/// Connects to servers.
pub(super) type Way = HttpConnector<Resolver>;

/// By this it is known again, below the layers of a connection.
pub(super) const REFUSED: &str =
    "its host is a link-local address, where clouds keep services for their machines; it is not asked";

/// Addresses at which the services are that clouds keep for their machines, and that answer everybody who asks.
fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(four) => four.is_link_local(),
        IpAddr::V6(six) => {
            // The one that a cloud has given to its own.
            const KEPT: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);
            six.is_unicast_link_local()
                || six == KEPT
                || six.to_ipv4_mapped().is_some_and(|four| four.is_link_local())
        }
    }
}

fn literal(host: &str) -> Option<IpAddr> {
    host.trim_matches(['[', ']']).parse().ok()
}

/// Refuses a host that is written as an address that nobody may ask, unless it is the one that was named.
pub(super) fn check(host: &str, named: &str) -> Result<(), Problem> {
    match literal(host) {
        Some(address) if is_link_local(address) && literal(named) != Some(address) => {
            Err(Problem::new(REFUSED))
        }
        _ => Ok(()),
    }
}

pub(super) fn way(within: Duration) -> Way {
    let resolver = Resolver::new(tower::service_fn(|name: Name| async move {
        let found: Vec<_> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
        // One that is refused may not hide behind one that is not: the name is somebody else's.
        if found.iter().any(|address| is_link_local(address.ip())) {
            return Err(io::Error::other(REFUSED));
        }
        Ok(found.into_iter())
    }));
    let mut tcp = HttpConnector::new_with_resolver(resolver);
    tcp.enforce_http(false);
    tcp.set_connect_timeout(Some(within));
    tcp
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_local_addresses_are_asked_by_name_alone() {
        for (host, named, expected) in [
            ("169.254.169.254", "git.example.com", false),
            ("[fe80::1]", "git.example.com", false),
            ("[::ffff:169.254.1.1]", "git.example.com", false),
            ("[fd00:ec2::254]", "git.example.com", false),
            ("169.254.169.254", "169.254.169.254", true),
            ("169.254.169.254", "169.254.0.1", false),
            ("10.0.0.1", "git.example.com", true),
            ("127.0.0.1", "git.example.com", true),
            ("[fd00::1]", "git.example.com", true),
            ("example.com", "git.example.com", true),
        ] {
            assert_eq!(check(host, named).is_ok(), expected, "{host} for {named}");
        }
    }
}
