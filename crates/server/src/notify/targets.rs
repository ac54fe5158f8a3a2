//! Notification targets, defined in a YAML or JSON file.
//!
//! ```yaml
//! targets:
//!   - name: deployments
//!     kind: webhook                         # or slack
//!     url: https://hooks.example.com/tidegate
//!     urlFile: /etc/tidegate/slack-url      # instead of url, if the address is a secret
//!     secretFile: /etc/tidegate/signing     # key that signs messages
//!     on: [succeeded, failed, deadline]
//!     applications: [backend, apps/shop]    # all if omitted
//! ```

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use http::Uri;
use serde::Deserialize;
use tidegate_application::AppKey;
use tidegate_executor::Event;

use super::notification::{NotificationKind, notification_kind};

/// Maximum size of the file in bytes.
const FILE_MAX: u64 = 1 << 20;
/// Maximum length of a target's name, which is also a file name.
const NAME_MAX: usize = 64;

/// All notification targets.
#[derive(Debug, Default)]
pub struct Targets(pub(super) Vec<Target>);

/// Error in the notification target file.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct TargetsError {
    path: PathBuf,
    why: String,
}

/// Format of the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum TargetKind {
    Webhook,
    Slack,
}

/// A notification target. Its URL and secret are never displayed, because either grants access.
pub(super) struct Target {
    pub name: String,
    pub kind: TargetKind,
    pub url: Uri,
    pub secret: Option<Vec<u8>>,
    events: Vec<NotificationKind>,
    applications: BTreeSet<String>,
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Target").field("name", &self.name).field("kind", &self.kind).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetsFile {
    targets: Vec<TargetEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct TargetEntry {
    name: String,
    kind: TargetKind,
    url: Option<String>,
    url_file: Option<PathBuf>,
    secret_file: Option<PathBuf>,
    on: Option<Vec<String>>,
    #[serde(default)]
    applications: Vec<String>,
}

/// Kinds of notifications that targets receive by default.
const DEFAULT_EVENTS: [NotificationKind; 2] = [NotificationKind::Failed, NotificationKind::Deadline];
/// Maximum length of an invalid word to quote in an error.
const QUOTED_WORD_MAX: usize = 32;

/// Parses the words in the `on` field.
fn parse_events(on: Option<Vec<String>>) -> Result<Vec<NotificationKind>, String> {
    let Some(on) = on else { return Ok(DEFAULT_EVENTS.to_vec()) };
    let known = || NotificationKind::ALL.map(NotificationKind::as_str).join(", ");
    if on.is_empty() {
        return Err(format!("`on` is empty: list at least one of {}", known()));
    }
    let read = |word: &String| {
        NotificationKind::ALL.into_iter().find(|what| what.as_str() == word).ok_or_else(|| {
            // Anything else may be a misplaced secret.
            let is_word =
                word.len() <= QUOTED_WORD_MAX && word.chars().all(|c| c.is_ascii_alphabetic() || c == '-');
            let which = if is_word { format!(" {word:?}") } else { String::new() };
            format!("`on` contains an unknown value{which}: use {}", known())
        })
    };
    on.iter().map(read).collect()
}

impl Targets {
    /// Reads the targets from a file.
    pub fn read(path: &Path) -> Result<Self, TargetsError> {
        let wrong = |why: String| TargetsError { path: path.to_owned(), why };
        let text = read_file(path).map_err(wrong)?;
        // The parser's message may quote a URL, which may be a secret, so report only the position.
        let written: TargetsFile = serde_saphyr::from_str(&text).map_err(|error| {
            let place =
                error.location().map(|place| format!(" at line {}", place.line())).unwrap_or_default();
            wrong(format!(
                "invalid YAML or fields{place}: expected `targets` with name, kind, and url or urlFile"
            ))
        })?;
        let mut targets: Vec<Target> = Vec::new();
        for one in written.targets {
            let name = one.name.clone();
            if targets.iter().any(|other| other.name == name) {
                return Err(wrong(format!("duplicate target name {name}")));
            }
            targets.push(parse_target(one).map_err(|reason| wrong(format!("target {name:?}: {reason}")))?);
        }
        Ok(Self(targets))
    }
}

fn read_file(path: &Path) -> Result<String, String> {
    let size = fs::metadata(path).map_err(|error| format!("cannot be read: {error}"))?.len();
    if size > FILE_MAX {
        return Err(format!("is larger than {FILE_MAX} bytes"));
    }
    fs::read_to_string(path).map_err(|error| format!("cannot be read: {error}"))
}

fn parse_target(written: TargetEntry) -> Result<Target, String> {
    let TargetEntry { name, kind, url, url_file, secret_file, on, applications } = written;
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(is_plain) {
        return Err(format!("invalid name: use 1 to {NAME_MAX} lower-case letters, digits and '-'"));
    }
    let in_file = |path: PathBuf| read_file(&path).map_err(|reason| format!("{} {reason}", path.display()));
    let url = match (url, url_file) {
        (Some(url), None) => url,
        (None, Some(path)) => in_file(path)?,
        _ => return Err("set either url or urlFile".to_owned()),
    };
    let url: Uri = url.trim().parse().map_err(|_| "invalid url".to_owned())?;
    if !matches!(url.scheme_str(), Some("http" | "https")) || url.host().is_none_or(str::is_empty) {
        return Err("invalid url: it must start with https:// or http:// and contain a host".to_owned());
    }
    if url.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err(
            "invalid url: it must not contain a user or password; put credentials in the path, with urlFile"
                .to_owned(),
        );
    }
    let events = parse_events(on)?;
    let secret = secret_file.map(in_file).transpose()?.map(|secret| secret.trim().as_bytes().to_vec());
    if secret.as_ref().is_some_and(Vec::is_empty) {
        return Err("secretFile is empty".to_owned());
    }
    let applications = applications.iter().map(|name| AppKey::parse(name).to_string()).collect();
    Ok(Target { name, kind, url, secret, events, applications })
}

impl Target {
    /// Returns true if the target wants to be notified of an event.
    pub fn should_notify(&self, event: &Event) -> bool {
        notification_kind(event).is_some_and(|what| self.events.contains(&what))
            && (self.applications.is_empty()
                || self.applications.contains(&AppKey::parse(&event.application).to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_targets(text: &str) -> Result<Targets, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("targets.yaml");
        fs::write(&path, text).unwrap();
        Targets::read(&path).map_err(|error| error.to_string())
    }

    #[test]
    fn errors_name_the_mistake_but_no_address() {
        let good = "targets:\n- {name: a, kind: slack, url: 'https://example.com/secret-path'}\n";
        let targets = parse_targets(good).unwrap();
        assert_eq!(targets.0[0].events, DEFAULT_EVENTS);
        let every = good.replace("}", ", on: [started, succeeded, failed, deadline, superseded]}");
        assert_eq!(parse_targets(&every).unwrap().0[0].events, NotificationKind::ALL);
        assert!(!format!("{targets:?}").contains("secret-path"));
        for (text, part) in [
            ("targets: [", "invalid YAML"),
            (
                "targets:\n- {name: a, kind: slack, url: 'https://example.com/secret-path', colour: red}",
                "invalid YAML or fields",
            ),
            (
                "targets:\n- {name: a, kind: pigeon, url: 'https://example.com/secret-path'}",
                "invalid YAML or fields",
            ),
            ("targets:\n- {name: A/b, kind: slack, url: 'https://example.com/secret-path'}", "lower-case"),
            ("targets:\n- {name: a, kind: slack}", "url or urlFile"),
            (
                "targets:\n- {name: a, kind: slack, url: 'https://me:secret-path@example.com/'}",
                "user or password",
            ),
            (
                "targets:\n- {name: a, kind: slack, url: 'https://secret-path@example.com/'}",
                "user or password",
            ),
            (
                "targets:\n- {name: a, kind: slack, url: 'http://b', on: []}",
                "is empty: list at least one of started, succeeded, failed, deadline, superseded",
            ),
            (
                "targets:\n- {name: a, kind: slack, url: 'http://b', on: [failed, fialed]}",
                "\"fialed\": use started",
            ),
            (
                "targets:\n- {name: a, kind: slack, url: 'http://b', on: ['https://b/secret-path']}",
                "an unknown value: use",
            ),
            ("targets:\n- {name: a, kind: slack, url: 'ftp://example.com/secret-path'}", "https://"),
            ("targets:\n- {name: a, kind: slack, url: '/secret-path'}", "https://"),
            ("targets:\n- {name: a, kind: slack, urlFile: /nowhere/at/all}", "/nowhere/at/all"),
            (
                "targets:\n- {name: a, kind: slack, url: 'http://b'}\n- {name: a, kind: slack, url: 'http://b'}",
                "duplicate target",
            ),
        ] {
            let problem = parse_targets(text).unwrap_err();
            assert!(problem.contains(part) && !problem.contains("secret-path"), "{text}: {problem}");
        }
    }
}
