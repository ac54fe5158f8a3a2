//! Who is notified of what: a file, in YAML or JSON.
//!
//! ```yaml
//! targets:
//!   - name: deployments
//!     kind: webhook                         # or slack
//!     url: https://hooks.example.com/tidegate
//!     urlFile: /etc/tidegate/slack-url      # instead of url, where the address is a secret
//!     secretFile: /etc/tidegate/signing     # what letters are signed with
//!     on: [succeeded, failed, deadline]
//!     applications: [backend, apps/shop]    # all if left out
//! ```

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use http::Uri;
use serde::Deserialize;
use tidegate_executor::Event;
use tidegate_service::applications::store::AppKey;

use super::letter::{What, what};

/// The largest file.
const FILE_MAX: u64 = 1 << 20;
/// The longest name of a target: it is that of a file too.
const NAME_MAX: usize = 64;

/// Who is notified.
#[derive(Debug, Default)]
pub struct Targets(pub(super) Vec<Target>);

/// Why nobody can be notified.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct WrongTargets {
    path: PathBuf,
    why: String,
}

/// What is posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    Webhook,
    Slack,
}

/// Somebody who is notified. Neither address nor secret is ever shown: both let others in.
pub(super) struct Target {
    pub name: String,
    pub kind: Kind,
    pub url: Uri,
    pub secret: Option<Vec<u8>>,
    on: Vec<What>,
    applications: BTreeSet<String>,
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Target").field("name", &self.name).field("kind", &self.kind).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    targets: Vec<WrittenTarget>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct WrittenTarget {
    name: String,
    kind: Kind,
    url: Option<String>,
    url_file: Option<PathBuf>,
    secret_file: Option<PathBuf>,
    on: Option<Vec<String>>,
    #[serde(default)]
    applications: Vec<String>,
}

/// What somebody is told who does not say what they want to be told.
const USUAL: [What; 2] = [What::Failed, What::Deadline];
/// The longest word that is repeated to whoever wrote it.
const WORD_MAX: usize = 32;

/// The words of `on`.
fn wanted(on: Option<Vec<String>>) -> Result<Vec<What>, String> {
    let Some(on) = on else { return Ok(USUAL.to_vec()) };
    let known = || What::ALL.map(What::as_str).join(", ");
    if on.is_empty() {
        return Err(format!("its `on` is empty, so it would be told nothing: name some of {}", known()));
    }
    let read = |word: &String| {
        What::ALL.into_iter().find(|what| what.as_str() == word).ok_or_else(|| {
            // Whatever else was put there by mistake may be a secret.
            let is_word = word.len() <= WORD_MAX && word.chars().all(|c| c.is_ascii_alphabetic() || c == '-');
            let which = if is_word { format!(" {word:?}") } else { String::new() };
            format!("its `on` has a word{which} that means nothing; it has some of {}", known())
        })
    };
    on.iter().map(read).collect()
}

impl Targets {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, WrongTargets> {
        let wrong = |why: String| WrongTargets { path: path.to_owned(), why };
        let text = content(path).map_err(wrong)?;
        // What the parser says may repeat an address, which may be a secret: its place is enough.
        let written: Written = serde_saphyr::from_str(&text).map_err(|error| {
            let place =
                error.location().map(|place| format!(" at line {}", place.line())).unwrap_or_default();
            wrong(format!(
                "it is not understood{place}; it is to have `targets` with name, kind, and url or urlFile"
            ))
        })?;
        let mut targets: Vec<Target> = Vec::new();
        for one in written.targets {
            let name = one.name.clone();
            if targets.iter().any(|other| other.name == name) {
                return Err(wrong(format!("two targets are named {name}")));
            }
            targets.push(target(one).map_err(|why| wrong(format!("target {name:?}: {why}")))?);
        }
        Ok(Self(targets))
    }
}

fn content(path: &Path) -> Result<String, String> {
    let size = fs::metadata(path).map_err(|error| format!("cannot be read: {error}"))?.len();
    if size > FILE_MAX {
        return Err(format!("is larger than {FILE_MAX} bytes"));
    }
    fs::read_to_string(path).map_err(|error| format!("cannot be read: {error}"))
}

fn target(written: WrittenTarget) -> Result<Target, String> {
    let WrittenTarget { name, kind, url, url_file, secret_file, on, applications } = written;
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(is_plain) {
        return Err(format!("a name has 1 to {NAME_MAX} lower-case letters, digits and '-'"));
    }
    let in_file = |path: PathBuf| content(&path).map_err(|why| format!("{} {why}", path.display()));
    let url = match (url, url_file) {
        (Some(url), None) => url,
        (None, Some(path)) => in_file(path)?,
        _ => return Err("it has a url or a urlFile".to_owned()),
    };
    let url: Uri = url.trim().parse().map_err(|_| "its url is none".to_owned())?;
    if !matches!(url.scheme_str(), Some("http" | "https")) || url.host().is_none_or(str::is_empty) {
        return Err("its url is to begin with https:// or http://, and a host".to_owned());
    }
    if url.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err("its url is to name no user and no password: they would not be sent; what lets letters in goes into the path, with urlFile".to_owned());
    }
    let on = wanted(on)?;
    let secret = secret_file.map(in_file).transpose()?.map(|secret| secret.trim().as_bytes().to_vec());
    if secret.as_ref().is_some_and(Vec::is_empty) {
        return Err("its secretFile is empty".to_owned());
    }
    let applications = applications.iter().map(|name| AppKey::named(name).to_string()).collect();
    Ok(Target { name, kind, url, secret, on, applications })
}

impl Target {
    /// Whether it is notified of an event.
    pub fn wants(&self, event: &Event) -> bool {
        what(event).is_some_and(|what| self.on.contains(&what))
            && (self.applications.is_empty()
                || self.applications.contains(&AppKey::named(&event.application).to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Targets, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("targets.yaml");
        fs::write(&path, text).unwrap();
        Targets::read(&path).map_err(|error| error.to_string())
    }

    #[test]
    fn mistakes_are_named_and_addresses_are_not() {
        let good = "targets:\n- {name: a, kind: slack, url: 'https://example.com/secret-path'}\n";
        let targets = read(good).unwrap();
        assert_eq!(targets.0[0].on, USUAL);
        let every = good.replace("}", ", on: [started, succeeded, failed, deadline]}");
        assert_eq!(read(&every).unwrap().0[0].on, What::ALL);
        assert!(!format!("{targets:?}").contains("secret-path"));
        for (text, part) in [
            ("targets: [", "not understood"),
            (
                "targets:\n- {name: a, kind: slack, url: 'https://example.com/secret-path', colour: red}",
                "not understood",
            ),
            ("targets:\n- {name: a, kind: pigeon, url: 'https://example.com/secret-path'}", "not understood"),
            ("targets:\n- {name: A/b, kind: slack, url: 'https://example.com/secret-path'}", "lower-case"),
            ("targets:\n- {name: a, kind: slack}", "url or a urlFile"),
            ("targets:\n- {name: a, kind: slack, url: 'https://me:secret-path@example.com/'}", "no password"),
            ("targets:\n- {name: a, kind: slack, url: 'https://secret-path@example.com/'}", "no user"),
            (
                "targets:\n- {name: a, kind: slack, url: 'http://b', on: []}",
                "is empty, so it would be told nothing: name some of started, succeeded, failed, deadline",
            ),
            (
                "targets:\n- {name: a, kind: slack, url: 'http://b', on: [failed, fialed]}",
                "\"fialed\" that means nothing; it has some of started",
            ),
            (
                "targets:\n- {name: a, kind: slack, url: 'http://b', on: ['https://b/secret-path']}",
                "a word that means nothing",
            ),
            ("targets:\n- {name: a, kind: slack, url: 'ftp://example.com/secret-path'}", "https://"),
            ("targets:\n- {name: a, kind: slack, url: '/secret-path'}", "https://"),
            ("targets:\n- {name: a, kind: slack, urlFile: /nowhere/at/all}", "/nowhere/at/all"),
            (
                "targets:\n- {name: a, kind: slack, url: 'http://b'}\n- {name: a, kind: slack, url: 'http://b'}",
                "two targets",
            ),
        ] {
            let problem = read(text).unwrap_err();
            assert!(problem.contains(part) && !problem.contains("secret-path"), "{text}: {problem}");
        }
    }
}
