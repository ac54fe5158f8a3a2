use std::time::Duration;

use tidegate_model::{Action, Gvk, Object, ObjectKey, Phase, Task, TaskOptions};

use crate::findings::Subject;
use crate::rank::kind_rank;

/// A task that has not found its place in the plan yet.
#[derive(Debug)]
pub(crate) struct Draft {
    /// The task; its manifest gets its number when the order is known.
    pub task: Task,
    /// What it is about, for findings.
    pub subject: Subject,
    /// Place of its kind among the tasks of a wave.
    pub rank: usize,
    /// The manifest to write.
    pub manifest: Option<Object>,
    /// Deadline it asks for its wave.
    pub wave_timeout: Option<Duration>,
    /// Gates it asks for before its wave.
    pub gates: Vec<String>,
    /// A kind that is not served may be met later.
    pub skip_missing_kind: bool,
    /// In the cluster, and the manifest says something else.
    pub changes_live: bool,
}

impl Draft {
    /// A draft with nothing but its place and its object.
    pub fn new(phase: Phase, wave: i64, gvk: Gvk, key: &ObjectKey) -> Self {
        let rank = kind_rank(&gvk.kind);
        let task = Task {
            phase,
            wave,
            gvk,
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            action: Action::Create,
            hook: None,
            reason: String::new(),
            manifest: None,
            live: None,
            options: TaskOptions::default(),
            health_judge: None,
            images: Vec::new(),
            error: None,
        };
        Self {
            task,
            subject: Subject::default(),
            rank,
            manifest: None,
            wave_timeout: None,
            gates: Vec::new(),
            skip_missing_kind: false,
            changes_live: false,
        }
    }
}
