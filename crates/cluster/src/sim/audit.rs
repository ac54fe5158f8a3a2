//! Every write the cluster received from outside, whether it was done or refused.

use serde::{Deserialize, Serialize};
use tidegate_model::{ObjectKey, OperationId};

use crate::{ClusterError, ErrorKind};

/// What kind of write it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// Server-side apply.
    Apply,
    /// Creation by POST: an object of that name is an error.
    Create,
    /// Replacement as a whole.
    Update,
    /// Client-side apply of an existing object, or removal of a finalizer.
    Patch,
    /// Deletion of one object, which may only begin with it.
    Delete,
}

/// One write the cluster received.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntry {
    /// Position in the audit, from 1, without gaps.
    pub sequence: u64,
    /// What kind of write it was.
    pub verb: Verb,
    /// Whether it was only to be judged.
    pub dry_run: bool,
    /// API group, empty for the core API.
    pub group: String,
    /// `kind` of the object.
    pub kind: String,
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: String,
    /// `metadata.name` of the object.
    pub name: String,
    /// On whose behalf, when the request said so.
    pub operation_id: Option<OperationId>,
    /// HTTP status: 201 where the object was created, 200 for other success.
    pub code: u16,
}

impl AuditEntry {
    /// Which object the write was about.
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(&self.group, &self.kind, &self.namespace, &self.name)
    }
}

/// The parts of an audit entry that are known before the outcome.
#[derive(Clone)]
pub(crate) struct Attempt {
    pub(crate) verb: Verb,
    pub(crate) dry_run: bool,
    pub(crate) key: ObjectKey,
    pub(crate) operation: Option<OperationId>,
}

/// The audit since the cluster was opened. What came before is on disk, and only counted here.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Audit {
    before: u64,
    entries: Vec<AuditEntry>,
}

impl Audit {
    /// An audit that goes on after this sequence.
    pub(crate) fn after(before: u64) -> Self {
        Self { before, entries: Vec::new() }
    }

    /// The entries after this sequence.
    pub(crate) fn since(&self, sequence: u64) -> &[AuditEntry] {
        let start = usize::try_from(sequence.saturating_sub(self.before)).unwrap_or(usize::MAX);
        self.entries.get(start..).unwrap_or_default()
    }

    /// Forgets the entries so far; they still count.
    pub(crate) fn forget(&mut self) {
        *self = Self::after(self.last());
    }

    pub(crate) fn record(&mut self, attempt: Attempt, code: u16) {
        let ObjectKey { group, kind, namespace, name } = attempt.key;
        self.entries.push(AuditEntry {
            sequence: self.last() + 1,
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

    /// Sequence of the newest entry, 0 when there is none.
    pub(crate) fn last(&self) -> u64 {
        self.entries.last().map_or(self.before, |entry| entry.sequence)
    }
}

/// The HTTP status of a refusal.
pub(crate) fn code_of(error: &ClusterError) -> u16 {
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
        ErrorKind::Allocated => 422,
        ErrorKind::Stalled => 500,
    }
}
