//! Output format of operations. The field names are stable, because users and programs rely on them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_model::{
    Action, Cascade, ClaimConflictPolicy, ClaimHolder, Digest, OperationId, OperationOutcome, OperationPhase,
    Override, Phase, PlanApproval, Requester, ResourceResult, Severity, StoredPlanRef, Task, TaskId,
    Timestamp, Warning,
};

use super::messages::TERMINATED;
use super::state::{
    ActiveHealthRules, Claim, Header, HookLog, Operation, Outcome, Progress, Stage, State, WaveStep,
    no_claim_warning,
};

/// JSON representation of an operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperationView {
    /// ID of the operation. `tidegate ops show` accepts the full ID or a prefix.
    pub id: OperationId,
    /// Name of the operation's application.
    pub app: String,
    /// `Running`, `Terminating`, or the final phase: `Succeeded`, `Failed` or `Error`.
    pub phase: OperationPhase,
    /// Same as `phase`, except that a superseded operation has the outcome `Superseded` and the phase
    /// `Failed`.
    #[serde(default)]
    pub outcome: OperationOutcome,
    /// User or program that started the operation. `None` if unknown. For a deletion, the field also contains
    /// the reason and other details of the request.
    #[serde(default)]
    pub initiated_by: Option<String>,
    /// Reason for the request. `None` if no reason was provided.
    #[serde(default)]
    pub reason: Option<String>,
    /// Stored plan that the operation executes. `None` if the operation creates its own plan.
    #[serde(default)]
    pub plan: Option<ExecutedPlanView>,
    /// Outcome, or what the operation is currently doing or waiting for.
    pub message: String,
    /// Time at which the operation was accepted, before planning.
    pub started_at: Timestamp,
    /// End time. `None` while the operation is running.
    pub finished_at: Option<Timestamp>,
    /// Number of retries.
    pub retry_count: u32,
    /// User who paused the operation. Set only while it is paused.
    pub paused_by: Option<String>,
    /// User who terminated the operation, and the reason. Absent if no user did, or if the operation was
    /// never planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminated_by: Option<String>,
    /// Deletion policy for the application's objects, if the operation deletes the application.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion: Option<Cascade>,
    /// True for a dry run, which doesn't write to the cluster. Absent for other operations, or if the
    /// operation's events were compacted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// Waves of the plan.
    pub waves: Vec<WaveView>,
    /// Results, in the order in which they were first recorded.
    pub resources: Vec<ResourceResult>,
    /// Last log lines of failed hooks.
    #[serde(default)]
    pub hook_logs: Vec<HookLogView>,
    /// Warnings and errors found during planning.
    pub warnings: Vec<Warning>,
    /// The operation's claim. `None` if the operation doesn't use a claim.
    #[serde(default)]
    pub claim: Option<ClaimView>,
    /// Health rules in use. `None` until the operation is planned.
    #[serde(default)]
    pub health_rules: Option<HealthRulesView>,
}

impl OperationView {
    /// Returns the phase for display. For a dry run, the text also says that no changes are written.
    pub fn describe_phase(&self) -> String {
        let outcome = OperationOutcome::from_phase(self.phase, &self.message);
        match (self.dry_run, self.phase.is_completed()) {
            (false, _) => outcome.to_string(),
            (true, true) => format_dry_run_outcome(outcome),
            (true, false) => format!("{outcome} (dry run: nothing is written)"),
        }
    }
}

impl WaveView {
    /// Returns the wave's state in human-readable form. Returns `Skipped` only if a user skipped tasks in the
    /// wave.
    pub fn describe_state(&self) -> &str {
        match self.state.as_str() {
            "Skipped" if self.skipped > 0 => &self.state,
            "Skipped" if self.phase == Phase::SyncFail => "Not needed",
            "Skipped" if self.done < self.tasks => "Not reached",
            "Skipped" => "Nothing to do",
            state => state,
        }
    }
}

/// Formats the outcome of a dry run.
pub(super) fn format_dry_run_outcome(outcome: OperationOutcome) -> String {
    format!("{outcome} (dry run: nothing was written)")
}

/// Stored plan that an operation executes, with its approvals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecutedPlanView {
    /// Hash that identifies the plan: the SHA-256 of its content in hexadecimal. Users usually see only the
    /// first 12 digits.
    pub hash: String,
    /// Time at which the plan was computed from the cluster's state.
    pub created_at: Timestamp,
    /// Approvals in order, each with the user, the time and the reason. Empty if no approval was needed.
    pub approvals: Vec<PlanApproval>,
}

impl From<&StoredPlanRef> for ExecutedPlanView {
    fn from(plan: &StoredPlanRef) -> Self {
        Self { hash: plan.hash.to_string(), created_at: plan.made_at, approvals: plan.approvals.clone() }
    }
}

impl ExecutedPlanView {
    /// Returns the first digits of the hash, for display.
    pub fn short(&self) -> &str {
        self.hash.get(..12).unwrap_or(&self.hash)
    }
}

/// Current and previous health rules of an operation. The first digits of a digest identify each set of
/// rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthRulesView {
    /// Current rules.
    pub digest: String,
    /// Time since which the current rules have applied to the operation.
    pub since: Timestamp,
    /// Previous rules, if the rules changed while the operation was running.
    #[serde(rename = "previous")]
    pub before: Option<String>,
}

impl From<&ActiveHealthRules> for HealthRulesView {
    fn from(rules: &ActiveHealthRules) -> Self {
        let before = rules.before.as_ref().map(Digest::short);
        Self { digest: rules.digest.short(), since: rules.since, before }
    }
}

/// JSON representation of an operation's claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimView {
    /// State of the claim.
    pub state: ClaimStatus,
    /// The claim's Lease as `namespace/name`. Set only while the operation holds the claim.
    pub lease: Option<String>,
    /// Number of holders that the claim has had. Set only while the operation holds the claim.
    pub epoch: Option<u64>,
    /// Time at which the operation acquired the claim or started to wait for it.
    pub since: Option<Timestamp>,
    /// Operation that holds the claim, if it isn't this operation.
    pub holder: Option<ClaimHolder>,
    /// Reason why no claim is available, as returned by the cluster.
    pub reason: Option<String>,
}

/// State of an operation's claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ClaimState")]
pub enum ClaimStatus {
    /// The claim is being requested.
    Wanted,
    /// Another operation holds the claim, and this operation is waiting.
    Awaited,
    /// Another operation holds the claim, so this operation ended without making changes.
    Refused,
    /// The operation holds the claim.
    Held,
    /// The operation has finished and released the claim.
    Released,
    /// The operation requested a claim, but could not get one and runs without it.
    Unavailable,
    /// Another operation acquired the claim.
    Lost,
}

/// Last log lines of a failed hook's container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HookLogView {
    /// API group of the hook. Empty for the core API.
    pub group: String,
    /// Kind of the hook.
    pub kind: String,
    /// `metadata.namespace` of the hook. Empty for cluster-scoped kinds.
    pub namespace: String,
    /// `metadata.name` of the hook.
    pub name: String,
    /// Name of the pod.
    pub pod: String,
    /// Name of the container.
    pub container: String,
    /// End of the container's log.
    pub text: String,
}

impl HookLogView {
    /// Creates the view of a log that was stored for a hook.
    pub fn new(hook: &Task, log: &HookLog) -> Self {
        Self {
            group: hook.gvk.group.clone(),
            kind: hook.gvk.kind.clone(),
            namespace: hook.namespace.clone(),
            name: hook.name.clone(),
            pod: log.pod.clone(),
            container: log.container.clone(),
            text: log.text.clone(),
        }
    }
}

/// JSON representation of a wave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaveView {
    /// Phase of the wave, such as `PreSync` or `Sync`.
    pub phase: Phase,
    /// Number within the phase, from the `sync-wave` annotations of the wave's objects. May be negative.
    /// Deletions use the same numbers, in descending order.
    pub wave: i64,
    /// State of the wave. Before the wave: `Pending`. During the wave: `Held`, `DryRun`, `Pruning`,
    /// `AwaitingGone`, `Clearing`, `Applying`, `AwaitingHealth`, `Settling` or `Verifying`. After the wave:
    /// `Passed`, `Failed`, `Stopped` (ended early) or `Skipped` (nothing to do, or never reached).
    pub state: String,
    /// Number of objects in the wave.
    pub tasks: u32,
    /// Number of objects that the wave applies.
    #[serde(default)]
    pub applies: u32,
    /// Number of objects that the wave prunes.
    #[serde(default)]
    pub prunes: u32,
    /// Number of finished objects, excluding failed and skipped objects.
    pub done: u32,
    /// Number of objects that a user skipped.
    #[serde(default)]
    pub skipped: u32,
    /// Time at which the newest attempt opened the wave.
    pub opened_at: Option<Timestamp>,
    /// Time at which the wave's last manifest was applied.
    pub applied_at: Option<Timestamp>,
    /// Time at which the wave passed. `None` until then, and for a failed wave outside the SyncFail phase.
    pub passed_at: Option<Timestamp>,
}

/// Returns the JSON representation of the operation, or `None` before the operation is accepted.
pub fn view(state: &State) -> Option<OperationView> {
    let header = state.header()?;
    let operation = state.operation();
    let requester = Requester::from_operation(&header.request.initiated_by);
    let non_empty = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    Some(OperationView {
        id: header.operation,
        app: header.request.application.clone(),
        deletion: header.request.deletion,
        dry_run: header.request.options.dry_run,
        initiated_by: non_empty(requester.name),
        reason: non_empty(requester.reason),
        plan: header.plan.as_deref().map(Into::into),
        phase: phase(state),
        outcome: OperationOutcome::from_phase(phase(state), &state.message()),
        message: state.message(),
        started_at: header.started_at,
        finished_at: operation.and_then(|operation| operation.outcome.as_ref()).map(|outcome| outcome.at),
        retry_count: operation.map_or(0, Operation::retry_count),
        paused_by: header.paused.as_ref().map(|pause| pause.by.clone()),
        terminated_by: operation.and_then(terminated_by),
        waves: operation.map(wave_views).unwrap_or_default(),
        resources: operation.map(resource_results).unwrap_or_default(),
        hook_logs: operation.map(hook_log_views).unwrap_or_default(),
        warnings: warnings(header, operation),
        claim: claim_view(header, operation.and_then(|operation| operation.outcome.as_ref())),
        health_rules: header.health_rules.as_deref().map(Into::into),
    })
}

/// Returns the user who terminated the operation, with the reason. Returns `None` if the operation ended for
/// another reason.
fn terminated_by(operation: &Operation) -> Option<String> {
    let termination = operation.termination.as_ref().filter(|one| one.message == TERMINATED)?;
    let Requester { name: by, reason } = Requester::parse(&termination.by);
    Some(if reason.is_empty() { by.to_owned() } else { format!("{by}: {reason}") })
}

fn warnings(header: &Header, operation: Option<&Operation>) -> Vec<Warning> {
    let planned = operation.map(|operation| operation.plan.warnings.clone()).unwrap_or_default();
    let unclaimed = match header.claim.as_deref() {
        Some(Claim::Without { reason }) => Some(Warning {
            severity: Severity::Warning,
            code: "no-claim".to_owned(),
            object: None,
            origin: None,
            message: no_claim_warning(reason),
        }),
        _ => None,
    };
    unclaimed.into_iter().chain(planned).collect()
}

fn claim_view(header: &Header, outcome: Option<&Outcome>) -> Option<ClaimView> {
    let request = header.request.claim.as_ref()?;
    // Only `Error` means that the claim was refused. An operation that a user or a deadline ended while it
    // was waiting has `Failed`.
    let refused = outcome.is_some_and(|outcome| outcome.phase == OperationPhase::Error)
        && request.if_taken == ClaimConflictPolicy::Refuse;
    let blank =
        |state| ClaimView { state, lease: None, epoch: None, since: None, holder: None, reason: None };
    Some(match header.claim.as_deref() {
        None => blank(ClaimStatus::Wanted),
        Some(Claim::Held { place, epoch, since }) => ClaimView {
            lease: Some(format!("{}/{}", place.namespace, place.name)),
            epoch: Some(*epoch),
            since: Some(*since),
            ..blank(if outcome.is_some() { ClaimStatus::Released } else { ClaimStatus::Held })
        },
        Some(Claim::Taken { holder, since }) => ClaimView {
            since: Some(*since),
            holder: Some(holder.clone()),
            ..blank(if refused { ClaimStatus::Refused } else { ClaimStatus::Awaited })
        },
        Some(Claim::Without { reason }) => {
            ClaimView { reason: Some(reason.clone()), ..blank(ClaimStatus::Unavailable) }
        }
        Some(Claim::Lost { holder }) => ClaimView { holder: holder.clone(), ..blank(ClaimStatus::Lost) },
    })
}

fn phase(state: &State) -> OperationPhase {
    match state.operation() {
        Some(Operation { outcome: Some(outcome), .. }) => outcome.phase,
        Some(Operation { stage: Stage::Terminating, .. }) => OperationPhase::Terminating,
        _ => OperationPhase::Running,
    }
}

fn wave_views(operation: &Operation) -> Vec<WaveView> {
    let numbers = operation.wave_numbers();
    (0..)
        .zip(&operation.plan.waves)
        .map(|(index, wave)| {
            let times = operation.wave_times(index);
            // When a wave has passed, objects that the wave kept or didn't wait for also count as done.
            let done = operation
                .wave_tasks(index)
                .filter(|(_, _, state)| times.passed_at.is_some() || state.progress == Progress::Done)
                .filter(|(_, _, state)| !state.is_unsuccessful());
            let is_skipped = |id| operation.overrides.get(&id).is_some_and(|one| one.what == Override::Skip);
            let (skipped, done): (Vec<TaskId>, Vec<TaskId>) =
                done.map(|(id, _, _)| id).partition(|id| is_skipped(*id));
            let number = |is_counted: fn(Action) -> bool| {
                let tasks = operation.wave_tasks(index).filter(|(_, task, _)| is_counted(task.action));
                u32::try_from(tasks.count()).unwrap_or(u32::MAX)
            };
            WaveView {
                phase: wave.phase,
                wave: numbers.displayed(wave.phase, wave.wave),
                state: wave_state(operation, index),
                tasks: wave.count,
                applies: number(Action::writes_manifest),
                prunes: number(|action| action == Action::Prune),
                done: u32::try_from(done.len()).unwrap_or(u32::MAX),
                skipped: u32::try_from(skipped.len()).unwrap_or(u32::MAX),
                opened_at: times.opened_at,
                applied_at: times.applied_at,
                passed_at: times.passed_at,
            }
        })
        .collect()
}

fn wave_state(operation: &Operation, index: u32) -> String {
    let at_work =
        operation.current_wave().filter(|(current, _)| *current == index && operation.outcome.is_none());
    match at_work {
        Some((_, step)) if step != WaveStep::Passed => step.name().to_owned(),
        _ if operation.has_wave_failed(index) => "Failed".to_owned(),
        _ if operation.wave_times(index).passed_at.is_some() => "Passed".to_owned(),
        _ if operation.wave_times(index).opened_at.is_some() => "Stopped".to_owned(),
        _ if operation.outcome.is_some() || !operation.has_work(index) => "Skipped".to_owned(),
        _ => "Pending".to_owned(),
    }
}

fn resource_results(operation: &Operation) -> Vec<ResourceResult> {
    let numbers = operation.wave_numbers();
    let mut results: Vec<ResourceResult> = operation
        .all_tasks()
        .filter(|(_, _, state)| state.order > 0)
        .map(|(id, task, state)| ResourceResult {
            group: task.gvk.group.clone(),
            version: task.gvk.version.clone(),
            kind: task.gvk.kind.clone(),
            namespace: task.namespace.clone(),
            name: task.name.clone(),
            sync_phase: task.phase,
            wave: numbers.displayed(task.phase, task.wave),
            hook_type: task.is_hook().then_some(task.phase),
            status: state.status,
            hook_phase: state.phase,
            message: state.message.clone(),
            images: task.images.clone(),
            order: state.order,
            reason: state.reason().to_owned(),
            warnings: state.warnings.clone(),
            overridden: operation.overrides.get(&id).cloned(),
        })
        .collect();
    results.sort_by_key(|result| result.order);
    results
}

fn hook_log_views(operation: &Operation) -> Vec<HookLogView> {
    let tasks = operation.all_tasks();
    tasks
        .flat_map(|(_, task, state)| state.logs().iter().map(move |log| HookLogView::new(task, log)))
        .collect()
}
