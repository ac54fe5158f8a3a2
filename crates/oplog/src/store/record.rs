//! Encoding of records in rows. Small records are stored inline, large records in a blob that the row refers
//! to.

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidegate_model::{Digest, StreamId};

use super::head::Head;
use super::listing::ListingRow;
use crate::blobs::BlobStore;
use crate::frame::{self, Address, Family, FrameError, FramedRecord};
use crate::{LogError, Record};

/// Maximum size of an inline record in bytes. sled puts up to 17 rows on a page, and writes pages larger than
/// 128 KiB to separate files, which doubles the work. 17 rows of this size stay below that limit.
pub(crate) const INLINE_MAX_BYTES: usize = 6 << 10;

/// Location of a record's content.
pub(crate) enum ContentLocation<'a> {
    Inline(&'a [u8]),
    Blob(Digest),
}

/// Row of one of the log's own types, never stored in blobs.
pub(crate) trait LogRow: Serialize + DeserializeOwned {
    const FAMILY: Family;
    /// Number of the current row layout.
    const KIND: u16;

    /// Decodes the value from this or an earlier layout.
    fn read(_kind: u16, content: &[u8]) -> Result<Self, FrameError> {
        frame::decode_content(content)
    }
}

impl LogRow for Head {
    const FAMILY: Family = Family::Head;
    const KIND: u16 = 1;
}

impl LogRow for ListingRow {
    const FAMILY: Family = Family::Summary;
    const KIND: u16 = 1;
}

/// Returns the bytes of a row, and its blob if it has one. Large content is stored in the blob first.
pub(crate) fn place_record(
    record: &Record,
    address: Address,
    blobs: &BlobStore,
) -> Result<(Vec<u8>, Option<Digest>), LogError> {
    if record.content.len() <= INLINE_MAX_BYTES {
        return Ok((frame::frame_record(address, record.kind, false, &record.content)?, None));
    }
    let digest = blobs.put(&record.content)?;
    Ok((frame::frame_record(address, record.kind, true, &digest.0)?, Some(digest)))
}

/// Returns the location of a record's content.
pub(crate) fn content_location<'a>(framed: &FramedRecord<'a>) -> Result<ContentLocation<'a>, FrameError> {
    if !framed.is_external {
        return Ok(ContentLocation::Inline(framed.payload));
    }
    let digest = framed
        .payload
        .try_into()
        .map_err(|_| FrameError::InvalidContent("it does not refer to a blob".to_owned()))?;
    Ok(ContentLocation::Blob(Digest(digest)))
}

/// Reads a record from its row or, if it is large, from its blob.
pub(crate) fn read_record(address: Address, value: &[u8], blobs: &BlobStore) -> Result<Record, ReadError> {
    let framed = frame::open_frame(address.family, address.stream, Some(address.number), value)?;
    let content = match content_location(&framed)? {
        ContentLocation::Inline(content) => content.to_vec(),
        ContentLocation::Blob(digest) => blobs.get(digest)?,
    };
    Ok(Record { kind: framed.kind, content })
}

/// Error when reading a record.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Log(#[from] LogError),
}

/// Encodes a row of one of the log's own types.
pub(crate) fn encode_row<T: LogRow>(stream: StreamId, revision: u64, value: &T) -> Result<Vec<u8>, LogError> {
    let address = Address { family: T::FAMILY, stream, number: revision };
    frame::frame_record(address, T::KIND, false, &frame::encode_content(T::FAMILY.name(), value)?)
}

/// Decodes a row of one of the log's own types. Also returns its revision.
pub(crate) fn decode_row<T: LogRow>(stream: StreamId, row: &[u8]) -> Result<(u64, T), FrameError> {
    let framed = frame::open_frame(T::FAMILY, stream, None, row)?;
    if framed.kind > T::KIND {
        return Err(FrameError::NewerKind { kind: framed.kind, highest: T::KIND });
    }
    Ok((framed.address.number, T::read(framed.kind, framed.payload)?))
}

/// Encodes a row that refers to a blob.
pub(crate) fn encode_reference(stream: StreamId, digest: Digest) -> Result<Vec<u8>, LogError> {
    frame::frame_record(Address { family: Family::Reference, stream, number: 0 }, 1, false, &digest.0)
}

/// Checks that a reference row and its key refer to the same blob.
pub(crate) fn check_reference(stream: StreamId, digest: Digest, row: &[u8]) -> Result<(), FrameError> {
    let framed = frame::open_frame(Family::Reference, stream, Some(0), row)?;
    if framed.payload == digest.0 {
        Ok(())
    } else {
        Err(FrameError::InvalidContent("the reference and its key name different blobs".to_owned()))
    }
}
