//! Audit log of all external writes, successful or refused.

use serde::{Deserialize, Serialize};
use tidegate_model::{ObjectKey, OperationId};

use crate::{ClusterError, ErrorKind};

/// Kind of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// Server-side apply.
    Apply,
    /// Creation by POST, which fails if an object with that name exists.
    Create,
    /// Replacement of the whole object.
    Update,
    /// Client-side apply of an existing object, or removal of a finalizer.
    Patch,
    /// Deletion of one object, or the start of its deletion.
    Delete,
}

/// A write received by the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntry {
    /// Sequence number in the audit log, starting at 1 and without gaps.
    pub sequence: u64,
    /// Kind of the write.
    pub verb: Verb,
    /// True for a dry run.
    pub dry_run: bool,
    /// API group. Empty for the core API.
    pub group: String,
    /// `kind` of the object.
    pub kind: String,
    /// Namespace. Empty for cluster-scoped objects.
    pub namespace: String,
    /// `metadata.name` of the object.
    pub name: String,
    /// Operation that requested the write, if specified.
    pub operation_id: Option<OperationId>,
    /// HTTP status: 201 if the object was created, 200 for other successes, or the status of the error.
    pub code: u16,
}

impl AuditEntry {
    /// Returns the key of the written object.
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(&self.group, &self.kind, &self.namespace, &self.name)
    }
}

/// Part of an audit entry known before the write is executed.
#[derive(Clone)]
pub(crate) struct WriteAttempt {
    pub(crate) verb: Verb,
    pub(crate) dry_run: bool,
    pub(crate) key: ObjectKey,
    pub(crate) operation: Option<OperationId>,
}

/// Audit entries since the cluster was opened. Earlier entries are on disk, and only their count is stored
/// here.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Audit {
    earlier_entries: u64,
    entries: Vec<AuditEntry>,
}

impl Audit {
    /// Creates an audit whose first entry follows the given sequence number.
    pub(crate) fn starting_after(earlier_entries: u64) -> Self {
        Self { earlier_entries, entries: Vec::new() }
    }

    /// Returns the entries after the given sequence number.
    pub(crate) fn entries_since(&self, sequence: u64) -> &[AuditEntry] {
        let start = usize::try_from(sequence.saturating_sub(self.earlier_entries)).unwrap_or(usize::MAX);
        self.entries.get(start..).unwrap_or_default()
    }

    /// Drops all current entries. The next entry continues the numbering.
    pub(crate) fn drop_entries(&mut self) {
        *self = Self::starting_after(self.last_sequence());
    }

    pub(crate) fn record(&mut self, attempt: WriteAttempt, code: u16) {
        let ObjectKey { group, kind, namespace, name } = attempt.key;
        self.entries.push(AuditEntry {
            sequence: self.last_sequence() + 1,
            verb: attempt.verb,
            dry_run: attempt.dry_run,
            group,
            kind,
            namespace,
            name,
            operation_id: attempt.operation,
            code,
        });
    }

    pub(crate) fn entries(&self) -> &[AuditEntry] {
        &self.entries
    }

    /// Returns the sequence number of the newest entry, or 0 if there are no entries.
    pub(crate) fn last_sequence(&self) -> u64 {
        self.entries.last().map_or(self.earlier_entries, |entry| entry.sequence)
    }
}

/// Returns the HTTP status of an error.
pub(crate) fn http_status(error: &ClusterError) -> u16 {
    match error.kind {
        ErrorKind::NotFound | ErrorKind::UnknownKind | ErrorKind::NamespaceMissing => 404,
        ErrorKind::AlreadyExists | ErrorKind::Conflict => 409,
        ErrorKind::Forbidden | ErrorKind::NamespaceTerminating => 403,
        ErrorKind::Unauthorized => 401,
        ErrorKind::Invalid => 422,
        ErrorKind::Gone => 410,
        ErrorKind::TooManyRequests { .. } => 429,
        ErrorKind::Server => 500,
        ErrorKind::Unavailable => 503,
        ErrorKind::Timeout => 504,
        ErrorKind::Unsupported => 501,
        ErrorKind::AlreadyAllocated => 422,
        ErrorKind::DependencyTimeout => 500,
    }
}
