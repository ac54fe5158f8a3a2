//! Addresses that are not asked.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use hyper_util::client::legacy::connect::dns::Name;
use tower::util::BoxCloneSyncService;

/// Why a link-local address is not asked. Also the text by which that is known again, below the layers of a connection.
pub const LINK_LOCAL: &str = "its host is a link-local address, or one like it, where clouds keep services for their machines; it is not asked";
/// Why an address of this machine is not asked, and the text by which that is known again.
pub const LOOPBACK: &str =
    "its host is an address of this machine itself; it is not asked for what manifests name";

/// Addresses that are not link-local, and at which clouds keep what others keep at such.
const OF_CLOUDS: [[u8; 4]; 3] = [[100, 100, 100, 200], [168, 63, 129, 16], [192, 0, 0, 192]];

/// Finds the addresses of names.
pub type Resolver = BoxCloneSyncService<Name, std::vec::IntoIter<SocketAddr>, io::Error>;

/// Which addresses are not asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Barred {
    /// Services that clouds keep for their machines are at such, and answer everybody who asks.
    pub link_local: bool,
    /// What listens on this machine for itself alone takes everybody for its own.
    pub loopback: bool,
}

impl Barred {
    /// Link-local addresses alone.
    pub const LINK_LOCAL: Self = Self { link_local: true, loopback: false };

    /// Why an address is not asked; nothing where it is.
    pub fn reason(self, address: IpAddr) -> Option<&'static str> {
        match () {
            () if self.link_local && is_link_local(address) => Some(LINK_LOCAL),
            () if self.loopback && is_loopback(address) => Some(LOOPBACK),
            () => None,
        }
    }

    /// The same of the address that a host is written as. A name is judged when it is looked up.
    pub fn reason_of_host(self, host: &str) -> Option<&'static str> {
        self.reason(literal(host)?)
    }
}

fn literal(host: &str) -> Option<IpAddr> {
    host.trim_matches(['[', ']']).parse().ok()
}

/// The address that a host is written as, if that is link-local.
pub fn link_local(host: &str) -> Option<IpAddr> {
    literal(host).filter(|address| is_link_local(*address))
}

/// Whether a host names this machine itself: by an address, or as `localhost`.
pub fn is_this_machine(host: &str) -> bool {
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost") || literal(host).is_some_and(is_loopback)
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        // Some clouds keep the same services elsewhere.
        IpAddr::V4(four) => four.is_link_local() || OF_CLOUDS.contains(&four.octets()),
        IpAddr::V6(six) => {
            // The one that a cloud has given to its own.
            const KEPT: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);
            six.is_unicast_link_local()
                || six == KEPT
                || six.to_ipv4_mapped().is_some_and(|four| is_link_local(four.into()))
        }
    }
}

/// What stands for no address at all leads to this machine too.
fn is_loopback(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(four) => four.is_loopback() || four.octets().starts_with(&[0]),
        IpAddr::V6(six) => match six.to_ipv4() {
            Some(four) if !six.is_loopback() && !six.is_unspecified() => is_loopback(four.into()),
            _ => six.is_loopback() || six.is_unspecified(),
        },
    }
}

pub(crate) fn resolver(barred: Barred) -> Resolver {
    Resolver::new(tower::service_fn(move |name: Name| async move {
        let found: Vec<_> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
        // One that is refused may not hide behind one that is not: the name is somebody else's.
        match found.iter().find_map(|address| barred.reason(address.ip())) {
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
            ("[fd00:ec2::254]", true),
            ("100.100.100.200", true),
            ("[::ffff:168.63.129.16]", true),
            ("10.0.0.1", false),
            ("127.0.0.1", false),
            ("[::1]", false),
            ("[fd00::1]", false),
            ("git.example.com", false),
        ] {
            assert_eq!(link_local(host).is_some(), expected, "{host}");
        }
    }

    #[test]
    fn what_is_barred_is_told_apart() {
        let (all, some) = (Barred { link_local: true, loopback: true }, Barred::LINK_LOCAL);
        for (host, strict, usual) in [
            ("169.254.169.254", Some(LINK_LOCAL), Some(LINK_LOCAL)),
            ("127.0.0.1", Some(LOOPBACK), None),
            ("127.8.9.1", Some(LOOPBACK), None),
            ("0.0.0.0", Some(LOOPBACK), None),
            ("[::1]", Some(LOOPBACK), None),
            ("[::]", Some(LOOPBACK), None),
            ("[::ffff:127.0.0.1]", Some(LOOPBACK), None),
            ("[::127.0.0.1]", Some(LOOPBACK), None),
            ("10.0.0.1", None, None),
            ("[fd00::1]", None, None),
            ("git.example.com", None, None),
        ] {
            assert_eq!((all.reason_of_host(host), some.reason_of_host(host)), (strict, usual), "{host}");
        }
    }

    #[test]
    fn hosts_that_are_this_machine() {
        for (host, expected) in [
            ("localhost", true),
            ("LOCALHOST.", true),
            ("a.localhost", true),
            ("127.0.0.1", true),
            ("[::1]", true),
            ("localhost.example.com", false),
            ("10.0.0.1", false),
        ] {
            assert_eq!(is_this_machine(host), expected, "{host}");
        }
    }

    /// A name is judged by where it leads; what this machine calls itself needs no server of names.
    #[tokio::test]
    async fn names_are_judged_by_where_they_lead() {
        use tower::ServiceExt as _;
        let look = |barred| async move {
            let Ok(name) = "localhost".parse::<Name>() else { return Err(String::new()) };
            let found = resolver(barred).oneshot(name).await;
            found.map(Iterator::count).map_err(|error| error.to_string())
        };
        assert_eq!(look(Barred { link_local: true, loopback: true }).await, Err(LOOPBACK.to_owned()));
        assert!(look(Barred::LINK_LOCAL).await.is_ok_and(|found| found > 0));
    }
}
