//! What `serve` allows to be fetched: beginnings of addresses.

use std::str::FromStr;

use tidegate_web::is_this_machine;

use crate::Address;
use crate::address::{Site, site};

/// Stands for all that is asked safely.
const ANY: &str = "*";
/// Ports that go without saying, by the scheme.
const SCHEMES: [(&str, u16); 4] = [("https", 443), ("http", 80), ("ssh", 22), ("oci", 443)];

/// What may be fetched for manifests beside their own source. Nothing, if nothing is said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// Remote bases and files of kustomizations.
    pub bases: Vec<Prefix>,
    /// Charts that charts need.
    pub charts: Vec<Prefix>,
}

/// The beginning of addresses: a host, and whole parts of the path behind it; or `*` for all that are not asked by plain HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix(Option<Site>);

/// A text that is no beginning of addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0}; write https://host/path, ssh://host/path, oci://host/path, git@host:path, or * for all of them"
)]
pub struct BadPrefix(String);

impl FromStr for Prefix {
    type Err = BadPrefix;

    fn from_str(text: &str) -> Result<Self, BadPrefix> {
        let text = text.trim();
        if text == ANY {
            return Ok(Self(None));
        }
        let of = |scheme: &str, rest: &str| {
            let known = SCHEMES.iter().find(|(known, _)| *known == scheme);
            let (scheme, usual) = known
                .ok_or_else(|| BadPrefix(format!("{scheme}:// is no kind of address that is fetched")))?;
            let wrong = |error: crate::SourceError| BadPrefix(error.to_string());
            site(text, scheme, *usual, rest, false).map(|site| Self(Some(site))).map_err(wrong)
        };
        match text.split_once("://") {
            Some((scheme, rest)) => match scheme.to_ascii_lowercase().as_str() {
                "git+ssh" => of("ssh", rest),
                scheme => of(scheme, rest),
            },
            None => {
                match text.split_once(':').filter(|(host, _)| host.contains('@') && !host.contains('/')) {
                    Some((host, path)) => of("ssh", &format!("{host}/{}", path.trim_start_matches('/'))),
                    None => Err(BadPrefix(format!("{text:?} has no scheme"))),
                }
            }
        }
    }
}

impl Prefix {
    fn allows(&self, wanted: &Site) -> bool {
        let Some(prefix) = &self.0 else { return wanted.scheme != "http" };
        let plain = |part: &'_ str| part.strip_suffix(".git").unwrap_or(part).to_owned();
        let parts = |site: &Site| -> Vec<String> {
            site.path.split('/').filter(|part| !part.is_empty()).map(plain).collect()
        };
        (prefix.scheme, &prefix.host, prefix.port) == (wanted.scheme, &wanted.host, wanted.port)
            && parts(wanted).starts_with(&parts(prefix))
    }

    fn names_this_machine(&self) -> bool {
        self.0.as_ref().is_some_and(|site| is_this_machine(&site.host))
    }
}

/// Whether one of these allows an address, and one that does names this machine itself.
pub(super) fn allows(prefixes: &[Prefix], address: &Address) -> Option<bool> {
    let site = address.site()?;
    let allowing: Vec<&Prefix> = prefixes.iter().filter(|prefix| prefix.allows(site)).collect();
    (!allowing.is_empty()).then(|| allowing.iter().any(|prefix| prefix.names_this_machine()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn what_is_allowed() {
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
                allows(std::slice::from_ref(&prefix), &address).is_some(),
                expected,
                "{prefix:?} {url}"
            );
        }
        let chart = Address::of_chart("oci://registry.example/team", "web").unwrap();
        let allowed = |prefix: &str| allows(&[prefix.parse().unwrap()], &chart).is_some();
        assert!(allowed("oci://registry.example/team") && allowed("oci://registry.example"));
        assert!(!allowed("oci://registry.example/tea") && !allowed("https://registry.example/team"));
    }

    #[test]
    fn this_machine_has_to_be_named() {
        let address = Address::parse("http://127.0.0.1:80/a", Path::new("/")).unwrap();
        assert_eq!(allows(&["http://127.0.0.1".parse().unwrap()], &address), Some(true));
        let address = Address::parse("https://127.0.0.1/a", Path::new("/")).unwrap();
        assert_eq!(allows(&["*".parse().unwrap()], &address), Some(false));
    }

    #[test]
    fn what_is_no_beginning_of_an_address() {
        for (text, named) in [
            ("", "has no scheme"),
            ("github.com/acme", "has no scheme"),
            ("file:///srv", "file://"),
            ("https://", "no host"),
            ("https://me:hunter2@example.com", "Secret"),
            ("https://example.com/a/../b", ".."),
            ("https://example.com?a", "query"),
        ] {
            let error = text.parse::<Prefix>().unwrap_err().to_string();
            assert!(error.contains(named) && !error.contains("hunter2"), "{text}: {error}");
        }
    }
}
