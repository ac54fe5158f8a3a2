//! The log in memory: for tests and the simulator.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest as _, Sha256};
use tidegate_model::{Digest, LogRecord, OperationId};

use crate::{Append, Compacted, Damage, Loaded, LogError, OperationLog, Summary};

/// A log in memory. Clones share their content, so a "process" can be dropped and another one opened on it.
#[derive(Clone, Debug)]
pub struct MemoryLog<F, S> {
    content: Arc<Mutex<Content<F, S>>>,
}

#[derive(Debug)]
struct Content<F, S> {
    operations: BTreeMap<OperationId, Kept<F, S>>,
    blobs: BTreeMap<Digest, Vec<u8>>,
}

#[derive(Debug)]
struct Kept<F, S> {
    facts: Vec<F>,
    snapshot: Option<(u64, S)>,
    summary: Summary,
    compacted: bool,
    blobs: Vec<Digest>,
}

impl<F, S> Default for MemoryLog<F, S> {
    fn default() -> Self {
        Self {
            content: Arc::new(Mutex::new(Content { operations: BTreeMap::new(), blobs: BTreeMap::new() })),
        }
    }
}

impl<F, S> MemoryLog<F, S> {
    fn lock(&self) -> MutexGuard<'_, Content<F, S>> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn count<F>(facts: &[F]) -> u64 {
    u64::try_from(facts.len()).unwrap_or(u64::MAX)
}

impl<F: LogRecord, S: LogRecord> OperationLog<F, S> for MemoryLog<F, S> {
    fn append(&self, group: Vec<Append<F, S>>) -> Result<(), LogError> {
        let mut content = self.lock();
        for append in group {
            let kept = content.operations.entry(append.operation).or_insert_with(|| Kept {
                facts: Vec::new(),
                snapshot: None,
                summary: append.summary.clone(),
                compacted: false,
                blobs: Vec::new(),
            });
            let expected = count(&kept.facts).saturating_add(1);
            if append.first_sequence != expected {
                let (operation, found) = (append.operation, append.first_sequence);
                return Err(LogError::Gap { operation, expected, found });
            }
            kept.facts.extend(append.facts);
            kept.summary = append.summary;
            kept.blobs.extend(append.blobs);
            if let Some(snapshot) = append.snapshot {
                kept.snapshot = Some((count(&kept.facts), snapshot));
            }
        }
        Ok(())
    }

    fn load(&self, operation: OperationId) -> Result<Loaded<F, S>, LogError> {
        let content = self.lock();
        let kept = content.operations.get(&operation).ok_or(LogError::UnknownOperation { operation })?;
        if kept.compacted {
            return Err(LogError::Compacted { operation });
        }
        let covered = kept.snapshot.as_ref().map_or(0, |(covered, _)| *covered);
        let skip = usize::try_from(covered).unwrap_or(usize::MAX);
        Ok(Loaded {
            snapshot: kept.snapshot.clone(),
            facts: kept.facts.iter().skip(skip).cloned().collect(),
            last_sequence: count(&kept.facts),
        })
    }

    fn facts(&self, operation: OperationId) -> Result<Vec<F>, LogError> {
        let content = self.lock();
        let kept = content.operations.get(&operation).ok_or(LogError::UnknownOperation { operation })?;
        if kept.compacted { Err(LogError::Compacted { operation }) } else { Ok(kept.facts.clone()) }
    }

    fn summaries(&self) -> Result<Vec<Summary>, LogError> {
        Ok(self.lock().operations.values().map(|kept| kept.summary.clone()).collect())
    }

    fn put_blob(&self, bytes: &[u8]) -> Result<Digest, LogError> {
        let digest = Digest(Sha256::digest(bytes).into());
        self.lock().blobs.insert(digest, bytes.to_vec());
        Ok(digest)
    }

    fn blob(&self, digest: Digest) -> Result<Vec<u8>, LogError> {
        self.lock().blobs.get(&digest).cloned().ok_or(LogError::BlobMissing { digest })
    }

    fn compact(&self, history: usize) -> Result<Compacted, LogError> {
        let mut content = self.lock();
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        let mut compacted = Compacted::default();
        for kept in content.operations.values_mut().rev().filter(|kept| kept.summary.finished_at.is_some()) {
            let newer = seen.entry(kept.summary.application.clone()).or_default();
            *newer = newer.saturating_add(1);
            if *newer > history && !kept.compacted {
                compacted.operations = compacted.operations.saturating_add(1);
                compacted.facts = compacted.facts.saturating_add(kept.facts.len());
                kept.facts.clear();
                kept.snapshot = None;
                kept.blobs.clear();
                kept.compacted = true;
            }
        }
        let before = content.blobs.len();
        let Content { operations, blobs } = &mut *content;
        blobs.retain(|digest, _| operations.values().any(|kept| kept.blobs.contains(digest)));
        compacted.blobs = before.saturating_sub(blobs.len());
        Ok(compacted)
    }

    fn damage(&self) -> Vec<Damage> {
        Vec::new()
    }
}
