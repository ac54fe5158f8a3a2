//! The line that the log lists of a stream.

use serde::{Deserialize, Serialize};
use tidegate_model::{StreamId, StreamKind, Timestamp};

use crate::{Epoch, RawEntry, Record, Summary};

/// Row `s`: what a stream is, and the line its writer says about it. Its layout is part of the format; golden logs hold
/// it. The one before is [`earlier::Summary`](super::earlier::Summary).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Line {
    /// Number and word of the stream's kind.
    pub(crate) kind: (u16, String),
    pub(crate) application: Option<String>,
    pub(crate) set: Option<String>,
    pub(crate) started_at: Timestamp,
    pub(crate) finished_at: Option<Timestamp>,
    /// Kind and content of what only the stream's machine understands.
    pub(crate) details: (u16, Vec<u8>),
}

impl Line {
    pub(crate) fn new(kind: &StreamKind, summary: &Summary<Record>) -> Self {
        let Summary { application, set, started_at, finished_at, details } = summary.clone();
        Self {
            kind: (kind.number(), kind.name().to_owned()),
            application,
            set,
            started_at,
            finished_at,
            details: (details.kind, details.content),
        }
    }

    pub(crate) fn kind(&self) -> StreamKind {
        StreamKind::recorded(self.kind.0, self.kind.1.clone())
    }

    /// As the log lists it.
    pub(crate) fn into_entry(self, stream: StreamId, epoch: Epoch, sequence: u64) -> RawEntry {
        let kind = self.kind();
        let Self { application, set, started_at, finished_at, details: (number, content), .. } = self;
        let details = Record { kind: number, content };
        let summary = Summary { application, set, started_at, finished_at, details };
        RawEntry { stream, kind, epoch, sequence, summary }
    }
}
