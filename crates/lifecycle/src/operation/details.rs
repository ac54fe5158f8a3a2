//! What a list of operations says of one, besides what it says of every stream of the log.

use serde::{Deserialize, Serialize};
use tidegate_model::{LogRecord, OperationPhase, Records, StreamKind};

use super::{Fact, State};

/// The log keeps it longer than the facts. Its layout is part of the format on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Details {
    /// Where the operation works, in words.
    pub destination: String,
    /// `Running`, `Terminating`, or what it has ended in.
    pub phase: OperationPhase,
    /// Whether a person holds it.
    pub paused: bool,
    /// What it was doing or waiting for when this was written, or how it has ended.
    pub message: String,
    /// Waves passed, and waves in all.
    pub waves: (u32, u32),
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

impl Records for Fact {
    const KIND: StreamKind = StreamKind::OPERATION;
    type Snapshot = State;
    type Details = Details;
}
