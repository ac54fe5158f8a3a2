//! Looks through a whole database: which streams are there, and what is to be said of each.
//!
//! Reading may fail in places, where pages are damaged. That spoils the streams whose rows are there and nothing
//! else, so the examination goes on with the next stream and says that the database must be replaced.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use tidegate_model::StreamId;

use super::database::Database;
use super::keys::{self, Key};
use super::stock;
use super::verify::{Broken, Rows, Unsound, Verdict, verify};
use crate::blobs::BlobStore;
use crate::{Codecs, LogError};

/// What was found in a database.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) streams: BTreeMap<StreamId, Result<Verdict, Broken>>,
    /// Keys that this program does not write.
    pub(crate) odd: Vec<Vec<u8>>,
    pub(crate) index: BTreeSet<Vec<u8>>,
    /// Inventories that are damaged, and how.
    pub(crate) inventories: Vec<(StreamId, String)>,
    /// What could not be read; the database must then be replaced by one that can.
    pub(crate) unreadable: Option<String>,
}

/// Examines every stream of the database, and those it should have according to `expected`.
pub(crate) fn examine(
    database: &Database,
    blobs: &BlobStore,
    codecs: &Codecs,
    expected: impl Iterator<Item = StreamId>,
) -> Result<Findings, LogError> {
    let mut findings = Findings::default();
    let mut streams = BTreeSet::new();
    match survey(database, blobs, &mut findings, &mut streams) {
        Ok(()) => {}
        Err(error) if is_damage(&error) => {
            // Not all streams could be listed; the witness knows the rest.
            findings.unreadable = Some(error.to_string());
            streams.extend(expected);
        }
        Err(error) => return Err(error),
    }
    for stream in streams {
        let verdict = match Rows::read(database, stream) {
            // Known from the witness only, and not there.
            Ok(rows) if rows.rows.is_empty() => continue,
            Ok(rows) => match verify(stream, &rows, blobs, codecs) {
                Ok(verdict) => Ok(verdict),
                Err(Unsound::Broken(broken)) => Err(broken),
                Err(Unsound::Unseen(error)) => return Err(error),
            },
            Err(error) if is_damage(&error) => {
                let reason = format!("its rows cannot be read: {error}");
                findings.unreadable.get_or_insert_with(|| reason.clone());
                Err(Broken::new(reason))
            }
            Err(error) => return Err(error),
        };
        findings.streams.insert(stream, verdict);
    }
    Ok(findings)
}

/// Finds the streams by leaping over their rows.
fn survey(
    database: &Database,
    blobs: &BlobStore,
    findings: &mut Findings,
    streams: &mut BTreeSet<StreamId>,
) -> Result<(), LogError> {
    let mut from = Vec::new();
    while let Some((key, _)) = database.first_from(&from)? {
        from = match (keys::parse(&key), key.get(..17)) {
            (Some(Key::Index), _) => {
                findings.index.insert(key.to_vec());
                next(&key)
            }
            (Some(Key::Inventory(id)), _) => {
                let problem = stock::check(database, blobs, id)?;
                findings.inventories.extend(problem.map(|problem| (id, problem)));
                next(&key)
            }
            // Whatever else begins like a row of a stream is looked at with that stream.
            (_, Some(prefix)) if keys::OWN.contains(prefix.first().unwrap_or(&0)) => {
                streams.extend(keys::indexed(prefix));
                match after(prefix) {
                    Some(from) => from,
                    None => return Ok(()),
                }
            }
            _ => {
                findings.odd.push(key.to_vec());
                next(&key)
            }
        };
    }
    Ok(())
}

/// The smallest key after `key`.
fn next(key: &[u8]) -> Vec<u8> {
    let mut next = key.to_vec();
    next.push(0);
    next
}

/// The smallest key after all that begin with `prefix`.
fn after(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut after = prefix.to_vec();
    while let Some(last) = after.pop() {
        if let Some(more) = last.checked_add(1) {
            after.push(more);
            return Some(after);
        }
    }
    None
}

/// Whether an error speaks of damaged files, rather than of a disk or a system in trouble.
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
    fn leaps_land_behind_everything_with_the_prefix() {
        assert_eq!(after(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(after(b"a\xff"), Some(b"b".to_vec()));
        assert_eq!(after(b"\xff\xff"), None);
        assert_eq!(next(b"a"), b"a\0".to_vec());
    }
}
