//! What the log keeps, in the layouts that earlier programs wrote.
//!
//! The codec of the log writes fields without their names, so a type that is recorded cannot simply gain one. Here a
//! changed type stands as it was, with the way to what it is today. Nothing in here is ever changed.

use std::time::Duration;

use serde::Deserialize;

use crate::{
    Action, ClaimRequest, Destination, Gvk, IgnoreDifference, LiveRef, ManifestId, Phase, ResourceSelector,
    Severity, Tracking, WaitFor,
};

/// What a sync was asked, as it was first recorded.
#[derive(Clone, Debug, Deserialize)]
pub struct SyncRequest {
    application: String,
    namespace: String,
    destination: Destination,
    revision: String,
    options: SyncOptions,
    selection: Vec<ResourceSelector>,
    retry: RetryPolicy,
    deadline: Option<Duration>,
    wait: WaitFor,
    wave_delay: Option<Duration>,
    initiated_by: String,
    sources: Vec<String>,
    ignore_differences: Vec<IgnoreDifference>,
    tracking: Tracking,
}

impl From<SyncRequest> for crate::SyncRequest {
    fn from(old: SyncRequest) -> Self {
        Self {
            revision: old.revision,
            options: old.options.into(),
            selection: old.selection,
            retry: old.retry.into(),
            deadline: old.deadline,
            wait: old.wait,
            wave_delay: old.wave_delay,
            initiated_by: old.initiated_by,
            sources: old.sources,
            ignore_differences: old.ignore_differences,
            tracking: old.tracking,
            ..Self::new(old.application, old.namespace, old.destination)
        }
    }
}

/// The same, from the time of claims until an application could be deleted.
#[derive(Clone, Debug, Deserialize)]
pub struct ClaimingRequest {
    application: String,
    namespace: String,
    destination: Destination,
    revision: String,
    options: crate::SyncOptions,
    selection: Vec<ResourceSelector>,
    retry: crate::RetryPolicy,
    deadline: Option<Duration>,
    wait: WaitFor,
    wave_delay: Option<Duration>,
    initiated_by: String,
    sources: Vec<String>,
    ignore_differences: Vec<IgnoreDifference>,
    tracking: Tracking,
    claim: Option<ClaimRequest>,
}

impl From<ClaimingRequest> for crate::SyncRequest {
    fn from(old: ClaimingRequest) -> Self {
        Self {
            revision: old.revision,
            options: old.options,
            selection: old.selection,
            retry: old.retry,
            deadline: old.deadline,
            wait: old.wait,
            wave_delay: old.wave_delay,
            initiated_by: old.initiated_by,
            sources: old.sources,
            ignore_differences: old.ignore_differences,
            tracking: old.tracking,
            claim: old.claim,
            ..Self::new(old.application, old.namespace, old.destination)
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
struct SyncOptions {
    prune: bool,
    dry_run: bool,
    force: bool,
    skip_hooks: bool,
    skip_dry_run: bool,
    flags: Vec<String>,
    namespace_labels: Vec<(String, String)>,
    namespace_annotations: Vec<(String, String)>,
    prune_confirmed: bool,
}

impl From<SyncOptions> for crate::SyncOptions {
    fn from(old: SyncOptions) -> Self {
        Self {
            prune: old.prune,
            dry_run: old.dry_run,
            force: old.force,
            skip_hooks: old.skip_hooks,
            skip_dry_run: old.skip_dry_run,
            flags: old.flags,
            namespace_labels: old.namespace_labels,
            namespace_annotations: old.namespace_annotations,
            prune_confirmed: old.prune_confirmed,
            ..Self::default()
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
struct RetryPolicy {
    limit: i64,
    backoff: Backoff,
    restart: bool,
}

impl From<RetryPolicy> for crate::RetryPolicy {
    #[expect(clippy::needless_update, reason = "what the type has gained since has its default")]
    fn from(old: RetryPolicy) -> Self {
        Self { limit: old.limit, backoff: old.backoff.into(), restart: old.restart, ..Self::default() }
    }
}

#[derive(Clone, Debug, Deserialize)]
struct Backoff {
    duration: Duration,
    factor: u32,
    max: Duration,
}

impl From<Backoff> for crate::Backoff {
    #[expect(clippy::needless_update, reason = "what the type has gained since has its default")]
    fn from(old: Backoff) -> Self {
        Self { duration: old.duration, factor: old.factor, max: old.max, ..Self::default() }
    }
}

/// A plan, as it was first recorded.
#[derive(Clone, Debug, Deserialize)]
pub struct Plan {
    tasks: Vec<Task>,
    waves: Vec<PlannedWave>,
    warnings: Vec<Warning>,
    restart_on_retry: bool,
}

impl From<Plan> for crate::Plan {
    #[expect(clippy::needless_update, reason = "what the type has gained since has its default")]
    fn from(old: Plan) -> Self {
        Self {
            tasks: old.tasks.into_iter().map(Into::into).collect(),
            waves: old.waves.into_iter().map(Into::into).collect(),
            warnings: old.warnings.into_iter().map(Into::into).collect(),
            restart_on_retry: old.restart_on_retry,
            ..Self::default()
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
struct Task {
    phase: Phase,
    wave: i64,
    gvk: Gvk,
    namespace: String,
    name: String,
    action: Action,
    hook: Option<Hook>,
    reason: String,
    manifest: Option<ManifestId>,
    live: Option<LiveRef>,
    options: TaskOptions,
    health_judge: Option<String>,
}

impl From<Task> for crate::Task {
    fn from(old: Task) -> Self {
        Self {
            phase: old.phase,
            wave: old.wave,
            gvk: old.gvk,
            namespace: old.namespace,
            name: old.name,
            action: old.action,
            hook: old.hook.map(Into::into),
            reason: old.reason,
            manifest: old.manifest,
            live: old.live,
            options: old.options.into(),
            health_judge: old.health_judge,
            images: Vec::new(),
            error: None,
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
struct Hook {
    delete_policies: Vec<crate::DeletePolicy>,
    timeout: Option<Duration>,
    runner: Option<String>,
}

impl From<Hook> for crate::Hook {
    fn from(old: Hook) -> Self {
        Self { delete_policies: old.delete_policies, timeout: old.timeout, runner: old.runner }
    }
}

#[derive(Clone, Debug, Deserialize)]
struct TaskOptions {
    force: bool,
    validate: bool,
    server_side: bool,
    dry_run_at_wave: bool,
    confirm_prune: bool,
    take_over: Option<String>,
    checked: bool,
    ignores_health: bool,
}

impl From<TaskOptions> for crate::TaskOptions {
    fn from(old: TaskOptions) -> Self {
        Self {
            force: old.force,
            validate: old.validate,
            server_side: old.server_side,
            dry_run_at_wave: old.dry_run_at_wave,
            confirm_prune: old.confirm_prune,
            take_over: old.take_over,
            checked: old.checked,
            ignores_health: old.ignores_health,
            // Every kind that was not served was awaited.
            awaits_kind: old.dry_run_at_wave,
            ..Self::default()
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
struct PlannedWave {
    phase: Phase,
    wave: i64,
    first: u32,
    count: u32,
    timeout: Option<Duration>,
    gates: Vec<String>,
}

impl From<PlannedWave> for crate::PlannedWave {
    fn from(old: PlannedWave) -> Self {
        Self {
            phase: old.phase,
            wave: old.wave,
            first: old.first,
            count: old.count,
            timeout: old.timeout,
            gates: old.gates,
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
struct Warning {
    severity: Severity,
    code: String,
    object: Option<String>,
    origin: Option<String>,
    message: String,
}

impl From<Warning> for crate::Warning {
    fn from(old: Warning) -> Self {
        Self {
            severity: old.severity,
            code: old.code,
            object: old.object,
            origin: old.origin,
            message: old.message,
        }
    }
}
