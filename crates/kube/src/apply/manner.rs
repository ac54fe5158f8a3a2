//! How a write is carried out, whatever its way.

use tidegate_cluster::{ClusterError, ErrorKind};
use tidegate_model::{Object, ObjectKey, OperationId};

use crate::paths::Target;

/// How a write is to be carried out, beside what it writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    /// Whose the fields are that it changes.
    pub(super) manager: &'static str,
    pub(super) validate: bool,
    pub(super) dry_run: bool,
    pub(super) operation: Option<OperationId>,
}

impl Manner {
    /// The query of a write. Servers that do not know a parameter ignore it.
    pub(super) fn query(self, path: &mut String) {
        path.push_str("?fieldManager=");
        path.push_str(self.manager);
        path.push_str(if self.validate { "&fieldValidation=Strict" } else { "&fieldValidation=Ignore" });
        if self.dry_run {
            path.push_str("&dryRun=All");
        }
    }
}

/// Whether what was read is the version that a write is meant for; empty for any.
pub(super) fn check_version(target: &Target<'_>, live: &Object, version: &str) -> Result<(), ClusterError> {
    if version.is_empty() || version == live.resource_version() {
        return Ok(());
    }
    let words = format!("{} has been modified since it was looked at", target.key());
    Err(ClusterError::new(ErrorKind::Conflict, words))
}

/// What was done, as kubectl says it: `deployment.apps/api serverside-applied`.
pub(super) fn said(key: &ObjectKey, done: &str, manner: Manner) -> String {
    let (dot, suffix) =
        (if key.group.is_empty() { "" } else { "." }, if manner.dry_run { " (server dry run)" } else { "" });
    format!("{}{dot}{}/{} {done}{suffix}", key.kind.to_lowercase(), key.group, key.name)
}
