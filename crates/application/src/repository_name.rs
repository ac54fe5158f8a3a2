//! Canonical repository names for project rules. A repository has a single name, however its URL is spelled.

use core::net::Ipv6Addr;
use std::fmt;

use tidegate_model::{
    Authority, Glob, Host, InvalidGlob, canonical_server, default_port, parse_port, percent_decode,
};

/// Maximum length of an address in bytes.
const LENGTH_MAX: usize = 4096;
/// Problem with a pattern that can't match any URL, because hosts are ASCII.
const NOT_ASCII: &str =
    "its host contains non-ASCII characters; use the Punycode form, which starts with xn--";

/// Error returned when an address exceeds the maximum length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressTooLong;

impl fmt::Display for AddressTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the repository address is longer than {LENGTH_MAX} bytes")
    }
}

/// A repository's name, in the forms that patterns are matched against.
pub struct RepositoryName {
    permitted: Vec<String>,
    denied: Vec<String>,
}

impl RepositoryName {
    /// Returns the repository name for an address.
    pub fn from_address(address: &str) -> Result<Self, AddressTooLong> {
        if address.len() > LENGTH_MAX {
            return Err(AddressTooLong);
        }
        let parsed = ParsedAddress::parse(address, TextKind::Address);
        let lower = |text: String| text.to_lowercase();
        Ok(Self { permitted: parsed.names(), denied: parsed.denied_names().into_iter().map(lower).collect() })
    }

    /// Returns true if a pattern matches the name. A lone `*` matches everything; otherwise, `*` doesn't
    /// match slashes, but `**` does.
    pub fn is_permitted(&self, pattern: &str) -> Result<bool, InvalidGlob> {
        if pattern == "*" {
            return Ok(true);
        }
        let mut patterns = vec![ParsedAddress::parse_pattern(pattern, TextKind::Pattern)?.canonical_name()];
        patterns.extend(parse_registry(pattern, TextKind::Pattern)?.map(|one| one.canonical_name()));
        any_matches(&patterns, &self.permitted)
    }

    /// Returns true if a denying pattern matches the name. Ignores the case, because some servers do, and the
    /// user, because it doesn't change which repository a URL refers to.
    pub fn is_denied(&self, pattern: &str) -> Result<bool, InvalidGlob> {
        let parsed = ParsedAddress::parse_pattern(pattern, TextKind::Pattern)?;
        let mut patterns = vec![parsed.canonical_name(), parsed.denied_name()];
        patterns.extend(parse_registry(pattern, TextKind::Pattern)?.map(|one| one.canonical_name()));
        let patterns: Vec<String> = patterns.iter().map(|one| one.to_lowercase()).collect();
        Ok(patterns.iter().any(|one| one == "*") || any_matches(&patterns, &self.denied)?)
    }
}

fn any_matches(patterns: &[String], names: &[String]) -> Result<bool, InvalidGlob> {
    for pattern in patterns {
        let glob = Glob::with_separator(pattern, '/')?;
        if names.iter().any(|name| glob.matches(name)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Parses the text as the URL of an OCI registry. The URLs of charts may omit the scheme.
fn parse_registry(text: &str, meaning: TextKind) -> Result<Option<ParsedAddress>, InvalidGlob> {
    let text = text.trim();
    let is_folder = text.starts_with(['/', '.', '*', '{']);
    if text.contains("://") || is_folder || is_scp_address(text) {
        return Ok(None);
    }
    ParsedAddress::parse_pattern(&format!("oci://{text}"), meaning).map(Some)
}

/// Returns true for an SSH address in `scp` notation: `user@host:path`.
fn is_scp_address(address: &str) -> bool {
    address.split_once(':').is_some_and(|(host, _)| host.contains('@') && !host.contains('/'))
}

/// Kind of text to parse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TextKind {
    /// Address in an Application.
    Address,
    /// Pattern in a project, which may contain wildcards.
    Pattern,
}

/// URL split into its parts, each in canonical form.
enum ParsedAddress {
    /// Local folder, or text without a scheme.
    Plain(String),
    /// Repository on a server.
    Server {
        scheme: String,
        /// The user, kept only for SSH. Empty if the URL has none.
        user: String,
        host: String,
        /// Port. Empty for the default port.
        port: String,
        path: String,
    },
}

impl ParsedAddress {
    fn parse_pattern(pattern: &str, meaning: TextKind) -> Result<Self, InvalidGlob> {
        let parsed = Self::parse(pattern, meaning);
        match &parsed {
            Self::Server { host, .. } if !host.is_ascii() => {
                Err(InvalidGlob { pattern: pattern.to_owned(), reason: NOT_ASCII })
            }
            _ => Ok(parsed),
        }
    }

    /// Parses an address. Splits off the authority before decoding, so that an encoded slash (`%2f`) doesn't
    /// end it.
    fn parse(address: &str, meaning: TextKind) -> Self {
        let address = address.trim();
        let (scheme, rest) = match address.split_once("://") {
            Some((scheme, rest)) => (scheme.to_lowercase().replace("git+ssh", "ssh"), rest),
            None if is_scp_address(address) => {
                let (authority, path) = address.split_once(':').unwrap_or((address, ""));
                let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
                return Self::Server {
                    scheme: "ssh".to_owned(),
                    user: user.to_lowercase(),
                    host: canonical_host(host, meaning),
                    port: String::new(),
                    path: canonical_path(&percent_decode(&format!("/{path}"))),
                };
            }
            None => return Self::Plain(canonical_path(&percent_decode(address))),
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        // `https://**` matches every path on every server.
        let path = match (path, meaning) {
            ("", TextKind::Pattern) if authority.contains("**") => String::new(),
            ("", _) => "/".to_owned(),
            _ => canonical_path(&percent_decode(path)),
        };
        if scheme == "file" && ["", "localhost"].contains(&authority.to_lowercase().as_str()) {
            return Self::Plain(path);
        }
        let parts = Authority::split(authority);
        // Keeps the user name but drops the password.
        let user = parts.user.map_or("", |user| user.split_once(':').map_or(user, |(user, _)| user));
        let port = parts.port.map_or_else(String::new, |port| canonical_port(port, &scheme));
        let user = if scheme == "ssh" { user.to_lowercase() } else { String::new() };
        Self::Server { host: canonical_host(parts.host, meaning), scheme, user, port, path }
    }

    /// Returns the canonical name: `https://host/path` without the default port, `user@host/path` for SSH, or
    /// the path of a folder.
    fn canonical_name(&self) -> String {
        match self {
            Self::Server { scheme, user, host, port, path } if scheme == "ssh" => {
                let (at, colon) = (separator_of(user, "@"), separator_of(port, ":"));
                format!("{user}{at}{host}{colon}{port}{path}")
            }
            _ => self.denied_name(),
        }
    }

    /// Returns the canonical name without the user. For SSH, the scheme is included.
    fn denied_name(&self) -> String {
        match self {
            Self::Plain(path) => path.clone(),
            Self::Server { scheme, host, port, path, .. } => {
                format!("{scheme}://{host}{}{port}{path}", separator_of(port, ":"))
            }
        }
    }

    /// Returns all names of the repository: the canonical name, the name with an explicit default port (for
    /// patterns with ports), and the name without a registry's scheme.
    fn names(&self) -> Vec<String> {
        match self {
            Self::Plain(path) => {
                let as_registry = parse_registry(path, TextKind::Address).ok().flatten();
                let names = as_registry.map(|one| one.names()).unwrap_or_default();
                std::iter::once(path.clone()).chain(names).collect()
            }
            Self::Server { scheme, .. } => {
                let with_port = self.with_default_port();
                let mut names: Vec<String> =
                    std::iter::once(self).chain(&with_port).map(Self::canonical_name).collect();
                if scheme == "oci" {
                    let bare = |name: &String| name.strip_prefix("oci://").map(str::to_owned);
                    names.extend(names.clone().iter().filter_map(bare));
                }
                names
            }
        }
    }

    fn denied_names(&self) -> Vec<String> {
        let with_port = self.with_default_port();
        let both = std::iter::once(self).chain(&with_port).map(Self::denied_name);
        self.names().into_iter().chain(both).collect()
    }

    fn with_default_port(&self) -> Option<Self> {
        match self {
            Self::Server { scheme, user, host, port, path } if port.is_empty() => Some(Self::Server {
                port: default_port(scheme)?.to_string(),
                scheme: scheme.clone(),
                user: user.clone(),
                host: host.clone(),
                path: path.clone(),
            }),
            _ => None,
        }
    }
}

fn separator_of(part: &str, separator: &'static str) -> &'static str {
    if part.is_empty() { "" } else { separator }
}

/// Returns the canonical form of a host. In a pattern, wildcards are kept and the brackets of an IPv6 address
/// are escaped.
fn canonical_host(text: &str, meaning: TextKind) -> String {
    let host = Host::parse(text);
    match meaning {
        TextKind::Address => host.to_string(),
        TextKind::Pattern if host.ip().is_some_and(|address| address.is_ipv6()) => {
            host.to_string().replace('[', "\\[").replace(']', "\\]")
        }
        TextKind::Pattern => host.to_string(),
    }
}

/// Returns the canonical form of a port. Empty for the default port.
fn canonical_port(text: &str, scheme: &str) -> String {
    match parse_port(text) {
        port if port.is_some() && port == default_port(scheme) => String::new(),
        Some(port) => port.to_string(),
        // The port is a pattern or is invalid.
        None => {
            let digits = text.trim_start_matches('0');
            if digits.starts_with(|c: char| c.is_ascii_digit()) { digits.to_owned() } else { text.to_owned() }
        }
    }
}

/// Returns true if the server pattern of a destination or sync window matches any of these URLs.
pub(crate) fn matches_server(pattern: &str, servers: &[&str]) -> Result<bool, InvalidGlob> {
    if pattern == "*" {
        return Ok(true);
    }
    let canonical = canonical_server(pattern);
    if !canonical.is_ascii() {
        return Err(InvalidGlob { pattern: pattern.to_owned(), reason: NOT_ASCII });
    }
    let glob = Glob::parse(&escape_brackets(&canonical))?;
    Ok(servers.iter().any(|server| {
        let server = canonical_server(server);
        glob.matches(&server) || with_default_port(&server).is_some_and(|server| glob.matches(&server))
    }))
}

/// Escapes the brackets around an IPv6 address.
fn escape_brackets(pattern: &str) -> String {
    let parts = pattern.split_once("://[").and_then(|(scheme, rest)| {
        let (host, after) = rest.split_once(']')?;
        host.parse::<Ipv6Addr>().ok().map(|_| (scheme, host, after))
    });
    match parts {
        Some((scheme, host, after)) => format!("{scheme}://\\[{host}\\]{after}"),
        None => pattern.to_owned(),
    }
}

/// Returns the server with its default port, or `None` if the server already has a port.
fn with_default_port(server: &str) -> Option<String> {
    let (scheme, rest) = server.split_once("://")?;
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let port = default_port(scheme).filter(|_| Authority::split(authority).port.is_none())?;
    Some(format!("{scheme}://{authority}:{port}{path}"))
}

/// Returns the location of a repository: its host and path in lower case, without the protocol. If the URL
/// has no server, returns the repository's name.
pub(crate) fn repository_location(address: &str) -> String {
    match ParsedAddress::parse(address, TextKind::Address) {
        ParsedAddress::Server { scheme, host, path, .. }
            if ["https", "http", "ssh"].contains(&scheme.as_str()) =>
        {
            join_location(&host, &path.to_lowercase())
        }
        other => other.canonical_name(),
    }
}

fn join_location(host: &str, path: &str) -> String {
    // Some services use different host names for SSH.
    let host = host.strip_prefix("ssh.").or_else(|| host.strip_prefix("altssh.")).unwrap_or(host);
    match path.split('/').collect::<Vec<_>>().as_slice() {
        ["", "v3", organisation, project, name] if host == "dev.azure.com" => {
            format!("{host}/{organisation}/{project}/_git/{name}")
        }
        _ => format!("{host}{path}"),
    }
}

fn canonical_path(path: &str) -> String {
    let root = if path.starts_with('/') { "/" } else { "" };
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" => {}
            "." if !parts.is_empty() || !root.is_empty() => {}
            ".." if parts.last().is_some_and(|last| ![".", ".."].contains(last)) => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let joined = parts.join("/");
    format!("{root}{}", joined.strip_suffix(".git").unwrap_or(&joined))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_repository_has_one_name() {
        for (name, others) in [
            (
                "https://example.com/org/a",
                vec![
                    "https://EXAMPLE.com/org/a.git",
                    "https://me@example.com:443/org//a/",
                    "https://example.com/org/%61",
                    "https://example.com/org/b/../a",
                    "https://example.com/org%2fa",
                    "HTTPS://example.com/./org/a",
                ],
            ),
            (
                "git@example.com/org/a",
                vec![
                    "git@example.com:org/a.git",
                    "ssh://git@example.com:22/org/a",
                    "git+ssh://git@Example.com/org/a",
                ],
            ),
            ("./repo", vec!["./repo", "./a/../repo", "./repo/"]),
            ("../repo", vec!["../repo", "../a/../repo"]),
            (
                "/srv/repo",
                vec![
                    "/srv/repo/",
                    "file:///srv/repo",
                    "FILE://localhost/srv/./x/../repo.git",
                    "file:///srv/%72epo",
                ],
            ),
        ] {
            for other in others {
                assert_eq!(ParsedAddress::parse(other, TextKind::Address).canonical_name(), name, "{other}");
            }
        }
        // Text before the last @ isn't part of the host.
        let normal = |address| ParsedAddress::parse(address, TextKind::Address).canonical_name();
        assert_eq!(normal("https://example.com@evil.example/a"), "https://evil.example/a");
        assert_eq!(normal("https://example.com%2forg%2f@evil.example/a"), "https://evil.example/a");
        assert_ne!(normal("https://example.com/Org/a"), normal("https://example.com/org/a"));
    }

    #[test]
    fn patterns_of_repositories() {
        let name = |address: &str| RepositoryName::from_address(address).unwrap();
        for (pattern, yes, no) in [
            ("*", vec!["https://a.example/x", "./repo"], vec![]),
            (
                "https://a.example/org/*",
                vec!["https://a.example/org/x.git", "https://A.example/org/y"],
                vec!["https://a.example/org/x/y", "https://a.example/other/x", "https://b.example/org/x"],
            ),
            ("https://a.example/**", vec!["https://a.example/org/x"], vec!["https://a.example@b.example/x"]),
            (
                "git@a.example:org/*",
                vec!["git@a.example:org/x", "ssh://git@a.example/org/x"],
                vec!["https://a.example/org/x"],
            ),
            ("./teams/a/*", vec!["./teams/a/x"], vec!["./teams/a/../b/x", "./teams/b/x"]),
        ] {
            yes.iter().for_each(|one| assert!(name(one).is_permitted(pattern).unwrap(), "{pattern} {one}"));
            no.iter().for_each(|one| assert!(!name(one).is_permitted(pattern).unwrap(), "{pattern} {one}"));
        }
        assert!(name("https://a.example/Secret/x").is_denied("https://a.example/secret/*").unwrap());
        assert!(name("file:///srv/secret/x").is_denied("/srv/secret/*").unwrap());
        assert!(name("/srv/secret/x").is_denied("file:///srv/secret/*").unwrap());
        assert!(name("https://a.example/x").is_permitted("https://a.example/{x").is_err());
        assert!(RepositoryName::from_address(&"a".repeat(5000)).is_err());
    }
}
