//! Options common to all writes.

use tidegate_cluster::{ClusterError, ErrorKind};
use tidegate_model::{Object, ObjectKey, OperationId};

use crate::paths::Target;

/// Options for a write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteOptions {
    /// Field manager for the changes.
    pub(super) manager: &'static str,
    pub(super) validate: bool,
    pub(super) dry_run: bool,
    pub(super) operation: Option<OperationId>,
}

impl WriteOptions {
    /// Appends the query parameters of a write. Servers ignore unknown parameters.
    pub(super) fn push_query(self, path: &mut String) {
        path.push_str("?fieldManager=");
        path.push_str(self.manager);
        path.push_str(if self.validate { "&fieldValidation=Strict" } else { "&fieldValidation=Ignore" });
        if self.dry_run {
            path.push_str("&dryRun=All");
        }
    }
}

/// Checks the version of the object that was read. Empty accepts any version.
pub(super) fn check_version(target: &Target<'_>, live: &Object, version: &str) -> Result<(), ClusterError> {
    if version.is_empty() || version == live.resource_version() {
        return Ok(());
    }
    let text = format!("{} has been modified since it was read", target.key());
    Err(ClusterError::new(ErrorKind::Conflict, text))
}

/// Returns the result in kubectl's format, such as `deployment.apps/api serverside-applied`.
pub(super) fn format_result(key: &ObjectKey, done: &str, manner: WriteOptions) -> String {
    let (dot, suffix) =
        (if key.group.is_empty() { "" } else { "." }, if manner.dry_run { " (server dry run)" } else { "" });
    format!("{}{dot}{}/{} {done}{suffix}", key.kind.to_lowercase(), key.group, key.name)
}
