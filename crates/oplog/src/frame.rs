//! The bytes of a record. The only module that knows the format on disk and the codec.
//!
//! ```text
//! offset  0     4        5       6     8       9        13     17
//!         magic version  family  kind  flags   length   crc32  payload …
//!         4     1        1       2 LE  1       4 LE     4 LE   `length` bytes
//! ```
//!
//! The checksum covers the key under which the record is kept, all fields before it, and the payload; so a record that
//! turns up under another key is as damaged as one with a flipped bit. Flag bit 0 says that the payload is not the
//! content but a reference to a blob that holds it.

use bincode::config::{Configuration, Limit, LittleEndian, Varint};
use bincode::serde::{decode_from_slice, encode_to_vec};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tidegate_model::LogRecord;

use crate::LogError;

const MAGIC: [u8; 4] = *b"TGLR";
const VERSION: u8 = 1;
const EXTERNAL: u8 = 1;

/// Length of everything before the payload.
pub(crate) const HEADER_BYTES: usize = 17;

/// Largest encoded record. A plan of 100,000 tasks is about half of it; anything larger is a mistake that should not
/// reach the disk.
pub(crate) const MAX_RECORD_BYTES: usize = 64 << 20;

/// What decoding may claim. The codec counts integers by their width in memory, which for small numbers is up to
/// sixteen times their bytes here, so this must exceed the largest record as many times.
const MAX_CLAIM_BYTES: usize = 16 * MAX_RECORD_BYTES;

/// Written out in full, so that no default of the codec can change the format.
const CODEC: Configuration<LittleEndian, Varint, Limit<MAX_CLAIM_BYTES>> = bincode::config::standard()
    .with_little_endian()
    .with_variable_int_encoding()
    .with_limit::<MAX_CLAIM_BYTES>();

/// Which family of rows a record belongs to. The numbers are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Fact,
    Snapshot,
    Head,
    Summary,
}

impl Family {
    const fn code(self) -> u8 {
        match self {
            Self::Fact => 1,
            Self::Snapshot => 2,
            Self::Head => 3,
            Self::Summary => 4,
        }
    }

    /// For messages.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Fact => "fact",
            Self::Snapshot => "snapshot",
            Self::Head => "head",
            Self::Summary => "summary",
        }
    }
}

/// What is wrong with the bytes of a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("{0} bytes are too few for a record")]
    TooShort(usize),
    #[error("it does not begin like a record")]
    NotARecord,
    #[error("format version {0} is not known here: written by a newer program")]
    NewerFormat(u8),
    #[error("its checksum does not match")]
    Checksum,
    #[error("it says it has {stated} bytes but has {found}")]
    Length { stated: usize, found: usize },
    #[error("it is of family {found}, not {}", expected.name())]
    WrongFamily { expected: Family, found: u8 },
    #[error("flags {0:#04x} are not known here: written by a newer program")]
    UnknownFlags(u8),
    #[error("kind {kind} is not known here (highest is {highest}): written by a newer program")]
    NewerKind { kind: u16, highest: u16 },
    #[error("it is marked as kind {marked} but holds kind {held}")]
    WrongKind { marked: u16, held: u16 },
    #[error("its content cannot be decoded: {0}")]
    Content(String),
    #[error("{0} bytes are left over behind its content")]
    Leftover(usize),
}

/// A record whose frame has been checked; its payload has not been decoded yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Framed<'a> {
    pub(crate) kind: u16,
    pub(crate) external: bool,
    pub(crate) payload: &'a [u8],
}

/// Content as bytes, without a frame.
pub(crate) fn encode<T: Serialize>(what: &'static str, content: &T) -> Result<Vec<u8>, LogError> {
    let bytes = encode_to_vec(content, CODEC)
        .map_err(|error| LogError::Encoding { what, reason: error.to_string() })?;
    if bytes.len() > MAX_RECORD_BYTES {
        return Err(LogError::TooLarge { what, bytes: bytes.len(), limit: MAX_RECORD_BYTES });
    }
    Ok(bytes)
}

/// Content from all of the bytes: the codec itself would ignore what a newer program wrote behind it.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, FrameError> {
    let (content, consumed) =
        decode_from_slice::<T, _>(bytes, CODEC).map_err(|error| FrameError::Content(error.to_string()))?;
    match bytes.len().saturating_sub(consumed) {
        0 => Ok(content),
        left => Err(FrameError::Leftover(left)),
    }
}

/// A logged record from its content, with the kind it was marked with.
pub(crate) fn decode_record<R: LogRecord>(kind: u16, content: &[u8]) -> Result<R, FrameError> {
    check_kind::<R>(kind)?;
    let record: R = decode(content)?;
    match record.kind() {
        held if held == kind => Ok(record),
        held => Err(FrameError::WrongKind { marked: kind, held }),
    }
}

/// Whether this program knows a kind, without decoding anything.
pub(crate) fn check_kind<R: LogRecord>(kind: u16) -> Result<(), FrameError> {
    if kind > R::HIGHEST_KIND {
        return Err(FrameError::NewerKind { kind, highest: R::HIGHEST_KIND });
    }
    Ok(())
}

/// Puts a payload into a frame that belongs under `key`.
pub(crate) fn seal(
    family: Family,
    key: &[u8],
    kind: u16,
    external: bool,
    payload: &[u8],
) -> Result<Vec<u8>, LogError> {
    let too_large =
        || LogError::TooLarge { what: family.name(), bytes: payload.len(), limit: MAX_RECORD_BYTES };
    let length = u32::try_from(payload.len()).map_err(|_| too_large())?;
    let mut bytes = Vec::with_capacity(HEADER_BYTES + payload.len());
    bytes.extend_from_slice(&MAGIC);
    bytes.push(VERSION);
    bytes.push(family.code());
    bytes.extend_from_slice(&kind.to_le_bytes());
    bytes.push(if external { EXTERNAL } else { 0 });
    bytes.extend_from_slice(&length.to_le_bytes());
    let checksum = checksum(key, &bytes, payload);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes.extend_from_slice(payload);
    Ok(bytes)
}

/// Checks the frame found under `key`.
pub(crate) fn open<'a>(family: Family, key: &[u8], bytes: &'a [u8]) -> Result<Framed<'a>, FrameError> {
    let short = || FrameError::TooShort(bytes.len());
    let (magic, rest) = bytes.split_first_chunk::<4>().ok_or_else(short)?;
    let (&[version, found_family], rest) = rest.split_first_chunk::<2>().ok_or_else(short)?;
    let (kind, rest) = rest.split_first_chunk::<2>().ok_or_else(short)?;
    let (&[flags], rest) = rest.split_first_chunk::<1>().ok_or_else(short)?;
    let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(short)?;
    let (stored, payload) = rest.split_first_chunk::<4>().ok_or_else(short)?;
    if *magic != MAGIC {
        return Err(FrameError::NotARecord);
    }
    // Before the checksum, because a later version may compute it over other fields.
    if version != VERSION {
        return Err(FrameError::NewerFormat(version));
    }
    let stated = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
    if stated != payload.len() {
        return Err(FrameError::Length { stated, found: payload.len() });
    }
    let fields = bytes.get(..HEADER_BYTES - 4).ok_or_else(short)?;
    if checksum(key, fields, payload) != u32::from_le_bytes(*stored) {
        return Err(FrameError::Checksum);
    }
    if found_family != family.code() {
        return Err(FrameError::WrongFamily { expected: family, found: found_family });
    }
    if flags & !EXTERNAL != 0 {
        return Err(FrameError::UnknownFlags(flags));
    }
    Ok(Framed { kind: u16::from_le_bytes(*kind), external: flags & EXTERNAL != 0, payload })
}

fn checksum(key: &[u8], fields: &[u8], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(key);
    hasher.update(fields);
    hasher.update(payload);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    enum Old {
        One(u32),
    }

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    enum New {
        One(u32),
        Two(String),
    }

    impl LogRecord for Old {
        const HIGHEST_KIND: u16 = 1;
        fn kind(&self) -> u16 {
            1
        }
    }

    impl LogRecord for New {
        const HIGHEST_KIND: u16 = 2;
        fn kind(&self) -> u16 {
            match self {
                Self::One(_) => 1,
                Self::Two(_) => 2,
            }
        }
    }

    fn sealed(record: &New) -> Vec<u8> {
        seal(Family::Fact, b"key", record.kind(), false, &encode("fact", record).unwrap()).unwrap()
    }

    #[test]
    fn the_bytes_of_a_record_are_pinned() {
        let hex: String = sealed(&New::Two("hi".into())).iter().map(|byte| format!("{byte:02x}")).collect();
        //               magic    v f kind fl length   crc32    payload
        assert_eq!(hex, "54474c52010102000004000000CRC01026869".replace("CRC", "22ca5a6d"));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let good = sealed(&New::One(70_000));
        assert!(open(Family::Fact, b"key", &good).is_ok());
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(open(Family::Fact, b"key", &bad).is_err(), "bit {bit}");
        }
        for cut in 0..good.len() {
            assert!(open(Family::Fact, b"key", &good[..cut]).is_err(), "cut at {cut}");
        }
        let mut long = good.clone();
        long.push(0);
        assert!(matches!(open(Family::Fact, b"key", &long), Err(FrameError::Length { .. })));
        assert_eq!(open(Family::Fact, b"kex", &good), Err(FrameError::Checksum), "filed under another key");
        assert!(matches!(open(Family::Head, b"key", &good), Err(FrameError::WrongFamily { .. })));
    }

    #[test]
    fn a_newer_kind_is_named() {
        let bytes = sealed(&New::Two("hi".into()));
        let framed = open(Family::Fact, b"key", &bytes).unwrap();
        let error = decode_record::<Old>(framed.kind, framed.payload).unwrap_err();
        assert_eq!(error, FrameError::NewerKind { kind: 2, highest: 1 });
        assert!(error.to_string().contains("newer program"));
        assert_eq!(decode_record::<New>(2, framed.payload).unwrap(), New::Two("hi".into()));
        assert_eq!(
            decode_record::<New>(1, framed.payload),
            Err(FrameError::WrongKind { marked: 1, held: 2 })
        );
    }

    #[test]
    fn content_must_be_used_up_and_cannot_ask_for_the_moon() {
        let mut bytes = encode("fact", &New::One(1)).unwrap();
        bytes.push(0);
        assert_eq!(decode::<New>(&bytes), Err(FrameError::Leftover(1)));
        let endless = [1, 253, 255, 255, 255, 255, 255, 255, 255, 127];
        assert!(matches!(decode::<New>(&endless), Err(FrameError::Content(_))));
    }
}
