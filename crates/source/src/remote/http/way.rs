//! Connections to servers: where they may lead, and through which proxy.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, Uri};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::Matcher;
use tidegate_web::{Fault, LINK_LOCAL, Way, connector, direct, link_local};
use tower::ServiceExt as _;

use super::Problem;
use crate::credentials::Access;

/// Refuses a host that is written as an address that nobody may ask.
pub(crate) fn check(host: &str, allows_link_local: bool) -> Result<(), Problem> {
    match link_local(host) {
        Some(_) if !allows_link_local => Err(Problem::new(LINK_LOCAL)),
        _ => Ok(()),
    }
}

/// How an address is connected to.
pub(super) fn way(
    access: &Access,
    to: &Uri,
    allows_link_local: bool,
    within: Duration,
) -> Result<Way, Problem> {
    let tcp = connector(within, allows_link_local);
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
    let mut tunnel = Tunnel::new(through.uri().clone(), tcp);
    let given = through.raw_auth().map(|(user, password)| STANDARD.encode(format!("{user}:{password}")));
    let given = given.and_then(|given| HeaderValue::from_str(&format!("Basic {given}")).ok());
    if let Some(header) = through.basic_auth().cloned().or(given) {
        tunnel = tunnel.with_auth(header);
    }
    Ok(Way::new(tunnel.map_err(Fault::from)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_local_addresses_are_asked_where_that_is_allowed() {
        assert!(check("[fe80::1]", false).is_err());
        assert!(check("169.254.169.254", true).is_ok());
        assert!(check("example.com", false).is_ok());
    }
}
