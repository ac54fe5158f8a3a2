//! Details shown for an operation in a list, in addition to the fields that all streams in the log have.

use serde::{Deserialize, Serialize};
use tidegate_model::{LogRecord, OperationPhase, StreamKind, StreamRecords};

use super::{OperationEvent, State};

/// Details of an operation. They outlive its events in the log, and their layout is part of the on-disk
/// format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Details {
    /// Description of the operation's destination.
    pub destination: String,
    /// `Running`, `Terminating`, or the final phase.
    pub phase: OperationPhase,
    /// True while the operation is paused.
    pub paused: bool,
    /// Outcome of the operation. While it is running, its activity or wait when the details were written.
    pub message: String,
    /// Number of waves that have passed, and total number of waves.
    pub waves: (u32, u32),
    /// Revision of the manifests. Empty if unknown.
    pub revision: String,
    /// Requester. Empty if unknown.
    pub initiated_by: String,
    /// True for a dry run, which doesn't write to the cluster.
    pub dry_run: bool,
}

impl LogRecord for Details {
    type Earlier = Self;
}

impl StreamRecords for OperationEvent {
    const KIND: StreamKind = StreamKind::OPERATION;
    type Snapshot = State;
    type Details = Details;
}
