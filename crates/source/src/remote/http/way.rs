//! Connections to servers: where they may lead, and through which proxy.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, Uri};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower::ServiceExt as _;
use tower::util::BoxCloneSyncService;

use super::Problem;
use crate::credentials::Access;

type Fault = Box<dyn std::error::Error + Send + Sync>;
/// Connects to the server of an address.
pub(super) type Way = BoxCloneSyncService<Uri, TokioIo<TcpStream>, Fault>;
type Resolver = BoxCloneSyncService<Name, std::vec::IntoIter<SocketAddr>, io::Error>;

/// What a host must not be, unless that is allowed: the services that clouds keep for their machines are there, and they
/// answer everybody who asks.
pub(super) fn is_link_local(address: IpAddr) -> bool {
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

/// Refuses a host that is written as an address that nobody may ask.
pub(crate) fn check(host: &str, link_local: bool) -> Result<(), Problem> {
    match host.trim_matches(['[', ']']).parse::<IpAddr>() {
        Ok(address) if !link_local && is_link_local(address) => Err(refused()),
        _ => Ok(()),
    }
}

fn refused() -> Problem {
    Problem::new(REFUSED).hint("such addresses are kept for the services of a cloud's machines")
}

/// Also the text by which it is known again, below the layers of a connection.
pub(super) const REFUSED: &str = "its host is a link-local address, which is not asked";

fn resolver(link_local: bool) -> Resolver {
    Resolver::new(tower::service_fn(move |name: Name| async move {
        let found: Vec<_> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
        // One that is refused may not hide behind one that is not: the name is somebody else's.
        if !link_local && found.iter().any(|address| is_link_local(address.ip())) {
            return Err(io::Error::other(REFUSED));
        }
        Ok(found.into_iter())
    }))
}

/// How an address is connected to.
pub(super) fn way(access: &Access, to: &Uri, link_local: bool, within: Duration) -> Result<Way, Problem> {
    let mut tcp = HttpConnector::new_with_resolver(resolver(link_local));
    tcp.enforce_http(false);
    tcp.set_connect_timeout(Some(within));
    let Some(proxy) = access.proxy.text() else {
        return Ok(Way::new(tcp.map_err(Fault::from)));
    };
    let secret = access.secret.as_deref().unwrap_or_default();
    let bad = || {
        Problem::new(format!(
            "the proxy of Secret {secret} is no address such as http://proxy.example.com:3128"
        ))
    };
    let matched = Matcher::builder().all(proxy.to_owned()).no(access.no_proxy.clone()).build().intercept(to);
    let Some(through) = matched else {
        // Either this host needs none, or the text is none.
        let is_one = Matcher::builder().all(proxy.to_owned()).build().intercept(to).is_some();
        return if is_one { Ok(Way::new(tcp.map_err(Fault::from))) } else { Err(bad()) };
    };
    if through.uri().scheme_str() != Some("http") {
        return Err(bad());
    }
    let mut tunnel = Tunnel::new(through.uri().clone(), tcp);
    let given = through.raw_auth().map(|(user, password)| STANDARD.encode(format!("{user}:{password}")));
    let given = given.and_then(|given| HeaderValue::from_str(&format!("Basic {given}")).ok());
    if let Some(header) = through.basic_auth().cloned().or(given) {
        tunnel = tunnel.with_auth(header);
    }
    Ok(Way::new(tunnel.map_err(Fault::from)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use super::*;

    #[test]
    fn link_local_addresses() {
        for (address, expected) in [
            ("169.254.169.254", true),
            ("fe80::1", true),
            ("::ffff:169.254.1.1", true),
            ("fd00:ec2::254", true),
            ("127.0.0.1", false),
            ("10.0.0.1", false),
            ("::1", false),
            ("fd00::1", false),
        ] {
            assert_eq!(is_link_local(address.parse().unwrap()), expected, "{address}");
        }
        assert!(check("[fe80::1]", false).is_err());
        assert!(check("169.254.169.254", true).is_ok());
        assert!(check("example.com", false).is_ok());
    }
}
