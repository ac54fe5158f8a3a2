//! Subject of a gate defined in a file.

use tidegate_model::{OperationId, Phase, Timestamp};

/// A wave of an operation, and the gate that blocks it.
#[derive(Clone, Debug)]
pub(crate) struct GateSubject {
    /// Name of the gate in the wave, such as `window:night`.
    pub gate: String,
    /// ID of the operation.
    pub operation: OperationId,
    /// Name of the operation's application.
    pub application: String,
    /// Revision that the operation deploys.
    pub revision: String,
    /// Phase of the wave.
    pub phase: Phase,
    /// Wave in the phase.
    pub wave: i64,
    /// Start time of the operation.
    pub started_at: Timestamp,
    /// True if a user started the operation.
    pub is_manual: bool,
}
