//! Which repository a `repoURL` means.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::SourceError;
use crate::hidden::Hidden;

/// A repository. The same repository has the same address, however it was written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    place: Place,
    /// The project that has a Secret of its own for it: what is fetched with that is for its Applications alone.
    project: Option<Box<str>>,
}

/// Who asks for a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Home<'a> {
    /// What relative addresses are relative to: the folder in which the application is written down.
    pub base: &'a Path,
    /// The project of the application; empty where there is none, or it is not known.
    pub project: &'a str,
}

impl<'a> From<&'a Path> for Home<'a> {
    fn from(base: &'a Path) -> Self {
        Self { base, project: "" }
    }
}

impl<'a> From<&'a std::path::PathBuf> for Home<'a> {
    fn from(base: &'a std::path::PathBuf) -> Self {
        Self::from(base.as_path())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Place {
    /// A folder of this machine.
    Local(PathBuf),
    /// A server that is asked by HTTP.
    Http(Site),
    /// A server that is asked by SSH.
    Ssh(Site),
    /// A Helm repository.
    Charts(Site),
    /// A chart of an OCI registry.
    Registry(Site),
    /// One file of a server.
    File(Site),
}

/// A repository of a server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Site {
    /// `http`, `https`, `ssh` or `oci`.
    pub scheme: &'static str,
    /// In small letters; an IPv6 address has its brackets.
    pub host: String,
    /// Where it is not the usual one.
    pub port: Option<u16>,
    /// Begins with a slash.
    pub path: String,
    /// Whether the path begins where the user is at home, as `scp` writes it.
    pub at_home: bool,
    /// Who asks, where the address says so. Of HTTP it may be a token, so it does not show.
    pub user: Option<Hidden>,
}

impl Place {
    /// Of which server it is, where Secrets say how that is reached: nobody has said who may ask for a file.
    pub fn site(&self) -> Option<&Site> {
        match self {
            Self::Local(_) | Self::File(_) => None,
            Self::Http(site) | Self::Ssh(site) | Self::Charts(site) | Self::Registry(site) => Some(site),
        }
    }
}

impl Site {
    /// The path as the server is told.
    pub fn path_there(&self) -> String {
        self.path.strip_prefix('/').filter(|_| self.at_home).unwrap_or(&self.path).to_owned()
    }

    /// The host, and the port if it is not the usual one.
    pub fn authority(&self) -> String {
        self.port.map_or_else(|| self.host.clone(), |port| format!("{}:{port}", self.host))
    }
}

impl Address {
    /// Reads a `repoURL`. Relative paths are those of `base`, the folder in which the application is written down.
    pub fn parse(url: &str, base: &Path) -> Result<Self, SourceError> {
        let unsupported = |what| SourceError::Address { url: shown(url), what };
        let path = match url.split_once("://") {
            Some(("file", rest)) => {
                let path = rest.strip_prefix("localhost").unwrap_or(rest);
                if !path.starts_with('/') {
                    return Err(unsupported("a file address with a host"));
                }
                PathBuf::from(path)
            }
            Some((scheme, rest)) => {
                let scheme = scheme.to_ascii_lowercase();
                return match scheme.as_str() {
                    "https" => site(url, "https", 443, rest, true).map(|site| Self::at(Place::Http(site))),
                    "http" => site(url, "http", 80, rest, true).map(|site| Self::at(Place::Http(site))),
                    "ssh" | "git+ssh" => {
                        site(url, "ssh", 22, rest, true).map(|site| Self::at(Place::Ssh(site)))
                    }
                    "oci" => Err(unsupported("an OCI registry without a chart")),
                    _ => Err(unsupported("this kind of address")),
                };
            }
            None if url.starts_with('/') => PathBuf::from(url),
            None if [".", ".."].contains(&url) || url.starts_with("./") || url.starts_with("../") => {
                base.join(url)
            }
            // As `scp` writes it: user@host:path.
            None => match url.split_once(':') {
                Some((host, path)) if host.contains('@') && !host.contains('/') => {
                    let at_home = !path.starts_with('/');
                    let path = if at_home { format!("/{path}") } else { path.to_owned() };
                    let site = site(url, "ssh", 22, &format!("{host}{path}"), true)?;
                    return Ok(Self::at(Place::Ssh(Site { at_home, ..site })));
                }
                _ => return Err(unsupported("this kind of address")),
            },
        };
        // What is not there is told when it is opened, under the name it was asked for.
        Ok(Self::at(Place::Local(std::fs::canonicalize(&path).unwrap_or(path))))
    }

    /// Reads the `repoURL` of a chart: a Helm repository, or, by `oci://` or without a scheme, a registry and the beginning of
    /// the chart's name.
    pub fn of_chart(url: &str, chart: &str) -> Result<Self, SourceError> {
        let wrong = |reason| SourceError::BadAddress { url: shown(url), reason };
        let (scheme, rest) = match url.split_once("://") {
            Some((scheme, rest)) => (scheme.to_ascii_lowercase(), rest),
            None => ("oci".to_owned(), url),
        };
        let rest = rest.trim_end_matches('/');
        match scheme.as_str() {
            "https" => site(url, "https", 443, rest, false).map(|site| Self::at(Place::Charts(site))),
            "http" => site(url, "http", 80, rest, false).map(|site| Self::at(Place::Charts(site))),
            "oci" => {
                let name = format!("{rest}/{chart}");
                let site = site(url, "oci", 443, name.trim_end_matches('/'), true)?;
                let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "/._-".contains(c);
                match site.path.chars().all(is_name) {
                    true => Ok(Self::at(Place::Registry(site))),
                    false => Err(wrong(
                        "names in registries have small letters, digits, dots, dashes and underscores only",
                    )),
                }
            }
            _ => Err(wrong("charts are in Helm repositories (https://) and OCI registries (oci://)")),
        }
    }

    /// Reads the address of one file of a server.
    pub(crate) fn of_file(url: &str) -> Result<Self, SourceError> {
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        match scheme.to_ascii_lowercase().as_str() {
            "https" => site(url, "https", 443, rest, true).map(|site| Self::at(Place::File(site))),
            "http" => site(url, "http", 80, rest, true).map(|site| Self::at(Place::File(site))),
            _ => Err(SourceError::BadAddress {
                url: shown(url),
                reason: "files are fetched by https:// alone",
            }),
        }
    }

    /// Of a repository over the network, where none are reached.
    pub(crate) fn unreached(&self) -> SourceError {
        SourceError::Address { url: self.to_string(), what: "a repository over the network" }
    }

    fn at(place: Place) -> Self {
        Self { place, project: None }
    }

    /// The same repository as a project has it that has a Secret of its own for it.
    pub(crate) fn of_project(self, project: &str) -> Self {
        Self { project: Some(project.into()), ..self }
    }

    /// The project that has a Secret of its own for it.
    pub(crate) fn project(&self) -> Option<&str> {
        self.project.as_deref()
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// What tells it from all others, in text.
    pub(crate) fn key(&self) -> String {
        match &self.project {
            Some(project) => format!("{self}\0{project}"),
            None => self.to_string(),
        }
    }
}

/// A `repoURL` as it may be shown: a password in it is left out, whatever is in it.
fn shown(url: &str) -> String {
    let parts = url.split_once("://").and_then(|(scheme, rest)| {
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        Some((scheme, authority.rsplit_once('@')?.1, path))
    });
    match parts {
        Some((scheme, host, path)) if !scheme.contains("ssh") => format!("{scheme}://***@{host}{path}"),
        _ => url.to_owned(),
    }
}

/// Reads what follows the scheme of an address.
pub(crate) fn site(
    url: &str,
    scheme: &'static str,
    usual: u16,
    rest: &str,
    needs_path: bool,
) -> Result<Site, SourceError> {
    let wrong = |reason| SourceError::BadAddress { url: shown(url), reason };
    if rest.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\') {
        return Err(wrong("it has a character that addresses do not have"));
    }
    if rest.contains(['?', '#']) {
        return Err(wrong("it has a query or a fragment, which repositories do not have"));
    }
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    if user.is_some_and(|user| user.contains(':')) {
        return Err(wrong(
            "it has a password, which everybody can read here; put that into a Secret labelled argocd.argoproj.io/secret-type: repository",
        ));
    }
    let (host, port) = match host.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => {
            let port = port.parse().map_err(|_| wrong("its port is no number"))?;
            (host, Some(port))
        }
        _ => (host, None),
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let is_ip6 = host.starts_with('[')
        && host.ends_with(']')
        && host.trim_matches(['[', ']']).parse::<std::net::Ipv6Addr>().is_ok();
    // A program must not take a host or a user for one of its options.
    if !is_ip6 && (host.is_empty() || host.starts_with('-') || !host.chars().all(is_name)) {
        return Err(wrong("it has no host"));
    }
    if user.is_some_and(|user| user.is_empty() || user.starts_with('-')) {
        return Err(wrong("it has an empty user, or one that begins with a dash"));
    }
    let path = path.trim_matches('/');
    if path.is_empty() && needs_path {
        return Err(wrong("it names a server and no repository"));
    }
    if path.split('/').any(|part| part == "..") {
        return Err(wrong("it has .. in its path"));
    }
    Ok(Site {
        scheme,
        host: host.to_ascii_lowercase(),
        port: port.filter(|port| *port != usual),
        path: if path.is_empty() { String::new() } else { format!("/{path}") },
        at_home: false,
        user: user.map(|user| Hidden(user.to_owned())),
    })
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.user.as_ref().filter(|_| self.scheme == "ssh");
        let user = user.map(|user| format!("{}@", user.0)).unwrap_or_default();
        if self.at_home {
            return write!(f, "{user}{}:{}", self.host, self.path_there());
        }
        write!(f, "{}://{user}{}{}", self.scheme, self.authority(), self.path)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Local(path) => write!(f, "{}", path.display()),
            Place::Http(site)
            | Place::Ssh(site)
            | Place::Charts(site)
            | Place::Registry(site)
            | Place::File(site) => write!(f, "{site}"),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use super::*;

    #[test]
    fn one_repository_has_one_address() {
        let folder = tempfile::tempdir().unwrap();
        let repository = folder.path().join("repo");
        std::fs::create_dir(&repository).unwrap();
        let expected = Address::at(Place::Local(std::fs::canonicalize(&repository).unwrap()));
        let absolute = repository.display().to_string();
        let base = folder.path();
        for url in [absolute.clone(), format!("file://{absolute}"), "./repo".into(), "./repo/../repo/".into()]
        {
            assert_eq!(Address::parse(&url, base).unwrap(), expected, "{url}");
        }
        assert_eq!(Address::parse(".", &repository).unwrap(), expected);
    }

    #[test]
    fn repositories_of_servers() {
        for (url, expected) in [
            ("https://example.com/a/b.git", "https://example.com/a/b.git"),
            ("HTTPS://Example.COM:443/a/b.git/", "https://example.com/a/b.git"),
            ("http://example.com:8080/a", "http://example.com:8080/a"),
            ("https://org@dev.example.com/org/_git/a", "https://dev.example.com/org/_git/a"),
            ("https://[::1]:8443/a", "https://[::1]:8443/a"),
            ("git@Example.com:a/b.git", "git@example.com:a/b.git"),
            ("git@example.com:/a/b.git", "ssh://git@example.com/a/b.git"),
            ("ssh://git@example.com:22/a/b.git", "ssh://git@example.com/a/b.git"),
            ("ssh://git@example.com:2222/a", "ssh://git@example.com:2222/a"),
        ] {
            assert_eq!(Address::parse(url, Path::new("/")).unwrap().to_string(), expected, "{url}");
        }
    }

    #[test]
    fn bad_addresses_are_named_and_passwords_are_not() {
        for (url, named) in [
            ("https://me:hunter2@example.com/a.git", "Secret"),
            ("https://me:p@hunter2@example.com/a.git", "Secret"),
            ("https://example.com/a.git?token=1", "query"),
            ("https://example.com", "no repository"),
            ("https:///a", "no host"),
            ("ssh://-oProxyCommand=x/a", "no host"),
            ("ssh://-l@example.com/a", "dash"),
            ("https://example.com:port/a", "port"),
            ("https://example.com/a/../../b", ".."),
            ("https://exa mple.com/a", "character"),
        ] {
            let error = Address::parse(url, Path::new("/")).unwrap_err().to_string();
            assert!(error.contains(named) && !error.contains("hunter2"), "{url}: {error}");
        }
    }

    #[test]
    fn what_is_not_supported_is_named() {
        for (url, named) in [
            ("oci://example.com/a", "OCI"),
            ("file://server/a", "host"),
            ("git://example.com/a", "this kind"),
            ("repo", "this kind"),
            ("", "this kind"),
        ] {
            let error = Address::parse(url, Path::new("/")).unwrap_err().to_string();
            assert!(error.contains(named) && error.contains("not supported yet"), "{url}: {error}");
        }
    }

    #[test]
    fn repositories_of_charts() {
        for (url, chart, expected) in [
            ("https://charts.example.com", "web", "https://charts.example.com"),
            ("https://Example.com:443/charts/", "web", "https://example.com/charts"),
            ("http://example.com:8080", "web", "http://example.com:8080"),
            ("oci://example.com/team", "web", "oci://example.com/team/web"),
            ("oci://example.com:5000/team/web", "", "oci://example.com:5000/team/web"),
            ("example.com/team", "web", "oci://example.com/team/web"),
            ("example.com", "web", "oci://example.com/web"),
        ] {
            assert_eq!(Address::of_chart(url, chart).unwrap().to_string(), expected, "{url}");
        }
        for (url, chart, named) in [
            ("https://me:hunter2@example.com", "web", "Secret"),
            ("git@example.com:a", "web", "port"),
            ("ssh://example.com/a", "web", "Helm repositories"),
            ("oci://example.com", "", "no repository"),
            ("oci://example.com/a", "../b", ".."),
            ("oci://example.com/a", "b?c", "query"),
            ("oci://example.com/A", "b", "small letters"),
        ] {
            let error = Address::of_chart(url, chart).unwrap_err().to_string();
            assert!(error.contains(named) && !error.contains("hunter2"), "{url}: {error}");
        }
    }
}
