//! Keys of the database's only tree. Numbers are big-endian, so that keys sort by value. Within a family, all
//! rows of a stream are adjacent.
//!
//! ```text
//! f  stream 16  sequence 8        an event
//! h  stream 16                    its head: see `head`
//! s  stream 16                    its summary
//! n  stream 16  sequence 8        its newest snapshot, and the last event covered
//! r  stream 16  digest 32         a blob that the stream refers to; no value
//! v  inventory 16                    the keys of an application's objects: see `inventories`
//! ia length 2  application  stream 16    index by application; no value
//! is length 2  set  stream 16            index by ApplicationSet; no value
//! io stream 16  |  ie stream 16          index by state: open, ended; no value
//! ```

use tidegate_model::{Digest, StreamId};
use uuid::Uuid;

pub(crate) const EVENT: u8 = b'f';
pub(crate) const HEAD: u8 = b'h';
pub(crate) const SUMMARY: u8 = b's';
pub(crate) const SNAPSHOT: u8 = b'n';
pub(crate) const REFERENCE: u8 = b'r';
pub(crate) const INVENTORY: u8 = b'v';
pub(crate) const INDEX: u8 = b'i';

const BY_APPLICATION: u8 = b'a';
const BY_APPSET: u8 = b's';
const OPEN: u8 = b'o';
const ENDED: u8 = b'e';

/// Families of rows that belong to a single stream: all but inventories and the index.
pub(crate) const STREAM_FAMILIES: [u8; 5] = [EVENT, HEAD, SUMMARY, SNAPSHOT, REFERENCE];

/// A parsed key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Event(StreamId, u64),
    Head(StreamId),
    Summary(StreamId),
    Snapshot(StreamId, u64),
    Reference(StreamId, Digest),
    Inventory(StreamId),
    Index,
}

/// Parses a key, or returns `None` if this program never writes it.
pub(crate) fn parse(key: &[u8]) -> Option<Key> {
    let (&[family], rest) = key.split_first_chunk::<1>()?;
    if family == INDEX {
        return Some(Key::Index);
    }
    let (id, rest) = rest.split_first_chunk::<16>()?;
    let stream = StreamId(Uuid::from_bytes(*id));
    match family {
        EVENT => Some(Key::Event(stream, u64::from_be_bytes(rest.try_into().ok()?))),
        SNAPSHOT => Some(Key::Snapshot(stream, u64::from_be_bytes(rest.try_into().ok()?))),
        REFERENCE => Some(Key::Reference(stream, Digest(rest.try_into().ok()?))),
        HEAD if rest.is_empty() => Some(Key::Head(stream)),
        SUMMARY if rest.is_empty() => Some(Key::Summary(stream)),
        INVENTORY if rest.is_empty() => Some(Key::Inventory(stream)),
        _ => None,
    }
}

/// Returns the key prefix for one family of a stream's rows. For heads and summaries, it is the whole key.
pub(crate) fn prefix(family: u8, stream: StreamId) -> Vec<u8> {
    let mut key = Vec::with_capacity(49);
    key.push(family);
    key.extend_from_slice(stream.0.as_bytes());
    key
}

pub(crate) fn event(stream: StreamId, sequence: u64) -> Vec<u8> {
    numbered_key(EVENT, stream, sequence)
}

pub(crate) fn snapshot(stream: StreamId, sequence: u64) -> Vec<u8> {
    numbered_key(SNAPSHOT, stream, sequence)
}

pub(crate) fn reference(stream: StreamId, digest: Digest) -> Vec<u8> {
    let mut key = prefix(REFERENCE, stream);
    key.extend_from_slice(&digest.0);
    key
}

fn numbered_key(family: u8, stream: StreamId, sequence: u64) -> Vec<u8> {
    let mut key = prefix(family, stream);
    key.extend_from_slice(&sequence.to_be_bytes());
    key
}

pub(crate) fn index_keys(
    stream: StreamId,
    application: Option<&str>,
    set: Option<&str>,
    open: bool,
) -> impl Iterator<Item = Vec<u8>> {
    let prefixes = [application.map(application_prefix), set.map(appset_prefix), Some(state_prefix(open))];
    prefixes.into_iter().flatten().map(move |mut key| {
        key.extend_from_slice(stream.0.as_bytes());
        key
    })
}

/// Returns the prefix of all index keys of an application.
pub(crate) fn application_prefix(application: &str) -> Vec<u8> {
    name_prefix(BY_APPLICATION, application)
}

/// Returns the prefix of all index keys of an ApplicationSet.
pub(crate) fn appset_prefix(set: &str) -> Vec<u8> {
    name_prefix(BY_APPSET, set)
}

/// Returns the key prefix for a name. The length tells `shop` from `shopping`.
fn name_prefix(index: u8, name: &str) -> Vec<u8> {
    let length = u16::try_from(name.len()).unwrap_or(u16::MAX);
    let mut key = vec![INDEX, index];
    key.extend_from_slice(&length.to_be_bytes());
    key.extend_from_slice(name.as_bytes());
    key
}

/// Returns the prefix of all index keys of open or finished streams.
pub(crate) fn state_prefix(open: bool) -> Vec<u8> {
    vec![INDEX, if open { OPEN } else { ENDED }]
}

/// Returns the stream of a row, or `None` for inventories and index rows.
pub(crate) fn owner_of(key: &[u8]) -> Option<StreamId> {
    match parse(key)? {
        Key::Event(stream, _)
        | Key::Head(stream)
        | Key::Summary(stream)
        | Key::Snapshot(stream, _)
        | Key::Reference(stream, _) => Some(stream),
        Key::Inventory(_) | Key::Index => None,
    }
}

/// Returns the stream at the end of an index key.
pub(crate) fn indexed_stream(key: &[u8]) -> Option<StreamId> {
    key.last_chunk::<16>().map(|id| StreamId(Uuid::from_bytes(*id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_by_value_and_parse_back() {
        let stream = StreamId(Uuid::from_u128(7));
        assert!(event(stream, 255) < event(stream, 256));
        assert!(event(stream, u64::MAX) < event(StreamId(Uuid::from_u128(8)), 1));
        let digest = Digest([9; 32]);
        assert_eq!(parse(&event(stream, 3)), Some(Key::Event(stream, 3)));
        assert_eq!(parse(&snapshot(stream, 3)), Some(Key::Snapshot(stream, 3)));
        assert_eq!(parse(&prefix(HEAD, stream)), Some(Key::Head(stream)));
        assert_eq!(parse(&reference(stream, digest)), Some(Key::Reference(stream, digest)));
        let keys: Vec<_> = index_keys(stream, Some("shop"), Some("shops"), true).collect();
        assert_eq!(keys.len(), 3);
        for key in keys {
            assert_eq!(parse(&key), Some(Key::Index));
            assert_eq!(indexed_stream(&key), Some(stream));
        }
        assert_eq!(index_keys(stream, None, None, false).count(), 1);
        assert!(!application_prefix("shopping").starts_with(&application_prefix("shop")));
        for odd in [&b""[..], b"f", b"fshort", b"x0123456789abcdef", &prefix(EVENT, stream)] {
            assert_eq!(parse(odd), None, "{odd:?}");
        }
    }
}
