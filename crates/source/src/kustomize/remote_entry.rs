//! Parsing of remote entries of kustomizations, in the formats that Kustomize accepts.

use crate::tree::resolve_path;

/// A remote entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ParsedEntry {
    /// A folder of a Git repository.
    Folder(GitFolder),
    /// URL of a single file on a server.
    File(String),
}

/// A folder of a Git repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GitFolder {
    /// URL of the repository.
    pub url: String,
    /// Commit, tag or branch. Empty if not specified.
    pub revision: String,
    /// Normalized path of the folder in the repository.
    pub path: String,
}

/// Prefix that marks an entry as a Git repository.
const GIT_PREFIX: &str = "git::";
/// Schemes that Kustomize accepts.
const SCHEMES: [&str; 4] = ["ssh://", "https://", "http://", "file://"];
/// Path segment before the repository name on some hosts, such as Azure DevOps.
const BEFORE_REPOSITORY: &str = "_git/";
/// Optional suffix of a repository name.
const GIT_SUFFIX: &str = ".git";
/// Host that may be written without a scheme.
const KNOWN_HOST: &str = "github.com";
/// File extensions that identify an entry as a file.
const FILES: [&str; 3] = [".yaml", ".yml", ".json"];
/// Number of path segments in a repository's URL, unless the entry marks its end.
const REPOSITORY_SEGMENTS: usize = 2;

/// Returns true if an entry is certainly a URL rather than a path.
pub(super) fn is_address(text: &str) -> bool {
    text.contains("://") || text.starts_with(GIT_PREFIX)
}

/// Parses a remote entry. Errors don't quote it.
pub(super) fn parse_entry(text: &str) -> Result<ParsedEntry, String> {
    if text.contains('#') {
        return Err("a fragment is not allowed".to_owned());
    }
    let (address, query) = text.split_once('?').unwrap_or((text, ""));
    let (forced, address) = match strip_prefix(address, GIT_PREFIX) {
        Some(rest) => (true, rest),
        None => (false, address),
    };
    if !forced && is_file(address) {
        return match query {
            "" => Ok(ParsedEntry::File(text.to_owned())),
            _ => Err("a file URL with a query is not supported".to_owned()),
        };
    }
    let (host, rest) = split_host(address)?;
    let (repository, path) = split_repository_path(&rest)?;
    let path = resolve_path("", path).ok_or("the path is outside the repository")?;
    let url = format!("{host}{repository}");
    Ok(ParsedEntry::Folder(GitFolder { url, revision: query_revision(query), path }))
}

fn strip_prefix<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    let (begin, rest) = text.split_at_checked(prefix.len())?;
    begin.eq_ignore_ascii_case(prefix).then_some(rest)
}

/// Returns true if a URL looks like a file, judging by its extension. (Kustomize tries to download every URL
/// as a file first.)
fn is_file(address: &str) -> bool {
    let rest = strip_prefix(address, "https://").or_else(|| strip_prefix(address, "http://"));
    rest.is_some_and(|rest| {
        FILES.iter().any(|end| rest.ends_with(end))
            && !["//", BEFORE_REPOSITORY, ".git/"].iter().any(|sign| rest.contains(sign))
    })
}

/// Splits a URL into the path and everything before it.
fn split_host(address: &str) -> Result<(String, String), String> {
    let scheme =
        SCHEMES.iter().find(|scheme| strip_prefix(address, scheme).is_some()).copied().unwrap_or_default();
    if scheme == "file://" {
        return Err("a local repository cannot be a base".to_owned());
    }
    let rest = strip_prefix(address, scheme).unwrap_or(address);
    let is_user = |user: &str| {
        user.starts_with(|c: char| c.is_ascii_alphabetic())
            && user.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    let (user, rest) = match rest.split_once('@').filter(|(user, _)| is_user(user)) {
        Some((user, rest)) => (user, rest),
        None => ("", rest),
    };
    if let Some(path) = strip_prefix(rest, KNOWN_HOST).and_then(|path| path.strip_prefix(['/', ':'])) {
        let path = path.to_owned();
        return Ok(match (scheme, user) {
            ("ssh://", "") => (format!("git@{KNOWN_HOST}:"), path),
            (_, "") => (format!("https://{KNOWN_HOST}/"), path),
            (_, user) => (format!("{user}@{KNOWN_HOST}:"), path),
        });
    }
    if scheme.is_empty() && user.is_empty() {
        return Err("the entry has no scheme; use https://, ssh:// or user@host:path".to_owned());
    }
    let between = if scheme.is_empty() { ':' } else { '/' };
    let (host, path) = rest
        .split_once(between)
        .filter(|(host, _)| !host.is_empty() && !host.contains('/'))
        .ok_or("the entry does not contain a repository")?;
    let user = if user.is_empty() { String::new() } else { format!("{user}@") };
    Ok((format!("{scheme}{user}{host}{between}"), path.to_owned()))
}

/// Splits a path into the repository's and the folder's.
fn split_repository_path(path: &str) -> Result<(&str, &str), String> {
    let at = |index: usize| path.split_at_checked(index).unwrap_or((path, ""));
    let (repository, folder) = if let Some(above) = path.find(BEFORE_REPOSITORY) {
        let begin = above.saturating_add(BEFORE_REPOSITORY.len());
        let end = at(begin).1.find('/').map_or(path.len(), |length| begin.saturating_add(length));
        at(end)
    } else if let Some((repository, folder)) = path.split_once("//") {
        (repository, folder)
    } else if let Some(end) = repository_name_end(path) {
        at(end)
    } else {
        let ends = path.match_indices('/').map(|(index, _)| index).nth(REPOSITORY_SEGMENTS.saturating_sub(1));
        let (repository, folder) = at(ends.unwrap_or(path.len()));
        if repository.split('/').filter(|part| !part.is_empty()).count() < REPOSITORY_SEGMENTS {
            return Err("the entry does not contain a repository".to_owned());
        }
        (repository, folder)
    };
    match repository.trim_matches('/') {
        "" => Err("the entry does not contain a repository".to_owned()),
        _ => Ok((repository, folder.trim_start_matches('/'))),
    }
}

/// Returns the end of the repository name if it has the `.git` suffix.
fn repository_name_end(path: &str) -> Option<usize> {
    let ends = path.match_indices(GIT_SUFFIX).map(|(index, suffix)| index.saturating_add(suffix.len()));
    ends.into_iter().find(|end| path.get(*end..).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

/// Returns the revision in a query: the `ref` parameter or else `version`.
fn query_revision(query: &str) -> String {
    let value = |name: &str| {
        let mut all = form_urlencoded::parse(query.as_bytes());
        all.find(|(known, value)| known == name && !value.is_empty()).map(|(_, value)| value.into_owned())
    };
    value("ref").or_else(|| value("version")).unwrap_or_default()
}

/// Strips passwords and unrelated query parameters from an entry, for messages.
pub(crate) fn without_secrets(text: &str) -> String {
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
    let named = query_revision(query);
    crate::error::to_line(&if named.is_empty() { address } else { format!("{address}?ref={named}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cases come from Kustomize's documentation of remote targets, and from the tests of its parser.
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
            let base =
                GitFolder { url: url.to_owned(), revision: revision.to_owned(), path: path.to_owned() };
            assert_eq!(parse_entry(text), Ok(ParsedEntry::Folder(base)), "{text}");
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
            assert_eq!(matches!(parse_entry(text), Ok(ParsedEntry::File(_))), is_file, "{text}");
        }
    }

    #[test]
    fn invalid_bases() {
        for (text, named) in [
            ("https://github.com/acme", "does not contain a repository"),
            ("https://github.com", "does not contain a repository"),
            ("https://example.com//a", "does not contain a repository"),
            ("https://", "does not contain a repository"),
            ("example.com/acme/repo", "no scheme"),
            ("file:///srv/repo//a", "a local repository"),
            ("https://github.com/acme/repo//../a", "outside the repository"),
            ("https://github.com/acme/repo//a/../../b", "outside the repository"),
            ("https://github.com/acme/repo/../../b/..", "outside the repository"),
            ("https://github.com/acme/repo#v1", "fragment"),
            ("https://example.com/a.yaml?token=1", "query"),
            ("git@example.com", "does not contain a repository"),
        ] {
            let error = parse_entry(text).err().unwrap_or_default();
            assert!(error.contains(named), "{text}: {error}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        for (text, expected) in [
            ("https://me:hunter2@example.com/a/b?ref=v1", "https://***@example.com/a/b?ref=v1"),
            ("https://hunter2@example.com/a/b", "https://***@example.com/a/b"),
            ("https://example.com/a.yaml?token=hunter2", "https://example.com/a.yaml"),
            ("git@example.com:a/b", "git@example.com:a/b"),
            ("ssh://git@example.com/a/b", "ssh://git@example.com/a/b"),
            ("ssh://git:hunter2@example.com/a/b", "ssh://***@example.com/a/b"),
        ] {
            assert_eq!(without_secrets(text), expected);
        }
    }
}
