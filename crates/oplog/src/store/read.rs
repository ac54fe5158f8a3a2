//! Reading operations back.

use tidegate_model::{LogRecord, OperationId};

use super::SledLog;
use super::database::Row;
use super::head::{Head, SnapshotMark, chain};
use super::keys::{self, Key};
use super::record::{self, ReadError};
use crate::frame::{Address, Family, FrameError};
use crate::retention::oldest_first;
use crate::{Loaded, LogError, Summary};

impl<F: LogRecord, S: LogRecord> SledLog<F, S> {
    pub(super) fn load_operation(&self, operation: OperationId) -> Result<Loaded<F, S>, LogError> {
        // Held while reading: facts and snapshot must be of one moment, and a compaction must not come between.
        let state = self.lock();
        let head = &self.live(&state, operation)?.head;
        if head.reduced {
            return Err(LogError::Compacted { operation });
        }
        let last_sequence = head.last;
        if let Some(mark) = head.snapshot {
            match self.snapshot(operation, mark) {
                Ok(snapshot) => {
                    let facts = self.read_facts(operation, head, Some(mark))?;
                    return Ok(Loaded { snapshot: Some((mark.sequence, snapshot)), facts, last_sequence });
                }
                Err(error) if head.base > 0 => return Err(error),
                Err(error) => {
                    tracing::warn!(%operation, %error, "a snapshot is damaged; the operation is read from its facts");
                }
            }
        }
        let facts = self.read_facts(operation, head, None)?;
        Ok(Loaded { snapshot: None, facts, last_sequence })
    }

    pub(super) fn all_facts(&self, operation: OperationId) -> Result<Vec<F>, LogError> {
        let state = self.lock();
        let head = &self.live(&state, operation)?.head;
        if head.reduced || head.base > 0 {
            return Err(LogError::Compacted { operation });
        }
        self.read_facts(operation, head, None)
    }

    pub(super) fn all_summaries(&self) -> Result<Vec<Summary>, LogError> {
        let mut summaries = Vec::new();
        for (key, value) in self.database.rows(&[keys::SUMMARY])? {
            let Some(Key::Summary(operation)) = keys::parse(&key) else { continue };
            let (_, summary) = record::read_own::<Summary>(operation, &value)
                .map_err(|error| LogError::Damaged { operation, reason: format!("its summary: {error}") })?;
            summaries.push(summary);
        }
        oldest_first(&mut summaries);
        Ok(summaries)
    }

    /// Operations of an application that are in the log, by id, which is oldest first.
    pub fn operations_of(&self, application: &str) -> Result<Vec<OperationId>, LogError> {
        self.indexed(&keys::of_application(application))
    }

    /// Operations that are not over, by id, which is oldest first. These are the ones a recovery resumes.
    pub fn open_operations(&self) -> Result<Vec<OperationId>, LogError> {
        self.indexed(&keys::of_state(true))
    }

    fn indexed(&self, prefix: &[u8]) -> Result<Vec<OperationId>, LogError> {
        Ok(self.database.rows(prefix)?.iter().filter_map(|(key, _)| keys::indexed(key)).collect())
    }

    fn snapshot(&self, operation: OperationId, mark: SnapshotMark) -> Result<S, LogError> {
        let key = keys::snapshot(operation, mark.sequence);
        let Some(value) = self.database.get(&key)? else {
            return Err(LogError::Damaged { operation, reason: "its snapshot is missing".to_owned() });
        };
        let address = Address { family: Family::Snapshot, operation, number: mark.sequence };
        record::read(address, &value, &self.blobs).map_err(|error| damaged(operation, "snapshot", error))
    }

    /// The facts after a snapshot, or all that are kept, checked for gaps and against the head.
    fn read_facts(
        &self,
        operation: OperationId,
        head: &Head,
        after: Option<SnapshotMark>,
    ) -> Result<Vec<F>, LogError> {
        let (mut last, mut digest) =
            after.map_or((head.base, head.base_digest), |mark| (mark.sequence, mark.digest));
        let (from, to) = (keys::fact(operation, last.saturating_add(1)), keys::fact(operation, head.last));
        let rows: Vec<Row> = if from <= to { self.database.between(&from, &to)? } else { Vec::new() };
        let mut facts = Vec::with_capacity(rows.len());
        for (key, value) in &rows {
            last = last.saturating_add(1);
            if key.as_ref() != keys::fact(operation, last).as_slice() {
                return Err(LogError::Damaged { operation, reason: format!("gap: fact {last} is missing") });
            }
            digest = chain(digest, value);
            let fact =
                record::read(Address { family: Family::Fact, operation, number: last }, value, &self.blobs);
            facts.push(fact.map_err(|error| damaged(operation, &format!("fact {last}"), error))?);
        }
        if last != head.last || digest != head.digest {
            let reason = format!(
                "its facts end at {last} and are not those its head, at {}, was written for",
                head.last
            );
            return Err(LogError::Damaged { operation, reason });
        }
        Ok(facts)
    }
}

fn damaged(operation: OperationId, what: &str, error: ReadError) -> LogError {
    match error {
        ReadError::Frame(FrameError::NewerKind { kind, highest }) => LogError::NewerRecord { kind, highest },
        ReadError::Frame(error) => LogError::Damaged { operation, reason: format!("{what}: {error}") },
        ReadError::Log(error @ (LogError::BlobMissing { .. } | LogError::BlobDamaged { .. })) => {
            LogError::Damaged { operation, reason: format!("{what}: {error}") }
        }
        ReadError::Log(error) => error,
    }
}
