//! Builders for requests, tasks and plans.

use std::time::Duration;

use tidegate_model::{
    Action, Backoff, DeletePolicy, Destination, Digest, Evidence, Gvk, Health, HealthStatus, Hook, LiveRef,
    ObservedState, OperationId, Phase, Plan, PlanApproval, RetryPolicy, StoredPlanRef, SyncOptions,
    SyncRequest, Task, TaskDependency, TaskOptions, Timestamp, WaitFor,
};

pub fn id() -> OperationId {
    "019f0000-0000-7000-8000-000000000007".parse().unwrap()
}

pub const DIGEST: Digest = Digest([7; 32]);

pub fn stored_plan() -> StoredPlanRef {
    let approval = PlanApproval { by: "ann".into(), reason: "looked at it".into(), at: at(0) };
    StoredPlanRef { hash: DIGEST, made_at: at(0), approvals: vec![approval] }
}

pub fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Returns a time, in milliseconds after the start of the test.
pub fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

/// Returns the state of an object that exists, with the given resource version and health.
pub fn observed_state(version: &str, status: HealthStatus) -> ObservedState {
    ObservedState::Present {
        uid: "uid".into(),
        resource_version: version.into(),
        generation: 1,
        deleting: false,
        kept_by: String::new(),
        health: Some(Health::new(status, "")),
        unjudged: false,
        evidence: Evidence::ObservedGeneration(1),
    }
}

pub fn request() -> SyncRequest {
    SyncRequest {
        application: "shop".into(),
        namespace: "shop".into(),
        destination: Destination::Simulated,
        revision: String::new(),
        options: SyncOptions::default(),
        selection: Vec::new(),
        retry: RetryPolicy::default(),
        deadline: None,
        wait: WaitFor::Synced,
        wave_delay: None,
        initiated_by: "ann".into(),
        sources: Vec::new(),
        ignore_differences: Vec::new(),
        tracking: tidegate_model::Tracking::default(),
        claim: None,
        deletion: None,
    }
}

pub fn request_with_retries(limit: i64) -> SyncRequest {
    let backoff = Backoff { duration: seconds(5), factor: 2, max: seconds(180) };
    SyncRequest { retry: RetryPolicy { limit, backoff, restart: false }, ..request() }
}

fn gvk(kind: &str) -> Gvk {
    let group = match kind {
        "Deployment" => "apps",
        "Job" => "batch",
        "CustomResourceDefinition" => "apiextensions.k8s.io",
        "Widget" => "example.com",
        _ => "",
    };
    Gvk::new(group, "v1", kind)
}

fn task(phase: Phase, wave: i64, object: &str, action: Action, hook: Option<Hook>) -> Task {
    let (kind, name) = object.split_once('/').expect("an object must have the form Kind/name");
    let is_cluster_scoped = matches!(kind, "Namespace" | "CustomResourceDefinition");
    Task {
        phase,
        wave,
        gvk: gvk(kind),
        namespace: if is_cluster_scoped { String::new() } else { "shop".into() },
        name: name.into(),
        action,
        hook,
        reason: "test".into(),
        manifest: action.writes_manifest().then_some(tidegate_model::ManifestId(0)),
        live: action.is_prune().then(|| live_ref(name)),
        options: TaskOptions::default(),
        health_judge: None,
        images: Vec::new(),
        error: None,
    }
}

fn live_ref(name: &str) -> LiveRef {
    LiveRef { uid: format!("old-{name}"), resource_version: "1".into(), generation: 1 }
}

/// Returns a task for a resource of the Sync phase that doesn't exist in the cluster yet.
pub fn resource(wave: i64, object: &str) -> Task {
    task(Phase::Sync, wave, object, Action::Create, None)
}

pub fn prune_task(wave: i64, object: &str) -> Task {
    task(Phase::Sync, wave, object, Action::Prune, None)
}

/// Returns a task for a hook with the default delete policy.
pub fn hook_task(phase: Phase, wave: i64, object: &str) -> Task {
    let hook = Hook { delete_policies: vec![DeletePolicy::BeforeHookCreation], timeout: None, runner: None };
    task(phase, wave, object, Action::Create, Some(hook))
}

/// Chainable changes to tasks.
pub trait TaskChanges: Sized {
    fn with(self, change: impl FnOnce(&mut Task)) -> Self;

    fn with_action(self, action: Action) -> Self {
        self.with(|task| task.action = action)
    }

    /// Adds an existing object for the task to the cluster.
    fn with_live_object(self) -> Self {
        self.with(|task| task.live = Some(live_ref(&task.name)))
    }

    fn with_delete_policies(self, policies: &[DeletePolicy]) -> Self {
        self.with(|task| task.hook.as_mut().unwrap().delete_policies = policies.to_vec())
    }

    fn with_timeout(self, timeout: u64) -> Self {
        self.with(|task| task.hook.as_mut().unwrap().timeout = Some(seconds(timeout)))
    }

    fn with_runner(self, name: &str) -> Self {
        self.with(|task| task.hook.as_mut().unwrap().runner = Some(name.into()))
    }

    fn with_late_check(self) -> Self {
        self.with(|task| task.options.dry_run_at_wave = true)
    }

    fn with_confirmation(self) -> Self {
        self.with(|task| task.options.confirm_prune = true)
    }
}

impl TaskChanges for Task {
    fn with(mut self, change: impl FnOnce(&mut Task)) -> Self {
        change(&mut self);
        self
    }
}

/// Returns a plan with the given tasks. Tasks with the same phase and wave must be adjacent.
pub fn plan(tasks: impl IntoIterator<Item = Task>) -> Plan {
    let mut plan = Plan::default();
    for task in tasks {
        plan.push_task(task, None, Vec::new());
    }
    plan
}

/// Chainable changes to plans.
pub trait PlanChanges: Sized {
    fn with_gate(self, wave: usize, gate: &str) -> Self;
    fn with_wave_timeout(self, wave: usize, timeout: u64) -> Self;
    /// Adds a dependency between two tasks, given as `Kind/name`.
    fn with_dependency(self, dependent: &str, dependency: &str) -> Self;
}

impl PlanChanges for Plan {
    fn with_gate(mut self, wave: usize, gate: &str) -> Self {
        self.waves[wave].gates.push(gate.into());
        self
    }

    fn with_wave_timeout(mut self, wave: usize, timeout: u64) -> Self {
        self.waves[wave].timeout = Some(seconds(timeout));
        self
    }

    fn with_dependency(mut self, dependent: &str, dependency: &str) -> Self {
        let find = |object: &str| {
            let is_it = |task: &Task| format!("{}/{}", task.gvk.kind, task.name) == object;
            self.tasks_with_ids().find(|(_, task)| is_it(task)).map(|(id, _)| id).unwrap()
        };
        let one = TaskDependency { dependent: find(dependent), dependency: find(dependency) };
        self.dependencies.push(one);
        self.dependencies.sort_unstable();
        self
    }
}
