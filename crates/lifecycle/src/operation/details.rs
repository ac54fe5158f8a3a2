//! Details of an operation in a list, in addition to the fields that every stream in the log has.

use serde::{Deserialize, Serialize};
use tidegate_model::{LogRecord, OperationPhase, StreamKind, StreamRecords};

use super::{OperationEvent, State};

/// Details of an operation. The log keeps them for longer than the events. Their layout is part of the on-disk format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Details {
    /// Destination of the operation, as text.
    pub destination: String,
    /// `Running`, `Terminating`, or the final phase.
    pub phase: OperationPhase,
    /// True while the operation is paused.
    pub paused: bool,
    /// Current activity or wait when the details were written, or the outcome.
    pub message: String,
    /// Number of passed waves, and number of all waves.
    pub waves: (u32, u32),
    /// Revision of the manifests; empty if unknown.
    pub revision: String,
    /// Requester; empty if unknown.
    pub initiated_by: String,
    /// True for a dry run, which doesn't write to the cluster.
    pub dry_run: bool,
}

impl LogRecord for Details {
    type Earlier = Self;
    const HIGHEST_KIND: u16 = 1;

    fn is_earlier(_: u16) -> bool {
        false
    }

    fn kind(&self) -> u16 {
        1
    }
}

impl StreamRecords for OperationEvent {
    const KIND: StreamKind = StreamKind::OPERATION;
    type Snapshot = State;
    type Details = Details;
}
