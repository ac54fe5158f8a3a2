//! Health rules stored for open operations, by application. Without them, a resumed operation wouldn't wait
//! for objects with custom health rules.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tidegate_health::{Expressions, HealthRules, Script, ScriptError, UserRule};

use crate::error::ServiceError;
use crate::files;
use crate::state_dir::StateDir;

/// Maximum size of the file in bytes; far larger than all of Argo CD's scripts together.
const BYTES_MAX: u64 = 256 << 20;

/// An application's stored rules.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct StoredRules {
    convention: bool,
    rules: Vec<StoredRule>,
}

/// A stored user-defined rule.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct StoredRule {
    target: String,
    name: String,
    /// Source code, if the rule is a script.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expressions: Option<serde_json::Value>,
    /// Reason the rule can't be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fault: Option<String>,
}

impl From<&UserRule> for StoredRule {
    fn from(rule: &UserRule) -> Self {
        let (target, name) = (rule.target().to_owned(), rule.name().to_owned());
        let nothing = Self { target, name, text: String::new(), expressions: None, fault: None };
        match rule {
            UserRule::Script(script) => match script.error() {
                Some(ScriptError::Unavailable { reason }) => Self { fault: Some(reason.clone()), ..nothing },
                _ => Self { text: script.text().to_owned(), ..nothing },
            },
            UserRule::Expressions(rule) => Self { expressions: Some(rule.source().clone()), ..nothing },
        }
    }
}

impl From<StoredRule> for UserRule {
    fn from(stored: StoredRule) -> Self {
        let StoredRule { target, name, text, expressions, fault } = stored;
        match (expressions, fault) {
            (_, Some(fault)) => Self::Script(Script::unavailable(target, name, fault)),
            (Some(source), None) => Self::Expressions(Expressions::load(target, name, source)),
            (None, None) => Self::Script(Script::load(target, name, text)),
        }
    }
}

impl From<StoredRules> for HealthRules {
    fn from(stored: StoredRules) -> Self {
        let StoredRules { convention, rules } = stored;
        Self::with_rules_lenient(rules.into_iter().map(UserRule::from)).with_convention(convention)
    }
}

fn rules_path(state_dir: &StateDir, application: &str) -> PathBuf {
    let digest: String =
        Sha256::digest(application.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    state_dir.customizations().join(format!("{digest}.json"))
}

/// Stores the rules for an application's operation. The caller must hold the lock on the state directory.
///
/// # Errors
///
/// Returns an error if the state directory is not writable.
pub fn store_rules(state_dir: &StateDir, application: &str, rules: &HealthRules) -> Result<(), ServiceError> {
    let path = rules_path(state_dir, application);
    let done = if rules.has_convention() && rules.user_rules().next().is_none() {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    } else {
        let convention = rules.has_convention();
        write_rules(
            &path,
            &StoredRules { convention, rules: rules.user_rules().map(StoredRule::from).collect() },
        )
    };
    done.map_err(|source| ServiceError::Io { action: "write the health rules to", path, source })
}

/// Writes the file atomically, because a partial file could look like an empty set of rules.
fn write_rules(path: &Path, rules: &StoredRules) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let text = serde_json::to_string_pretty(rules).map_err(io::Error::other)?;
    let draft = path.with_extension("new");
    fs::write(&draft, text)?;
    fs::File::open(&draft)?.sync_all()?;
    fs::rename(&draft, path)
}

/// Loads the stored rules for an application's open operation.
///
/// # Errors
///
/// Returns an error if the stored rules are unreadable.
pub fn load_rules(state_dir: &StateDir, application: &str) -> Result<HealthRules, ServiceError> {
    let path = rules_path(state_dir, application);
    let read = match files::read_text_file(&path, BYTES_MAX) {
        Ok(text) => {
            serde_json::from_str::<StoredRules>(&text).map(HealthRules::from).map_err(io::Error::other)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(HealthRules::built_in()),
        Err(error) => Err(error),
    };
    read.map_err(|source| ServiceError::Io { action: "read the health rules from", path, source })
}
