//! Connections to servers, directly or through a proxy, with some addresses blocked.

use std::net::ToSocketAddrs as _;
use std::time::Duration;

use http::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use tidegate_web::{
    BlockedAddresses, ConnectionError, Resolver, Transport, create_connector, direct_transport,
};
use tower::ServiceExt as _;

use super::Problem;
use crate::credentials::AccessSettings;

/// Default port of SOCKS proxies.
const SOCKS_PORT: u16 = 1080;

/// Fails if the host is a blocked address.
pub(crate) fn check_host(host: &str, barred: BlockedAddresses) -> Result<(), Problem> {
    barred.blocked_host_reason(host).map_or(Ok(()), |reason| Err(Problem::new(reason)))
}

/// Fails if the host name resolves to a blocked address. Called before another program connects to the host.
/// Names that don't resolve are left for that program to report.
pub(crate) fn check_name(host: &str, barred: BlockedAddresses) -> Result<(), Problem> {
    check_host(host, barred)?;
    let found = (host.trim_matches(['[', ']']), 0).to_socket_addrs();
    let mut found = found.into_iter().flatten();
    found
        .find_map(|address| barred.blocked_reason(address.ip()))
        .map_or(Ok(()), |reason| Err(Problem::new(reason)))
}

/// Returns the connector for the server of a URL.
pub(crate) fn connector_for(
    access: &AccessSettings,
    to: &Uri,
    barred: BlockedAddresses,
    within: Duration,
) -> Result<Transport, Problem> {
    match proxy_for(access, to)? {
        None => Ok(direct_transport(create_connector(within, barred))),
        // The proxy may be on this machine, since the author of the Secret chose it.
        Some(found) => connector_through(
            &found,
            create_connector(within, BlockedAddresses { loopback: false, ..barred }),
        )
        .ok_or_else(|| invalid_proxy(access)),
    }
}

/// Returns the proxy for a request, if any.
pub(crate) fn proxy_for(access: &AccessSettings, to: &Uri) -> Result<Option<Intercept>, Problem> {
    let Some(proxy) = access.proxy.text() else { return Ok(None) };
    let all = || Matcher::builder().all(proxy.to_owned());
    let found = all().no(access.no_proxy.clone()).build().intercept(to);
    // No proxy: the host is excluded, or the proxy's URL is invalid.
    match found.is_some() || all().build().intercept(to).is_some() {
        true => Ok(found),
        false => Err(invalid_proxy(access)),
    }
}

fn invalid_proxy(access: &AccessSettings) -> Problem {
    let secret = access.secret.as_deref().unwrap_or_default();
    Problem::new(format!(
        "the proxy in Secret {secret} is not a valid URL; use a URL such as http://proxy.example.com:3128 or \
         socks5://proxy.example.com:1080"
    ))
}

/// Returns a connector that uses a proxy, or `None` if this type of proxy isn't supported.
fn connector_through(proxy: &Intercept, to_proxy: HttpConnector<Resolver>) -> Option<Transport> {
    let uri = proxy.uri().clone();
    match uri.scheme_str()? {
        "http" => {
            let tunnel = Tunnel::new(uri, to_proxy);
            let tunnel = match proxy.basic_auth() {
                Some(header) => tunnel.with_auth(header.clone()),
                None => tunnel,
            };
            Some(Transport::new(tunnel.map_request(with_default_port).map_err(ConnectionError::from)))
        }
        // With both of these schemes, the proxy resolves the host name.
        "socks5" | "socks5h" => {
            let socks = SocksV5::new(with_given_port(uri, SOCKS_PORT), to_proxy);
            let socks = match proxy.raw_auth() {
                Some((user, password)) => socks.with_auth(user.to_owned(), password.to_owned()),
                None => socks,
            };
            Some(Transport::new(socks.map_request(with_default_port).map_err(ConnectionError::from)))
        }
        _ => None,
    }
}

/// Adds the scheme's default port to a URL. Without a port, the tunnel would use 443 even for `http`.
fn with_default_port(to: Uri) -> Uri {
    if to.scheme_str() == Some("http") { with_given_port(to, 80) } else { to }
}

/// Adds a port to a URL without one.
fn with_given_port(to: Uri, port: u16) -> Uri {
    let (None, Some(host)) = (to.port(), to.host()) else { return to };
    let authority = format!("{host}:{port}").parse();
    let mut parts = to.clone().into_parts();
    parts.authority = authority.ok();
    Uri::from_parts(parts).unwrap_or(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_local_addresses_are_contacted_if_allowed() {
        let none = BlockedAddresses { link_local: false, loopback: false };
        assert!(check_host("[fe80::1]", BlockedAddresses::LINK_LOCAL).is_err());
        assert!(check_host("169.254.169.254", none).is_ok());
        assert!(check_host("example.com", BlockedAddresses::LINK_LOCAL).is_ok());
    }

    #[test]
    fn names_for_other_programs_are_checked_first() {
        let all = BlockedAddresses { link_local: true, loopback: true };
        assert!(check_host("localhost", all).is_ok() && check_name("localhost", all).is_err());
        assert!(check_name("localhost", BlockedAddresses::LINK_LOCAL).is_ok());
        assert!(check_name("127.0.0.1", all).is_err() && check_name("10.0.0.1", all).is_ok());
    }
}
