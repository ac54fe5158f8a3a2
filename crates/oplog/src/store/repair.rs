//! Repairs after an examination: quarantining and truncating. Data is removed only once a copy is on disk.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_model::StreamId;

use super::database::Database;
use super::examine::Findings;
use super::record::encode_row;
use super::verify::{StreamFault, StreamRows, Verdict};
use super::{LiveStream, keys};
use crate::blobs::BlobStore;
use crate::quarantine::{Quarantine, Subject};
use crate::{Damage, LogError};

/// State of the streams after opening and repairs.
#[derive(Default)]
pub(crate) struct RepairedStreams {
    pub(crate) live: BTreeMap<StreamId, LiveStream>,
    pub(crate) quarantined: BTreeMap<StreamId, StreamFault>,
    /// Quarantined streams whose records remain in the database.
    pub(crate) left_in_place: BTreeSet<StreamId>,
    /// Live streams with missing content, with a description of the problem.
    pub(crate) incomplete: BTreeMap<StreamId, String>,
}

/// Quarantines broken streams and repairs the others.
pub(crate) fn repair_streams(
    database: &Database,
    blobs: &BlobStore,
    quarantine: &Quarantine,
    findings: Findings,
) -> Result<RepairedStreams, LogError> {
    quarantine_unknown_rows(database, quarantine, &findings.unknown_keys)?;
    quarantine_inventories(database, quarantine, &findings.inventories)?;
    let mut settled = RepairedStreams::default();
    for (stream, verdict) in findings.streams {
        match verdict {
            Ok(verdict) => {
                repair_stream(database, quarantine, stream, &verdict)?;
                if !verdict.missing.is_empty() {
                    let reason = verdict.missing.join("; ");
                    report_incomplete(quarantine, stream, &reason)?;
                    settled.incomplete.insert(stream, reason);
                }
                settled.live.insert(stream, LiveStream::new(verdict.head, &verdict.line));
            }
            Err(broken) => {
                if broken.is_left_in_place() {
                    settled.left_in_place.insert(stream);
                }
                match broken.newer_kind {
                    // A record from a newer program isn't damage, so leave the stream alone.
                    Some(_) => {
                        tracing::warn!(%stream, reason = broken.reason, "written by a newer version; left unchanged")
                    }
                    None => quarantine_stream(database, blobs, quarantine, stream, &broken)?,
                }
                settled.quarantined.insert(stream, broken);
            }
        }
    }
    repair_index(database, &settled.live, findings.index_keys)?;
    Ok(settled)
}

fn quarantine_stream(
    database: &Database,
    blobs: &BlobStore,
    quarantine: &Quarantine,
    stream: StreamId,
    broken: &StreamFault,
) -> Result<(), LogError> {
    let is_told = |damage: &Damage| damage.stream == Some(stream) && damage.reason == broken.reason;
    if broken.is_left_in_place() && quarantine.list()?.iter().any(is_told) {
        return Ok(());
    }
    let rows = StreamRows::read(database, stream)?;
    let entry = quarantine.create_entry(Subject::Stream(stream))?;
    entry.copy_rows(rows.rows.iter().map(|(key, value)| (key.as_ref(), value.as_ref())))?;
    for digest in rows.digests() {
        entry.copy_blob(&blobs.path(digest))?;
    }
    if broken.is_left_in_place() {
        return entry.finish(&broken.reason).map(drop);
    }
    entry.finish(&format!("quarantined: {}", broken.reason))?;
    database.remove_rows(rows.rows.iter().map(|(key, _)| key.as_ref()))
}

/// Reports an incomplete stream once. Its data stays in place.
fn report_incomplete(quarantine: &Quarantine, stream: StreamId, reason: &str) -> Result<(), LogError> {
    let known = quarantine.list()?;
    if !known.iter().any(|damage| damage.stream == Some(stream) && damage.reason == reason) {
        quarantine.create_entry(Subject::Stream(stream))?.finish(reason)?;
    }
    Ok(())
}

fn repair_stream(
    database: &Database,
    quarantine: &Quarantine,
    stream: StreamId,
    verdict: &Verdict,
) -> Result<(), LogError> {
    let mut batch = sled::Batch::default();
    if !verdict.repairs.is_empty() {
        let mut rows = Vec::new();
        for key in &verdict.remove {
            rows.extend(database.get(key)?.map(|value| (key.as_slice(), value)));
        }
        let entry = quarantine.create_entry(Subject::Stream(stream))?;
        entry.copy_rows(rows.iter().map(|(key, value)| (*key, value.as_ref())))?;
        entry.finish(&verdict.repairs.join("; "))?;
        let row = encode_row(stream, verdict.head.revision, &verdict.head)?;
        batch.insert(keys::prefix(keys::HEAD, stream), row);
    }
    if verdict.remove.is_empty() && verdict.repairs.is_empty() {
        return Ok(());
    }
    verdict.remove.iter().for_each(|key| batch.remove(key.as_slice()));
    database.commit(batch)
}

fn quarantine_unknown_rows(
    database: &Database,
    quarantine: &Quarantine,
    odd: &[Vec<u8>],
) -> Result<(), LogError> {
    if odd.is_empty() {
        return Ok(());
    }
    let mut rows = Vec::new();
    for key in odd {
        rows.extend(database.get(key)?.map(|value| (key.as_slice(), value)));
    }
    let entry = quarantine.create_entry(Subject::Rows)?;
    entry.copy_rows(rows.iter().map(|(key, value)| (*key, value.as_ref())))?;
    entry.finish(&format!("rows quarantined: {} rows of unknown families", odd.len()))?;
    database.remove_rows(odd.iter().map(Vec::as_slice))
}

/// Quarantines damaged inventories. Without an inventory, an application's objects are found by searching its
/// cluster.
fn quarantine_inventories(
    database: &Database,
    quarantine: &Quarantine,
    damaged: &[(StreamId, String)],
) -> Result<(), LogError> {
    for (id, problem) in damaged {
        let key = keys::prefix(keys::INVENTORY, *id);
        let row = database.get(&key)?.unwrap_or_default();
        let entry = quarantine.create_entry(Subject::Rows)?;
        entry.copy_rows([(key.as_slice(), row.as_ref())].into_iter())?;
        entry.finish(&format!(
            "inventory quarantined: {problem}; the next operation on its application will search the cluster instead"
        ))?;
        database.remove_rows([key.as_slice()])?;
    }
    Ok(())
}

/// Rebuilds the index from the summaries, which contain all of its information.
fn repair_index(
    database: &Database,
    live: &BTreeMap<StreamId, LiveStream>,
    found: BTreeSet<Vec<u8>>,
) -> Result<(), LogError> {
    let expected: BTreeSet<Vec<u8>> =
        live.iter().flat_map(|(stream, live)| live.index_keys(*stream)).collect();
    if expected == found {
        return Ok(());
    }
    tracing::info!(
        missing = expected.difference(&found).count(),
        stray = found.difference(&expected).count(),
        "index rebuilt"
    );
    let mut batch = sled::Batch::default();
    found.difference(&expected).for_each(|key| batch.remove(key.as_slice()));
    expected.difference(&found).for_each(|key| batch.insert(key.as_slice(), &[][..]));
    database.commit(batch)
}
