use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::StreamKind;

/// A type that can be stored in the operation log.
///
/// `kind` numbers are part of the on-disk format, so they are never reused or renumbered. If a kind's fields
/// change, it gets a new number, and its earlier layout is still read as [`Earlier`](Self::Earlier).
pub trait LogRecord: Serialize + DeserializeOwned + Clone + Send + Sync + 'static {
    /// A record in an earlier layout, which is read but no longer written. `Self` if there are no earlier
    /// layouts.
    type Earlier: DeserializeOwned + Into<Self>;

    /// Highest kind that this program knows. Records of higher kinds come from a newer program.
    const HIGHEST_KIND: u16 = 1;

    /// Returns true if records of this kind have an earlier layout. Must be overridden by types with earlier
    /// layouts.
    fn is_earlier(_kind: u16) -> bool {
        false
    }

    /// Returns the kind of the record, counting from 1. Must be overridden by types that write several kinds.
    fn kind(&self) -> u16 {
        Self::HIGHEST_KIND
    }

    /// Reads a record in an earlier layout. Overridden by types with several earlier layouts.
    fn read_earlier<C: RecordContent>(_kind: u16, content: &C) -> Result<Self, C::Error> {
        content.read::<Self::Earlier>().map(Into::into)
    }
}

/// Content of a record, whose type follows from the record's kind.
pub trait RecordContent {
    /// Error returned if the content doesn't have the expected type.
    type Error;

    /// Deserializes the entire content as a `T`.
    fn read<T: DeserializeOwned>(&self) -> Result<T, Self::Error>;
}

/// Records of a state machine: the events in its streams.
pub trait StreamRecords: LogRecord {
    /// Kind of the machine's streams. Part of the on-disk format.
    const KIND: StreamKind;

    /// Snapshot of the state after a number of events. Stored periodically.
    type Snapshot: LogRecord;

    /// Additional details of a stream, shown in lists next to those that all kinds have. They are retained
    /// longer than events.
    type Details: LogRecord;
}
