//! What a list of operations says of one, besides what it says of every stream of the log.

use serde::{Deserialize, Serialize};
use tidegate_model::{Content, LogRecord, OperationPhase, Records, StreamKind};

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
    /// The revision of its manifests; empty where it is not known.
    pub revision: String,
    /// Who has asked for it; empty where it is not known.
    pub initiated_by: String,
    /// Nothing is written to the cluster.
    pub dry_run: bool,
}

/// As programs wrote it that did not keep whether it is a dry run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DetailsOfKind2 {
    destination: String,
    phase: OperationPhase,
    paused: bool,
    message: String,
    waves: (u32, u32),
    revision: String,
    initiated_by: String,
}

impl From<DetailsOfKind2> for Details {
    fn from(earlier: DetailsOfKind2) -> Self {
        let DetailsOfKind2 { destination, phase, paused, message, waves, revision, initiated_by } = earlier;
        Self { destination, phase, paused, message, waves, revision, initiated_by, dry_run: false }
    }
}

/// As programs wrote it that did not keep what is deployed and for whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DetailsOfKind1 {
    destination: String,
    phase: OperationPhase,
    paused: bool,
    message: String,
    waves: (u32, u32),
}

impl From<DetailsOfKind1> for Details {
    fn from(earlier: DetailsOfKind1) -> Self {
        let DetailsOfKind1 { destination, phase, paused, message, waves } = earlier;
        let (revision, initiated_by) = (String::new(), String::new());
        Self { destination, phase, paused, message, waves, revision, initiated_by, dry_run: false }
    }
}

impl LogRecord for Details {
    type Earlier = DetailsOfKind1;
    const HIGHEST_KIND: u16 = 3;

    fn is_earlier(kind: u16) -> bool {
        kind < 3
    }

    fn kind(&self) -> u16 {
        3
    }

    fn read_earlier<C: Content>(kind: u16, content: &C) -> Result<Self, C::Error> {
        match kind {
            2 => content.read::<DetailsOfKind2>().map(Into::into),
            _ => content.read::<DetailsOfKind1>().map(Into::into),
        }
    }
}

impl Records for Fact {
    const KIND: StreamKind = StreamKind::OPERATION;
    type Snapshot = State;
    type Details = Details;
}
