//! Where a server sends us on to.

use http::Uri;

use crate::problem::Problem;

fn origin(uri: &Uri) -> Option<(String, String, u16)> {
    let scheme = uri.scheme_str()?.to_ascii_lowercase();
    let usual = if scheme == "https" { 443 } else { 80 };
    Some((scheme, uri.host()?.to_ascii_lowercase(), uri.port_u16().unwrap_or(usual)))
}

/// Whether what was meant for one address may be shown at another: on the same server alone.
pub(crate) fn may_know(meant: &Uri, other: &Uri) -> bool {
    origin(meant).is_some_and(|meant| Some(meant) == origin(other))
}

/// Where an answer that was asked for at `from` sends us.
pub(crate) fn follow(from: &Uri, location: &str) -> Result<Uri, Problem> {
    let bad = || Problem::new("sends us on to something that is no address");
    let (scheme, authority) = (from.scheme_str().ok_or_else(bad)?, from.authority().ok_or_else(bad)?);
    let text = match location {
        whole if whole.contains("://") => whole.to_owned(),
        host if host.starts_with("//") => format!("{scheme}:{host}"),
        path if path.starts_with('/') => format!("{scheme}://{authority}{path}"),
        beside => {
            let folder = from.path().rsplit_once('/').map_or("", |(folder, _)| folder);
            format!("{scheme}://{authority}{folder}/{beside}")
        }
    };
    let to: Uri = text.parse().map_err(|_| bad())?;
    if to.host().is_none() || to.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err(bad());
    }
    match (scheme, to.scheme_str()) {
        (_, Some("https")) | ("http", Some("http")) => Ok(to),
        ("https", Some("http")) => {
            Err(Problem::new("sends us on from https to http, where everybody can read along"))
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
        let from = "https://a.example/api/v4/groups?page=1";
        for (location, expected) in [
            ("https://b.example/y", Ok("https://b.example/y")),
            ("/y?page=1", Ok("https://a.example/y?page=1")),
            ("//b.example/y", Ok("https://b.example/y")),
            ("teams", Ok("https://a.example/api/v4/teams")),
            ("http://a.example/x", Err("https to http")),
            ("file:///etc/passwd", Err("no address")),
            ("https://me:pw@b.example/", Err("no address")),
        ] {
            match (follow(&from.parse().unwrap(), location), expected) {
                (Ok(to), Ok(expected)) => assert_eq!(to.to_string(), expected),
                (Err(problem), Err(expected)) => assert!(problem.words.contains(expected), "{problem:?}"),
                (got, _) => unreachable!("{location}: {got:?}"),
            }
        }
    }

    #[test]
    fn credentials_stay_with_their_server() {
        for (meant, other, expected) in [
            ("https://a.example/x", "https://a.example/y", true),
            ("https://a.example/x", "https://A.example:443/y", true),
            ("https://a.example/x", "http://a.example/y", false),
            ("https://a.example/x", "https://b.example/x", false),
            ("https://a.example/x", "https://a.example:8443/x", false),
            ("https://a.example/x", "https://a.example.evil.example/x", false),
        ] {
            let (meant, other) = (meant.parse().unwrap(), other.parse().unwrap());
            assert_eq!(may_know(&meant, &other), expected, "{meant} {other}");
        }
    }
}
