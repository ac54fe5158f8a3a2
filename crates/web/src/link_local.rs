//! Addresses that are not asked.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use hyper_util::client::legacy::connect::dns::Name;
use tower::util::BoxCloneSyncService;

/// Why a link-local address is not asked. Also the text by which that is known again, below the layers of a connection.
pub const LINK_LOCAL: &str =
    "its host is a link-local address, where clouds keep services for their machines; it is not asked";

/// Finds the addresses of names.
pub type Resolver = BoxCloneSyncService<Name, std::vec::IntoIter<SocketAddr>, io::Error>;

/// The address that a host is written as, if that is link-local: services that clouds keep for their machines are at such, and
/// answer everybody who asks. A name is judged when it is looked up.
pub fn link_local(host: &str) -> Option<IpAddr> {
    host.trim_matches(['[', ']']).parse().ok().filter(|address| is_link_local(*address))
}

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

pub(crate) fn resolver(allows_link_local: bool) -> Resolver {
    Resolver::new(tower::service_fn(move |name: Name| async move {
        let found: Vec<_> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
        // One that is refused may not hide behind one that is not: the name is somebody else's.
        if !allows_link_local && found.iter().any(|address| is_link_local(address.ip())) {
            return Err(io::Error::other(LINK_LOCAL));
        }
        Ok(found.into_iter())
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
            ("10.0.0.1", false),
            ("127.0.0.1", false),
            ("[::1]", false),
            ("[fd00::1]", false),
            ("git.example.com", false),
        ] {
            assert_eq!(link_local(host).is_some(), expected, "{host}");
        }
    }
}
