//! Connections to servers: where they may lead, and through which proxy.

use std::net::ToSocketAddrs as _;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, Uri};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::Matcher;
use tidegate_web::{Barred, Fault, Way, connector, direct};
use tower::ServiceExt as _;

use super::Problem;
use crate::credentials::Access;

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
pub(super) fn way(access: &Access, to: &Uri, barred: Barred, within: Duration) -> Result<Way, Problem> {
    let tcp = connector(within, barred);
    let Some(proxy) = access.proxy.text() else {
        return Ok(direct(tcp));
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
        return if is_one { Ok(direct(tcp)) } else { Err(bad()) };
    };
    if through.uri().scheme_str() != Some("http") {
        return Err(bad());
    }
    // Whoever has written the Secret has said where the proxy is, be it on this machine.
    let to_proxy = connector(within, Barred { loopback: false, ..barred });
    let mut tunnel = Tunnel::new(through.uri().clone(), to_proxy);
    let given = through.raw_auth().map(|(user, password)| STANDARD.encode(format!("{user}:{password}")));
    let given = given.and_then(|given| HeaderValue::from_str(&format!("Basic {given}")).ok());
    if let Some(header) = through.basic_auth().cloned().or(given) {
        tunnel = tunnel.with_auth(header);
    }
    Ok(Way::new(tunnel.map_request(with_port).map_err(Fault::from)))
}

/// The same address with its port: a tunnel takes 443 for one that says none, whatever its scheme.
fn with_port(to: Uri) -> Uri {
    let (None, Some("http"), Some(host)) = (to.port(), to.scheme_str(), to.host()) else { return to };
    let authority = format!("{host}:80").parse();
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
