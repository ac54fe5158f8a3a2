//! The rules that operations began with, by application. An operation that went on without its rules would not wait for kinds
//! that only they can judge.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tidegate_health::{Expressions, HealthRules, Script, ScriptError, UserRule};

use crate::error::ServiceError;
use crate::files;
use crate::state_dir::StateDir;

/// Far more than all scripts of Argo CD together have.
const BYTES_MAX: u64 = 256 << 20;

/// Rules as they are kept.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum Kept {
    /// As earlier programs kept them.
    Scripts(Vec<KeptRule>),
    Rules {
        convention: bool,
        rules: Vec<KeptRule>,
    },
}

/// A rule of the user as it is kept.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct KeptRule {
    target: String,
    name: String,
    /// A script.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expressions: Option<serde_json::Value>,
    /// Why there is nothing to judge by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fault: Option<String>,
}

impl From<&UserRule> for KeptRule {
    fn from(rule: &UserRule) -> Self {
        let (target, name) = (rule.target().to_owned(), rule.name().to_owned());
        let nothing = Self { target, name, text: String::new(), expressions: None, fault: None };
        match rule {
            UserRule::Script(script) => match script.fault() {
                Some(ScriptError::Unusable { reason }) => Self { fault: Some(reason.clone()), ..nothing },
                _ => Self { text: script.text().to_owned(), ..nothing },
            },
            UserRule::Expressions(rule) => Self { expressions: Some(rule.source().clone()), ..nothing },
        }
    }
}

impl From<KeptRule> for UserRule {
    fn from(kept: KeptRule) -> Self {
        let KeptRule { target, name, text, expressions, fault } = kept;
        match (expressions, fault) {
            (_, Some(fault)) => Self::Script(Script::unusable(target, name, fault)),
            (Some(source), None) => Self::Expressions(Expressions::load(target, name, source)),
            (None, None) => Self::Script(Script::load(target, name, text)),
        }
    }
}

impl From<Kept> for HealthRules {
    fn from(kept: Kept) -> Self {
        let (convention, rules) = match kept {
            Kept::Scripts(rules) => (true, rules),
            Kept::Rules { convention, rules } => (convention, rules),
        };
        Self::with_any(rules.into_iter().map(UserRule::from)).with_convention(convention)
    }
}

fn place(state_dir: &StateDir, application: &str) -> PathBuf {
    let digest: String =
        Sha256::digest(application.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    state_dir.customizations().join(format!("{digest}.json"))
}

/// Keeps the rules of an application's operation. The caller holds the lock of the state directory.
///
/// # Errors
///
/// The state directory cannot be written to.
pub fn remember(state_dir: &StateDir, application: &str, rules: &HealthRules) -> Result<(), ServiceError> {
    let path = place(state_dir, application);
    let done = if rules.has_convention() && rules.user_rules().next().is_none() {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    } else {
        let rules_kept = rules.user_rules().map(KeptRule::from).collect();
        write(&path, &Kept::Rules { convention: rules.has_convention(), rules: rules_kept })
    };
    done.map_err(|source| ServiceError::Io { action: "keep the health rules in", path, source })
}

/// All or nothing: half a file would be no rules.
fn write(path: &Path, rules: &Kept) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let text = serde_json::to_string_pretty(rules).map_err(io::Error::other)?;
    let draft = path.with_extension("new");
    fs::write(&draft, text)?;
    fs::File::open(&draft)?.sync_all()?;
    fs::rename(&draft, path)
}

/// The rules that the open operation of an application began with.
///
/// # Errors
///
/// What is kept cannot be read.
pub fn recall(state_dir: &StateDir, application: &str) -> Result<HealthRules, ServiceError> {
    let path = place(state_dir, application);
    let read = match files::read_text(&path, BYTES_MAX) {
        Ok(text) => serde_json::from_str::<Kept>(&text).map(HealthRules::from).map_err(io::Error::other),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(HealthRules::built_in()),
        Err(error) => Err(error),
    };
    read.map_err(|source| ServiceError::Io { action: "read the health rules kept in", path, source })
}
