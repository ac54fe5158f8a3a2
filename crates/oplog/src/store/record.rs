//! Records between their frame and their meaning: small ones are in the row, large ones in a blob the row points to.

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidegate_model::{Digest, LogRecord, OperationId};

use super::head::Head;
use crate::blobs::BlobStore;
use crate::frame::{self, Address, Family, FrameError, Framed};
use crate::{LogError, Summary};

/// Records up to this size are kept in their row. sled puts up to 17 rows on a page and writes a page of more than
/// 128 KiB to a file of its own, twice the work; 17 rows of this size stay below that.
pub(crate) const INLINE_MAX_BYTES: usize = 6 << 10;

/// Where a record's content is.
pub(crate) enum Held<'a> {
    Inline(&'a [u8]),
    Blob(Digest),
}

/// A record that was encoded and is not yet placed.
pub(crate) struct Encoded {
    kind: u16,
    content: Vec<u8>,
}

/// Rows of the log's own types, which are always in the row.
pub(crate) trait Own: Serialize + DeserializeOwned {
    const FAMILY: Family;
    const KIND: u16 = 1;
}

impl Own for Head {
    const FAMILY: Family = Family::Head;
}

impl Own for Summary {
    const FAMILY: Family = Family::Summary;
}

impl Encoded {
    pub(crate) fn new<R: LogRecord>(what: &'static str, record: &R) -> Result<Self, LogError> {
        Ok(Self { kind: record.kind(), content: frame::encode(what, record)? })
    }

    /// The bytes of the row, after the content was put into a blob if it is large; and that blob.
    pub(crate) fn place(
        &self,
        address: Address,
        blobs: &BlobStore,
    ) -> Result<(Vec<u8>, Option<Digest>), LogError> {
        if self.content.len() <= INLINE_MAX_BYTES {
            return Ok((frame::seal(address, self.kind, false, &self.content)?, None));
        }
        let digest = blobs.put(&self.content)?;
        Ok((frame::seal(address, self.kind, true, &digest.0)?, Some(digest)))
    }
}

/// Where the content of a record is.
pub(crate) fn held<'a>(framed: &Framed<'a>) -> Result<Held<'a>, FrameError> {
    if !framed.external {
        return Ok(Held::Inline(framed.payload));
    }
    let digest = framed.payload.try_into().map_err(|_| FrameError::Content("it names no blob".to_owned()))?;
    Ok(Held::Blob(Digest(digest)))
}

/// Reads a record from its row, and from its blob when it is a large one.
pub(crate) fn read<R: LogRecord>(address: Address, value: &[u8], blobs: &BlobStore) -> Result<R, ReadError> {
    let framed = frame::open(address.family, address.operation, Some(address.number), value)?;
    frame::check_kind::<R>(framed.kind)?;
    match held(&framed)? {
        Held::Inline(content) => Ok(frame::decode_record(framed.kind, content)?),
        Held::Blob(digest) => Ok(frame::decode_record(framed.kind, &blobs.get(digest)?)?),
    }
}

/// Why a record could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Log(#[from] LogError),
}

/// The row of one of the log's own types.
pub(crate) fn write_own<T: Own>(
    operation: OperationId,
    revision: u64,
    value: &T,
) -> Result<Vec<u8>, LogError> {
    let address = Address { family: T::FAMILY, operation, number: revision };
    frame::seal(address, T::KIND, false, &frame::encode(T::FAMILY.name(), value)?)
}

/// Reads a row of one of the log's own types, and its revision.
pub(crate) fn read_own<T: Own>(operation: OperationId, row: &[u8]) -> Result<(u64, T), FrameError> {
    let framed = frame::open(T::FAMILY, operation, None, row)?;
    if framed.kind > T::KIND {
        return Err(FrameError::NewerKind { kind: framed.kind, highest: T::KIND });
    }
    Ok((framed.address.number, frame::decode(framed.payload)?))
}

/// The row of a reference to a blob.
pub(crate) fn write_reference(operation: OperationId, digest: Digest) -> Result<Vec<u8>, LogError> {
    frame::seal(Address { family: Family::Reference, operation, number: 0 }, 1, false, &digest.0)
}

/// Checks the row of a reference.
pub(crate) fn check_reference(operation: OperationId, digest: Digest, row: &[u8]) -> Result<(), FrameError> {
    let framed = frame::open(Family::Reference, operation, Some(0), row)?;
    if framed.payload == digest.0 {
        Ok(())
    } else {
        Err(FrameError::Content("it names another blob".to_owned()))
    }
}
