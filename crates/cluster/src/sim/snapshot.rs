//! Stored form of the state, without derived data.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidegate_model::Timestamp;

use super::audit::Audit;
use super::faults::FaultInjector;
use super::history::History;
use super::index::Index;
use super::kinds::{Kinds, is_definition};
use super::objects::{Objects, StoredObject};
use super::rng::Rng;
use super::timers::{StoredTimers, Timers};
use super::{SimConfig, SimState};

/// Complete state of a cluster.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Snapshot {
    config: SimConfig,
    now: Timestamp,
    revision: u64,
    rng: Rng,
    objects: Vec<StoredObject>,
    timers: StoredTimers,
    creations: BTreeMap<String, u32>,
    /// Sequence number of the newest audit entry.
    audited: u64,
}

/// Borrowed form of the state, for writing.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SnapshotRef<'a> {
    config: &'a SimConfig,
    now: Timestamp,
    revision: u64,
    rng: Rng,
    objects: &'a Objects,
    timers: StoredTimers,
    creations: &'a BTreeMap<String, u32>,
    audited: u64,
}

impl SimState {
    /// Returns the stored form of the state.
    pub(crate) fn snapshot(&self) -> SnapshotRef<'_> {
        SnapshotRef {
            config: &self.config,
            now: self.now,
            revision: self.revision,
            rng: self.rng,
            objects: &self.objects,
            timers: self.timers.store(),
            creations: &self.creations,
            audited: self.audit.last_sequence(),
        }
    }

    /// Restores the state from a snapshot, without the history of changes.
    pub(crate) fn restore(snapshot: Snapshot) -> Self {
        let Snapshot { config, now, revision, rng, objects, timers, creations, audited } = snapshot;
        let mut index = Index::default();
        let mut kinds = Kinds::default();
        for stored in &objects {
            index.add(&stored.key, &stored.object);
            if is_definition(&stored.key) {
                kinds.register(&stored.object);
            }
        }
        Self {
            injector: FaultInjector::new(config.faults.clone(), config.seed, audited),
            history: History::new(config.history, revision),
            timers: Timers::restore(timers),
            objects: Objects::from_iter(objects),
            config,
            now,
            revision,
            rng,
            creations,
            audit: Audit::starting_after(audited),
            index,
            kinds,
        }
    }
}
