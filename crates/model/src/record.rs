use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::StreamKind;

/// A type that can be stored in the operation log.
///
/// `kind` numbers are part of the on-disk format and are never reused or renumbered. If a kind's fields
/// change, it gets a new number, and [`Earlier`](Self::Earlier) still reads its previous layout.
pub trait LogRecord: Serialize + DeserializeOwned + Clone + Send + Sync + 'static {
    /// Earlier layout, which is read but never written. `Self` if there are no earlier layouts.
    type Earlier: DeserializeOwned + Into<Self>;

    /// Highest kind known to this program. Records of higher kinds come from a newer program.
    const HIGHEST_KIND: u16 = 1;

    /// Returns true if records of this kind have an earlier layout. Types with earlier layouts must override
    /// this method.
    fn is_earlier(_kind: u16) -> bool {
        false
    }

    /// Returns the kind of the record, counting from 1. Types that write several kinds must override this
    /// method.
    fn kind(&self) -> u16 {
        Self::HIGHEST_KIND
    }

    /// Reads a record in an earlier layout. Types with several earlier layouts override this method.
    fn read_earlier<C: RecordContent>(_kind: u16, content: &C) -> Result<Self, C::Error> {
        content.read::<Self::Earlier>().map(Into::into)
    }
}

/// Content of a record. Its type follows from the record's kind.
pub trait RecordContent {
    /// Error returned when the content doesn't have the expected type.
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

    /// Additional details of a stream, shown in lists next to the common ones. They are retained longer than
    /// events.
    type Details: LogRecord;
}
