//! What a gate that is defined in a file is asked about.

use tidegate_model::{OperationId, Phase, Timestamp};

/// A wave of an operation, and the gate that keeps it closed.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// Its name as the wave gives it, such as `window:night`.
    pub gate: String,
    /// The operation that asks.
    pub operation: OperationId,
    /// Name of the application that the operation works on.
    pub application: String,
    /// What it brings about.
    pub revision: String,
    /// Phase of the wave.
    pub phase: Phase,
    /// Wave inside the phase.
    pub wave: i64,
    /// When the operation began.
    pub began: Timestamp,
    /// Whether a person began it.
    pub manual: bool,
}
