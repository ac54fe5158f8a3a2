//! An operation as users and programs see it. Field names are a stable interface.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_model::{
    Action, Cascade, ClaimHolder, Digest, IfTaken, OperationId, OperationPhase, Override, Phase,
    PlanApproval, ResourceResult, Severity, TakenPlan, Task, TaskId, Timestamp, Warning, Wisher,
};

use super::messages::TERMINATED;
use super::state::{
    Claim, Header, HookLog, JudgedBy, Operation, Outcome, Progress, Stage, State, WaveStep, no_claim,
};

/// An operation in output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperationView {
    /// Its id: `tidegate ops show` takes it, or its beginning.
    pub id: OperationId,
    /// Name of the application it works on.
    pub app: String,
    /// `Running`, `Terminating`, or what it has ended in: `Succeeded`, `Failed` or `Error`.
    pub phase: OperationPhase,
    /// Who has asked for it; `None` where that is not known. Of a deletion it says all that is known of who and why.
    #[serde(default)]
    pub initiated_by: Option<String>,
    /// Why; `None` where that was not said.
    #[serde(default)]
    pub reason: Option<String>,
    /// The kept plan that it carries out; `None` where it makes its own.
    #[serde(default)]
    pub plan: Option<TakenPlanView>,
    /// What it is doing or waiting for, or how it has ended.
    pub message: String,
    /// When it was accepted, before it was planned.
    pub started_at: Timestamp,
    /// When it ended; `None` while it has not.
    pub finished_at: Option<Timestamp>,
    /// How many times it was tried again.
    pub retry_count: u32,
    /// Who holds it, if somebody does.
    pub paused_by: Option<String>,
    /// Who has ended it before its end, and why, where somebody has; while it is planned that is not known yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminated_by: Option<String>,
    /// What becomes of the objects of the application, where it is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion: Option<Cascade>,
    /// It only tries what it would do, and writes nothing to the cluster; absent where it is no dry run, and of an operation whose
    /// facts are not kept any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// The waves of its plan.
    pub waves: Vec<WaveView>,
    /// The results, in order of recording.
    pub resources: Vec<ResourceResult>,
    /// What the containers of failed hooks wrote last.
    #[serde(default)]
    pub hook_logs: Vec<HookLogView>,
    /// Findings of the plan.
    pub warnings: Vec<Warning>,
    /// Its claim; `None` for an operation that asks for none.
    #[serde(default)]
    pub claim: Option<ClaimView>,
    /// The health rules it is judged by; `None` until it is planned, and of one that an earlier program ended.
    #[serde(default)]
    pub health_rules: Option<HealthRulesView>,
}

impl OperationView {
    /// Its phase for people, who are told that a dry run has written nothing, however it has ended.
    pub fn phase_words(&self) -> String {
        match (self.dry_run, self.phase.is_completed()) {
            (false, _) => self.phase.to_string(),
            (true, true) => ended_dry(self.phase),
            (true, false) => format!("{} (dry run: nothing is written)", self.phase),
        }
    }
}

impl WaveView {
    /// Its state for people. What nobody has skipped is not told as that.
    pub fn words(&self) -> &str {
        match self.state.as_str() {
            "Skipped" if self.skipped > 0 => &self.state,
            "Skipped" if self.phase == Phase::SyncFail => "Not needed",
            "Skipped" if self.done < self.tasks => "Not reached",
            "Skipped" => "Nothing to do",
            state => state,
        }
    }
}

/// How a dry run has ended.
pub(super) fn ended_dry(phase: OperationPhase) -> String {
    format!("{phase} (dry run: nothing was written)")
}

/// The kept plan that an operation carries out, and who has approved it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TakenPlanView {
    /// What names it: SHA-256 of all of it, in hexadecimal digits. The first 12 are enough for people.
    pub hash: String,
    /// When it was made, from the cluster as it was then.
    pub made_at: Timestamp,
    /// Who has approved it, when and why, in order; empty where nobody had to.
    pub approvals: Vec<PlanApproval>,
}

impl From<&TakenPlan> for TakenPlanView {
    fn from(plan: &TakenPlan) -> Self {
        Self { hash: plan.hash.to_string(), made_at: plan.made_at, approvals: plan.approvals.clone() }
    }
}

impl TakenPlanView {
    /// Enough of its hash for people.
    pub fn short(&self) -> &str {
        self.hash.get(..12).unwrap_or(&self.hash)
    }
}

/// The health rules of an operation in output, by the first digits of their digests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthRulesView {
    /// Those it is judged by.
    pub digest: String,
    /// When they came into use for this operation.
    pub since: Timestamp,
    /// Those before, where they changed while the operation ran.
    pub before: Option<String>,
}

impl From<&JudgedBy> for HealthRulesView {
    fn from(rules: &JudgedBy) -> Self {
        let before = rules.before.as_ref().map(Digest::short);
        Self { digest: rules.digest.short(), since: rules.since, before }
    }
}

/// The claim of an operation in output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimView {
    /// Whether the operation has it, waits for it, or does without it.
    pub state: ClaimStanding,
    /// The Lease, as `namespace/name`, while the operation has it.
    pub lease: Option<String>,
    /// How many holders it has had, while the operation has it.
    pub epoch: Option<u64>,
    /// Since when the operation has it, or waits for it.
    pub since: Option<Timestamp>,
    /// The other operation that has it.
    pub holder: Option<ClaimHolder>,
    /// Why there is none, in the cluster's words.
    pub reason: Option<String>,
}

/// How the claim of an operation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ClaimStanding {
    /// It is being taken.
    Wanted,
    /// Another operation has it, and this one waits.
    Awaited,
    /// Another operation has it, and this one did nothing.
    Refused,
    /// The operation has it.
    Held,
    /// The operation is over, and has given it back.
    Released,
    /// None can be had here.
    Unavailable,
    /// Another operation has taken it.
    Lost,
}

/// What a container of a failed hook wrote last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HookLogView {
    /// API group of the hook, empty for the core API.
    pub group: String,
    /// `kind` of the hook.
    pub kind: String,
    /// `metadata.namespace` of the hook; empty where its kind has none.
    pub namespace: String,
    /// `metadata.name` of the hook.
    pub name: String,
    /// Name of the pod.
    pub pod: String,
    /// Name of the container.
    pub container: String,
    /// The end of what it wrote.
    pub text: String,
}

/// A wave in output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaveView {
    /// The phase it belongs to: `PreSync`, `Sync` …
    pub phase: Phase,
    /// Its number in the phase, as the `sync-wave` annotations of its objects have it, also where they are deleted, the
    /// highest first; may be negative.
    pub wave: i64,
    /// `Pending`, `Passed`, `Failed`, `Stopped` (before it could end), `Skipped` (nothing to do, or never reached), or
    /// the step it is at: `Held`, `Pruning` … `Settling`.
    pub state: String,
    /// How many objects it has.
    pub tasks: u32,
    /// How many of them it applies.
    #[serde(default)]
    pub applies: u32,
    /// How many of them it prunes.
    #[serde(default)]
    pub prunes: u32,
    /// How many of them are done; none that has failed, and none that was skipped.
    pub done: u32,
    /// How many of them a person has had the operation go on without.
    #[serde(default)]
    pub skipped: u32,
    /// When it was opened, in the newest attempt.
    pub opened_at: Option<Timestamp>,
    /// When its last manifest was applied.
    pub applied_at: Option<Timestamp>,
    /// When all that it waited for was well. A wave that fails has none, unless it is one of the SyncFail phase.
    pub passed_at: Option<Timestamp>,
}

/// The operation as users see it; `None` before it was accepted.
pub fn view(state: &State) -> Option<OperationView> {
    let header = state.header()?;
    let operation = state.operation();
    let asker = Wisher::of_operation(&header.request.initiated_by);
    let said = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    Some(OperationView {
        id: header.operation,
        app: header.request.application.clone(),
        deletion: header.request.deletion,
        dry_run: header.request.options.dry_run,
        initiated_by: said(asker.by),
        reason: said(asker.reason),
        plan: header.plan.as_deref().map(Into::into),
        phase: phase(state),
        message: state.message(),
        started_at: header.started_at,
        finished_at: operation.and_then(|operation| operation.outcome.as_ref()).map(|outcome| outcome.at),
        retry_count: operation.map_or(0, Operation::retry_count),
        paused_by: header.paused.as_ref().map(|pause| pause.by.clone()),
        terminated_by: operation.and_then(terminated_by),
        waves: operation.map(waves).unwrap_or_default(),
        resources: operation.map(resources).unwrap_or_default(),
        hook_logs: operation.map(hook_logs).unwrap_or_default(),
        warnings: warnings(header, operation),
        claim: claim(header, operation.and_then(|operation| operation.outcome.as_ref())),
        health_rules: header.health_rules.as_deref().map(Into::into),
    })
}

/// Only people: what else ends an operation is in its message.
fn terminated_by(operation: &Operation) -> Option<String> {
    let termination = operation.termination.as_ref().filter(|one| one.message == TERMINATED)?;
    let Wisher { by, reason } = Wisher::read(&termination.by);
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
            message: no_claim(reason),
        }),
        _ => None,
    };
    unclaimed.into_iter().chain(planned).collect()
}

fn claim(header: &Header, outcome: Option<&Outcome>) -> Option<ClaimView> {
    let request = header.request.claim.as_ref()?;
    // One that waits may be ended by a person or a deadline, which is no refusal.
    let refused = outcome.is_some_and(|outcome| outcome.phase == OperationPhase::Error)
        && request.if_taken == IfTaken::Refuse;
    let blank =
        |state| ClaimView { state, lease: None, epoch: None, since: None, holder: None, reason: None };
    Some(match header.claim.as_deref() {
        None => blank(ClaimStanding::Wanted),
        Some(Claim::Held { place, epoch, since }) => ClaimView {
            lease: Some(format!("{}/{}", place.namespace, place.name)),
            epoch: Some(*epoch),
            since: Some(*since),
            ..blank(if outcome.is_some() { ClaimStanding::Released } else { ClaimStanding::Held })
        },
        Some(Claim::Taken { holder, since }) => ClaimView {
            since: Some(*since),
            holder: Some(holder.clone()),
            ..blank(if refused { ClaimStanding::Refused } else { ClaimStanding::Awaited })
        },
        Some(Claim::Without { reason }) => {
            ClaimView { reason: Some(reason.clone()), ..blank(ClaimStanding::Unavailable) }
        }
        Some(Claim::Lost { holder }) => ClaimView { holder: holder.clone(), ..blank(ClaimStanding::Lost) },
    })
}

/// Where the operation stands.
fn phase(state: &State) -> OperationPhase {
    match state.operation() {
        Some(Operation { outcome: Some(outcome), .. }) => outcome.phase,
        Some(Operation { stage: Stage::Terminating, .. }) => OperationPhase::Terminating,
        _ => OperationPhase::Running,
    }
}

fn waves(operation: &Operation) -> Vec<WaveView> {
    let numbers = operation.wave_numbers();
    (0..)
        .zip(&operation.plan.waves)
        .map(|(index, wave)| {
            let times = operation.times(index);
            // What is left alone, or what nobody waits for, is done when the wave has passed.
            let done = operation
                .wave_tasks(index)
                .filter(|(_, _, state)| times.passed_at.is_some() || state.progress == Progress::Done)
                .filter(|(_, _, state)| !state.is_unsuccessful());
            let is_skipped = |id| operation.overrides.get(&id).is_some_and(|one| one.what == Override::Skip);
            let (skipped, done): (Vec<TaskId>, Vec<TaskId>) =
                done.map(|(id, _, _)| id).partition(|id| is_skipped(*id));
            let number = |of: fn(Action) -> bool| {
                let tasks = operation.wave_tasks(index).filter(|(_, task, _)| of(task.action));
                u32::try_from(tasks.count()).unwrap_or(u32::MAX)
            };
            WaveView {
                phase: wave.phase,
                wave: numbers.shown(wave.phase, wave.wave),
                state: wave_state(operation, index),
                tasks: wave.count,
                applies: number(Action::writes),
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
        _ if operation.wave_failed(index) => "Failed".to_owned(),
        _ if operation.times(index).passed_at.is_some() => "Passed".to_owned(),
        _ if operation.times(index).opened_at.is_some() => "Stopped".to_owned(),
        _ if operation.outcome.is_some() || !operation.is_active(index) => "Skipped".to_owned(),
        _ => "Pending".to_owned(),
    }
}

fn resources(operation: &Operation) -> Vec<ResourceResult> {
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
            wave: numbers.shown(task.phase, task.wave),
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

fn hook_logs(operation: &Operation) -> Vec<HookLogView> {
    let of_task = |(task, log): (&Task, &HookLog)| HookLogView {
        group: task.gvk.group.clone(),
        kind: task.gvk.kind.clone(),
        namespace: task.namespace.clone(),
        name: task.name.clone(),
        pod: log.pod.clone(),
        container: log.container.clone(),
        text: log.text.clone(),
    };
    let logs =
        operation.all_tasks().flat_map(|(_, task, state)| state.logs().iter().map(move |log| (task, log)));
    logs.map(of_task).collect()
}
