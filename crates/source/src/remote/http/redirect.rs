//! Where a server sends us on to.

use http::Uri;

use super::Problem;

/// Scheme, host and port.
type Origin = (String, String, u16);

pub(super) fn origin(uri: &Uri) -> Option<Origin> {
    let scheme = uri.scheme_str()?.to_ascii_lowercase();
    let usual = if scheme == "https" { 443 } else { 80 };
    Some((scheme, uri.host()?.to_ascii_lowercase(), uri.port_u16().unwrap_or(usual)))
}

/// Whether what was meant for one address may be sent to another: to the same server alone, or from its open door to its safe one.
pub(super) fn may_know(meant: &Uri, other: &Uri) -> bool {
    match (origin(meant), origin(other)) {
        (Some(meant), Some(other)) => {
            let usual = |origin: &Origin, scheme: &str, port| origin.0 == scheme && origin.2 == port;
            meant == other || (meant.1 == other.1 && usual(&meant, "http", 80) && usual(&other, "https", 443))
        }
        _ => false,
    }
}

/// Where an answer that was asked for at `from` sends us.
pub(super) fn follow(from: &Uri, location: &str) -> Result<Uri, Problem> {
    let bad = || Problem::new("the server sends us on to something that is no address");
    let (scheme, host) = (from.scheme_str().ok_or_else(bad)?, from.authority().ok_or_else(bad)?);
    let text = if location.contains("://") {
        location.to_owned()
    } else if location.starts_with("//") {
        format!("{scheme}:{location}")
    } else if location.starts_with('/') {
        format!("{scheme}://{host}{location}")
    } else {
        let folder = from.path().rsplit_once('/').map_or("", |(folder, _)| folder);
        format!("{scheme}://{host}{folder}/{location}")
    };
    let to: Uri = text.parse().map_err(|_| bad())?;
    let (from_scheme, to_scheme) =
        (scheme.to_ascii_lowercase(), to.scheme_str().map(str::to_ascii_lowercase));
    if to.host().is_none() || to.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err(bad());
    }
    match (from_scheme.as_str(), to_scheme.as_deref()) {
        (_, Some("https")) | ("http", Some("http")) => Ok(to),
        ("https", Some("http")) => {
            Err(Problem::new("the server sends us on from https to http, where everybody can read along"))
        }
        _ => Err(bad()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use super::*;

    #[test]
    fn where_a_server_sends_us() {
        let from = "https://a.example/x/info/refs?s=1";
        for (location, expected) in [
            ("https://b.example/y", Ok("https://b.example/y")),
            ("/y/info/refs?s=1", Ok("https://a.example/y/info/refs?s=1")),
            ("//b.example/y", Ok("https://b.example/y")),
            ("refs2", Ok("https://a.example/x/info/refs2")),
            ("http://a.example/x", Err("https to http")),
            ("file:///etc/passwd", Err("no address")),
            ("https://me:pw@b.example/", Err("no address")),
        ] {
            match (follow(&from.parse().unwrap(), location), expected) {
                (Ok(to), Ok(expected)) => assert_eq!(to.to_string(), expected),
                (Err(problem), Err(expected)) => assert!(problem.what.contains(expected), "{problem:?}"),
                (got, _) => unreachable!("{location}: {got:?}"),
            }
        }
    }

    #[test]
    fn credentials_stay_with_their_server() {
        for (meant, other, expected) in [
            ("https://a.example/x", "https://a.example/y", true),
            ("https://a.example/x", "https://A.example:443/y", true),
            ("http://a.example/x", "https://a.example/x", true),
            ("http://a.example:8080/x", "https://a.example/x", false),
            ("https://a.example/x", "https://b.example/x", false),
            ("https://a.example/x", "https://a.example:8443/x", false),
            ("https://a.example/x", "https://a.example.evil.example/x", false),
        ] {
            assert_eq!(
                may_know(&meant.parse().unwrap(), &other.parse().unwrap()),
                expected,
                "{meant} {other}"
            );
        }
    }
}
