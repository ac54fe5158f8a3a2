use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::StreamKind;

/// Something the operation log can keep.
///
/// `kind` numbers are part of the format on disk: they are given once and never reused or renumbered. A kind whose
/// fields change gets a new number, and its earlier layout goes on to be read as [`Earlier`](Self::Earlier).
pub trait LogRecord: Serialize + DeserializeOwned + Clone + Send + Sync + 'static {
    /// The records that are not written any more. `Self` where there are none.
    type Earlier: DeserializeOwned + Into<Self>;

    /// Whether a kind is one of those.
    fn is_earlier(kind: u16) -> bool;

    /// The highest kind this program knows. A record with a higher one was written by a newer program.
    const HIGHEST_KIND: u16;

    /// Which kind of record this is, from 1.
    fn kind(&self) -> u16;

    /// A record of an earlier kind. Whoever has several earlier layouts reads each as what it is.
    fn read_earlier<C: Content>(_kind: u16, content: &C) -> Result<Self, C::Error> {
        content.read::<Self::Earlier>().map(Into::into)
    }
}

/// The content of a record, which its kind says how to read.
pub trait Content {
    /// Why it is not what it was read as.
    type Error;

    /// The content as a value of this type, all of it.
    fn read<T: DeserializeOwned>(&self) -> Result<T, Self::Error>;
}

/// The records of one machine, by its facts: what a stream of its kind is made of.
pub trait Records: LogRecord {
    /// Which machine the streams belong to. It is part of the format on disk.
    const KIND: StreamKind;

    /// The fold over the facts, as it is kept now and then.
    type Snapshot: LogRecord;

    /// What a list of streams says of one besides what it says of all kinds: kept longer than the facts.
    type Details: LogRecord;
}
