//! Where a server sends us on to.

use http::Uri;

/// Why nobody goes where a server sends us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misled {
    /// It is no address of a server, or one with credentials in it.
    #[error("sends us on to something that is no address")]
    NoAddress,
    /// What was asked for in secret would be asked for in the open.
    #[error("sends us on from https to http, where everybody can read along")]
    Unsafe,
}

/// Scheme, host and port.
type Origin = (String, String, u16);

fn origin(uri: &Uri) -> Option<Origin> {
    let scheme = uri.scheme_str()?.to_ascii_lowercase();
    let usual = if scheme == "https" { 443 } else { 80 };
    Some((scheme, uri.host()?.to_ascii_lowercase(), uri.port_u16().unwrap_or(usual)))
}

/// Whether two addresses are of the same server: scheme, host and port. What proves who asks may be shown there alone.
pub fn is_same_server(meant: &Uri, other: &Uri) -> bool {
    origin(meant).is_some_and(|meant| Some(meant) == origin(other))
}

/// The same, or the other is the `https` of that server, where `http` was meant, both at their usual ports.
pub fn is_same_or_safer(meant: &Uri, other: &Uri) -> bool {
    let (Some(from), Some(to)) = (origin(meant), origin(other)) else { return false };
    let usual = |origin: &Origin, scheme: &str, port| origin.0 == scheme && origin.2 == port;
    from == to || (from.1 == to.1 && usual(&from, "http", 80) && usual(&to, "https", 443))
}

/// Where an answer that was asked for at `from` sends us by its `Location`.
pub fn follow(from: &Uri, location: &str) -> Result<Uri, Misled> {
    let parts = from.scheme_str().zip(from.authority());
    let (scheme, authority) = parts.ok_or(Misled::NoAddress)?;
    let text = match location {
        whole if whole.contains("://") => whole.to_owned(),
        host if host.starts_with("//") => format!("{scheme}:{host}"),
        path if path.starts_with('/') => format!("{scheme}://{authority}{path}"),
        beside => {
            let folder = from.path().rsplit_once('/').map_or("", |(folder, _)| folder);
            format!("{scheme}://{authority}{folder}/{beside}")
        }
    };
    let to: Uri = text.parse().map_err(|_| Misled::NoAddress)?;
    let names_somebody = to.authority().is_some_and(|authority| authority.as_str().contains('@'));
    let is_safe = |scheme: Option<&str>| scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("https"));
    let is_open = |scheme: Option<&str>| scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("http"));
    match (Some(scheme), to.scheme_str()) {
        _ if to.host().is_none() || names_somebody => Err(Misled::NoAddress),
        (_, to_scheme) if is_safe(to_scheme) => Ok(to),
        (from_scheme, to_scheme) if is_open(from_scheme) && is_open(to_scheme) => Ok(to),
        (from_scheme, to_scheme) if is_safe(from_scheme) && is_open(to_scheme) => Err(Misled::Unsafe),
        _ => Err(Misled::NoAddress),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use super::*;

    #[test]
    fn where_a_server_sends_us() {
        let from = "https://a.example/x/info/refs?s=1";
        for (from, location, expected) in [
            (from, "https://b.example/y", Ok("https://b.example/y")),
            (from, "/y/info/refs?s=1", Ok("https://a.example/y/info/refs?s=1")),
            (from, "//b.example/y", Ok("https://b.example/y")),
            (from, "refs2", Ok("https://a.example/x/info/refs2")),
            (from, "http://a.example/x", Err(Misled::Unsafe)),
            (from, "file:///etc/passwd", Err(Misled::NoAddress)),
            (from, "https://me:pw@b.example/", Err(Misled::NoAddress)),
            (from, "http://", Err(Misled::NoAddress)),
            ("http://a.example/x", "http://b.example/y", Ok("http://b.example/y")),
            ("http://a.example/x", "https://a.example/x", Ok("https://a.example/x")),
            ("http://a.example/x", "ftp://a.example/x", Err(Misled::NoAddress)),
            ("a.example/x", "/y", Err(Misled::NoAddress)),
        ] {
            let to = from.parse().map_err(|_| Misled::NoAddress).and_then(|from| follow(&from, location));
            assert_eq!(to.map(|to| to.to_string()), expected.map(str::to_owned), "{from} {location}");
        }
    }

    #[test]
    fn credentials_stay_with_their_server() {
        for (meant, other, same, safer) in [
            ("https://a.example/x", "https://a.example/y", true, true),
            ("https://a.example/x", "https://A.example:443/y", true, true),
            ("http://a.example/x", "https://a.example/x", false, true),
            ("https://a.example/x", "http://a.example/y", false, false),
            ("http://a.example:8080/x", "https://a.example/x", false, false),
            ("https://a.example/x", "https://b.example/x", false, false),
            ("https://a.example/x", "https://a.example:8443/x", false, false),
            ("https://a.example/x", "https://a.example.evil.example/x", false, false),
        ] {
            let (meant, other) = (meant.parse().unwrap(), other.parse().unwrap());
            assert_eq!(is_same_server(&meant, &other), same, "{meant} {other}");
            assert_eq!(is_same_or_safer(&meant, &other), safer, "{meant} {other}");
        }
    }
}
