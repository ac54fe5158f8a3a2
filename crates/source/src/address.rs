//! Repository addresses: parsing and normalizing `repoURL`.

use std::fmt;
use std::path::{Path, PathBuf};

use tidegate_model::{Authority, Host, parse_port, percent_decode};

use crate::SourceError;
use crate::secret_text::SecretText;

/// Address of a repository. Two spellings of the same repository compare equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    kind: AddressKind,
    /// Project with its own Secret for the repository. Content fetched with it is visible only to the
    /// project's Applications.
    project: Option<Box<str>>,
}

/// Context for resolving a `repoURL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressContext<'a> {
    /// Folder of the Application's file, used to resolve relative paths.
    pub base: &'a Path,
    /// Project of the Application. Empty if unset or unknown.
    pub project: &'a str,
}

impl<'a> From<&'a Path> for AddressContext<'a> {
    fn from(base: &'a Path) -> Self {
        Self { base, project: "" }
    }
}

impl<'a> From<&'a std::path::PathBuf> for AddressContext<'a> {
    fn from(base: &'a std::path::PathBuf) -> Self {
        Self::from(base.as_path())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum AddressKind {
    /// A folder on this machine.
    Local(PathBuf),
    /// A Git repository over HTTP.
    Http(RemoteLocation),
    /// A Git repository over SSH.
    Ssh(RemoteLocation),
    /// A Helm repository.
    Charts(RemoteLocation),
    /// A chart in an OCI registry.
    Registry(RemoteLocation),
    /// A single file on a server.
    File(RemoteLocation),
}

/// Location of a repository on a server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RemoteLocation {
    /// The scheme: `http`, `https`, `ssh` or `oci`.
    pub scheme: &'static str,
    /// Host in lower case. An IPv6 address keeps its brackets.
    pub host: String,
    /// Port, unless it is the scheme's default port.
    pub port: Option<u16>,
    /// Path with a leading slash.
    pub path: String,
    /// True if the path is relative to the user's home folder, as in `scp` syntax.
    pub is_relative_to_home: bool,
    /// User in the URL. Never displayed, because over HTTP it can be a token.
    pub user: Option<SecretText>,
}

impl AddressKind {
    /// Returns the location if a Secret can apply to the address. Secrets never apply to single files.
    pub fn location(&self) -> Option<&RemoteLocation> {
        match self {
            Self::Local(_) | Self::File(_) => None,
            Self::Http(site) | Self::Ssh(site) | Self::Charts(site) | Self::Registry(site) => Some(site),
        }
    }
}

impl RemoteLocation {
    /// Returns the path as sent to the server.
    pub fn server_path(&self) -> String {
        self.path.strip_prefix('/').filter(|_| self.is_relative_to_home).unwrap_or(&self.path).to_owned()
    }

    /// Returns the host, plus the port unless it is the default.
    pub fn authority(&self) -> String {
        self.port.map_or_else(|| self.host.clone(), |port| format!("{}:{port}", self.host))
    }
}

impl Address {
    /// Parses a `repoURL`, resolving relative paths against `base`, the folder of the Application's file.
    pub fn parse(url: &str, base: &Path) -> Result<Self, SourceError> {
        let unsupported = |what| SourceError::Address { url: without_password(url), what };
        let path = match url.split_once("://") {
            Some(("file", rest)) => {
                let path = rest.strip_prefix("localhost").unwrap_or(rest);
                if !path.starts_with('/') {
                    return Err(unsupported("a file URL with a host"));
                }
                PathBuf::from(path)
            }
            Some((scheme, rest)) => {
                let scheme = scheme.to_ascii_lowercase();
                return match scheme.as_str() {
                    "https" => parse_location(url, "https", 443, rest, true)
                        .map(|site| Self::from_kind(AddressKind::Http(site))),
                    "http" => parse_location(url, "http", 80, rest, true)
                        .map(|site| Self::from_kind(AddressKind::Http(site))),
                    "ssh" | "git+ssh" => parse_location(url, "ssh", 22, rest, true)
                        .map(|site| Self::from_kind(AddressKind::Ssh(site))),
                    "oci" => Err(unsupported("an OCI registry without a chart")),
                    _ => Err(unsupported("this type of URL")),
                };
            }
            None if url.starts_with('/') => PathBuf::from(url),
            None if [".", ".."].contains(&url) || url.starts_with("./") || url.starts_with("../") => {
                base.join(url)
            }
            // `scp` syntax: `user@host:path`.
            None => match url.split_once(':') {
                Some((host, path)) if host.contains('@') && !host.contains('/') => {
                    let at_home = !path.starts_with('/');
                    let path = if at_home { format!("/{path}") } else { path.to_owned() };
                    let site = parse_location(url, "ssh", 22, &format!("{host}{path}"), true)?;
                    return Ok(Self::from_kind(AddressKind::Ssh(RemoteLocation {
                        is_relative_to_home: at_home,
                        ..site
                    })));
                }
                _ => return Err(unsupported("this type of URL")),
            },
        };
        // If the folder doesn't exist, opening it fails later with an error that shows the path as written.
        Ok(Self::from_kind(AddressKind::Local(std::fs::canonicalize(&path).unwrap_or(path))))
    }

    /// Parses the `repoURL` of a chart. With `oci://` or no scheme, it is a registry, optionally followed by
    /// the first part of the chart's name. Any other URL is a Helm repository.
    pub fn parse_chart(url: &str, chart: &str) -> Result<Self, SourceError> {
        let wrong = |reason| SourceError::InvalidAddress { url: without_password(url), reason };
        let (scheme, rest) = match url.split_once("://") {
            Some((scheme, rest)) => (scheme.to_ascii_lowercase(), rest),
            None => ("oci".to_owned(), url),
        };
        let rest = rest.trim_end_matches('/');
        match scheme.as_str() {
            "https" => parse_location(url, "https", 443, rest, false)
                .map(|site| Self::from_kind(AddressKind::Charts(site))),
            "http" => parse_location(url, "http", 80, rest, false)
                .map(|site| Self::from_kind(AddressKind::Charts(site))),
            "oci" => {
                let name = format!("{rest}/{chart}");
                let site = parse_location(url, "oci", 443, name.trim_end_matches('/'), true)?;
                let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "/._-".contains(c);
                match site.path.chars().all(is_name) {
                    true => Ok(Self::from_kind(AddressKind::Registry(site))),
                    false => Err(wrong(
                        "repository names in registries consist of lowercase letters, digits, dots, dashes and underscores",
                    )),
                }
            }
            _ => Err(wrong("use a Helm repository (https://) or an OCI registry (oci://)")),
        }
    }

    /// Parses the URL of a single file.
    pub(crate) fn parse_file(url: &str) -> Result<Self, SourceError> {
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        match scheme.to_ascii_lowercase().as_str() {
            "https" => parse_location(url, "https", 443, rest, true)
                .map(|site| Self::from_kind(AddressKind::File(site))),
            "http" => parse_location(url, "http", 80, rest, true)
                .map(|site| Self::from_kind(AddressKind::File(site))),
            _ => Err(SourceError::InvalidAddress {
                url: without_password(url),
                reason: "files are fetched only over https://",
            }),
        }
    }

    /// Returns the error for a remote repository when remote access is disabled.
    pub(crate) fn remote_access_disabled(&self) -> SourceError {
        SourceError::Address { url: self.to_string(), what: "a remote repository" }
    }

    fn from_kind(place: AddressKind) -> Self {
        Self { kind: place, project: None }
    }

    /// Returns this address for a project that has its own Secret for the repository.
    pub(crate) fn for_project(self, project: &str) -> Self {
        Self { project: Some(project.into()), ..self }
    }

    /// Returns the project, if it has its own Secret for the repository.
    pub(crate) fn project(&self) -> Option<&str> {
        self.project.as_deref()
    }

    pub(crate) fn kind(&self) -> &AddressKind {
        &self.kind
    }

    /// Returns a unique key for the address and its project.
    pub(crate) fn key(&self) -> String {
        match &self.project {
            Some(project) => format!("{self}\0{project}"),
            None => self.to_string(),
        }
    }
}

/// Strips the user and password from a `repoURL`, for use in messages.
fn without_password(url: &str) -> String {
    let parts = url.split_once("://").and_then(|(scheme, rest)| {
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (_, host) = authority.rsplit_once('@').filter(|(user, _)| !user.is_empty())?;
        Some((scheme, host, path))
    });
    match parts {
        Some((scheme, host, path)) if !scheme.contains("ssh") => format!("{scheme}://***@{host}{path}"),
        _ => url.to_owned(),
    }
}

/// Parses the part of an address after the scheme. `usual` is the scheme's default port.
pub(crate) fn parse_location(
    url: &str,
    scheme: &'static str,
    usual: u16,
    rest: &str,
    needs_path: bool,
) -> Result<RemoteLocation, SourceError> {
    let wrong = |reason| SourceError::InvalidAddress { url: without_password(url), reason };
    if rest.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\') {
        return Err(wrong("the URL contains a character that is not allowed"));
    }
    if rest.contains(['?', '#']) {
        return Err(wrong("a query or a fragment is not allowed"));
    }
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let Authority { user, host, port } = Authority::split(authority);
    if user.is_some_and(|user| user.contains(':')) {
        return Err(wrong(
            "the URL contains a password, which would not stay secret; move the password to a Secret labeled argocd.argoproj.io/secret-type: repository",
        ));
    }
    let port = port.filter(|port| !port.is_empty());
    let port =
        port.map(|port| parse_port(port).ok_or_else(|| wrong("the port is not a number"))).transpose()?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let is_ip6 = host.starts_with('[')
        && host.ends_with(']')
        && host.trim_matches(['[', ']']).parse::<std::net::Ipv6Addr>().is_ok();
    // A leading hyphen could be mistaken for a command-line option.
    if !is_ip6 && (host.is_empty() || host.starts_with('-') || !host.chars().all(is_name)) {
        return Err(wrong("the host is missing or invalid"));
    }
    if user.is_some_and(|user| user.is_empty() || user.starts_with('-')) {
        return Err(wrong("the user is empty or starts with a dash"));
    }
    let host = Host::parse(host).to_string();
    if host.is_empty() {
        return Err(wrong("the host is missing or invalid"));
    }
    let path = path.trim_matches('/');
    // Decode only what every server treats as equivalent. SSH paths are passed to a shell, which doesn't
    // decode them.
    let path = if scheme == "ssh" { path.to_owned() } else { decode_unreserved(path) };
    if path.is_empty() && needs_path {
        return Err(wrong("the URL has no repository path after the host"));
    }
    if path.split('/').any(|part| part == "..") {
        return Err(wrong("the path contains .."));
    }
    Ok(RemoteLocation {
        scheme,
        host,
        port: port.filter(|port| *port != usual),
        path: if path.is_empty() { String::new() } else { format!("/{path}") },
        is_relative_to_home: false,
        user: user.map(|user| SecretText(user.to_owned())),
    })
}

/// Decodes letters, digits and `-._~` in a path. Their encoded and decoded forms are equivalent (RFC 3986,
/// section 6.2.2.2).
fn decode_unreserved(path: &str) -> String {
    let mut parts = path.split('%');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let escape = part.get(..2).map(|digits| (digits, percent_decode(&format!("%{digits}"))));
        match escape {
            Some((_, decoded)) if decoded.len() == 1 && decoded.chars().all(is_unreserved) => {
                plain.push_str(&decoded);
                plain.push_str(part.get(2..).unwrap_or_default());
            }
            Some((digits, _)) if digits.chars().all(|digit| digit.is_ascii_hexdigit()) => {
                plain.push('%');
                plain.push_str(&digits.to_ascii_uppercase());
                plain.push_str(part.get(2..).unwrap_or_default());
            }
            _ => {
                plain.push('%');
                plain.push_str(part);
            }
        }
    }
    plain
}

fn is_unreserved(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-._~".contains(c)
}

impl fmt::Display for RemoteLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.user.as_ref().filter(|_| self.scheme == "ssh");
        let user = user.map(|user| format!("{}@", user.0)).unwrap_or_default();
        if self.is_relative_to_home {
            return write!(f, "{user}{}:{}", self.host, self.server_path());
        }
        write!(f, "{}://{user}{}{}", self.scheme, self.authority(), self.path)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            AddressKind::Local(path) => write!(f, "{}", path.display()),
            AddressKind::Http(site)
            | AddressKind::Ssh(site)
            | AddressKind::Charts(site)
            | AddressKind::Registry(site)
            | AddressKind::File(site) => write!(f, "{site}"),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use super::*;

    #[test]
    fn one_repository_has_one_address() {
        let folder = tempfile::tempdir().unwrap();
        let repository = folder.path().join("repo");
        std::fs::create_dir(&repository).unwrap();
        let expected = Address::from_kind(AddressKind::Local(std::fs::canonicalize(&repository).unwrap()));
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
            ("https://example.com.:0443/%61/b%2d%2fc", "https://example.com/a/b-%2Fc"),
            ("http://localhost:08495/a", "http://localhost:8495/a"),
            ("http://127.1:0080/a", "http://127.0.0.1/a"),
            ("http://2130706433/a", "http://127.0.0.1/a"),
            ("http://0177.0.0.1/a", "http://127.0.0.1/a"),
            ("http://0x7f.1/a", "http://127.0.0.1/a"),
            ("http://[::ffff:7f00:1]:8080/a", "http://127.0.0.1:8080/a"),
            ("https://[FD00:0:0::1]:/a", "https://[fd00::1]/a"),
            ("ssh://git@example.com:0022/a", "ssh://git@example.com/a"),
            ("git@EXAMPLE.com.:a", "git@example.com:a"),
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
            ("https:///a", "host is missing or invalid"),
            ("ssh://-oProxyCommand=x/a", "host is missing or invalid"),
            ("ssh://-l@example.com/a", "dash"),
            ("https://example.com:port/a", "port"),
            ("https://example.com:+443/a", "port"),
            ("https://example.com/a/../../b", ".."),
            ("https://example.com/a/%2e%2E/b", ".."),
            ("https://./a", "host is missing or invalid"),
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
            ("git://example.com/a", "this type"),
            ("repo", "this type"),
            ("", "this type"),
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
            assert_eq!(Address::parse_chart(url, chart).unwrap().to_string(), expected, "{url}");
        }
        for (url, chart, named) in [
            ("https://me:hunter2@example.com", "web", "Secret"),
            ("git@example.com:a", "web", "port"),
            ("ssh://example.com/a", "web", "Helm repository"),
            ("oci://example.com", "", "no repository"),
            ("oci://example.com/a", "../b", ".."),
            ("oci://example.com/a", "b?c", "query"),
            ("oci://example.com/A", "b", "lowercase letters"),
        ] {
            let error = Address::parse_chart(url, chart).unwrap_err().to_string();
            assert!(error.contains(named) && !error.contains("hunter2"), "{url}: {error}");
        }
    }
}
