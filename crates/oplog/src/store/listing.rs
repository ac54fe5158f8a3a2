//! Database row with a stream's listing entry.

use serde::{Deserialize, Serialize};
use tidegate_model::{StreamId, StreamKind, Timestamp};

use crate::{Epoch, RawEntry, Record, Summary};

/// Row `s`: the kind of a stream, and its writer's summary. The layout is part of the on-disk format, and
/// golden logs contain such rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ListingRow {
    /// Number and name of the stream's kind.
    pub(crate) kind: (u16, String),
    pub(crate) application: Option<String>,
    pub(crate) set: Option<String>,
    pub(crate) started_at: Timestamp,
    pub(crate) finished_at: Option<Timestamp>,
    /// Kind and content of the details, which only the stream's machine can interpret.
    pub(crate) details: (u16, Vec<u8>),
}

impl ListingRow {
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
        StreamKind::from_record(self.kind.0, self.kind.1.clone())
    }

    /// Converts the row to a listing entry.
    pub(crate) fn into_entry(self, stream: StreamId, epoch: Epoch, sequence: u64) -> RawEntry {
        let kind = self.kind();
        let Self { application, set, started_at, finished_at, details: (number, content), .. } = self;
        let details = Record { kind: number, content };
        let summary = Summary { application, set, started_at, finished_at, details };
        let shard = summary.default_shard(stream);
        RawEntry { stream, kind, shard, epoch, sequence, summary }
    }
}
