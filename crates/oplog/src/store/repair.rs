//! Acts on what an examination found: sets aside and cuts. Nothing is removed before its copy is on the disk.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_model::StreamId;

use super::database::Database;
use super::examine::Findings;
use super::record::write_own;
use super::verify::{Broken, Rows, Verdict};
use super::{Live, keys};
use crate::blobs::BlobStore;
use crate::quarantine::{Quarantine, Subject};
use crate::{Damage, LogError};

/// The streams after opening.
#[derive(Default)]
pub(crate) struct Settled {
    pub(crate) live: BTreeMap<StreamId, Live>,
    pub(crate) set_aside: BTreeMap<StreamId, Broken>,
    /// Of those, the ones whose records stay in the database.
    pub(crate) left_alone: BTreeSet<StreamId>,
    /// Streams that are alive and lack some content.
    pub(crate) lacking: BTreeMap<StreamId, String>,
}

/// Sets broken streams aside and mends the others.
pub(crate) fn settle(
    database: &Database,
    blobs: &BlobStore,
    quarantine: &Quarantine,
    findings: Findings,
) -> Result<Settled, LogError> {
    set_aside_odd(database, quarantine, &findings.odd)?;
    set_aside_inventories(database, quarantine, &findings.inventories)?;
    let mut settled = Settled::default();
    for (stream, verdict) in findings.streams {
        match verdict {
            Ok(verdict) => {
                mend(database, quarantine, stream, &verdict)?;
                if !verdict.lacking.is_empty() {
                    let reason = verdict.lacking.join("; ");
                    report_lacking(quarantine, stream, &reason)?;
                    settled.lacking.insert(stream, reason);
                }
                settled.live.insert(stream, Live::new(verdict.head, &verdict.line));
            }
            Err(broken) => {
                if broken.is_left_alone() {
                    settled.left_alone.insert(stream);
                }
                match broken.newer {
                    // It is no damage, and a newer program finds it as it was.
                    Some(_) => tracing::warn!(%stream, reason = broken.reason, "a newer program wrote this"),
                    None => set_aside(database, blobs, quarantine, stream, &broken)?,
                }
                settled.set_aside.insert(stream, broken);
            }
        }
    }
    repair_index(database, &settled.live, findings.index)?;
    Ok(settled)
}

fn set_aside(
    database: &Database,
    blobs: &BlobStore,
    quarantine: &Quarantine,
    stream: StreamId,
    broken: &Broken,
) -> Result<(), LogError> {
    let is_told = |damage: &Damage| damage.stream == Some(stream) && damage.reason == broken.reason;
    if broken.is_left_alone() && quarantine.list()?.iter().any(is_told) {
        return Ok(());
    }
    let rows = Rows::read(database, stream)?;
    let entry = quarantine.begin(Subject::Stream(stream))?;
    entry.rows(rows.rows.iter().map(|(key, value)| (key.as_ref(), value.as_ref())))?;
    for digest in rows.digests() {
        entry.blob(&blobs.path(digest))?;
    }
    if broken.is_left_alone() {
        return entry.finish(&broken.reason).map(drop);
    }
    entry.finish(&format!("quarantined: {}", broken.reason))?;
    database.remove(rows.rows.iter().map(|(key, _)| key.as_ref()))
}

/// Once; nothing is moved.
fn report_lacking(quarantine: &Quarantine, stream: StreamId, reason: &str) -> Result<(), LogError> {
    let known = quarantine.list()?;
    if !known.iter().any(|damage| damage.stream == Some(stream) && damage.reason == reason) {
        quarantine.begin(Subject::Stream(stream))?.finish(reason)?;
    }
    Ok(())
}

fn mend(
    database: &Database,
    quarantine: &Quarantine,
    stream: StreamId,
    verdict: &Verdict,
) -> Result<(), LogError> {
    let mut batch = sled::Batch::default();
    if !verdict.mended.is_empty() {
        let mut rows = Vec::new();
        for key in &verdict.remove {
            rows.extend(database.get(key)?.map(|value| (key.as_slice(), value)));
        }
        let entry = quarantine.begin(Subject::Stream(stream))?;
        entry.rows(rows.iter().map(|(key, value)| (*key, value.as_ref())))?;
        entry.finish(&verdict.mended.join("; "))?;
        let row = write_own(stream, verdict.head.revision, &verdict.head)?;
        batch.insert(keys::of(keys::HEAD, stream), row);
    }
    if verdict.remove.is_empty() && verdict.mended.is_empty() {
        return Ok(());
    }
    verdict.remove.iter().for_each(|key| batch.remove(key.as_slice()));
    database.commit(batch)
}

fn set_aside_odd(database: &Database, quarantine: &Quarantine, odd: &[Vec<u8>]) -> Result<(), LogError> {
    if odd.is_empty() {
        return Ok(());
    }
    let mut rows = Vec::new();
    for key in odd {
        rows.extend(database.get(key)?.map(|value| (key.as_slice(), value)));
    }
    let entry = quarantine.begin(Subject::Rows)?;
    entry.rows(rows.iter().map(|(key, value)| (*key, value.as_ref())))?;
    entry.finish(&format!("rows quarantined: {} rows of no family this program knows", odd.len()))?;
    database.remove(odd.iter().map(Vec::as_slice))
}

/// Without its inventory an application's objects are found by searching its cluster.
fn set_aside_inventories(
    database: &Database,
    quarantine: &Quarantine,
    damaged: &[(StreamId, String)],
) -> Result<(), LogError> {
    for (id, problem) in damaged {
        let key = keys::of(keys::INVENTORY, *id);
        let row = database.get(&key)?.unwrap_or_default();
        let entry = quarantine.begin(Subject::Rows)?;
        entry.rows([(key.as_slice(), row.as_ref())].into_iter())?;
        entry.finish(&format!(
            "inventory set aside: {problem}; the next operation of its application searches the cluster instead"
        ))?;
        database.remove([key.as_slice()])?;
    }
    Ok(())
}

/// The index says nothing that the summaries do not say, so it is simply made to agree with them.
fn repair_index(
    database: &Database,
    live: &BTreeMap<StreamId, Live>,
    found: BTreeSet<Vec<u8>>,
) -> Result<(), LogError> {
    let wanted: BTreeSet<Vec<u8>> = live.iter().flat_map(|(stream, live)| live.index(*stream)).collect();
    if wanted == found {
        return Ok(());
    }
    tracing::info!(
        missing = wanted.difference(&found).count(),
        stray = found.difference(&wanted).count(),
        "index rebuilt"
    );
    let mut batch = sled::Batch::default();
    found.difference(&wanted).for_each(|key| batch.remove(key.as_slice()));
    wanted.difference(&found).for_each(|key| batch.insert(key.as_slice(), &[][..]));
    database.commit(batch)
}
