use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::StreamKind;

/// Type that the operation log can store.
///
/// `kind` numbers are part of the on-disk format, so they are never reused or renumbered. If the fields of a
/// kind change, it gets a new number, and its earlier layout is still read as [`Earlier`](Self::Earlier).
pub trait LogRecord: Serialize + DeserializeOwned + Clone + Send + Sync + 'static {
    /// Records that are no longer written. `Self` if the type doesn't have any.
    type Earlier: DeserializeOwned + Into<Self>;

    /// Returns true if the kind is an earlier one.
    fn is_earlier(kind: u16) -> bool;

    /// Highest kind that this program knows. A newer program wrote any record with a higher kind.
    const HIGHEST_KIND: u16;

    /// Returns the kind of the record. Kinds start at 1.
    fn kind(&self) -> u16;

    /// Reads a record of an earlier kind. Types with several earlier layouts override this method.
    fn read_earlier<C: RecordContent>(_kind: u16, content: &C) -> Result<Self, C::Error> {
        content.read::<Self::Earlier>().map(Into::into)
    }
}

/// Content of a record. The kind of the record determines its type.
pub trait RecordContent {
    /// Error returned if the content doesn't have the expected type.
    type Error;

    /// Reads the entire content as a `T`.
    fn read<T: DeserializeOwned>(&self) -> Result<T, Self::Error>;
}

/// Records of one state machine: the events in streams of its kind.
pub trait StreamRecords: LogRecord {
    /// Kind of the machine's streams. Part of the on-disk format.
    const KIND: StreamKind;

    /// Snapshot of the state after the first events of a stream. Stored periodically.
    type Snapshot: LogRecord;

    /// Stream details for lists, in addition to the details that all kinds share. Retained longer than the
    /// events.
    type Details: LogRecord;
}
