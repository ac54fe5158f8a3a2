//! What an entry of a kustomization names on a server, by the forms that Kustomize knows.

use crate::tree::join;

/// What an entry names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Remote {
    /// A folder of a Git repository.
    Folder(Base),
    /// One file, by its address.
    File(String),
}

/// A folder of a Git repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Base {
    /// The repository.
    pub url: String,
    /// A commit, tag or branch; empty for what the repository has checked out.
    pub revision: String,
    /// The plain path of the folder.
    pub path: String,
}

/// What says that an entry is a Git repository, whatever it looks like.
const FORCED: &str = "git::";
/// Schemes that are known.
const SCHEMES: [&str; 4] = ["ssh://", "https://", "http://", "file://"];
/// The folder above a repository, as some hosts have it in all addresses.
const ABOVE: &str = "_git/";
/// How names of repositories may end.
const SUFFIX: &str = ".git";
/// The host that needs no scheme.
const KNOWN_HOST: &str = "github.com";
/// How names of files of manifests end.
const FILES: [&str; 3] = [".yaml", ".yml", ".json"];
/// Parts of a path that are the repository, where nothing says where it ends.
const PARTS: usize = 2;

/// Reads an entry. The error says what is wrong with it, after its text.
pub(super) fn parse(text: &str) -> Result<Remote, String> {
    if text.contains('#') {
        return Err("has a fragment, which such addresses do not have".to_owned());
    }
    let (address, query) = text.split_once('?').unwrap_or((text, ""));
    let (forced, address) = match strip(address, FORCED) {
        Some(rest) => (true, rest),
        None => (false, address),
    };
    if !forced && is_file(address) {
        return match query {
            "" => Ok(Remote::File(text.to_owned())),
            _ => Err("is a file with a query, and such are not fetched".to_owned()),
        };
    }
    let (host, rest) = host(address)?;
    let (repository, path) = divide(&rest)?;
    let path = join("", path).ok_or("leads out of its repository")?;
    let url = format!("{host}{repository}");
    Ok(Remote::Folder(Base { url, revision: revision(query), path }))
}

fn strip<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    let (begin, rest) = text.split_at_checked(prefix.len())?;
    begin.eq_ignore_ascii_case(prefix).then_some(rest)
}

/// Whether an address is that of one file. Kustomize asks the server for a file first, whatever the address looks like; here the
/// name of it says so.
fn is_file(address: &str) -> bool {
    let rest = strip(address, "https://").or_else(|| strip(address, "http://"));
    rest.is_some_and(|rest| {
        FILES.iter().any(|end| rest.ends_with(end))
            && !["//", ABOVE, ".git/"].iter().any(|sign| rest.contains(sign))
    })
}

/// The address up to the path, and the path.
fn host(address: &str) -> Result<(String, String), String> {
    let scheme = SCHEMES.iter().find(|scheme| strip(address, scheme).is_some()).copied().unwrap_or_default();
    if scheme == "file://" {
        return Err("is a repository on this machine, and such are no bases".to_owned());
    }
    let rest = strip(address, scheme).unwrap_or(address);
    let is_user = |user: &str| {
        user.starts_with(|c: char| c.is_ascii_alphabetic())
            && user.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    let (user, rest) = match rest.split_once('@').filter(|(user, _)| is_user(user)) {
        Some((user, rest)) => (user, rest),
        None => ("", rest),
    };
    if let Some(path) = strip(rest, KNOWN_HOST).and_then(|path| path.strip_prefix(['/', ':'])) {
        let path = path.to_owned();
        return Ok(match (scheme, user) {
            ("ssh://", "") => (format!("git@{KNOWN_HOST}:"), path),
            (_, "") => (format!("https://{KNOWN_HOST}/"), path),
            (_, user) => (format!("{user}@{KNOWN_HOST}:"), path),
        });
    }
    if scheme.is_empty() && user.is_empty() {
        return Err("has no scheme; write https://, ssh:// or user@host:path".to_owned());
    }
    let between = if scheme.is_empty() { ':' } else { '/' };
    let (host, path) = rest
        .split_once(between)
        .filter(|(host, _)| !host.is_empty() && !host.contains('/'))
        .ok_or("names no repository")?;
    let user = if user.is_empty() { String::new() } else { format!("{user}@") };
    Ok((format!("{scheme}{user}{host}{between}"), path.to_owned()))
}

/// The path of the repository, and that of the folder in it.
fn divide(path: &str) -> Result<(&str, &str), String> {
    let at = |index: usize| path.split_at_checked(index).unwrap_or((path, ""));
    let (repository, folder) = if let Some(above) = path.find(ABOVE) {
        let begin = above.saturating_add(ABOVE.len());
        let end = at(begin).1.find('/').map_or(path.len(), |length| begin.saturating_add(length));
        at(end)
    } else if let Some((repository, folder)) = path.split_once("//") {
        (repository, folder)
    } else if let Some(end) = end_of_suffix(path) {
        at(end)
    } else {
        let ends = path.match_indices('/').map(|(index, _)| index).nth(PARTS.saturating_sub(1));
        let (repository, folder) = at(ends.unwrap_or(path.len()));
        if repository.split('/').filter(|part| !part.is_empty()).count() < PARTS {
            return Err("names no repository".to_owned());
        }
        (repository, folder)
    };
    match repository.trim_matches('/') {
        "" => Err("names no repository".to_owned()),
        _ => Ok((repository, folder.trim_start_matches('/'))),
    }
}

/// Where the name of a repository ends that says so itself.
fn end_of_suffix(path: &str) -> Option<usize> {
    let ends = path.match_indices(SUFFIX).map(|(index, suffix)| index.saturating_add(suffix.len()));
    ends.into_iter().find(|end| path.get(*end..).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

/// What of a query says which commit is meant: `ref`, or else `version`.
fn revision(query: &str) -> String {
    let value = |name: &str| {
        let mut all = form_urlencoded::parse(query.as_bytes());
        all.find(|(known, value)| known == name && !value.is_empty()).map(|(_, value)| value.into_owned())
    };
    value("ref").or_else(|| value("version")).unwrap_or_default()
}

/// The text of an entry without what may be secret in it.
pub(crate) fn shown(text: &str) -> String {
    let (address, query) = text.split_once('?').unwrap_or((text, ""));
    let address = match address.rsplit_once('@') {
        Some((before, after)) => match before.split_once("://") {
            Some((scheme, user)) if user.contains(':') || !scheme.contains("ssh") => {
                format!("{scheme}://***@{after}")
            }
            _ => address.to_owned(),
        },
        None => address.to_owned(),
    };
    let named = revision(query);
    crate::error::plain(&if named.is_empty() { address } else { format!("{address}?ref={named}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Kustomize's documentation of remote targets and its repository's address parser have them.
    #[test]
    fn forms_of_bases() {
        for (text, url, revision, path) in [
            ("https://github.com/acme/repo", "https://github.com/acme/repo", "", ""),
            ("https://github.com/acme/repo?ref=v1", "https://github.com/acme/repo", "v1", ""),
            ("https://github.com/acme/repo//base?ref=v1", "https://github.com/acme/repo", "v1", "base"),
            ("https://github.com/acme/repo/a/b?ref=v1", "https://github.com/acme/repo", "v1", "a/b"),
            ("https://github.com/acme/repo.git//a?ref=v1", "https://github.com/acme/repo.git", "v1", "a"),
            ("https://github.com/acme/repo.git/a", "https://github.com/acme/repo.git", "", "a"),
            ("github.com/acme/repo?ref=v1", "https://github.com/acme/repo", "v1", ""),
            ("GitHub.com/acme/repo/a", "https://github.com/acme/repo", "", "a"),
            ("http://github.com/acme/repo", "https://github.com/acme/repo", "", ""),
            ("git::https://github.com/acme/repo//a", "https://github.com/acme/repo", "", "a"),
            ("git::https://example.com/acme/repo//a.yaml", "https://example.com/acme/repo", "", "a.yaml"),
            ("git@github.com:acme/repo.git//a?ref=v1", "git@github.com:acme/repo.git", "v1", "a"),
            ("https://github.com/acme/.github/a", "https://github.com/acme/.github", "", "a"),
            ("git@github.com:acme/repo/a", "git@github.com:acme/repo", "", "a"),
            ("git@github.com/acme/repo", "git@github.com:acme/repo", "", ""),
            ("ssh://git@github.com/acme/repo", "git@github.com:acme/repo", "", ""),
            ("ssh://github.com/acme/repo", "git@github.com:acme/repo", "", ""),
            ("org-1@github.com:acme/repo", "org-1@github.com:acme/repo", "", ""),
            ("git@example.com:acme/repo.git", "git@example.com:acme/repo.git", "", ""),
            ("git@example.com:acme/deep/repo//a", "git@example.com:acme/deep/repo", "", "a"),
            ("ssh://git@example.com:2222/acme/repo//a", "ssh://git@example.com:2222/acme/repo", "", "a"),
            ("ssh://git@example.com/acme/repo", "ssh://git@example.com/acme/repo", "", ""),
            ("https://example.com:8443/a/b/c", "https://example.com:8443/a/b", "", "c"),
            ("https://example.com/a/b/c//d/e", "https://example.com/a/b/c", "", "d/e"),
            (
                "https://me@dev.azure.com/o/p/_git/r/a/b?ref=v1",
                "https://me@dev.azure.com/o/p/_git/r",
                "v1",
                "a/b",
            ),
            ("https://dev.azure.com/o/p/_git/r", "https://dev.azure.com/o/p/_git/r", "", ""),
            ("https://github.com/acme/repo?version=v2", "https://github.com/acme/repo", "v2", ""),
            ("https://github.com/acme/repo?version=v2&ref=v1", "https://github.com/acme/repo", "v1", ""),
            (
                "https://github.com/acme/repo?timeout=90s&submodules=false",
                "https://github.com/acme/repo",
                "",
                "",
            ),
            ("https://github.com/acme/repo?ref=feature%2Fa", "https://github.com/acme/repo", "feature/a", ""),
            ("https://github.com/acme/repo//a/../b/./c", "https://github.com/acme/repo", "", "b/c"),
            ("https://example.com/repo.git//a", "https://example.com/repo.git", "", "a"),
            ("http://127.0.0.1:80/repo//a", "http://127.0.0.1:80/repo", "", "a"),
        ] {
            let base = Base { url: url.to_owned(), revision: revision.to_owned(), path: path.to_owned() };
            assert_eq!(parse(text), Ok(Remote::Folder(base)), "{text}");
        }
    }

    #[test]
    fn forms_of_files() {
        for (text, is_file) in [
            ("https://raw.githubusercontent.com/acme/repo/v1/a.yaml", true),
            ("https://github.com/acme/repo/releases/download/v1/install.yaml", true),
            ("https://example.com/a.yml", true),
            ("http://example.com/a.json", true),
            ("https://github.com/acme/repo//a.yaml", false),
            ("https://github.com/acme/repo.git/a.yaml", false),
            ("ssh://git@example.com/acme/a.yaml", false),
        ] {
            assert_eq!(matches!(parse(text), Ok(Remote::File(_))), is_file, "{text}");
        }
    }

    #[test]
    fn what_is_no_base() {
        for (text, named) in [
            ("https://github.com/acme", "no repository"),
            ("https://github.com", "no repository"),
            ("https://example.com//a", "no repository"),
            ("https://", "no repository"),
            ("example.com/acme/repo", "no scheme"),
            ("file:///srv/repo//a", "on this machine"),
            ("https://github.com/acme/repo//../a", "leads out"),
            ("https://github.com/acme/repo//a/../../b", "leads out"),
            ("https://github.com/acme/repo/../../b/..", "leads out"),
            ("https://github.com/acme/repo#v1", "fragment"),
            ("https://example.com/a.yaml?token=1", "query"),
            ("git@example.com", "no repository"),
        ] {
            let error = parse(text).err().unwrap_or_default();
            assert!(error.contains(named), "{text}: {error}");
        }
    }

    #[test]
    fn nothing_secret_is_shown() {
        for (text, expected) in [
            ("https://me:hunter2@example.com/a/b?ref=v1", "https://***@example.com/a/b?ref=v1"),
            ("https://hunter2@example.com/a/b", "https://***@example.com/a/b"),
            ("https://example.com/a.yaml?token=hunter2", "https://example.com/a.yaml"),
            ("git@example.com:a/b", "git@example.com:a/b"),
            ("ssh://git@example.com/a/b", "ssh://git@example.com/a/b"),
            ("ssh://git:hunter2@example.com/a/b", "ssh://***@example.com/a/b"),
        ] {
            assert_eq!(shown(text), expected);
        }
    }
}
