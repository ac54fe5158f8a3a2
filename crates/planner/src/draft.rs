use std::time::Duration;

use tidegate_model::{Gvk, Object, ObjectKey, Phase, Task};

use crate::dependencies::ForeignDependencies;
use crate::findings::FindingSubject;
use crate::rank::kind_rank;

/// Task without a position in the plan.
#[derive(Debug)]
pub(crate) struct TaskDraft {
    /// The task. Its manifest is numbered once the order is known.
    pub task: Task,
    /// Subject for findings about this task.
    pub subject: FindingSubject,
    /// Rank of the object's kind, used to order tasks within a wave.
    pub rank: usize,
    /// Manifest to write.
    pub manifest: Option<Object>,
    /// Timeout that the object requests for its wave.
    pub wave_timeout: Option<Duration>,
    /// Gates that the object requests for its wave.
    pub gates: Vec<String>,
    /// Objects that the object depends on, as its annotation declares them.
    pub depends_on: Option<String>,
    /// Dependencies that the object declares for other tools.
    pub foreign: ForeignDependencies,
    /// True if the task waits for a kind that isn't available yet but may be later.
    pub waits_for_kind: bool,
    /// True if the object exists and differs from the manifest.
    pub changes_live: bool,
}

impl TaskDraft {
    /// Creates a draft for an object in a phase and wave.
    pub fn new(phase: Phase, wave: i64, gvk: Gvk, key: &ObjectKey) -> Self {
        let rank = kind_rank(&gvk.kind);
        Self {
            task: Task::new(phase, wave, gvk, &key.namespace, &key.name),
            subject: FindingSubject::default(),
            rank,
            manifest: None,
            wave_timeout: None,
            gates: Vec::new(),
            depends_on: None,
            foreign: ForeignDependencies::default(),
            waits_for_kind: false,
            changes_live: false,
        }
    }
}
