//! Short constructors for events and their content. No field has its default value.

use std::sync::Arc;
use std::time::Duration;

use tidegate_lifecycle::operation::{AppliedRef, ClaimEvent, Occupant, OperationEvent, Stage, WaveStep};
use tidegate_model::{
    Action, Backoff, ClaimConflictPolicy, ClaimHolder, ClaimLocation, ClaimRequest, DeletePolicy,
    Destination, Digest, Gvk, Health, HealthStatus, Hook, IgnoreDifference, Impersonation, LiveRef,
    ManifestId, OperationId, OperationPhase, Phase, Plan, RetryPolicy, SyncOptions, SyncRequest, Task,
    TaskId, TaskOptions, Timestamp, Tracking, TrackingMethod, WaitFor,
};
use tidegate_testkit::process::START;
use uuid::Uuid;

pub fn id(number: u128) -> OperationId {
    OperationId(Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0000 + number))
}

/// Returns a time in seconds after the start.
pub fn at(seconds: u64) -> Timestamp {
    START + Duration::from_secs(seconds)
}

pub fn request() -> SyncRequest {
    SyncRequest {
        application: "shop".into(),
        namespace: "store".into(),
        destination: Destination::Kubernetes {
            context: "staging".into(),
            server: "https://10.0.0.1:6443".into(),
            kubeconfig: Some("/home/ann/.kube/staging".into()),
            impersonate: Impersonation { user: "robot".into(), groups: vec!["deployers".into()] },
            uid: "5d2c4b1e".into(),
        },
        revision: "0123456789abcdef".into(),
        options: SyncOptions {
            prune: true,
            dry_run: false,
            force: true,
            skip_hooks: false,
            skip_dry_run: false,
            flags: vec!["PruneLast=false".into(), "CreateNamespace=true".into()],
            namespace_labels: vec![("team".into(), "shop".into())],
            namespace_annotations: vec![("contact".into(), "ann".into())],
            prune_confirmed: false,
            adopt: true,
        },
        selection: vec![":ConfigMap:store/settings".parse().unwrap()],
        retry: RetryPolicy {
            limit: 3,
            backoff: Backoff { duration: Duration::from_secs(7), factor: 3, max: Duration::from_secs(70) },
            restart: false,
        },
        deadline: Some(Duration::from_secs(3_600)),
        wait: WaitFor::Healthy,
        wave_delay: None,
        initiated_by: "ann".into(),
        sources: vec!["manifests/".into()],
        ignore_differences: vec![IgnoreDifference {
            group: "apps".into(),
            kind: "Deployment".into(),
            name: "api".into(),
            namespace: "store".into(),
            json_pointers: vec!["/spec/replicas".into()],
            jq_path_expressions: vec![".spec.template".into()],
            managed_fields_managers: vec!["hpa".into()],
        }],
        tracking: Tracking {
            method: TrackingMethod::AnnotationAndLabel,
            label: "example.com/app".into(),
            installation: "second".into(),
        },
        claim: Some(ClaimRequest { namespace: Some("claims".into()), if_taken: ClaimConflictPolicy::Queue }),
        deletion: None,
    }
}

pub fn accepted(number: u128, change: impl FnOnce(&mut SyncRequest)) -> OperationEvent {
    let mut request = request();
    change(&mut request);
    OperationEvent::Accepted {
        operation: id(number),
        request: Box::new(request),
        targets: Digest([1; 32]),
        at: at(0),
    }
}

pub fn plain(request: &mut SyncRequest) {
    request.claim = None;
    request.deadline = None;
}

pub fn task(phase: Phase, wave: i64, kind: &str, name: &str, action: Action) -> Task {
    let group = match kind {
        "Deployment" => "apps",
        "Job" => "batch",
        "Widget" => "example.com",
        _ => "",
    };
    Task {
        phase,
        wave,
        gvk: Gvk::new(group, "v1", kind),
        namespace: "store".into(),
        name: name.into(),
        action,
        hook: None,
        reason: format!("why {name}"),
        manifest: action.writes_manifest().then_some(ManifestId(3)),
        live: (action != Action::Create).then(|| LiveRef {
            uid: format!("live-{name}"),
            resource_version: "41".into(),
            generation: 4,
        }),
        options: TaskOptions::default(),
        health_judge: None,
        images: Vec::new(),
        error: None,
    }
}

pub fn hook(phase: Phase, name: &str) -> Task {
    let hook = Hook {
        delete_policies: vec![DeletePolicy::BeforeHookCreation, DeletePolicy::HookSucceeded],
        timeout: Some(Duration::from_secs(90)),
        runner: None,
    };
    Task { hook: Some(hook), ..task(phase, 0, "Job", name, Action::Create) }
}

/// Returns a plan with waves of these tasks, in order.
pub fn plan(tasks: Vec<Task>) -> Plan {
    let mut plan = Plan::default();
    for task in tasks {
        plan.push_task(task, None, Vec::new());
    }
    plan
}

pub fn planned(plan: Plan) -> OperationEvent {
    OperationEvent::Planned { plan: Arc::new(plan), bundle: Digest([2; 32]), at: at(2) }
}

pub fn stage_changed(to: Stage, seconds: u64) -> OperationEvent {
    OperationEvent::StageChanged { to, at: at(seconds) }
}

pub fn step(index: u32, step: WaveStep, seconds: u64) -> OperationEvent {
    stage_changed(Stage::Wave { index, step }, seconds)
}

pub fn applied(task: u32, seconds: u64, done: bool) -> OperationEvent {
    let applied = AppliedRef {
        uid: format!("uid-{task}"),
        resource_version: format!("{}", 100 + task),
        generation: i64::from(task) + 1,
        at: at(seconds),
    };
    OperationEvent::Applied { task: TaskId(task), applied, message: format!("applied {task}"), done }
}

pub fn checked(task: u32) -> OperationEvent {
    OperationEvent::DryRunPassed { task: TaskId(task), message: format!("task {task} would be taken") }
}

pub fn completed(task: u32, phase: OperationPhase, message: &str, seconds: u64) -> OperationEvent {
    OperationEvent::TaskCompleted { task: TaskId(task), phase, message: message.into(), at: at(seconds) }
}

pub fn health(task: u32, status: HealthStatus, fresh: bool, seconds: u64) -> OperationEvent {
    let health = Health::new(status, "2 of 3 updated");
    OperationEvent::HealthChanged { task: TaskId(task), health, fresh, at: at(seconds) }
}

pub fn call_failed(task: Option<u32>, outage: bool, seconds: u64) -> OperationEvent {
    OperationEvent::CallFailed {
        task: task.map(TaskId),
        message: "too many requests".into(),
        retry_at: at(seconds + 1),
        at: at(seconds),
        outage,
    }
}

pub fn holder() -> ClaimHolder {
    ClaimHolder {
        operation: id(99).to_string(),
        who: "cat on ci-2".into(),
        revision: "fedcba9876543210".into(),
        since: Some(at(0)),
    }
}

pub fn claim(news: ClaimEvent, seconds: u64) -> OperationEvent {
    OperationEvent::ClaimChanged { news, at: at(seconds) }
}

pub fn claim_held() -> ClaimEvent {
    ClaimEvent::Held {
        place: ClaimLocation { namespace: "claims".into(), name: "tidegate-shop".into() },
        epoch: 12,
    }
}

pub fn occupant() -> Occupant {
    Occupant {
        operation: id(99).to_string(),
        uid: "uid-of-cats".into(),
        resource_version: "77".into(),
        since: at(10),
    }
}

pub fn finished(phase: OperationPhase, message: &str, seconds: u64) -> OperationEvent {
    OperationEvent::Finished { phase, message: message.into(), at: at(seconds) }
}
