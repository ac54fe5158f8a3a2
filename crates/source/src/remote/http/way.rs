//! Connections to servers: where they may lead, and through which proxy.

use std::net::ToSocketAddrs as _;
use std::time::Duration;

use http::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use tidegate_web::{Barred, Fault, Resolver, Way, connector, direct};
use tower::ServiceExt as _;

use super::Problem;
use crate::credentials::Access;

/// Where SOCKS proxies listen, where their address does not say.
const SOCKS_PORT: u16 = 1080;

/// Refuses a host that is written as an address that nobody may ask.
pub(crate) fn check(host: &str, barred: Barred) -> Result<(), Problem> {
    barred.reason_of_host(host).map_or(Ok(()), |reason| Err(Problem::new(reason)))
}

/// The same of a host that another program will look up: a name may lead to such an address as well. One that leads nowhere is
/// left to that program.
pub(crate) fn check_name(host: &str, barred: Barred) -> Result<(), Problem> {
    check(host, barred)?;
    let found = (host.trim_matches(['[', ']']), 0).to_socket_addrs();
    let mut found = found.into_iter().flatten();
    found.find_map(|address| barred.reason(address.ip())).map_or(Ok(()), |reason| Err(Problem::new(reason)))
}

/// How an address is connected to.
pub(crate) fn way(access: &Access, to: &Uri, barred: Barred, within: Duration) -> Result<Way, Problem> {
    match proxy(access, to)? {
        None => Ok(direct(connector(within, barred))),
        // Whoever has written the Secret has said where the proxy is, be it on this machine.
        Some(found) => through(&found, connector(within, Barred { loopback: false, ..barred }))
            .ok_or_else(|| no_proxy(access)),
    }
}

/// The proxy that is gone through to an address, if there is one.
pub(crate) fn proxy(access: &Access, to: &Uri) -> Result<Option<Intercept>, Problem> {
    let Some(proxy) = access.proxy.text() else { return Ok(None) };
    let all = || Matcher::builder().all(proxy.to_owned());
    let found = all().no(access.no_proxy.clone()).build().intercept(to);
    // Either this host needs none, or the text is none.
    match found.is_some() || all().build().intercept(to).is_some() {
        true => Ok(found),
        false => Err(no_proxy(access)),
    }
}

fn no_proxy(access: &Access) -> Problem {
    let secret = access.secret.as_deref().unwrap_or_default();
    Problem::new(format!(
        "the proxy of Secret {secret} is no address such as http://proxy.example.com:3128 or socks5://proxy.example.com:1080"
    ))
}

/// The way through a proxy; nothing where it is of a kind that is not known.
fn through(proxy: &Intercept, to_proxy: HttpConnector<Resolver>) -> Option<Way> {
    let uri = proxy.uri().clone();
    match uri.scheme_str()? {
        "http" => {
            let tunnel = Tunnel::new(uri, to_proxy);
            let tunnel = match proxy.basic_auth() {
                Some(header) => tunnel.with_auth(header.clone()),
                None => tunnel,
            };
            Some(Way::new(tunnel.map_request(with_port).map_err(Fault::from)))
        }
        // The proxy looks the name up: that is what it is there for.
        "socks5" | "socks5h" => {
            let socks = SocksV5::new(at_port(uri, SOCKS_PORT), to_proxy);
            let socks = match proxy.raw_auth() {
                Some((user, password)) => socks.with_auth(user.to_owned(), password.to_owned()),
                None => socks,
            };
            Some(Way::new(socks.map_request(with_port).map_err(Fault::from)))
        }
        _ => None,
    }
}

/// The same address with its port: a tunnel takes 443 for one that says none, whatever its scheme.
fn with_port(to: Uri) -> Uri {
    if to.scheme_str() == Some("http") { at_port(to, 80) } else { to }
}

/// The same address with a port, where it says none.
fn at_port(to: Uri, port: u16) -> Uri {
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
    fn link_local_addresses_are_asked_where_that_is_allowed() {
        let none = Barred { link_local: false, loopback: false };
        assert!(check("[fe80::1]", Barred::LINK_LOCAL).is_err());
        assert!(check("169.254.169.254", none).is_ok());
        assert!(check("example.com", Barred::LINK_LOCAL).is_ok());
    }

    #[test]
    fn names_that_other_programs_look_up_are_judged_before() {
        let all = Barred { link_local: true, loopback: true };
        assert!(check("localhost", all).is_ok() && check_name("localhost", all).is_err());
        assert!(check_name("localhost", Barred::LINK_LOCAL).is_ok());
        assert!(check_name("127.0.0.1", all).is_err() && check_name("10.0.0.1", all).is_ok());
    }
}
