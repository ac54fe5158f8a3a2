//! Records between their frame and their meaning: small ones are in the row, large ones in a blob the row points to.

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidegate_model::{Digest, LogRecord};

use super::head::Head;
use crate::blobs::BlobStore;
use crate::frame::{self, Family, FrameError, Framed};
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
    const KIND: u16;
}

impl Own for Head {
    const KIND: u16 = Head::KIND;
}

impl Own for Summary {
    const KIND: u16 = 1;
}

impl Encoded {
    pub(crate) fn new<R: LogRecord>(what: &'static str, record: &R) -> Result<Self, LogError> {
        Ok(Self { kind: record.kind(), content: frame::encode(what, record)? })
    }

    /// The bytes of the row, after the content was put into a blob if it is large; and that blob.
    pub(crate) fn place(
        &self,
        family: Family,
        key: &[u8],
        blobs: &BlobStore,
    ) -> Result<(Vec<u8>, Option<Digest>), LogError> {
        if self.content.len() <= INLINE_MAX_BYTES {
            return Ok((frame::seal(family, key, self.kind, false, &self.content)?, None));
        }
        let digest = blobs.put(&self.content)?;
        Ok((frame::seal(family, key, self.kind, true, &digest.0)?, Some(digest)))
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
pub(crate) fn read<R: LogRecord>(
    family: Family,
    key: &[u8],
    value: &[u8],
    blobs: &BlobStore,
) -> Result<R, ReadError> {
    let framed = frame::open(family, key, value)?;
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
pub(crate) fn write_own<T: Own>(family: Family, key: &[u8], value: &T) -> Result<Vec<u8>, LogError> {
    frame::seal(family, key, T::KIND, false, &frame::encode(family.name(), value)?)
}

/// Reads a row of one of the log's own types.
pub(crate) fn read_own<T: Own>(family: Family, key: &[u8], value: &[u8]) -> Result<T, FrameError> {
    let framed = frame::open(family, key, value)?;
    if framed.kind > T::KIND {
        return Err(FrameError::NewerKind { kind: framed.kind, highest: T::KIND });
    }
    frame::decode(framed.payload)
}
