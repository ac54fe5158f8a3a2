//! Binary format of records. Only this module knows the on-disk format and the codec.
//!
//! ```text
//! offset  0     4        5       6     8      9          25      33      37     41
//!         magic version  family  kind  flags  stream  number  length  crc32  payload …
//!         4     1        1       2 LE  1      16         8 LE    4 LE    4 LE   `length` bytes
//! ```
//!
//! The checksum covers the payload and all fields before it. Each record contains its own address, so a
//! misplaced record is detected, and records from a broken database can be restored under their keys. The
//! number of an event or snapshot is its sequence number. The number of a head or summary is its revision;
//! only the highest revision is valid. If bit 0 of the flags is set, the payload is the digest of the blob
//! with the content.

use bincode::config::{Configuration, Limit, LittleEndian, Varint};
use bincode::serde::{decode_from_slice, encode_to_vec};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tidegate_model::{LogRecord, RecordContent, StreamId};
use uuid::Uuid;

use crate::LogError;

const MAGIC: [u8; 4] = *b"TGLR";
const VERSION: u8 = 1;
const EXTERNAL: u8 = 1;

/// Number of bytes before the payload.
pub(crate) const HEADER_BYTES: usize = 41;

/// Maximum size of an encoded record in bytes. A plan with 100,000 tasks takes about half of it. Larger
/// records are bugs and must not reach the disk.
pub(crate) const MAX_RECORD_BYTES: usize = 64 << 20;

/// Maximum memory in bytes that a decoded value may claim. The codec counts integers by their width in
/// memory, up to sixteen times their encoded size. This limit therefore exceeds the largest record by that
/// factor.
const MAX_CLAIM_BYTES: usize = 16 * MAX_RECORD_BYTES;

/// Explicit configuration, so that changes to the codec's defaults can't change the format.
const CODEC: Configuration<LittleEndian, Varint, Limit<MAX_CLAIM_BYTES>> = bincode::config::standard()
    .with_little_endian()
    .with_variable_int_encoding()
    .with_limit::<MAX_CLAIM_BYTES>();

/// Family of a record. The codes are part of the on-disk format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Event,
    Snapshot,
    Head,
    Summary,
    Reference,
    Inventory,
}

impl Family {
    const ALL: [Self; 6] =
        [Self::Event, Self::Snapshot, Self::Head, Self::Summary, Self::Reference, Self::Inventory];

    const fn code(self) -> u8 {
        match self {
            Self::Event => 1,
            Self::Snapshot => 2,
            Self::Head => 3,
            Self::Summary => 4,
            Self::Reference => 5,
            Self::Inventory => 6,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Event => "fact",
            Self::Snapshot => "snapshot",
            Self::Head => "head",
            Self::Summary => "summary",
            Self::Reference => "reference",
            Self::Inventory => "inventory",
        }
    }
}

/// Address of a record within the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) family: Family,
    pub(crate) stream: StreamId,
    pub(crate) number: u64,
}

/// Invalid record bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("too short for a record: {0} bytes")]
    TooShort(usize),
    #[error("the record has no header")]
    NotARecord,
    #[error("unknown format version {0}: written by a newer version")]
    NewerFormat(u8),
    #[error("the checksum does not match")]
    Checksum,
    #[error("the header states a length of {stated} bytes, but the record has {found}")]
    Length { stated: usize, found: usize },
    #[error("unknown family {0}: written by a newer version")]
    NewerFamily(u8),
    #[error(
        "the record is stored under the wrong key: it is {} {} of stream {}",
        found.family.name(),
        found.number,
        found.stream
    )]
    LengthMismatch { found: Address },
    #[error("unknown flags {0:#04x}: written by a newer version")]
    UnknownFlags(u8),
    #[error("unknown kind {kind} (highest known kind: {highest}): written by a newer version")]
    NewerKind { kind: u16, highest: u16 },
    #[error("the record is marked as kind {marked} but contains kind {held}")]
    KindMismatch { marked: u16, held: u16 },
    #[error("the content cannot be decoded: {0}")]
    InvalidContent(String),
    #[error("{0} extra bytes follow the content")]
    TrailingBytes(usize),
}

/// Record with a verified frame and an undecoded payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FramedRecord<'a> {
    pub(crate) address: Address,
    pub(crate) kind: u16,
    pub(crate) is_external: bool,
    pub(crate) payload: &'a [u8],
}

/// Encodes content without a frame.
pub(crate) fn encode_content<T: Serialize>(what: &'static str, content: &T) -> Result<Vec<u8>, LogError> {
    let bytes = encode_to_vec(content, CODEC)
        .map_err(|error| LogError::Encoding { what, reason: error.to_string() })?;
    if bytes.len() > MAX_RECORD_BYTES {
        return Err(LogError::TooLarge { what, bytes: bytes.len(), limit: MAX_RECORD_BYTES });
    }
    Ok(bytes)
}

/// Decodes content, and rejects trailing bytes. The codec itself would ignore data that a newer program adds
/// at the end.
pub(crate) fn decode_content<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, FrameError> {
    let (content, consumed) = decode_from_slice::<T, _>(bytes, CODEC)
        .map_err(|error| FrameError::InvalidContent(error.to_string()))?;
    match bytes.len().saturating_sub(consumed) {
        0 => Ok(content),
        left => Err(FrameError::TrailingBytes(left)),
    }
}

/// Stored content of a record.
struct Bytes<'a>(&'a [u8]);

impl RecordContent for Bytes<'_> {
    type Error = FrameError;

    fn read<T: DeserializeOwned>(&self) -> Result<T, FrameError> {
        decode_content(self.0)
    }
}

/// Decodes a record from its kind and content.
pub(crate) fn decode_record<R: LogRecord>(kind: u16, content: &[u8]) -> Result<R, FrameError> {
    check_kind::<R>(kind)?;
    if R::is_earlier(kind) {
        return R::read_earlier(kind, &Bytes(content));
    }
    let record: R = decode_content(content)?;
    match record.kind() {
        held if held == kind => Ok(record),
        held => Err(FrameError::KindMismatch { marked: kind, held }),
    }
}

/// Checks that this program knows a record's kind, without decoding the record.
pub(crate) fn check_kind<R: LogRecord>(kind: u16) -> Result<(), FrameError> {
    if kind > R::HIGHEST_KIND {
        return Err(FrameError::NewerKind { kind, highest: R::HIGHEST_KIND });
    }
    Ok(())
}

pub(crate) fn frame_record(
    address: Address,
    kind: u16,
    external: bool,
    payload: &[u8],
) -> Result<Vec<u8>, LogError> {
    let what = address.family.name();
    let too_large = || LogError::TooLarge { what, bytes: payload.len(), limit: MAX_RECORD_BYTES };
    let length = u32::try_from(payload.len()).map_err(|_| too_large())?;
    let mut bytes = Vec::with_capacity(HEADER_BYTES + payload.len());
    bytes.extend_from_slice(&MAGIC);
    bytes.push(VERSION);
    bytes.push(address.family.code());
    bytes.extend_from_slice(&kind.to_le_bytes());
    bytes.push(if external { EXTERNAL } else { 0 });
    bytes.extend_from_slice(address.stream.0.as_bytes());
    bytes.extend_from_slice(&address.number.to_le_bytes());
    bytes.extend_from_slice(&length.to_le_bytes());
    let checksum = checksum(&bytes, payload);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes.extend_from_slice(payload);
    Ok(bytes)
}

/// Checks the family, the stream and, if set, the number of a record.
pub(crate) fn open_frame(
    family: Family,
    stream: StreamId,
    number: Option<u64>,
    bytes: &[u8],
) -> Result<FramedRecord<'_>, FrameError> {
    let (framed, rest) = parse_frame(bytes)?;
    if !rest.is_empty() {
        return Err(FrameError::Length {
            stated: bytes.len().saturating_sub(rest.len()),
            found: bytes.len(),
        });
    }
    let found = framed.address;
    if found.family != family || found.stream != stream || number.is_some_and(|number| number != found.number)
    {
        return Err(FrameError::LengthMismatch { found });
    }
    Ok(framed)
}

/// Checks the record at the start of `bytes`, whatever its address. Also returns the remaining bytes.
pub(crate) fn parse_frame(bytes: &[u8]) -> Result<(FramedRecord<'_>, &[u8]), FrameError> {
    let short = || FrameError::TooShort(bytes.len());
    let (magic, rest) = bytes.split_first_chunk::<4>().ok_or_else(short)?;
    let (&[version, family], rest) = rest.split_first_chunk::<2>().ok_or_else(short)?;
    let (kind, rest) = rest.split_first_chunk::<2>().ok_or_else(short)?;
    let (&[flags], rest) = rest.split_first_chunk::<1>().ok_or_else(short)?;
    let (stream, rest) = rest.split_first_chunk::<16>().ok_or_else(short)?;
    let (number, rest) = rest.split_first_chunk::<8>().ok_or_else(short)?;
    let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(short)?;
    let (stored, rest) = rest.split_first_chunk::<4>().ok_or_else(short)?;
    if *magic != MAGIC {
        return Err(FrameError::NotARecord);
    }
    // Check the version before the checksum: a later version may compute the checksum over other fields.
    if version != VERSION {
        return Err(FrameError::NewerFormat(version));
    }
    let stated = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
    let (payload, rest) =
        rest.split_at_checked(stated).ok_or(FrameError::Length { stated, found: rest.len() })?;
    let fields = bytes.get(..HEADER_BYTES - 4).ok_or_else(short)?;
    if checksum(fields, payload) != u32::from_le_bytes(*stored) {
        return Err(FrameError::Checksum);
    }
    let known = Family::ALL.into_iter().find(|known| known.code() == family);
    let family = known.ok_or(FrameError::NewerFamily(family))?;
    if flags & !EXTERNAL != 0 {
        return Err(FrameError::UnknownFlags(flags));
    }
    let stream = StreamId(Uuid::from_bytes(*stream));
    let address = Address { family, stream, number: u64::from_le_bytes(*number) };
    let framed = FramedRecord {
        address,
        kind: u16::from_le_bytes(*kind),
        is_external: flags & EXTERNAL != 0,
        payload,
    };
    Ok((framed, rest))
}

/// Returns the first offset in `bytes` where a record may start.
pub(crate) fn find_frame(bytes: &[u8]) -> Option<usize> {
    bytes.windows(MAGIC.len()).position(|window| window == MAGIC)
}

fn checksum(fields: &[u8], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
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
        type Earlier = Self;
    }

    impl LogRecord for New {
        type Earlier = Self;
        const HIGHEST_KIND: u16 = 2;

        fn kind(&self) -> u16 {
            match self {
                Self::One(_) => 1,
                Self::Two(_) => 2,
            }
        }
    }

    const OPERATION: StreamId = StreamId(Uuid::from_u128(0x0102_0304));

    fn sealed_record(record: &New) -> Vec<u8> {
        let address = Address { family: Family::Event, stream: OPERATION, number: 7 };
        frame_record(address, record.kind(), false, &encode_content("fact", record).unwrap()).unwrap()
    }

    fn open_event(bytes: &[u8]) -> Result<FramedRecord<'_>, FrameError> {
        open_frame(Family::Event, OPERATION, Some(7), bytes)
    }

    #[test]
    fn the_bytes_of_a_record_are_pinned() {
        let hex: String =
            sealed_record(&New::Two("hi".into())).iter().map(|byte| format!("{byte:02x}")).collect();
        let stream = "00000000000000000000000001020304";
        let expected = format!("54474c52 01 01 0200 00 {stream} 0700000000000000 04000000 CRC 01026869");
        assert_eq!(hex, expected.replace(' ', "").replace("CRC", "87bab977"));
    }

    #[test]
    fn every_flipped_bit_and_every_truncation_is_detected() {
        let good = sealed_record(&New::One(70_000));
        assert!(open_event(&good).is_ok());
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(open_event(&bad).is_err(), "bit {bit}");
        }
        for cut in 0..good.len() {
            assert!(open_event(&good[..cut]).is_err(), "cut at {cut}");
        }
        let mut long = good.clone();
        long.push(0);
        assert!(matches!(open_event(&long), Err(FrameError::Length { .. })));
        let other = StreamId(Uuid::from_u128(5));
        for misplaced in [
            open_frame(Family::Head, OPERATION, None, &good),
            open_frame(Family::Event, other, Some(7), &good),
            open_frame(Family::Event, OPERATION, Some(8), &good),
        ] {
            assert!(matches!(misplaced, Err(FrameError::LengthMismatch { .. })));
        }
        let ruins = [b"TGL", good.as_slice(), b"TGLR"].concat();
        assert_eq!(
            parse_frame(&ruins[find_frame(&ruins).unwrap()..]).unwrap(),
            (open_event(&good).unwrap(), b"TGLR".as_slice())
        );
    }

    #[test]
    fn a_newer_kind_is_named() {
        let bytes = sealed_record(&New::Two("hi".into()));
        let framed = open_event(&bytes).unwrap();
        let error = decode_record::<Old>(framed.kind, framed.payload).unwrap_err();
        assert_eq!(error, FrameError::NewerKind { kind: 2, highest: 1 });
        assert!(error.to_string().contains("newer version"));
        assert_eq!(decode_record::<New>(2, framed.payload).unwrap(), New::Two("hi".into()));
        assert_eq!(
            decode_record::<New>(1, framed.payload),
            Err(FrameError::KindMismatch { marked: 1, held: 2 })
        );
    }

    #[test]
    fn trailing_bytes_and_excessive_allocations_are_refused() {
        let mut bytes = encode_content("fact", &New::One(1)).unwrap();
        bytes.push(0);
        assert_eq!(decode_content::<New>(&bytes), Err(FrameError::TrailingBytes(1)));
        let endless = [1, 253, 255, 255, 255, 255, 255, 255, 255, 127];
        assert!(matches!(decode_content::<New>(&endless), Err(FrameError::InvalidContent(_))));
    }
}
