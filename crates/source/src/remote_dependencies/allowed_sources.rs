//! Allowed address prefixes for dependencies that `serve` fetches.

use std::str::FromStr;

use tidegate_web::is_local_host;

use crate::Address;
use crate::address::{RemoteLocation, parse_location};

/// Pattern for every URL except plain HTTP.
const ANY_ADDRESS: &str = "*";
/// Supported schemes and their default ports.
const SCHEMES: [(&str, u16); 4] = [("https", 443), ("http", 80), ("ssh", 22), ("oci", 443)];

/// URL prefixes that remote dependencies may be fetched from. Empty by default, so nothing is fetched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedSources {
    /// Prefixes for remote bases and files of kustomizations.
    pub bases: Vec<Prefix>,
    /// Prefixes for dependencies of charts.
    pub charts: Vec<Prefix>,
}

/// A URL prefix of a host and whole path segments. `*` matches every URL except plain HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix(Option<RemoteLocation>);

/// Error for an invalid address prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}; use https://host/path, ssh://host/path, oci://host/path, git@host:path, or * for all URLs")]
pub struct InvalidPrefix(String);

impl FromStr for Prefix {
    type Err = InvalidPrefix;

    fn from_str(text: &str) -> Result<Self, InvalidPrefix> {
        let text = text.trim();
        if text == ANY_ADDRESS {
            return Ok(Self(None));
        }
        let of = |scheme: &str, rest: &str| {
            let known = SCHEMES.iter().find(|(known, _)| *known == scheme);
            let (scheme, usual) =
                known.ok_or_else(|| InvalidPrefix(format!("{scheme}:// is not a supported scheme")))?;
            let wrong = |error: crate::SourceError| InvalidPrefix(error.to_string());
            parse_location(text, scheme, *usual, rest, false).map(|site| Self(Some(site))).map_err(wrong)
        };
        match text.split_once("://") {
            Some((scheme, rest)) => match scheme.to_ascii_lowercase().as_str() {
                "git+ssh" => of("ssh", rest),
                scheme => of(scheme, rest),
            },
            None => {
                match text.split_once(':').filter(|(host, _)| host.contains('@') && !host.contains('/')) {
                    Some((host, path)) => of("ssh", &format!("{host}/{}", path.trim_start_matches('/'))),
                    None => Err(InvalidPrefix(format!("{text:?} has no scheme"))),
                }
            }
        }
    }
}

impl Prefix {
    fn find_allowed(&self, wanted: &RemoteLocation) -> bool {
        let Some(prefix) = &self.0 else { return wanted.scheme != "http" };
        let plain = |part: &'_ str| part.strip_suffix(".git").unwrap_or(part).to_owned();
        let parts = |site: &RemoteLocation| -> Vec<String> {
            site.path.split('/').filter(|part| !part.is_empty()).map(plain).collect()
        };
        (prefix.scheme, &prefix.host, prefix.port) == (wanted.scheme, &wanted.host, wanted.port)
            && parts(wanted).starts_with(&parts(prefix))
    }

    fn is_local_host(&self) -> bool {
        self.0.as_ref().is_some_and(|site| is_local_host(&site.host))
    }
}

/// Returns `None` if no prefix matches the address. Otherwise, returns true if the host of a matching prefix
/// is this machine.
pub(super) fn find_allowed(prefixes: &[Prefix], address: &Address) -> Option<bool> {
    let site = address.site()?;
    let allowing: Vec<&Prefix> = prefixes.iter().filter(|prefix| prefix.find_allowed(site)).collect();
    (!allowing.is_empty()).then(|| allowing.iter().any(|prefix| prefix.is_local_host()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn allowed_addresses() {
        for (prefix, url, expected) in [
            ("https://github.com/acme", "https://github.com/acme/base", true),
            ("https://github.com/acme/", "https://GitHub.com:443/acme/base.git", true),
            ("https://github.com/acme/base", "https://github.com/acme/base.git", true),
            ("https://github.com/acme/base.git", "https://github.com/acme/base", true),
            ("https://github.com/acme", "https://github.com/acme-evil/base", false),
            ("https://github.com/acme", "http://github.com/acme/base", false),
            ("https://github.com/acme", "git@github.com:acme/base", false),
            ("https://github.com", "https://github.com.evil.example/acme", false),
            ("https://github.com", "https://github.com:8443/acme/base", false),
            ("https://github.com", "https://me@github.com/acme/base", true),
            ("git@github.com:acme", "git@github.com:acme/base.git", true),
            ("git@github.com:acme", "ssh://other@github.com/acme/base", true),
            ("ssh://github.com/acme", "git@github.com:acme/base", true),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/base", true),
            ("*", "https://example.com/base", true),
            ("*", "git@example.com:base", true),
            ("*", "http://example.com/base", false),
        ] {
            let address = Address::parse(url, Path::new("/")).unwrap();
            let prefix: Prefix = prefix.parse().unwrap();
            assert_eq!(
                find_allowed(std::slice::from_ref(&prefix), &address).is_some(),
                expected,
                "{prefix:?} {url}"
            );
        }
        let chart = Address::parse_chart("oci://registry.example/team", "web").unwrap();
        let allowed = |prefix: &str| find_allowed(&[prefix.parse().unwrap()], &chart).is_some();
        assert!(allowed("oci://registry.example/team") && allowed("oci://registry.example"));
        assert!(!allowed("oci://registry.example/tea") && !allowed("https://registry.example/team"));
    }

    #[test]
    fn the_local_host_must_be_named() {
        let address = Address::parse("http://127.0.0.1:80/a", Path::new("/")).unwrap();
        assert_eq!(find_allowed(&["http://127.0.0.1".parse().unwrap()], &address), Some(true));
        let address = Address::parse("https://127.0.0.1/a", Path::new("/")).unwrap();
        assert_eq!(find_allowed(&["*".parse().unwrap()], &address), Some(false));
    }

    #[test]
    fn invalid_prefixes() {
        for (text, named) in [
            ("", "has no scheme"),
            ("github.com/acme", "has no scheme"),
            ("file:///srv", "file://"),
            ("https://", "host is missing or invalid"),
            ("https://me:hunter2@example.com", "Secret"),
            ("https://example.com/a/../b", ".."),
            ("https://example.com?a", "query"),
        ] {
            let error = text.parse::<Prefix>().unwrap_err().to_string();
            assert!(error.contains(named) && !error.contains("hunter2"), "{text}: {error}");
        }
    }
}
