//! Network addresses that the HTTP client must not contact.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use hyper_util::client::legacy::connect::dns::Name;
use tidegate_model::Host;
use tower::util::BoxCloneSyncService;

/// Reason for blocking a link-local address. Also identifies this error inside a connection error.
pub const LINK_LOCAL_REASON: &str =
    "its host is a link-local or cloud metadata address; such addresses are blocked";
/// Reason for blocking a loopback address. Also identifies this error.
pub const LOOPBACK_REASON: &str =
    "its host is a loopback address; such addresses are blocked for URLs in manifests";

/// Addresses of cloud metadata services that aren't link-local.
const CLOUD_METADATA: [[u8; 4]; 3] = [[100, 100, 100, 200], [168, 63, 129, 16], [192, 0, 0, 192]];

/// Resolver of host names.
pub type Resolver = BoxCloneSyncService<Name, std::vec::IntoIter<SocketAddr>, io::Error>;

/// Set of blocked addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockedAddresses {
    /// True if link-local addresses are blocked. Clouds run metadata services there, which answer any client.
    pub link_local: bool,
    /// True if loopback addresses are blocked. Local services often trust any local client.
    pub loopback: bool,
}

impl BlockedAddresses {
    /// Link-local addresses only.
    pub const LINK_LOCAL: Self = Self { link_local: true, loopback: false };

    /// Returns the reason an address is blocked, or `None` if it isn't.
    pub fn blocked_reason(self, address: IpAddr) -> Option<&'static str> {
        match () {
            () if self.link_local && is_link_local(address) => Some(LINK_LOCAL_REASON),
            () if self.loopback && is_loopback(address) => Some(LOOPBACK_REASON),
            () => None,
        }
    }

    /// Returns the reason a host is blocked, if it is an IP address. Names are checked when they are
    /// resolved.
    pub fn blocked_host_reason(self, host: &str) -> Option<&'static str> {
        self.blocked_reason(parse_ip_host(host)?)
    }
}

/// Parses a host that is an IP address in any notation that proxies and the C library accept, such as
/// `127.1`.
fn parse_ip_host(host: &str) -> Option<IpAddr> {
    Host::parse(host).ip()
}

/// Returns the address if a host is a link-local IP address.
pub fn link_local_ip(host: &str) -> Option<IpAddr> {
    parse_ip_host(host).filter(|address| is_link_local(*address))
}

/// Returns true if a host is this machine, i.e. a loopback address or `localhost`.
pub fn is_local_host(host: &str) -> bool {
    match Host::parse(host) {
        Host::Ip(address) => is_loopback(address),
        Host::Name(name) => name == "localhost" || name.ends_with(".localhost"),
    }
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        // Some clouds run metadata services at other addresses.
        IpAddr::V4(four) => four.is_link_local() || CLOUD_METADATA.contains(&four.octets()),
        IpAddr::V6(six) => {
            // A cloud's metadata service at a unique local address.
            const KEPT: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);
            six.is_unicast_link_local()
                || six == KEPT
                || six.to_ipv4_mapped().is_some_and(|four| is_link_local(four.into()))
        }
    }
}

/// Returns true for loopback addresses, and for unspecified ones, which also refer to this machine.
fn is_loopback(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(four) => four.is_loopback() || four.octets().starts_with(&[0]),
        IpAddr::V6(six) => match six.to_ipv4() {
            Some(four) if !six.is_loopback() && !six.is_unspecified() => is_loopback(four.into()),
            _ => six.is_loopback() || six.is_unspecified(),
        },
    }
}

pub(crate) fn blocking_resolver(barred: BlockedAddresses) -> Resolver {
    Resolver::new(tower::service_fn(move |name: Name| async move {
        let found: Vec<_> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
        // An attacker may control the name, so one blocked address is enough to reject it.
        match found.iter().find_map(|address| barred.blocked_reason(address.ip())) {
            Some(reason) => Err(io::Error::other(reason)),
            None => Ok(found.into_iter()),
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_are_link_local_addresses() {
        for (host, expected) in [
            ("169.254.169.254", true),
            ("[fe80::1]", true),
            ("fe80::1", true),
            ("[::ffff:169.254.1.1]", true),
            ("[::ffff:a9fe:a9fe]", true),
            ("2852039166", true),
            ("0251.0376.0251.0376", true),
            ("0xa9.0xfe.43518", true),
            ("169.254.169.254.", true),
            ("[FE80:0::1%25eth0]", true),
            ("[fd00:ec2::254]", true),
            ("100.100.100.200", true),
            ("[::ffff:168.63.129.16]", true),
            ("10.0.0.1", false),
            ("127.0.0.1", false),
            ("[::1]", false),
            ("[fd00::1]", false),
            ("git.example.com", false),
        ] {
            assert_eq!(link_local_ip(host).is_some(), expected, "{host}");
        }
    }

    #[test]
    fn blocked_addresses_are_distinguished() {
        let (all, some) =
            (BlockedAddresses { link_local: true, loopback: true }, BlockedAddresses::LINK_LOCAL);
        for (host, strict, usual) in [
            ("169.254.169.254", Some(LINK_LOCAL_REASON), Some(LINK_LOCAL_REASON)),
            ("127.0.0.1", Some(LOOPBACK_REASON), None),
            ("127.8.9.1", Some(LOOPBACK_REASON), None),
            ("127.1", Some(LOOPBACK_REASON), None),
            ("2130706433", Some(LOOPBACK_REASON), None),
            ("0177.0.0.1", Some(LOOPBACK_REASON), None),
            ("0x7f.1", Some(LOOPBACK_REASON), None),
            ("0", Some(LOOPBACK_REASON), None),
            ("[::ffff:7f00:1]", Some(LOOPBACK_REASON), None),
            ("[0:0::0001]", Some(LOOPBACK_REASON), None),
            ("0.0.0.0", Some(LOOPBACK_REASON), None),
            ("[::1]", Some(LOOPBACK_REASON), None),
            ("[::]", Some(LOOPBACK_REASON), None),
            ("[::ffff:127.0.0.1]", Some(LOOPBACK_REASON), None),
            ("[::127.0.0.1]", Some(LOOPBACK_REASON), None),
            ("10.0.0.1", None, None),
            ("[fd00::1]", None, None),
            ("git.example.com", None, None),
        ] {
            assert_eq!(
                (all.blocked_host_reason(host), some.blocked_host_reason(host)),
                (strict, usual),
                "{host}"
            );
        }
    }

    #[test]
    fn hosts_that_are_this_machine() {
        for (host, expected) in [
            ("localhost", true),
            ("LOCALHOST.", true),
            ("a.localhost", true),
            ("127.0.0.1", true),
            ("127.1", true),
            ("[::1]", true),
            ("localhost.example.com", false),
            ("10.0.0.1", false),
        ] {
            assert_eq!(is_local_host(host), expected, "{host}");
        }
    }

    /// Names are checked by resolving them to addresses. The test uses this machine's names, which don't
    /// require a name server.
    #[tokio::test]
    async fn names_are_checked_by_their_addresses() {
        use tower::ServiceExt as _;
        let look = |barred| async move {
            let Ok(name) = "localhost".parse::<Name>() else { return Err(String::new()) };
            let found = blocking_resolver(barred).oneshot(name).await;
            found.map(Iterator::count).map_err(|error| error.to_string())
        };
        assert_eq!(
            look(BlockedAddresses { link_local: true, loopback: true }).await,
            Err(LOOPBACK_REASON.to_owned())
        );
        assert!(look(BlockedAddresses::LINK_LOCAL).await.is_ok_and(|found| found > 0));
    }
}
