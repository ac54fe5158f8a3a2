//! Records between their frame and their meaning: small ones are in the row, large ones in a blob the row points to.

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidegate_model::{Digest, StreamId};

use super::earlier;
use super::head::Head;
use super::line::Line;
use crate::blobs::BlobStore;
use crate::frame::{self, Address, Family, FrameError, Framed};
use crate::{LogError, Record};

/// Records up to this size are kept in their row. sled puts up to 17 rows on a page and writes a page of more than
/// 128 KiB to a file of its own, twice the work; 17 rows of this size stay below that.
pub(crate) const INLINE_MAX_BYTES: usize = 6 << 10;

/// Where a record's content is.
pub(crate) enum Held<'a> {
    Inline(&'a [u8]),
    Blob(Digest),
}

/// Rows of the log's own types, which are always in the row.
pub(crate) trait Own: Serialize + DeserializeOwned {
    const FAMILY: Family;
    /// The layout that is written.
    const KIND: u16;

    /// From its bytes, in this layout or an earlier one.
    fn read(kind: u16, content: &[u8]) -> Result<Self, FrameError>;
}

impl Own for Head {
    const FAMILY: Family = Family::Head;
    const KIND: u16 = 2;

    fn read(kind: u16, content: &[u8]) -> Result<Self, FrameError> {
        match kind {
            0 | 1 => frame::decode::<earlier::Head>(content).map(Into::into),
            _ => frame::decode(content),
        }
    }
}

impl Own for Line {
    const FAMILY: Family = Family::Summary;
    const KIND: u16 = 2;

    fn read(kind: u16, content: &[u8]) -> Result<Self, FrameError> {
        match kind {
            0 | 1 => frame::decode::<earlier::Summary>(content)?.into_line(),
            _ => frame::decode(content),
        }
    }
}

/// The bytes of a row, after the content was put into a blob if it is large; and that blob.
pub(crate) fn place(
    record: &Record,
    address: Address,
    blobs: &BlobStore,
) -> Result<(Vec<u8>, Option<Digest>), LogError> {
    if record.content.len() <= INLINE_MAX_BYTES {
        return Ok((frame::seal(address, record.kind, false, &record.content)?, None));
    }
    let digest = blobs.put(&record.content)?;
    Ok((frame::seal(address, record.kind, true, &digest.0)?, Some(digest)))
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
pub(crate) fn read(address: Address, value: &[u8], blobs: &BlobStore) -> Result<Record, ReadError> {
    let framed = frame::open(address.family, address.stream, Some(address.number), value)?;
    let content = match held(&framed)? {
        Held::Inline(content) => content.to_vec(),
        Held::Blob(digest) => blobs.get(digest)?,
    };
    Ok(Record { kind: framed.kind, content })
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
pub(crate) fn write_own<T: Own>(stream: StreamId, revision: u64, value: &T) -> Result<Vec<u8>, LogError> {
    let address = Address { family: T::FAMILY, stream, number: revision };
    frame::seal(address, T::KIND, false, &frame::encode(T::FAMILY.name(), value)?)
}

/// Reads a row of one of the log's own types, and its revision.
pub(crate) fn read_own<T: Own>(stream: StreamId, row: &[u8]) -> Result<(u64, T), FrameError> {
    let framed = frame::open(T::FAMILY, stream, None, row)?;
    if framed.kind > T::KIND {
        return Err(FrameError::NewerKind { kind: framed.kind, highest: T::KIND });
    }
    Ok((framed.address.number, T::read(framed.kind, framed.payload)?))
}

/// The row of a reference to a blob.
pub(crate) fn write_reference(stream: StreamId, digest: Digest) -> Result<Vec<u8>, LogError> {
    frame::seal(Address { family: Family::Reference, stream, number: 0 }, 1, false, &digest.0)
}

/// Whether the row of a reference names the blob that its key does.
pub(crate) fn check_reference(stream: StreamId, digest: Digest, row: &[u8]) -> Result<(), FrameError> {
    let framed = frame::open(Family::Reference, stream, Some(0), row)?;
    if framed.payload == digest.0 {
        Ok(())
    } else {
        Err(FrameError::Content("it names another blob".to_owned()))
    }
}
