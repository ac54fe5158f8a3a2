//! The keys of the one tree. Numbers are big-endian, so that keys sort as what they mean; rows of one operation are
//! neighbours.
//!
//! ```text
//! f  operation 16  sequence 8        a fact
//! h  operation 16                    its head: see `head`
//! s  operation 16                    its summary
//! n  operation 16  sequence 8        its newest snapshot, and the last fact it covers
//! r  operation 16  digest 32         a blob it refers to; no value
//! v  inventory 16                    where an application has objects: see `stock`
//! ia length 2  application  operation 16    index by application; no value
//! io operation 16  |  ie operation 16       index by state: open, ended; no value
//! ```

use tidegate_model::{Digest, OperationId};
use uuid::Uuid;

use crate::Summary;

pub(crate) const FACT: u8 = b'f';
pub(crate) const HEAD: u8 = b'h';
pub(crate) const SUMMARY: u8 = b's';
pub(crate) const SNAPSHOT: u8 = b'n';
pub(crate) const REFERENCE: u8 = b'r';
pub(crate) const INVENTORY: u8 = b'v';
pub(crate) const INDEX: u8 = b'i';

const BY_APPLICATION: u8 = b'a';
const OPEN: u8 = b'o';
const ENDED: u8 = b'e';

/// The families that hold an operation's own rows: everything but inventories and the index.
pub(crate) const OWN: [u8; 5] = [FACT, HEAD, SUMMARY, SNAPSHOT, REFERENCE];

/// A key taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Fact(OperationId, u64),
    Head(OperationId),
    Summary(OperationId),
    Snapshot(OperationId, u64),
    Reference(OperationId, Digest),
    Inventory(OperationId),
    Index,
}

/// Takes a key apart; `None` when this program writes no such key.
pub(crate) fn parse(key: &[u8]) -> Option<Key> {
    let (&[family], rest) = key.split_first_chunk::<1>()?;
    if family == INDEX {
        return Some(Key::Index);
    }
    let (id, rest) = rest.split_first_chunk::<16>()?;
    let operation = OperationId(Uuid::from_bytes(*id));
    match family {
        FACT => Some(Key::Fact(operation, u64::from_be_bytes(rest.try_into().ok()?))),
        SNAPSHOT => Some(Key::Snapshot(operation, u64::from_be_bytes(rest.try_into().ok()?))),
        REFERENCE => Some(Key::Reference(operation, Digest(rest.try_into().ok()?))),
        HEAD if rest.is_empty() => Some(Key::Head(operation)),
        SUMMARY if rest.is_empty() => Some(Key::Summary(operation)),
        INVENTORY if rest.is_empty() => Some(Key::Inventory(operation)),
        _ => None,
    }
}

/// What all rows of a family of an operation begin with; the whole key for heads and summaries.
pub(crate) fn of(family: u8, operation: OperationId) -> Vec<u8> {
    let mut key = Vec::with_capacity(49);
    key.push(family);
    key.extend_from_slice(operation.0.as_bytes());
    key
}

pub(crate) fn fact(operation: OperationId, sequence: u64) -> Vec<u8> {
    numbered(FACT, operation, sequence)
}

pub(crate) fn snapshot(operation: OperationId, sequence: u64) -> Vec<u8> {
    numbered(SNAPSHOT, operation, sequence)
}

pub(crate) fn reference(operation: OperationId, digest: Digest) -> Vec<u8> {
    let mut key = of(REFERENCE, operation);
    key.extend_from_slice(&digest.0);
    key
}

fn numbered(family: u8, operation: OperationId, sequence: u64) -> Vec<u8> {
    let mut key = of(family, operation);
    key.extend_from_slice(&sequence.to_be_bytes());
    key
}

/// The index rows of an operation.
pub(crate) fn index(operation: OperationId, application: &str, open: bool) -> [Vec<u8>; 2] {
    let mut by_application = of_application(application);
    by_application.extend_from_slice(operation.0.as_bytes());
    let mut by_state = of_state(open);
    by_state.extend_from_slice(operation.0.as_bytes());
    [by_application, by_state]
}

/// The index rows of a summary's operation.
pub(crate) fn index_of(summary: &Summary) -> [Vec<u8>; 2] {
    index(summary.operation, &summary.application, summary.finished_at.is_none())
}

/// What all index rows of an application begin with. The length keeps `shop` apart from `shopping`.
pub(crate) fn of_application(application: &str) -> Vec<u8> {
    let length = u16::try_from(application.len()).unwrap_or(u16::MAX);
    let mut key = vec![INDEX, BY_APPLICATION];
    key.extend_from_slice(&length.to_be_bytes());
    key.extend_from_slice(application.as_bytes());
    key
}

/// What all index rows of open, or of ended, operations begin with.
pub(crate) fn of_state(open: bool) -> Vec<u8> {
    vec![INDEX, if open { OPEN } else { ENDED }]
}

/// Whose row it is, if it is one of an operation's own.
pub(crate) fn owner(key: &[u8]) -> Option<OperationId> {
    match parse(key)? {
        Key::Fact(operation, _)
        | Key::Head(operation)
        | Key::Summary(operation)
        | Key::Snapshot(operation, _)
        | Key::Reference(operation, _) => Some(operation),
        Key::Inventory(_) | Key::Index => None,
    }
}

/// The operation an index row ends with.
pub(crate) fn indexed(key: &[u8]) -> Option<OperationId> {
    key.last_chunk::<16>().map(|id| OperationId(Uuid::from_bytes(*id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_as_what_they_mean_and_come_apart_again() {
        let operation = OperationId(Uuid::from_u128(7));
        assert!(fact(operation, 255) < fact(operation, 256));
        assert!(fact(operation, u64::MAX) < fact(OperationId(Uuid::from_u128(8)), 1));
        let digest = Digest([9; 32]);
        assert_eq!(parse(&fact(operation, 3)), Some(Key::Fact(operation, 3)));
        assert_eq!(parse(&snapshot(operation, 3)), Some(Key::Snapshot(operation, 3)));
        assert_eq!(parse(&of(HEAD, operation)), Some(Key::Head(operation)));
        assert_eq!(parse(&reference(operation, digest)), Some(Key::Reference(operation, digest)));
        for key in index(operation, "shop", true) {
            assert_eq!(parse(&key), Some(Key::Index));
            assert_eq!(indexed(&key), Some(operation));
        }
        assert!(!of_application("shopping").starts_with(&of_application("shop")));
        for odd in [&b""[..], b"f", b"fshort", b"x0123456789abcdef", &of(FACT, operation)] {
            assert_eq!(parse(odd), None, "{odd:?}");
        }
    }
}
