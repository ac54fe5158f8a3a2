//! Short words for requests, tasks and plans.

use std::time::Duration;

use tidegate_model::{
    Action, Backoff, DeletePolicy, Destination, Digest, Gvk, Hook, LiveRef, OperationId, Phase, Plan,
    PlanApproval, RetryPolicy, SyncOptions, SyncRequest, TakenPlan, Task, TaskOptions, Timestamp, WaitFor,
};

pub fn id() -> OperationId {
    "019f0000-0000-7000-8000-000000000007".parse().unwrap()
}

pub const DIGEST: Digest = Digest([7; 32]);

pub fn taken_plan() -> TakenPlan {
    let approval = PlanApproval { by: "ann".into(), reason: "looked at it".into(), at: at(0) };
    TakenPlan { hash: DIGEST, made_at: at(0), approvals: vec![approval] }
}

pub fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A moment, in milliseconds after the beginning of the test.
pub fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
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

/// A request that tries again.
pub fn retrying(limit: i64) -> SyncRequest {
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
    let (kind, name) = object.split_once('/').expect("an object is written Kind/name");
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
        manifest: action.writes().then_some(tidegate_model::ManifestId(0)),
        live: action.is_prune().then(|| live(name)),
        options: TaskOptions::default(),
        health_judge: None,
        images: Vec::new(),
        error: None,
    }
}

fn live(name: &str) -> LiveRef {
    LiveRef { uid: format!("old-{name}"), resource_version: "1".into(), generation: 1 }
}

/// A resource of the Sync phase that is not in the cluster yet.
pub fn resource(wave: i64, object: &str) -> Task {
    task(Phase::Sync, wave, object, Action::Create, None)
}

pub fn prune(wave: i64, object: &str) -> Task {
    task(Phase::Sync, wave, object, Action::Prune, None)
}

/// A hook with the default policy.
pub fn hook(phase: Phase, wave: i64, object: &str) -> Task {
    let hook = Hook { delete_policies: vec![DeletePolicy::BeforeHookCreation], timeout: None, runner: None };
    task(phase, wave, object, Action::Create, Some(hook))
}

/// Changes to tasks, to be chained.
pub trait With: Sized {
    fn with(self, change: impl FnOnce(&mut Task)) -> Self;

    fn acting(self, action: Action) -> Self {
        self.with(|task| task.action = action)
    }

    /// An object of this name is in the cluster already.
    fn living(self) -> Self {
        self.with(|task| task.live = Some(live(&task.name)))
    }

    fn policies(self, policies: &[DeletePolicy]) -> Self {
        self.with(|task| task.hook.as_mut().unwrap().delete_policies = policies.to_vec())
    }

    fn timeout(self, timeout: u64) -> Self {
        self.with(|task| task.hook.as_mut().unwrap().timeout = Some(seconds(timeout)))
    }

    fn runner(self, name: &str) -> Self {
        self.with(|task| task.hook.as_mut().unwrap().runner = Some(name.into()))
    }

    fn checked_late(self) -> Self {
        self.with(|task| task.options.dry_run_at_wave = true)
    }

    fn confirm(self) -> Self {
        self.with(|task| task.options.confirm_prune = true)
    }
}

impl With for Task {
    fn with(mut self, change: impl FnOnce(&mut Task)) -> Self {
        change(&mut self);
        self
    }
}

/// A plan of these tasks; those of one phase and wave must stand together.
pub fn plan(tasks: impl IntoIterator<Item = Task>) -> Plan {
    let mut plan = Plan::default();
    for task in tasks {
        plan.push(task, None, Vec::new());
    }
    plan
}

/// Changes to plans, to be chained.
pub trait Waves: Sized {
    fn gated(self, wave: usize, gate: &str) -> Self;
    fn wave_timeout(self, wave: usize, timeout: u64) -> Self;
}

impl Waves for Plan {
    fn gated(mut self, wave: usize, gate: &str) -> Self {
        self.waves[wave].gates.push(gate.into());
        self
    }

    fn wave_timeout(mut self, wave: usize, timeout: u64) -> Self {
        self.waves[wave].timeout = Some(seconds(timeout));
        self
    }
}
