//! Repositories as the rules of projects compare them: one repository has one name, however its address is written.

use std::fmt;

use tidegate_model::{Glob, InvalidGlob};

/// No address is longer.
const LENGTH_MAX: usize = 4096;
/// Ports that go without saying.
const USUAL: [(&str, &str); 3] = [("https", "443"), ("http", "80"), ("ssh", "22")];

/// An address that is longer than any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "its address has more than {LENGTH_MAX} bytes")
    }
}

/// The name of a repository.
pub struct RepositoryName(String);

impl RepositoryName {
    /// That of an address.
    pub fn of(address: &str) -> Result<Self, TooLong> {
        if address.len() > LENGTH_MAX { Err(TooLong) } else { Ok(Self(normal(address))) }
    }

    /// Whether a pattern means it. `*` alone means all; else it stays between slashes, and `**` does not.
    pub fn is_permitted(&self, pattern: &str) -> Result<bool, InvalidGlob> {
        Ok(pattern == "*" || Glob::between(&normal(pattern), '/')?.matches(&self.0))
    }

    /// Whether a pattern that denies means it. Some servers make no difference between great and small letters.
    pub fn is_denied(&self, pattern: &str) -> Result<bool, InvalidGlob> {
        let pattern = normal(pattern).to_lowercase();
        Ok(pattern == "*" || Glob::between(&pattern, '/')?.matches(&self.0.to_lowercase()))
    }
}

/// `https://host/path`, without user and usual port, in small letters as far as the host goes, without `.git`, and with a path
/// that goes nowhere back; `user@host/path` for all that is asked by SSH; the path of a folder of this machine.
fn normal(address: &str) -> String {
    let address = decoded(address.trim());
    let (scheme, rest) = match address.split_once("://") {
        Some((scheme, rest)) => (scheme.to_lowercase().replace("git+ssh", "ssh"), rest),
        // As `scp` writes it.
        None => match address.split_once(':') {
            Some((host, path)) if host.contains('@') && !host.contains('/') => {
                return format!("{}/{}", host.to_lowercase(), plain_path(path).trim_start_matches('/'));
            }
            _ => return plain_path(&address),
        },
    };
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    if scheme == "file" && ["", "localhost"].contains(&authority.to_lowercase().as_str()) {
        return plain_path(&format!("/{path}"));
    }
    let (user, host) = authority.rsplit_once('@').map_or(("", authority), |(user, host)| (user, host));
    let host = host.to_lowercase();
    let usual = USUAL.iter().find(|(known, _)| *known == scheme).map(|(_, port)| format!(":{port}"));
    let host = usual.and_then(|port| host.strip_suffix(&port).map(str::to_owned)).unwrap_or(host);
    let path = plain_path(&format!("/{path}"));
    match (scheme.as_str(), user) {
        ("ssh", "") => format!("{host}{path}"),
        ("ssh", user) => {
            // Who it is, and not how that is proved.
            let user = user.split_once(':').map_or(user, |(user, _)| user);
            format!("{}@{host}{path}", user.to_lowercase())
        }
        _ => format!("{scheme}://{host}{path}"),
    }
}

/// Where a server has a repository, by whatever it is asked: its host and path, in small letters; of what is on no server
/// its name.
pub(crate) fn place(address: &str) -> String {
    at_server(address).unwrap_or_else(|| normal(address))
}

fn at_server(address: &str) -> Option<String> {
    let address = decoded(address.trim());
    let (authority, path) = match address.split_once("://") {
        Some((scheme, rest)) => {
            let is_server = ["https", "http", "ssh", "git+ssh"].contains(&scheme.to_lowercase().as_str());
            rest.split_once('/').filter(|_| is_server)?
        }
        // As `scp` writes it.
        None => address.split_once(':').filter(|(host, _)| host.contains('@') && !host.contains('/'))?,
    };
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host).to_lowercase();
    let is_number = |port: &str| port.chars().all(|c| c.is_ascii_digit());
    let host =
        host.rsplit_once(':').filter(|(_, port)| is_number(port)).map_or(host.as_str(), |(host, _)| host);
    // Names under which some have their SSH servers.
    let host = host.strip_prefix("ssh.").or_else(|| host.strip_prefix("altssh.")).unwrap_or(host);
    let path = plain_path(&format!("/{path}")).to_lowercase();
    let path = match path.split('/').collect::<Vec<_>>().as_slice() {
        ["", "v3", organisation, project, name] if host == "dev.azure.com" => {
            format!("/{organisation}/{project}/_git/{name}")
        }
        _ => path,
    };
    Some(format!("{host}{path}"))
}

fn plain_path(path: &str) -> String {
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

/// A server reads `%2f` as a slash.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        match (first, after) {
            (b'%', [high, low, beyond @ ..]) if hex(high).is_some() && hex(low).is_some() => {
                let (high, low) = (hex(high).unwrap_or_default(), hex(low).unwrap_or_default());
                bytes.push(high << 4 | low);
                rest = beyond;
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
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
                assert_eq!(normal(other), name, "{other}");
            }
        }
        // What is before the last @ is no host.
        assert_eq!(normal("https://example.com@evil.example/a"), "https://evil.example/a");
        assert_ne!(normal("https://example.com/Org/a"), normal("https://example.com/org/a"));
    }

    #[test]
    fn patterns_of_repositories() {
        let name = |address: &str| RepositoryName::of(address).unwrap();
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
        assert!(RepositoryName::of(&"a".repeat(5000)).is_err());
    }
}
