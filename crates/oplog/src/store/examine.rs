//! Examination of a whole database: its streams and their state.
//!
//! A damaged page affects only the streams with rows on it. After a failed read, the examination therefore
//! moves on to the next stream, and reports that the database must be replaced.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use tidegate_model::StreamId;

use super::database::Database;
use super::inventories;
use super::keys::{self, Key};
use super::verify::{StreamFault, StreamRows, Verdict, VerifyError, verify_stream};
use crate::blobs::BlobStore;
use crate::{Codecs, LogError};

/// Findings about a database.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) streams: BTreeMap<StreamId, Result<Verdict, StreamFault>>,
    /// Keys in a format that this program never writes.
    pub(crate) unknown_keys: Vec<Vec<u8>>,
    pub(crate) index_keys: BTreeSet<Vec<u8>>,
    /// Damaged inventories, with a description of the damage.
    pub(crate) inventories: Vec<(StreamId, String)>,
    /// Description of an unreadable part of the database. If set, the database must be replaced.
    pub(crate) unreadable: Option<String>,
}

/// Examines all streams in the database, and the `expected` streams.
pub(crate) fn examine_database(
    database: &Database,
    blobs: &BlobStore,
    codecs: &Codecs,
    expected: impl Iterator<Item = StreamId>,
) -> Result<Findings, LogError> {
    let mut findings = Findings::default();
    let mut streams = BTreeSet::new();
    match find_streams(database, blobs, &mut findings, &mut streams) {
        Ok(()) => {}
        Err(error) if is_damage(&error) => {
            // The list of streams is incomplete. The witness knows the other IDs.
            findings.unreadable = Some(error.to_string());
            streams.extend(expected);
        }
        Err(error) => return Err(error),
    }
    for stream in streams {
        let verdict = match StreamRows::read(database, stream) {
            // The stream is in the witness but not in the database.
            Ok(rows) if rows.rows.is_empty() => continue,
            Ok(rows) => match verify_stream(stream, &rows, blobs, codecs) {
                Ok(verdict) => Ok(verdict),
                Err(VerifyError::Broken(broken)) => Err(broken),
                Err(VerifyError::Unreadable(error)) => return Err(error),
            },
            Err(error) if is_damage(&error) => {
                let reason = format!("the rows of stream {stream} cannot be read: {error}");
                findings.unreadable.get_or_insert_with(|| reason.clone());
                Err(StreamFault::new(reason))
            }
            Err(error) => return Err(error),
        };
        findings.streams.insert(stream, verdict);
    }
    Ok(findings)
}

/// Finds the streams by reading only the first row of each stream and family.
fn find_streams(
    database: &Database,
    blobs: &BlobStore,
    findings: &mut Findings,
    streams: &mut BTreeSet<StreamId>,
) -> Result<(), LogError> {
    let mut from = Vec::new();
    while let Some((key, _)) = database.first_from(&from)? {
        from = match (keys::parse(&key), key.get(..17)) {
            (Some(Key::Index), _) => {
                findings.index_keys.insert(key.to_vec());
                key_after(&key)
            }
            (Some(Key::Inventory(id)), _) => {
                let problem = inventories::check_row(database, blobs, id)?;
                findings.inventories.extend(problem.map(|problem| (id, problem)));
                key_after(&key)
            }
            // Any other key that begins like a stream's row is examined with that stream.
            (_, Some(prefix)) if keys::STREAM_FAMILIES.contains(prefix.first().unwrap_or(&0)) => {
                streams.extend(keys::indexed_stream(prefix));
                match key_after_prefix(prefix) {
                    Some(from) => from,
                    None => return Ok(()),
                }
            }
            _ => {
                findings.unknown_keys.push(key.to_vec());
                key_after(&key)
            }
        };
    }
    Ok(())
}

/// Returns the smallest key after `key`.
fn key_after(key: &[u8]) -> Vec<u8> {
    let mut next = key.to_vec();
    next.push(0);
    next
}

/// Returns the smallest key after all keys with this prefix.
fn key_after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut after = prefix.to_vec();
    while let Some(last) = after.pop() {
        if let Some(more) = last.checked_add(1) {
            after.push(more);
            return Some(after);
        }
    }
    None
}

/// Returns true if damaged files caused the error, rather than a failing disk or system.
pub(crate) fn is_damage(error: &LogError) -> bool {
    match error {
        LogError::Sled { .. } => true,
        LogError::Io { source, .. } => matches!(
            source.kind(),
            io::ErrorKind::UnexpectedEof
                | io::ErrorKind::InvalidData
                | io::ErrorKind::InvalidInput
                | io::ErrorKind::NotFound
        ),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_keys_are_exactly_those_with_the_prefix() {
        assert_eq!(key_after_prefix(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(key_after_prefix(b"a\xff"), Some(b"b".to_vec()));
        assert_eq!(key_after_prefix(b"\xff\xff"), None);
        assert_eq!(key_after(b"a"), b"a\0".to_vec());
    }
}
