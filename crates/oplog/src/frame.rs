//! The bytes of a record. The only module that knows the format on disk and the codec.
//!
//! ```text
//! offset  0     4        5       6     8      9          25      33      37     41
//!         magic version  family  kind  flags  stream  number  length  crc32  payload …
//!         4     1        1       2 LE  1      16         8 LE    4 LE    4 LE   `length` bytes
//! ```
//!
//! The checksum covers all fields before it and the payload. A record says itself where it belongs, so one that turns up
//! in another place is noticed, and one that is found in the ruins of a database can be put back. The number of a fact
//! or snapshot is its sequence; of a head or summary it is the revision, of which the highest counts. Flag bit 0 says that
//! the payload is not the content but the digest of a blob that holds it.

use bincode::config::{Configuration, Limit, LittleEndian, Varint};
use bincode::serde::{decode_from_slice, encode_to_vec};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tidegate_model::{Content, LogRecord, StreamId};
use uuid::Uuid;

use crate::LogError;

const MAGIC: [u8; 4] = *b"TGLR";
const VERSION: u8 = 1;
const EXTERNAL: u8 = 1;

/// Length of everything before the payload.
pub(crate) const HEADER_BYTES: usize = 41;

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

/// Which family of rows a record belongs to. The codes are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Fact,
    Snapshot,
    Head,
    Summary,
    Reference,
    Inventory,
}

impl Family {
    const ALL: [Self; 6] =
        [Self::Fact, Self::Snapshot, Self::Head, Self::Summary, Self::Reference, Self::Inventory];

    const fn code(self) -> u8 {
        match self {
            Self::Fact => 1,
            Self::Snapshot => 2,
            Self::Head => 3,
            Self::Summary => 4,
            Self::Reference => 5,
            Self::Inventory => 6,
        }
    }

    /// The word for it in errors.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Fact => "fact",
            Self::Snapshot => "snapshot",
            Self::Head => "head",
            Self::Summary => "summary",
            Self::Reference => "reference",
            Self::Inventory => "inventory",
        }
    }
}

/// Where a record belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) family: Family,
    pub(crate) stream: StreamId,
    pub(crate) number: u64,
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
    #[error("family {0} is not known here: written by a newer program")]
    NewerFamily(u8),
    #[error("it belongs elsewhere: it is {} {} of stream {}", found.family.name(), found.number, found.stream)]
    Misplaced { found: Address },
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
    pub(crate) address: Address,
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

/// The content of a record as it is on disk.
struct Bytes<'a>(&'a [u8]);

impl Content for Bytes<'_> {
    type Error = FrameError;

    fn read<T: DeserializeOwned>(&self) -> Result<T, FrameError> {
        decode(self.0)
    }
}

/// A logged record from its content, with the kind it was marked with.
pub(crate) fn decode_record<R: LogRecord>(kind: u16, content: &[u8]) -> Result<R, FrameError> {
    check_kind::<R>(kind)?;
    if R::is_earlier(kind) {
        return R::read_earlier(kind, &Bytes(content));
    }
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

/// Puts a payload into a frame.
pub(crate) fn seal(address: Address, kind: u16, external: bool, payload: &[u8]) -> Result<Vec<u8>, LogError> {
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

/// Checks a record that should be of a stream's family, and bear a number if one is given.
pub(crate) fn open(
    family: Family,
    stream: StreamId,
    number: Option<u64>,
    bytes: &[u8],
) -> Result<Framed<'_>, FrameError> {
    let (framed, rest) = parse(bytes)?;
    if !rest.is_empty() {
        return Err(FrameError::Length {
            stated: bytes.len().saturating_sub(rest.len()),
            found: bytes.len(),
        });
    }
    let found = framed.address;
    if found.family != family || found.stream != stream || number.is_some_and(|number| number != found.number)
    {
        return Err(FrameError::Misplaced { found });
    }
    Ok(framed)
}

/// Checks the record that bytes begin with, wherever it belongs; also returns what follows it.
pub(crate) fn parse(bytes: &[u8]) -> Result<(Framed<'_>, &[u8]), FrameError> {
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
    // Before the checksum, because a later version may compute it over other fields.
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
    let framed =
        Framed { address, kind: u16::from_le_bytes(*kind), external: flags & EXTERNAL != 0, payload };
    Ok((framed, rest))
}

/// Where in `bytes` a record may begin.
pub(crate) fn find(bytes: &[u8]) -> Option<usize> {
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
        const HIGHEST_KIND: u16 = 1;
        fn is_earlier(_: u16) -> bool {
            false
        }
        fn kind(&self) -> u16 {
            1
        }
    }

    impl LogRecord for New {
        type Earlier = Self;
        const HIGHEST_KIND: u16 = 2;
        fn is_earlier(_: u16) -> bool {
            false
        }
        fn kind(&self) -> u16 {
            match self {
                Self::One(_) => 1,
                Self::Two(_) => 2,
            }
        }
    }

    const OPERATION: StreamId = StreamId(Uuid::from_u128(0x0102_0304));

    fn sealed(record: &New) -> Vec<u8> {
        let address = Address { family: Family::Fact, stream: OPERATION, number: 7 };
        seal(address, record.kind(), false, &encode("fact", record).unwrap()).unwrap()
    }

    fn fact(bytes: &[u8]) -> Result<Framed<'_>, FrameError> {
        open(Family::Fact, OPERATION, Some(7), bytes)
    }

    #[test]
    fn the_bytes_of_a_record_are_pinned() {
        let hex: String = sealed(&New::Two("hi".into())).iter().map(|byte| format!("{byte:02x}")).collect();
        let stream = "00000000000000000000000001020304";
        let expected = format!("54474c52 01 01 0200 00 {stream} 0700000000000000 04000000 CRC 01026869");
        assert_eq!(hex, expected.replace(' ', "").replace("CRC", "87bab977"));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let good = sealed(&New::One(70_000));
        assert!(fact(&good).is_ok());
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(fact(&bad).is_err(), "bit {bit}");
        }
        for cut in 0..good.len() {
            assert!(fact(&good[..cut]).is_err(), "cut at {cut}");
        }
        let mut long = good.clone();
        long.push(0);
        assert!(matches!(fact(&long), Err(FrameError::Length { .. })));
        let other = StreamId(Uuid::from_u128(5));
        for misplaced in [
            open(Family::Head, OPERATION, None, &good),
            open(Family::Fact, other, Some(7), &good),
            open(Family::Fact, OPERATION, Some(8), &good),
        ] {
            assert!(matches!(misplaced, Err(FrameError::Misplaced { .. })));
        }
        let ruins = [b"TGL", good.as_slice(), b"TGLR"].concat();
        assert_eq!(
            parse(&ruins[find(&ruins).unwrap()..]).unwrap(),
            (fact(&good).unwrap(), b"TGLR".as_slice())
        );
    }

    #[test]
    fn a_newer_kind_is_named() {
        let bytes = sealed(&New::Two("hi".into()));
        let framed = fact(&bytes).unwrap();
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
