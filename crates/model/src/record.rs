use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::StreamKind;

/// Type that the operation log can store.
///
/// `kind` numbers are part of the on-disk format, so they are never reused or renumbered. If the fields of a
/// kind change, the kind gets a new number, and its earlier layout is still read as
/// [`Earlier`](Self::Earlier).
pub trait LogRecord: Serialize + DeserializeOwned + Clone + Send + Sync + 'static {
    /// Record in an earlier layout, which Tidegate reads but no longer writes. `Self` if the type doesn't
    /// have earlier layouts.
    type Earlier: DeserializeOwned + Into<Self>;

    /// Highest kind that this program knows. A record with a higher kind was written by a newer program.
    const HIGHEST_KIND: u16 = 1;

    /// Returns true if records of this kind are in an earlier layout. A type with earlier layouts must
    /// override this method.
    fn is_earlier(_kind: u16) -> bool {
        false
    }

    /// Returns the kind of the record. Kinds start at 1. A type that writes several kinds must override this
    /// method.
    fn kind(&self) -> u16 {
        Self::HIGHEST_KIND
    }

    /// Reads a record in an earlier layout. Types with several earlier layouts override this method.
    fn read_earlier<C: RecordContent>(_kind: u16, content: &C) -> Result<Self, C::Error> {
        content.read::<Self::Earlier>().map(Into::into)
    }
}

/// Content of a record. The record's kind determines the type of the content.
pub trait RecordContent {
    /// Error returned if the content doesn't have the expected type.
    type Error;

    /// Deserializes the entire content as a `T`.
    fn read<T: DeserializeOwned>(&self) -> Result<T, Self::Error>;
}

/// Records of one state machine: the events in its streams.
pub trait StreamRecords: LogRecord {
    /// Kind of the machine's streams. The kind is part of the on-disk format.
    const KIND: StreamKind;

    /// Snapshot of the state after a number of events. Snapshots are stored periodically.
    type Snapshot: LogRecord;

    /// Additional details of a stream, shown in lists next to the details that all kinds have. Details are
    /// retained longer than events.
    type Details: LogRecord;
}
