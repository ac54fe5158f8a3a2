//! HTTP redirects.

use http::Uri;
use tidegate_model::{Host, default_port};

/// Reason a redirect isn't followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RedirectError {
    /// The target isn't a server URL, or it contains credentials.
    #[error("redirected to an invalid URL")]
    InvalidTarget,
    /// The redirect leads from `https` to `http`.
    #[error("redirected from https to http, which is not encrypted")]
    Downgrade,
}

/// Scheme, host and port.
type Origin = (String, Host, u16);

fn origin_of(uri: &Uri) -> Option<Origin> {
    let scheme = uri.scheme_str()?.to_ascii_lowercase();
    let usual = default_port(&scheme).unwrap_or(80);
    Some((scheme, Host::parse(uri.host()?), uri.port_u16().unwrap_or(usual)))
}

/// Returns true if both URLs have the same scheme, host and port. Credentials must never go to another
/// server.
pub fn is_same_server(one: &Uri, other: &Uri) -> bool {
    origin_of(one).is_some_and(|one| Some(one) == origin_of(other))
}

/// Returns true if both URLs refer to the same server, or if `other` upgrades `one` from `http` to `https`,
/// both on the default ports.
pub fn is_same_or_safer(one: &Uri, other: &Uri) -> bool {
    let (Some(from), Some(to)) = (origin_of(one), origin_of(other)) else { return false };
    let usual = |origin: &Origin, scheme: &str, port| origin.0 == scheme && origin.2 == port;
    from == to || (from.1 == to.1 && usual(&from, "http", 80) && usual(&to, "https", 443))
}

/// Returns the target of a redirect from `from`, based on its `Location` header.
pub fn redirect_target(from: &Uri, location: &str) -> Result<Uri, RedirectError> {
    let parts = from.scheme_str().zip(from.authority());
    let (scheme, authority) = parts.ok_or(RedirectError::InvalidTarget)?;
    let text = match location {
        whole if whole.contains("://") => whole.to_owned(),
        host if host.starts_with("//") => format!("{scheme}:{host}"),
        path if path.starts_with('/') => format!("{scheme}://{authority}{path}"),
        beside => {
            let folder = from.path().rsplit_once('/').map_or("", |(folder, _)| folder);
            format!("{scheme}://{authority}{folder}/{beside}")
        }
    };
    let to: Uri = text.parse().map_err(|_| RedirectError::InvalidTarget)?;
    let names_somebody = to.authority().is_some_and(|authority| authority.as_str().contains('@'));
    let is_safe = |scheme: Option<&str>| scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("https"));
    let is_open = |scheme: Option<&str>| scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("http"));
    match (Some(scheme), to.scheme_str()) {
        _ if to.host().is_none() || names_somebody => Err(RedirectError::InvalidTarget),
        (_, to_scheme) if is_safe(to_scheme) => Ok(to),
        (from_scheme, to_scheme) if is_open(from_scheme) && is_open(to_scheme) => Ok(to),
        (from_scheme, to_scheme) if is_safe(from_scheme) && is_open(to_scheme) => {
            Err(RedirectError::Downgrade)
        }
        _ => Err(RedirectError::InvalidTarget),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use super::*;

    #[test]
    fn redirect_targets() {
        let from = "https://a.example/x/info/refs?s=1";
        for (from, location, expected) in [
            (from, "https://b.example/y", Ok("https://b.example/y")),
            (from, "/y/info/refs?s=1", Ok("https://a.example/y/info/refs?s=1")),
            (from, "//b.example/y", Ok("https://b.example/y")),
            (from, "refs2", Ok("https://a.example/x/info/refs2")),
            (from, "http://a.example/x", Err(RedirectError::Downgrade)),
            (from, "file:///etc/passwd", Err(RedirectError::InvalidTarget)),
            (from, "https://me:pw@b.example/", Err(RedirectError::InvalidTarget)),
            (from, "http://", Err(RedirectError::InvalidTarget)),
            ("http://a.example/x", "http://b.example/y", Ok("http://b.example/y")),
            ("http://a.example/x", "https://a.example/x", Ok("https://a.example/x")),
            ("http://a.example/x", "ftp://a.example/x", Err(RedirectError::InvalidTarget)),
            ("a.example/x", "/y", Err(RedirectError::InvalidTarget)),
        ] {
            let to = from
                .parse()
                .map_err(|_| RedirectError::InvalidTarget)
                .and_then(|from| redirect_target(&from, location));
            assert_eq!(to.map(|to| to.to_string()), expected.map(str::to_owned), "{from} {location}");
        }
    }

    #[test]
    fn credentials_stay_with_their_server() {
        for (one, other, same, safer) in [
            ("https://a.example/x", "https://a.example/y", true, true),
            ("https://a.example/x", "https://A.example:443/y", true, true),
            ("https://a.example/x", "https://a.example.:0443/y", true, true),
            ("http://127.0.0.1:8080/x", "http://127.1:08080/y", true, true),
            ("http://127.0.0.1/x", "http://[::ffff:7f00:1]:80/y", true, true),
            ("http://127.0.0.1/x", "http://127.2/y", false, false),
            ("http://a.example/x", "https://a.example/x", false, true),
            ("https://a.example/x", "http://a.example/y", false, false),
            ("http://a.example:8080/x", "https://a.example/x", false, false),
            ("https://a.example/x", "https://b.example/x", false, false),
            ("https://a.example/x", "https://a.example:8443/x", false, false),
            ("https://a.example/x", "https://a.example.evil.example/x", false, false),
        ] {
            let (one, other) = (one.parse().unwrap(), other.parse().unwrap());
            assert_eq!(is_same_server(&one, &other), same, "{one} {other}");
            assert_eq!(is_same_or_safer(&one, &other), safer, "{one} {other}");
        }
    }
}
