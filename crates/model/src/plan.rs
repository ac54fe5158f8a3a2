use std::cmp::Ordering;
use std::fmt;
use std::ops::Range;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Gvk, ObjectKey, TaskId};

/// A phase of a sync, or of the deletion of an application, whose objects go in `Sync`. Sorts in the order of execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    /// Hooks before the resources.
    PreSync,
    /// The resources, and hooks among them.
    Sync,
    /// Hooks after the resources.
    PostSync,
    /// Hooks that run only after a failure.
    SyncFail,
    /// Hooks before the objects of an application are deleted.
    PreDelete,
    /// Hooks after the objects of an application are deleted.
    PostDelete,
}

impl Phase {
    /// Its place in the order of execution. Records know phases by the place in the list above, which is another.
    fn rank(self) -> u8 {
        match self {
            Self::PreDelete => 0,
            Self::PreSync => 1,
            Self::Sync => 2,
            Self::PostSync => 3,
            Self::PostDelete => 4,
            Self::SyncFail => 5,
        }
    }
}

impl Ord for Phase {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for Phase {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// When a hook object is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DeletePolicy {
    /// Before the next operation creates it again. The default.
    BeforeHookCreation,
    /// When the operation succeeds.
    HookSucceeded,
    /// When the operation fails.
    HookFailed,
}

/// What is done to one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Action {
    /// Not in the cluster yet: it will be created by an apply.
    Create,
    /// In the cluster: the manifest is applied to it.
    Apply,
    /// In the cluster: replaced as a whole (`Replace=true`).
    Replace,
    /// In the cluster and not in the manifests: deleted.
    Prune,
    /// In the cluster and not in the manifests, and left alone; `reason` says why.
    PruneSkipped,
    /// In sync, and left alone (`ApplyOutOfSyncOnly=true`).
    Unchanged,
}

impl Action {
    /// Whether the task writes a manifest.
    pub fn writes(self) -> bool {
        matches!(self, Self::Create | Self::Apply | Self::Replace)
    }

    /// Whether the task is about an object that is no longer in the manifests.
    pub fn is_prune(self) -> bool {
        matches!(self, Self::Prune | Self::PruneSkipped)
    }

    /// The word used in output: `create`, `apply`, `replace`, `prune`, `prune-skipped`, `unchanged`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Apply => "apply",
            Self::Replace => "replace",
            Self::Prune => "prune",
            Self::PruneSkipped => "prune-skipped",
            Self::Unchanged => "unchanged",
        }
    }
}

/// What makes a task a hook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hook {
    /// When its object is deleted; never empty.
    pub delete_policies: Vec<DeletePolicy>,
    /// Longest time from creation to completion (`tidegate.dev/timeout`).
    pub timeout: Option<Duration>,
    /// A registered hook runner that carries it out instead of the cluster (`tidegate.dev/hook-runner`).
    pub runner: Option<String>,
}

impl Hook {
    /// Whether a delete policy is among the hook's.
    pub fn deletes(&self, policy: DeletePolicy) -> bool {
        self.delete_policies.contains(&policy)
    }
}

/// Position of a manifest in the operation's bundle, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ManifestId(pub u32);

impl ManifestId {
    /// The position as an index into the bundle.
    pub fn index(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// The object as it was in the cluster when the plan was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveRef {
    /// `metadata.uid`; deletions are bound to it.
    pub uid: String,
    /// `metadata.resourceVersion` when the plan was made.
    pub resource_version: String,
    /// `metadata.generation`, 0 where the kind has none.
    pub generation: i64,
}

/// How a manifest is written, resolved from the application's options and the object's annotations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskOptions {
    /// Delete and create again where an update is impossible (`Force=true`).
    pub force: bool,
    /// Unknown fields are refused unless `Validate=false`.
    pub validate: bool,
    /// `ServerSideApply=false` on the resource asks for a client-side three-way apply.
    pub server_side: bool,
    /// The dry run before the first wave leaves it out: its kind or namespace comes with this operation
    /// (`true` also for `SkipDryRunOnMissingResource=true` when the kind is not served). It is dry-run when its
    /// wave opens.
    pub dry_run_at_wave: bool,
    /// The prune waits for a person (`Prune=confirm`).
    pub confirm_prune: bool,
    /// The live object has fields that this manager wrote by client-side apply; they become ours before the apply.
    pub take_over: Option<String>,
    /// The server has judged the manifest when the plan was made, so no other dry run is needed.
    pub checked: bool,
    /// The object does not count for the health of the application (`argocd.argoproj.io/ignore-healthcheck`).
    pub ignores_health: bool,
    /// Written as a whole (`Replace=true`), also where there is nothing to replace yet.
    pub replace: bool,
    /// The definition of its kind is part of this operation: where the kind is not served yet, it is awaited.
    pub awaits_kind: bool,
    /// The object was on its way out already when the plan was made.
    pub already_deleting: bool,
    /// It bears the application's mark, but nothing proves that it is the application's: it was found where the operation
    /// does not deploy, and no earlier operation of this log put it there.
    pub found_elsewhere: bool,
}

impl Default for TaskOptions {
    fn default() -> Self {
        Self {
            force: false,
            validate: true,
            server_side: true,
            dry_run_at_wave: false,
            confirm_prune: false,
            take_over: None,
            checked: false,
            ignores_health: false,
            replace: false,
            awaits_kind: false,
            already_deleting: false,
            found_elsewhere: false,
        }
    }
}

/// One unit of work: one object in one phase and wave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Phase in which it runs.
    pub phase: Phase,
    /// Wave inside the phase.
    pub wave: i64,
    /// Kind of the object.
    pub gvk: Gvk,
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: String,
    /// `metadata.name`; of a hook with `generateName`, the name that was made from it.
    pub name: String,
    /// What is done about the object when its wave comes.
    pub action: Action,
    /// Present when it is a hook.
    pub hook: Option<Hook>,
    /// Why the action was chosen, in words.
    pub reason: String,
    /// The manifest to write; absent for prunes.
    pub manifest: Option<ManifestId>,
    /// The object as it was in the cluster, if it was there.
    pub live: Option<LiveRef>,
    /// How it is written.
    pub options: TaskOptions,
    /// A registered health judge that replaces the built-in rule (`tidegate.dev/health-judge`).
    pub health_judge: Option<String>,
    /// The images of its containers, in the order of the manifest.
    pub images: Vec<String>,
    /// Why the plan is not valid, where this task is to blame.
    pub error: Option<String>,
}

impl Task {
    /// Identity of the object in the cluster.
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(&self.gvk.group, &self.gvk.kind, &self.namespace, &self.name)
    }

    /// Whether it is a hook.
    pub fn is_hook(&self) -> bool {
        self.hook.is_some()
    }
}

/// The tasks that share a phase and a wave: they run together, and the next wave waits for them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedWave {
    /// The phase it belongs to: `PreSync`, `Sync` …
    pub phase: Phase,
    /// Wave inside the phase.
    pub wave: i64,
    /// Position of its first task in the plan.
    pub first: u32,
    /// Number of its tasks; at least one.
    pub count: u32,
    /// Longest time from opening to passing (`tidegate.dev/wave-timeout`); the longest of its resources wins.
    pub timeout: Option<Duration>,
    /// Gates that must open first (`tidegate.dev/gate`), sorted, without duplicates.
    pub gates: Vec<String>,
}

impl PlannedWave {
    /// The positions of its tasks.
    pub fn task_ids(&self) -> impl Iterator<Item = TaskId> + use<> {
        (self.first..self.first.saturating_add(self.count)).map(TaskId)
    }

    fn range(&self) -> Range<usize> {
        let first = TaskId(self.first).index();
        first..first.saturating_add(TaskId(self.count).index())
    }
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Probably not what was meant. `--strict` refuses the plan.
    Warning,
    /// The operation cannot run: `one or more synchronization tasks are not valid`.
    Error,
}

/// Something surprising in the input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    /// How bad it is.
    pub severity: Severity,
    /// A stable word for the kind of finding, such as `unknown-hook-type`.
    pub code: String,
    /// Which object, where it is about one: `Deployment shop/api`.
    pub object: Option<String>,
    /// Where it was read: `shop/api.yaml:12`.
    pub origin: Option<String>,
    /// What is surprising and what to do.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(origin) = &self.origin {
            write!(f, "{origin}: ")?;
        }
        if let Some(object) = &self.object {
            write!(f, "{object}: ")?;
        }
        f.write_str(&self.message)
    }
}

/// What an operation will do, in order. Plain data: the same input gives the same plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// All tasks, in total order: phase, wave, kind rank, name, group, kind, namespace.
    pub tasks: Vec<Task>,
    /// Consecutive runs of tasks with equal phase and wave.
    pub waves: Vec<PlannedWave>,
    /// Findings, in order of the input.
    pub warnings: Vec<Warning>,
    /// `tidegate.dev/retry: restart` was found: a retry starts from the first wave.
    pub restart_on_retry: bool,
}

impl Plan {
    /// Appends a task, with the timeout and the gates that it wants for its wave: the longest counts, and all gates.
    /// It begins a wave of its own where the last one is of another phase or number.
    pub fn push(&mut self, task: Task, timeout: Option<Duration>, gates: Vec<String>) {
        let (phase, wave) = (task.phase, task.wave);
        match self.waves.last_mut() {
            Some(last) if (last.phase, last.wave) == (phase, wave) => {
                last.count = last.count.saturating_add(1);
                last.timeout = last.timeout.max(timeout);
                last.gates.extend(gates);
            }
            _ => {
                let first = u32::try_from(self.tasks.len()).unwrap_or(u32::MAX);
                self.waves.push(PlannedWave { phase, wave, first, count: 1, timeout, gates });
            }
        }
        self.tasks.push(task);
    }

    /// A task by position.
    pub fn task(&self, id: TaskId) -> Option<&Task> {
        self.tasks.get(id.index())
    }

    /// The tasks of a wave, in the order in which they are applied.
    pub fn tasks_of(&self, wave: &PlannedWave) -> &[Task] {
        self.tasks.get(wave.range()).unwrap_or_default()
    }

    /// All tasks with their positions.
    pub fn enumerate(&self) -> impl Iterator<Item = (TaskId, &Task)> {
        (0_u32..).map(TaskId).zip(&self.tasks)
    }

    /// Whether the waves before a failure are more than one. SyncFail waves do not count.
    pub fn is_multi_step(&self) -> bool {
        self.waves.iter().filter(|wave| wave.phase != Phase::SyncFail).count() > 1
    }

    /// The messages of findings that make the plan invalid, sorted, without duplicates.
    pub fn errors(&self) -> Vec<&str> {
        let errors = self.warnings.iter().filter(|warning| warning.severity == Severity::Error);
        let mut messages: Vec<&str> = errors.map(|warning| warning.message.as_str()).collect();
        messages.sort_unstable();
        messages.dedup();
        messages
    }
}
