//! Every state combined with every input: the resulting events or the rejection.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_lifecycle::operation::{
    Answer, ApplyResponse, CallError, ClaimEvent, ClearingResult, DryRunResponse, Input,
    NamespaceObservation, ObjectIdentity, OperationEvent, PruneResult, Rejection, Scope, State, StopResult,
    SuspendedHook, Verdict, apply, decide,
};
use tidegate_model::{
    ClaimHolder, Evidence, Health, HealthStatus, Observation, ObservedState, OperationPhase, Override, Plan,
    SafePoint, TaskId,
};

use super::events::event_name;
use super::states::*;
use crate::build::*;
use crate::common::variant_name;

/// Returns the name of an input. The match is exhaustive, as a reminder to add new inputs here and to the
/// table.
fn input_name(input: &Input) -> String {
    let of = |what: &str, is_ok: bool| if is_ok { what.to_owned() } else { format!("{what}:err") };
    match input {
        Input::Request { plan: None, .. } => "Request".into(),
        Input::Request { plan: Some(_), .. } => "RequestOfPlan".into(),
        Input::PlanRejected { .. } => "PlanRefused".into(),
        Input::Planned { plan, .. } => of("Planned", !plan.tasks.is_empty()),
        Input::PlanFailed(error) => of("PlanFailed", error.is_transient),
        Input::Answer { attempt: 0, .. } => "OldAnswer".into(),
        Input::Answer { answer, .. } => match answer {
            Answer::Checked(result) => of("Checked", result.is_ok()),
            Answer::Pruned(result) => of("Pruned", result.is_ok()),
            Answer::Cleared(result) => of("Cleared", result.is_ok()),
            Answer::Suspended(_) => "Suspended".into(),
            Answer::Applied(result) => of("Applied", result.is_ok()),
            Answer::Started(result) => of("Started", result.is_ok()),
            Answer::Ran { success, .. } => of("Ran", *success),
            Answer::Released(result) => of("Released", result.is_ok()),
            Answer::Deleted(result) => of("Deleted", result.is_ok()),
            Answer::Stopped(result) => of("Stopped", result.is_ok()),
            Answer::LogsRead { .. } => "LogsRead".into(),
        },
        Input::Observed { .. } => "Observed".into(),
        Input::StopTimeout => "StopsOverdue".into(),
        Input::Reason { .. } => "Reason".into(),
        Input::WatchStatus { .. } => "Watching".into(),
        Input::Claim(result) => of("Claim", result.is_ok()),
        Input::NamespaceObserved(_) => "Namespace".into(),
        Input::NamespacesRead { .. } => "Namespaces".into(),
        Input::Gate { .. } => "Gate".into(),
        Input::Resumed => "Resumed".into(),
        Input::HealthRules { .. } => "HealthRules".into(),
        Input::Terminate { .. } => "Terminate".into(),
        Input::Supersede { when: SafePoint::Waiting, .. } => "Supersede".into(),
        Input::Supersede { when: SafePoint::Failed, .. } => "SupersedeFailed".into(),
        Input::Pause { .. } => "Pause".into(),
        Input::Unpause { .. } => "Unpause".into(),
        Input::ConfirmPrune { .. } => "ConfirmPrune".into(),
        Input::Approve { .. } => "Approve".into(),
        Input::Override { reason, .. } if reason.is_empty() => "Unsaid".into(),
        Input::Override { what, .. } => format!("{what:?}"),
        Input::Abort { .. } => "Abort".into(),
    }
}

fn present_object() -> ObservedState {
    ObservedState::Present {
        uid: "uid".into(),
        resource_version: "11".into(),
        generation: 1,
        deleting: false,
        kept_by: String::new(),
        health: Some(Health::new(HealthStatus::Healthy, "well")),
        unjudged: false,
        evidence: Evidence::ObservedGeneration(1),
    }
}

fn override_input(what: Override, reason: &str) -> Input {
    let scope = Scope::parse(Some("Deployment/resource"), None, None, None).unwrap();
    Input::Override { what, scope, by: "cat".into(), reason: reason.into() }
}

/// Returns one input of every kind. Each input is about the task that is most relevant for it in this state.
fn inputs_for_state(place: &str) -> Vec<Input> {
    let error = || CallError::permanent("no");
    let applied = || ApplyResponse {
        uid: "uid".into(),
        resource_version: "10".into(),
        generation: 1,
        message: "applied".into(),
        observed: ObservedState::Gone { uid: Some("another".into()) },
        warnings: Vec::new(),
    };
    let stopped = StopResult { phase: OperationPhase::Running, message: String::new(), is_gone: true };
    let checked = if place.starts_with("Wave DryRun") { CHECKED_LATE } else { RESOURCE };
    let about = |task: TaskId, answer| Input::Answer { task, attempt: 1, answer };
    let by = || "cat".to_owned();
    let going = ObjectIdentity { uid: "1".into(), resource_version: "1".into() };
    let observation = Observation { at: at(20), seen: present_object() };
    vec![
        Input::Request { operation: id(), request: Box::new(request()), targets: DIGEST, plan: None },
        Input::Request {
            operation: id(),
            request: Box::new(request()),
            targets: DIGEST,
            plan: Some(Box::new(stored_plan())),
        },
        Input::PlanRejected { reason: "it does not fit any more".into() },
        Input::Planned { plan: Arc::new(sample_plan()), bundle: DIGEST, namespaces: Vec::new() },
        Input::Planned {
            plan: Arc::new(Plan { tasks: Vec::new(), waves: sample_plan().waves, ..Plan::default() }),
            bundle: DIGEST,
            namespaces: Vec::new(),
        },
        Input::PlanFailed(CallError::transient("busy")),
        Input::PlanFailed(error()),
        Input::Answer { task: checked, attempt: 0, answer: Answer::Checked(Ok(DryRunResponse::default())) },
        about(
            checked,
            Answer::Checked(Ok(DryRunResponse { message: "fine".into(), ..DryRunResponse::default() })),
        ),
        about(checked, Answer::Checked(Err(error()))),
        about(PRUNE, Answer::Pruned(Ok(PruneResult::Gone))),
        about(PRUNE, Answer::Pruned(Err(error()))),
        about(HOOK, Answer::Cleared(Ok(ClearingResult::Clear))),
        about(HOOK, Answer::Cleared(Err(error()))),
        about(HOOK, Answer::Suspended(SuspendedHook::default())),
        about(RESOURCE, Answer::Applied(Ok(Box::new(applied())))),
        about(RESOURCE, Answer::Applied(Err(error()))),
        about(HOOK, Answer::Started(Ok(Box::new(applied())))),
        about(HOOK, Answer::Started(Err(error()))),
        about(RUNNER, Answer::Ran { success: true, message: String::new() }),
        about(RUNNER, Answer::Ran { success: false, message: String::new() }),
        about(HOOK, Answer::Released(Ok(()))),
        about(HOOK, Answer::Released(Err(error()))),
        about(HOOK, Answer::Deleted(Ok(()))),
        about(HOOK, Answer::Deleted(Err(error()))),
        about(LATE_HOOK, Answer::Stopped(Ok(stopped))),
        about(LATE_HOOK, Answer::Stopped(Err(error()))),
        about(LATE_HOOK, Answer::LogsRead { reason: String::new(), logs: Vec::new() }),
        Input::StopTimeout,
        Input::Reason { task: RESOURCE, reason: "crash-looping".into() },
        Input::WatchStatus { trouble: Some("connection refused".into()), since: at(30) },
        Input::Claim(Ok(ClaimEvent::Lost { holder: None })),
        Input::Claim(Err(error())),
        Input::Observed {
            task: if place.starts_with("AwaitingGone") { PRUNE } else { RESOURCE },
            observation,
        },
        Input::NamespaceObserved(NamespaceObservation {
            name: "shop".into(),
            identity: Some(going),
            is_terminating: true,
        }),
        Input::NamespacesRead { namespaces: Vec::new() },
        Input::Gate { wave: 0, gate: "gate".into(), verdict: Verdict::Open },
        Input::Resumed,
        Input::HealthRules { digest: DIGEST },
        Input::Terminate { by: by() },
        Input::Supersede { by: ClaimHolder::default(), when: SafePoint::Waiting },
        Input::Supersede { by: ClaimHolder::default(), when: SafePoint::Failed },
        Input::Pause { by: by(), reason: String::new() },
        Input::Unpause { by: by() },
        Input::ConfirmPrune { by: by() },
        Input::Approve { wave: None, by: by(), reason: String::new() },
        override_input(Override::Skip, "away"),
        override_input(Override::Skip, ""),
        override_input(Override::MarkDone, "seen"),
        override_input(Override::Retry, "back"),
        Input::Abort { reason: "engine".into() },
    ]
}

/// Formats the kinds of the events, or the rejection. `-` means that no events follow.
fn format_outcome(result: &Result<Vec<OperationEvent>, Rejection>) -> String {
    match result {
        Ok(events) if events.is_empty() => "-".into(),
        Ok(events) => events.iter().map(event_name).collect::<Vec<_>>().join("+"),
        Err(rejection) => variant_name(rejection),
    }
}

/// Common outcomes in most stages of a running operation.
const RUNNING: &str = "Namespace=- Request=AlreadyStarted RequestOfPlan=AlreadyStarted Watching=WatchChanged Claim=- Claim:err=- Resumed=- HealthRules=HealthRulesSet Abort=Finished Terminate=TerminationRequested+StageChanged Supersede=NotSupersedable SupersedeFailed=NotSupersedable Pause=Paused \
    Unpause=NotPaused ConfirmPrune=PruneConfirmed Approve=NothingToApprove Skip=Overridden MarkDone=Overridden \
    Retry=NothingToOverride Unsaid=ReasonRequired";
const TERMINATING: &str = "Namespace=- Request=AlreadyStarted RequestOfPlan=AlreadyStarted Watching=WatchChanged Claim=- Claim:err=- Resumed=- HealthRules=HealthRulesSet Abort=Finished Terminate=AlreadyEnding Supersede=AlreadyEnding SupersedeFailed=AlreadyEnding Pause=AlreadyEnding \
    Unpause=AlreadyEnding ConfirmPrune=AlreadyEnding Approve=AlreadyEnding Skip=AlreadyEnding MarkDone=AlreadyEnding \
    Retry=AlreadyEnding Unsaid=AlreadyEnding";
const FINISHED: &str = "Request=AlreadyStarted RequestOfPlan=AlreadyStarted Terminate=AlreadyFinished Supersede=AlreadyFinished SupersedeFailed=AlreadyFinished Pause=AlreadyFinished \
    Unpause=AlreadyFinished ConfirmPrune=AlreadyFinished Approve=AlreadyFinished Skip=AlreadyFinished \
    MarkDone=AlreadyFinished Retry=AlreadyFinished Unsaid=AlreadyFinished";
/// Outcomes for the running hooks and resources of a wave.
const RUNNING_TASKS: &str = "Namespace=NamespaceLost Ran=TaskCompleted Ran:err=TaskCompleted Released=HookFinalizerRemoved \
    Released:err=TaskCompleted+HookFinalizerRemoved Stopped=HookStopped Stopped:err=HookStopped LogsRead=LogsStored Reason=ReasonChanged Observed=TaskCompleted";

/// Outcomes once the wave has passed.
const PASSED_WAVE: &str = "Namespace=NamespaceLost Ran=TaskCompleted Ran:err=TaskCompleted Released=HookFinalizerRemoved \
    Released:err=TaskCompleted+HookFinalizerRemoved Stopped=HookStopped Stopped:err=HookStopped LogsRead=LogsStored Reason=ReasonChanged Observed=TaskCompleted \
    Skip=NothingToOverride MarkDone=NothingToOverride";

/// Outcomes by state. Inputs that aren't listed are stale: late or repeated answers, which are safe to
/// ignore.
const TABLE: [(&str, &str, &str); 20] = [
    ("New", "", "Request=Accepted RequestOfPlan=Accepted+StoredPlanUsed *=NotStarted"),
    (
        "Accepted",
        RUNNING,
        "Namespace=Stale Watching=Stale HealthRules=- Claim:err=Finished Planned=Planned Planned:err=Finished PlanFailed=CallFailed PlanFailed:err=Finished PlanRefused=Finished \
         Terminate=TerminationRequested+Finished Supersede=ClaimChanged+Finished ConfirmPrune=NothingToConfirm Skip=NothingToOverride MarkDone=NothingToOverride \
         Unsaid=NothingToOverride",
    ),
    ("Planned", RUNNING, "Namespace=NamespaceLost+AttemptFailed"),
    (
        "DryRun",
        RUNNING,
        "Namespace=NamespaceLost+AttemptFailed Checked=DryRunPassed Checked:err=DryRunFailed",
    ),
    ("Held", RUNNING, "Namespace=NamespaceLost Gate=GateEvaluated Supersede=ClaimChanged+StageChanged"),
    ("Wave DryRun", RUNNING, "Namespace=NamespaceLost Checked=DryRunPassed Checked:err=DryRunFailed"),
    ("Pruning", RUNNING, "Namespace=NamespaceLost Pruned=ObjectDeleted Pruned:err=TaskFailed"),
    (
        "AwaitingGone",
        RUNNING,
        "Namespace=NamespaceLost Observed=DeletionCompleted Supersede=ClaimChanged+StageChanged",
    ),
    (
        "Clearing",
        RUNNING,
        "Namespace=NamespaceLost Cleared=HookCleared Cleared:err=TaskFailed Supersede=ClaimChanged+StageChanged",
    ),
    (
        "Applying",
        RUNNING,
        "Namespace=NamespaceLost Suspended=HookSuspended Applied=Applied Applied:err=TaskFailed \
         Cleared=HookCleared Cleared:err=TaskFailed",
    ),
    ("AwaitingHealth", RUNNING, RUNNING_TASKS),
    ("Settling", RUNNING, RUNNING_TASKS),
    ("Verifying", RUNNING, RUNNING_TASKS),
    ("Passed", RUNNING, PASSED_WAVE),
    (
        "AwaitingRetry",
        RUNNING,
        "Supersede=ClaimChanged+StageChanged SupersedeFailed=ClaimChanged+StageChanged",
    ),
    (
        "Terminating",
        TERMINATING,
        "Released=HookFinalizerRemoved Released:err=TaskCompleted+HookFinalizerRemoved Stopped=HookStopped Stopped:err=HookStopped \
         StopsOverdue=TaskCompleted+HookFinalizerRemoved+HookStopped",
    ),
    ("Finishing", TERMINATING, "Deleted=HookDeleted Deleted:err=HookDeleted"),
    ("Succeeded", FINISHED, ""),
    ("Failed", FINISHED, ""),
    ("Error", FINISHED, ""),
];

fn expected_outcomes(place: &str) -> BTreeMap<&'static str, &'static str> {
    let (is_paused, plain) = match place.strip_suffix(" paused") {
        Some(plain) => (true, plain),
        None => (false, place),
    };
    let (_, common, own) = TABLE.iter().find(|(name, _, _)| *name == plain).expect("every state has a row");
    let paused = match (is_paused, plain) {
        (true, _) => {
            "Pause=AlreadyPaused Unpause=Unpaused Supersede=NotSupersedable SupersedeFailed=NotSupersedable"
        }
        (false, "Verifying") => "Namespaces=StageChanged",
        (false, _) => "",
    };
    [*common, *own, paused]
        .into_iter()
        .flat_map(str::split_whitespace)
        .map(|cell| cell.split_once('=').unwrap())
        .collect()
}

fn check_inputs(state: &State, input: &Input, row: &BTreeMap<&str, &str>) {
    let (place, name) = (state_name(state), input_name(input));
    let result = decide(state, input, at(10_000));
    let cell = row.get(name.as_str()).or(row.get("*")).copied().unwrap_or("Stale");
    assert_eq!(format_outcome(&result), cell, "{name} in state {place}");
    let mut next = state.clone();
    for event in result.unwrap_or_default() {
        next = apply(next, &event).unwrap_or_else(|illegal| panic!("{name} in state {place}: {illegal}"));
    }
}

#[test]
fn every_state_handles_every_input() {
    let states = representatives();
    for state in &states {
        let place = state_name(state);
        let row = expected_outcomes(&place);
        let inputs = inputs_for_state(&place);
        let names: Vec<String> = inputs.iter().map(input_name).collect();
        assert!(row.keys().all(|cell| *cell == "*" || names.iter().any(|name| name == cell)), "{row:?}");
        for input in &inputs {
            check_inputs(state, input, &row);
        }
    }
    for (row, _, _) in TABLE {
        assert!(states.iter().any(|state| state_name(state) == row), "no representative of {row}");
    }
    assert_eq!(states.len(), 34, "20 states, 14 of them also paused");
}
