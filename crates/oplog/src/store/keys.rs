//! The keys of the one tree. Numbers are big-endian, so that keys sort as what they mean; rows of one stream are
//! neighbours.
//!
//! ```text
//! f  stream 16  sequence 8        a fact
//! h  stream 16                    its head: see `head`
//! s  stream 16                    its summary
//! n  stream 16  sequence 8        its newest snapshot, and the last fact it covers
//! r  stream 16  digest 32         a blob it refers to; no value
//! v  inventory 16                    where an application has objects: see `stock`
//! ia length 2  application  stream 16    index by application; no value
//! is length 2  set  stream 16            index by set; no value
//! io stream 16  |  ie stream 16          index by state: open, ended; no value
//! ```

use tidegate_model::{Digest, StreamId};
use uuid::Uuid;

pub(crate) const FACT: u8 = b'f';
pub(crate) const HEAD: u8 = b'h';
pub(crate) const SUMMARY: u8 = b's';
pub(crate) const SNAPSHOT: u8 = b'n';
pub(crate) const REFERENCE: u8 = b'r';
pub(crate) const INVENTORY: u8 = b'v';
pub(crate) const INDEX: u8 = b'i';

const BY_APPLICATION: u8 = b'a';
const BY_SET: u8 = b's';
const OPEN: u8 = b'o';
const ENDED: u8 = b'e';

/// The families that hold a stream's own rows: everything but inventories and the index.
pub(crate) const OWN: [u8; 5] = [FACT, HEAD, SUMMARY, SNAPSHOT, REFERENCE];

/// A key taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Fact(StreamId, u64),
    Head(StreamId),
    Summary(StreamId),
    Snapshot(StreamId, u64),
    Reference(StreamId, Digest),
    Inventory(StreamId),
    Index,
}

/// Takes a key apart; `None` when this program writes no such key.
pub(crate) fn parse(key: &[u8]) -> Option<Key> {
    let (&[family], rest) = key.split_first_chunk::<1>()?;
    if family == INDEX {
        return Some(Key::Index);
    }
    let (id, rest) = rest.split_first_chunk::<16>()?;
    let stream = StreamId(Uuid::from_bytes(*id));
    match family {
        FACT => Some(Key::Fact(stream, u64::from_be_bytes(rest.try_into().ok()?))),
        SNAPSHOT => Some(Key::Snapshot(stream, u64::from_be_bytes(rest.try_into().ok()?))),
        REFERENCE => Some(Key::Reference(stream, Digest(rest.try_into().ok()?))),
        HEAD if rest.is_empty() => Some(Key::Head(stream)),
        SUMMARY if rest.is_empty() => Some(Key::Summary(stream)),
        INVENTORY if rest.is_empty() => Some(Key::Inventory(stream)),
        _ => None,
    }
}

/// What all rows of a family of a stream begin with; the whole key for heads and summaries.
pub(crate) fn of(family: u8, stream: StreamId) -> Vec<u8> {
    let mut key = Vec::with_capacity(49);
    key.push(family);
    key.extend_from_slice(stream.0.as_bytes());
    key
}

pub(crate) fn fact(stream: StreamId, sequence: u64) -> Vec<u8> {
    numbered(FACT, stream, sequence)
}

pub(crate) fn snapshot(stream: StreamId, sequence: u64) -> Vec<u8> {
    numbered(SNAPSHOT, stream, sequence)
}

pub(crate) fn reference(stream: StreamId, digest: Digest) -> Vec<u8> {
    let mut key = of(REFERENCE, stream);
    key.extend_from_slice(&digest.0);
    key
}

fn numbered(family: u8, stream: StreamId, sequence: u64) -> Vec<u8> {
    let mut key = of(family, stream);
    key.extend_from_slice(&sequence.to_be_bytes());
    key
}

/// The index rows of a stream.
pub(crate) fn index(
    stream: StreamId,
    application: Option<&str>,
    set: Option<&str>,
    open: bool,
) -> impl Iterator<Item = Vec<u8>> {
    let prefixes = [application.map(of_application), set.map(of_set), Some(of_state(open))];
    prefixes.into_iter().flatten().map(move |mut key| {
        key.extend_from_slice(stream.0.as_bytes());
        key
    })
}

/// What all index rows of an application begin with.
pub(crate) fn of_application(application: &str) -> Vec<u8> {
    of_name(BY_APPLICATION, application)
}

/// What all index rows of a set begin with.
pub(crate) fn of_set(set: &str) -> Vec<u8> {
    of_name(BY_SET, set)
}

/// The length keeps `shop` apart from `shopping`.
fn of_name(index: u8, name: &str) -> Vec<u8> {
    let length = u16::try_from(name.len()).unwrap_or(u16::MAX);
    let mut key = vec![INDEX, index];
    key.extend_from_slice(&length.to_be_bytes());
    key.extend_from_slice(name.as_bytes());
    key
}

/// What all index rows of open, or of ended, streams begin with.
pub(crate) fn of_state(open: bool) -> Vec<u8> {
    vec![INDEX, if open { OPEN } else { ENDED }]
}

/// Whose row it is, if it is one of a stream's own.
pub(crate) fn owner(key: &[u8]) -> Option<StreamId> {
    match parse(key)? {
        Key::Fact(stream, _)
        | Key::Head(stream)
        | Key::Summary(stream)
        | Key::Snapshot(stream, _)
        | Key::Reference(stream, _) => Some(stream),
        Key::Inventory(_) | Key::Index => None,
    }
}

/// The stream an index row ends with.
pub(crate) fn indexed(key: &[u8]) -> Option<StreamId> {
    key.last_chunk::<16>().map(|id| StreamId(Uuid::from_bytes(*id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_as_what_they_mean_and_come_apart_again() {
        let stream = StreamId(Uuid::from_u128(7));
        assert!(fact(stream, 255) < fact(stream, 256));
        assert!(fact(stream, u64::MAX) < fact(StreamId(Uuid::from_u128(8)), 1));
        let digest = Digest([9; 32]);
        assert_eq!(parse(&fact(stream, 3)), Some(Key::Fact(stream, 3)));
        assert_eq!(parse(&snapshot(stream, 3)), Some(Key::Snapshot(stream, 3)));
        assert_eq!(parse(&of(HEAD, stream)), Some(Key::Head(stream)));
        assert_eq!(parse(&reference(stream, digest)), Some(Key::Reference(stream, digest)));
        let keys: Vec<_> = index(stream, Some("shop"), Some("shops"), true).collect();
        assert_eq!(keys.len(), 3);
        for key in keys {
            assert_eq!(parse(&key), Some(Key::Index));
            assert_eq!(indexed(&key), Some(stream));
        }
        assert_eq!(index(stream, None, None, false).count(), 1);
        assert!(!of_application("shopping").starts_with(&of_application("shop")));
        for odd in [&b""[..], b"f", b"fshort", b"x0123456789abcdef", &of(FACT, stream)] {
            assert_eq!(parse(odd), None, "{odd:?}");
        }
    }
}
