//! Rows in the layouts that earlier programs wrote, and the way to what they are today. Nothing in here is changed.

use serde::Deserialize;
use tidegate_model::{Digest, OperationPhase, StreamId, StreamKind, Timestamp};

use super::head::{self, SnapshotMark};
use super::line::Line;
use crate::Epoch;
use crate::frame::{self, FrameError};

/// A head of kind 1: one process wrote, and nobody could take a stream over.
#[derive(Debug, Deserialize)]
pub(crate) struct Head {
    revision: u64,
    base: u64,
    base_digest: Digest,
    last: u64,
    digest: Digest,
    snapshot: Option<SnapshotMark>,
    references: u64,
    reduced: bool,
}

impl From<Head> for head::Head {
    fn from(old: Head) -> Self {
        Self {
            revision: old.revision,
            base: old.base,
            base_digest: old.base_digest,
            last: old.last,
            digest: old.digest,
            snapshot: old.snapshot,
            references: old.references,
            reduced: old.reduced,
            epoch: Epoch::FIRST,
            taken_by: String::new(),
        }
    }
}

/// A summary of kind 1: all streams were operations, and what only they know stood in the open.
#[derive(Debug, Deserialize)]
pub(crate) struct Summary {
    _stream: StreamId,
    application: String,
    destination: String,
    phase: OperationPhase,
    paused: bool,
    message: String,
    started_at: Timestamp,
    finished_at: Option<Timestamp>,
    waves: (u32, u32),
}

impl Summary {
    /// The details are the first kind of details of an operation.
    const DETAILS: u16 = 1;

    pub(crate) fn into_line(self) -> Result<Line, FrameError> {
        let details = (self.destination, self.phase, self.paused, self.message, self.waves);
        let details =
            frame::encode("summary", &details).map_err(|error| FrameError::Content(error.to_string()))?;
        Ok(Line {
            kind: (StreamKind::OPERATION.number(), StreamKind::OPERATION.name().to_owned()),
            application: Some(self.application),
            set: None,
            started_at: self.started_at,
            finished_at: self.finished_at,
            details: (Self::DETAILS, details),
        })
    }
}
