//! Proxies between the client and the API server.

use std::net::IpAddr;

use base64::Engine as _;
use http::{HeaderValue, Uri};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use tidegate_model::Host;

/// Returns true if `NO_PROXY` covers a server. `NO_PROXY` is `*` or a list of hosts, domains (including their
/// subdomains), IP addresses and networks. Local addresses never use a proxy.
pub(crate) fn is_exempt(no_proxy: &str, host: &str) -> bool {
    let host = Host::parse(host);
    let address = host.ip();
    let host = host.to_string();
    if host == "localhost" || address.is_some_and(|address| address.is_loopback()) {
        return true;
    }
    no_proxy.split(',').map(str::trim).filter(|entry| !entry.is_empty()).any(|entry| {
        let entry = entry.to_ascii_lowercase();
        let domain = entry.trim_start_matches("*.").trim_start_matches('.');
        match address {
            _ if entry == "*" => true,
            Some(address) => Host::parse(&entry).ip() == Some(address) || is_in_network(&entry, address),
            None => {
                let below = host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'));
                below || (host == domain && !entry.starts_with('.'))
            }
        }
    })
}

fn is_in_network(network: &str, address: IpAddr) -> bool {
    let Some((base, length)) = network.split_once('/') else { return false };
    let (Ok(base), Ok(length)) = (base.parse::<IpAddr>(), length.parse::<u32>()) else { return false };
    match (base, address) {
        (IpAddr::V4(base), IpAddr::V4(address)) if length <= 32 => {
            let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
            u32::from(base) & mask == u32::from(address) & mask
        }
        (IpAddr::V6(base), IpAddr::V6(address)) if length <= 128 => {
            let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
            u128::from(base) & mask == u128::from(address) & mask
        }
        _ => false,
    }
}

/// Returns true if the proxy type is supported.
pub(crate) fn is_supported(proxy: &Uri) -> bool {
    matches!(proxy.scheme_str(), Some("http" | "socks5")) && proxy.host().is_some()
}

/// Returns a proxy's URL without credentials.
pub(crate) fn redact_url(proxy: &Uri) -> String {
    let port = proxy.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}", proxy.scheme_str().unwrap_or_default(), proxy.host().unwrap_or_default())
}

pub(crate) fn is_socks(proxy: &Uri) -> bool {
    proxy.scheme_str() == Some("socks5")
}

pub(crate) fn build_tunnel(proxy: &Uri, tcp: HttpConnector) -> Tunnel<HttpConnector> {
    let tunnel = Tunnel::new(proxy.clone(), tcp);
    let Some((user, password)) = parse_credentials(proxy) else { return tunnel };
    let secret = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
    match HeaderValue::try_from(format!("Basic {secret}")) {
        Ok(header) => tunnel.with_auth(header),
        Err(_) => tunnel,
    }
}

pub(crate) fn build_socks(proxy: &Uri, tcp: HttpConnector) -> SocksV5<HttpConnector> {
    let socks = SocksV5::new(proxy.clone(), tcp);
    match parse_credentials(proxy) {
        Some((user, password)) => socks.with_auth(user, password),
        None => socks,
    }
}

fn parse_credentials(proxy: &Uri) -> Option<(String, String)> {
    let (secrets, _) = proxy.authority()?.as_str().rsplit_once('@')?;
    let (user, password) = secrets.split_once(':').unwrap_or((secrets, ""));
    Some((decode_percent(user), decode_percent(password)))
}

/// Decodes percent escapes (`%40` is `@`), leaving invalid ones unchanged.
fn decode_percent(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        let digits =
            more.get(..2).filter(|digits| *first == b'%' && digits.iter().all(u8::is_ascii_hexdigit));
        let escaped =
            digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        bytes.push(escaped.unwrap_or(*first));
        rest = more.get(if escaped.is_some() { 2 } else { 0 }..).unwrap_or_default();
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exempt_servers_are_reached_directly() {
        for (no_proxy, host, exempt) in [
            ("", "kube.example.org", false),
            ("", "127.0.0.1", true),
            ("", "[::1]", true),
            ("", "localhost", true),
            ("*", "kube.example.org", true),
            ("other.org, Example.org", "kube.example.ORG", true),
            ("example.org", "example.org", true),
            (".example.org", "kube.example.org", true),
            (".example.org", "example.org", false),
            ("*.example.org", "kube.example.org", true),
            ("example.org", "badexample.org", false),
            ("10.0.0.0/8", "10.1.2.3", true),
            ("10.0.0.0/8", "11.1.2.3", false),
            ("10.1.2.3", "10.1.2.3", true),
            ("0.0.0.0/0", "9.9.9.9", true),
            ("10.0.0.0/33", "10.0.0.0", false),
            ("fd00::/8", "[fd12::1]", true),
            ("fd00::/8", "10.0.0.1", false),
            ("10", "10.0.0.1", false),
        ] {
            assert_eq!(is_exempt(no_proxy, host), exempt, "NO_PROXY={no_proxy} {host}");
        }
    }

    #[test]
    fn secrets_of_a_proxy_are_used_and_never_displayed() {
        let proxy: Uri = "http://me:p%40ss%3a+%zz@proxy.example.org:3128".parse().unwrap();
        assert_eq!(parse_credentials(&proxy), Some(("me".to_owned(), "p@ss:+%zz".to_owned())));
        assert_eq!(redact_url(&proxy), "http://proxy.example.org:3128");
        assert!(is_supported(&proxy) && !is_socks(&proxy));
        assert!(is_supported(&"socks5://127.0.0.1:1080".parse().unwrap()));
        assert!(!is_supported(&"https://proxy.example.org".parse().unwrap()));
    }
}
