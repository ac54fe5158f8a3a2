use std::cmp::Ordering;
use std::fmt;
use std::ops::Range;
use std::time::Duration;

use schemars::JsonSchema;
use serde::ser::SerializeStruct as _;
use serde::{Deserialize, Serialize, Serializer};

use crate::{Gvk, ObjectKey, TaskId};

/// Phase of a sync or of an application's deletion. A deletion deletes the application's objects in the
/// `Sync` phase. Phases sort in the order in which they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    /// Hooks that run before the resources.
    PreSync,
    /// Resources, and hooks that run alongside them.
    Sync,
    /// Hooks that run after the resources.
    PostSync,
    /// Hooks that run only after a failure.
    SyncFail,
    /// Hooks that run before an application's objects are deleted.
    PreDelete,
    /// Hooks that run after an application's objects have been deleted.
    PostDelete,
}

impl Phase {
    /// Returns the position in execution order. The order of the variants differs, because it identifies
    /// phases in records.
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

/// Point at which a hook object is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DeletePolicy {
    /// Deletes the hook object before the next operation creates the hook again. This is the default.
    BeforeHookCreation,
    /// Deletes the hook object when the operation succeeds.
    HookSucceeded,
    /// Deletes the hook object when the operation fails.
    HookFailed,
}

/// Action to take on one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Action {
    /// Creates the object, which doesn't exist in the cluster.
    Create,
    /// Applies the manifest to the existing object.
    Apply,
    /// Replaces the whole existing object (`Replace=true`).
    Replace,
    /// Deletes the object, which is in the cluster but not in the manifests.
    Prune,
    /// Keeps an object that is in the cluster but not in the manifests. The task's `reason` says why.
    PruneSkipped,
    /// Leaves the object unchanged because it is in sync (`ApplyOutOfSyncOnly=true`).
    Unchanged,
}

impl Action {
    /// Returns true if the action writes a manifest.
    pub fn writes_manifest(self) -> bool {
        matches!(self, Self::Create | Self::Apply | Self::Replace)
    }

    /// Returns true if the object is no longer in the manifests.
    pub fn is_prune(self) -> bool {
        matches!(self, Self::Prune | Self::PruneSkipped)
    }

    /// Returns the name used in output: `create`, `apply`, `replace`, `prune`, `prune-skipped` or
    /// `unchanged`.
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

/// Hook settings of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hook {
    /// Deletion policies for the hook object; never empty.
    pub delete_policies: Vec<DeletePolicy>,
    /// Maximum time from creation to completion (`tidegate.dev/timeout`).
    pub timeout: Option<Duration>,
    /// Registered hook runner, which runs the hook outside the cluster (`tidegate.dev/hook-runner`).
    pub runner: Option<String>,
}

impl Hook {
    /// Returns true if the hook has this deletion policy.
    pub fn has_delete_policy(&self, policy: DeletePolicy) -> bool {
        self.delete_policies.contains(&policy)
    }
}

/// Position of a manifest in the operation's bundle, counting from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ManifestId(pub u32);

impl ManifestId {
    /// Returns the position as an index into the bundle.
    pub fn index(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// A live object at planning time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveRef {
    /// `metadata.uid`, a precondition for deletions.
    pub uid: String,
    /// `metadata.resourceVersion` at planning time.
    pub resource_version: String,
    /// `metadata.generation`, or 0 for kinds without one.
    pub generation: i64,
}

/// Options for writing a manifest, from the application's options and the object's annotations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskOptions {
    /// Deletes and recreates the object if it can't be updated (`Force=true`).
    pub force: bool,
    /// Rejects unknown fields. `Validate=false` disables this check.
    pub validate: bool,
    /// Uses server-side apply. If false (`ServerSideApply=false` on the resource), Tidegate uses a
    /// client-side three-way merge.
    pub server_side: bool,
    /// Delays the dry run until the wave starts, because this operation creates the task's kind or namespace.
    /// Also set for `SkipDryRunOnMissingResource=true` if the kind isn't served.
    pub dry_run_at_wave: bool,
    /// The prune requires a user's approval (`Prune=confirm`).
    pub confirm_prune: bool,
    /// Managers whose fields Tidegate takes over in the live object before the apply.
    #[serde(with = "crate::field_handover::managers")]
    pub take_over: Vec<String>,
    /// The server validated the manifest during planning, so no other dry run is needed.
    pub checked: bool,
    /// Excludes the object from the application's health (`argocd.argoproj.io/ignore-healthcheck`).
    pub ignores_health: bool,
    /// Replaces the whole object (`Replace=true`). Also set if the object doesn't exist yet.
    pub replace: bool,
    /// This operation's manifests define the kind. If it isn't served yet, the task waits for it.
    pub awaits_kind: bool,
    /// The object was already being deleted at planning time.
    pub already_deleting: bool,
    /// The object has the application's tracking mark, but its ownership isn't proven. It is outside this
    /// operation's destinations, and no earlier operation in this log created it there.
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
            take_over: Vec::new(),
            checked: false,
            ignores_health: false,
            replace: false,
            awaits_kind: false,
            already_deleting: false,
            found_elsewhere: false,
        }
    }
}

/// A unit of work: an object in a phase and wave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Phase in which the task runs.
    pub phase: Phase,
    /// Wave number within the phase.
    pub wave: i64,
    /// Kind of the object.
    pub gvk: Gvk,
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: String,
    /// `metadata.name`, or the generated name of a hook with `generateName`.
    pub name: String,
    /// Action to take on the object in this wave.
    pub action: Action,
    /// Hook settings, if the task is a hook.
    pub hook: Option<Hook>,
    /// Reason for the action.
    pub reason: String,
    /// Manifest to write. `None` for prunes.
    pub manifest: Option<ManifestId>,
    /// Live object, if it existed at planning time.
    pub live: Option<LiveRef>,
    /// Options for writing the manifest.
    pub options: TaskOptions,
    /// Registered health judge that replaces the built-in rule (`tidegate.dev/health-judge`).
    pub health_judge: Option<String>,
    /// Container images, in manifest order.
    pub images: Vec<String>,
    /// Error in this task that makes the plan invalid.
    pub error: Option<String>,
}

impl Task {
    /// Creates a task that creates an object, with default options.
    pub fn new(
        phase: Phase,
        wave: i64,
        gvk: Gvk,
        namespace: impl Into<String>,
        name: impl Into<String>,
    ) -> Self {
        Self {
            phase,
            wave,
            gvk,
            namespace: namespace.into(),
            name: name.into(),
            action: Action::Create,
            hook: None,
            reason: String::new(),
            manifest: None,
            live: None,
            options: TaskOptions::default(),
            health_judge: None,
            images: Vec::new(),
            error: None,
        }
    }

    /// Returns the identity of the object in the cluster.
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(&self.gvk.group, &self.gvk.kind, &self.namespace, &self.name)
    }

    /// Returns true if the task is a hook.
    pub fn is_hook(&self) -> bool {
        self.hook.is_some()
    }
}

/// Tasks with the same phase and wave number. They run together, and the next wave waits for them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedWave {
    /// Phase of the wave, such as `PreSync` or `Sync`.
    pub phase: Phase,
    /// Wave number within the phase.
    pub wave: i64,
    /// Position of the wave's first task in the plan.
    pub first: u32,
    /// Number of tasks in the wave; at least one.
    pub count: u32,
    /// Maximum time from the start of the wave to its completion: the longest `tidegate.dev/wave-timeout` of
    /// its resources.
    pub timeout: Option<Duration>,
    /// Gates that must open before the wave starts (`tidegate.dev/gate`). Sorted, without duplicates.
    pub gates: Vec<String>,
}

impl PlannedWave {
    /// Returns the IDs of the wave's tasks.
    pub fn task_ids(&self) -> impl Iterator<Item = TaskId> + use<> {
        (self.first..self.first.saturating_add(self.count)).map(TaskId)
    }

    fn task_range(&self) -> Range<usize> {
        let first = TaskId(self.first).index();
        first..first.saturating_add(TaskId(self.count).index())
    }
}

/// Severity of a warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Probably a mistake. `--strict` rejects the plan.
    Warning,
    /// Prevents the operation from running: `one or more synchronization tasks are not valid`.
    Error,
}

/// Problem found in the input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    /// Severity.
    pub severity: Severity,
    /// Stable identifier for this type of problem, such as `unknown-hook-type`.
    pub code: String,
    /// Affected object, if any, such as `Deployment shop/api`.
    pub object: Option<String>,
    /// Location in the input, such as `shop/api.yaml:12`.
    pub origin: Option<String>,
    /// Description of the problem and how to fix it.
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

/// A task that waits for another task in its wave (`tidegate.dev/depends-on`).
///
/// A manifest is written once the dependency's object is healthy. The order of prunes is the reverse: an object
/// is deleted once the objects that depend on it are gone, so its prune depends on their prunes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskDependency {
    /// Task that waits.
    pub dependent: TaskId,
    /// Task that must succeed first.
    pub dependency: TaskId,
}

/// Tasks of an operation in execution order. A plan is plain data: the same input always yields the same
/// plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Plan {
    /// All tasks, ordered by phase, wave, kind rank, name, group, kind and namespace.
    pub tasks: Vec<Task>,
    /// Waves, in execution order. Each one is a run of consecutive tasks with the same phase and number.
    pub waves: Vec<PlannedWave>,
    /// Warnings, in input order.
    pub warnings: Vec<Warning>,
    /// True if a resource has `tidegate.dev/retry: restart`, which makes a retry start from the first wave.
    pub restart_on_retry: bool,
    /// Dependencies between tasks of the same wave, sorted and without duplicates or cycles. Dependencies on
    /// earlier waves follow from the order of the waves.
    #[serde(default)]
    pub dependencies: Vec<TaskDependency>,
}

/// Documents omit an empty list of dependencies, so that plans without dependencies keep their hashes. Records
/// in the log have a fixed layout.
impl Serialize for Plan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { tasks, waves, warnings, restart_on_retry, dependencies } = self;
        let has_dependencies = !serializer.is_human_readable() || !dependencies.is_empty();
        let mut plan = serializer.serialize_struct("Plan", if has_dependencies { 5 } else { 4 })?;
        plan.serialize_field("tasks", tasks)?;
        plan.serialize_field("waves", waves)?;
        plan.serialize_field("warnings", warnings)?;
        plan.serialize_field("restart_on_retry", restart_on_retry)?;
        if has_dependencies {
            plan.serialize_field("dependencies", dependencies)?;
        }
        plan.end()
    }
}

/// Layout of a plan in the log before plans had dependencies. Only read.
#[derive(Clone, Debug, Deserialize)]
pub struct PlanWithoutDependencies {
    tasks: Vec<Task>,
    waves: Vec<PlannedWave>,
    warnings: Vec<Warning>,
    restart_on_retry: bool,
}

impl From<PlanWithoutDependencies> for Plan {
    fn from(plan: PlanWithoutDependencies) -> Self {
        let PlanWithoutDependencies { tasks, waves, warnings, restart_on_retry } = plan;
        Self { tasks, waves, warnings, restart_on_retry, dependencies: Vec::new() }
    }
}

impl Plan {
    /// Appends a task, with the timeout and gates that it requests for its wave. A wave gets the longest
    /// timeout and all gates of its tasks. A task with a different phase or number starts a new wave.
    pub fn push_task(&mut self, task: Task, timeout: Option<Duration>, gates: Vec<String>) {
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

    /// Returns a task by ID.
    pub fn task(&self, id: TaskId) -> Option<&Task> {
        self.tasks.get(id.index())
    }

    /// Returns the tasks that must succeed before a task starts, in the order of the plan.
    pub fn dependencies_of(&self, id: TaskId) -> impl Iterator<Item = (TaskId, &Task)> {
        let first = self.dependencies.partition_point(|one| one.dependent < id);
        let own = self.dependencies.iter().skip(first).take_while(move |one| one.dependent == id);
        own.filter_map(|one| Some((one.dependency, self.task(one.dependency)?)))
    }

    /// Returns a wave's tasks in the order of application.
    pub fn tasks_of(&self, wave: &PlannedWave) -> &[Task] {
        self.tasks.get(wave.task_range()).unwrap_or_default()
    }

    /// Returns all tasks with their IDs.
    pub fn tasks_with_ids(&self) -> impl Iterator<Item = (TaskId, &Task)> {
        (0_u32..).map(TaskId).zip(&self.tasks)
    }

    /// Returns true if the plan has more than one wave, not counting SyncFail waves.
    pub fn is_multi_step(&self) -> bool {
        self.waves.iter().filter(|wave| wave.phase != Phase::SyncFail).count() > 1
    }

    /// Returns the messages of the warnings that make the plan invalid, sorted and deduplicated.
    pub fn errors(&self) -> Vec<&str> {
        let errors = self.warnings.iter().filter(|warning| warning.severity == Severity::Error);
        let mut messages: Vec<&str> = errors.map(|warning| warning.message.as_str()).collect();
        messages.sort_unstable();
        messages.dedup();
        messages
    }
}
