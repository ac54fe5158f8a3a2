//! The state as it is kept on disk. What can be derived from it is left out.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidegate_model::Timestamp;

use super::audit::Audit;
use super::faults::Injector;
use super::history::History;
use super::index::Index;
use super::kinds::{Kinds, is_definition};
use super::objects::{Objects, Stored};
use super::rng::Rng;
use super::timers::{StoredTimers, Timers};
use super::{SimConfig, SimState};

/// Everything that makes two clusters the same cluster.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Snapshot {
    config: SimConfig,
    now: Timestamp,
    revision: u64,
    rng: Rng,
    objects: Vec<Stored>,
    timers: StoredTimers,
    creations: BTreeMap<String, u32>,
    /// Sequence of the newest audit entry.
    audited: u64,
}

/// The same, borrowed for writing.
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
    /// The state as it is kept on disk.
    pub(crate) fn snapshot(&self) -> SnapshotRef<'_> {
        SnapshotRef {
            config: &self.config,
            now: self.now,
            revision: self.revision,
            rng: self.rng,
            objects: &self.objects,
            timers: self.timers.store(),
            creations: &self.creations,
            audited: self.audit.last(),
        }
    }

    /// The state that a snapshot was taken of, but for the history of changes: that is forgotten.
    pub(crate) fn restore(snapshot: Snapshot) -> Self {
        let Snapshot { config, now, revision, rng, objects, timers, creations, audited } = snapshot;
        let mut index = Index::default();
        let mut kinds = Kinds::default();
        // Earlier programs held who owns what as maps.
        let objects: Vec<Stored> = objects.into_iter().map(Stored::shortened).collect();
        for stored in &objects {
            index.add(&stored.key, &stored.object);
            if is_definition(&stored.key) {
                kinds.learn(&stored.object);
            }
        }
        Self {
            injector: Injector::new(config.faults.clone(), config.seed, audited),
            history: History::new(config.history, revision),
            timers: Timers::restore(timers),
            objects: Objects::from_iter(objects),
            config,
            now,
            revision,
            rng,
            creations,
            audit: Audit::after(audited),
            index,
            kinds,
        }
    }
}
