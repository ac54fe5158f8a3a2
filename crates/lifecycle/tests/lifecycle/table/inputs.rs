//! Every state with every input: the facts, or why it is refused.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_lifecycle::operation::{
    Answer, Applied, CallError, ClaimNews, Clearing, Fact, Identity, Input, NamespaceSight, Pruning,
    Rejection, Scope, State, Stopped, Trial, Verdict, decide, evolve,
};
use tidegate_model::{
    ClaimHolder, Evidence, Health, HealthStatus, Observation, Observed, OperationPhase, Override, Plan,
    SafePoint, TaskId,
};

use super::facts::kind;
use super::states::*;
use crate::build::*;

/// The name of an input. A new one does not compile until it is here, and then needs a column.
fn name(input: &Input) -> String {
    let of = |what: &str, is_ok: bool| if is_ok { what.to_owned() } else { format!("{what}:err") };
    match input {
        Input::Request { plan: None, .. } => "Request".into(),
        Input::Request { plan: Some(_), .. } => "RequestOfPlan".into(),
        Input::PlanRefused { .. } => "PlanRefused".into(),
        Input::Planned { plan, .. } => of("Planned", !plan.tasks.is_empty()),
        Input::PlanFailed(error) => of("PlanFailed", error.transient),
        Input::Answer { attempt: 0, .. } => "OldAnswer".into(),
        Input::Answer { answer, .. } => match answer {
            Answer::Checked(result) => of("Checked", result.is_ok()),
            Answer::Pruned(result) => of("Pruned", result.is_ok()),
            Answer::Cleared(result) => of("Cleared", result.is_ok()),
            Answer::Applied(result) => of("Applied", result.is_ok()),
            Answer::Ran { success, .. } => of("Ran", *success),
            Answer::Released(result) => of("Released", result.is_ok()),
            Answer::Deleted(result) => of("Deleted", result.is_ok()),
            Answer::Stopped(result) => of("Stopped", result.is_ok()),
            Answer::LogsRead { .. } => "LogsRead".into(),
        },
        Input::Observed { .. } => "Observed".into(),
        Input::StopsOverdue => "StopsOverdue".into(),
        Input::Reason { .. } => "Reason".into(),
        Input::Watching { .. } => "Watching".into(),
        Input::Claim(result) => of("Claim", result.is_ok()),
        Input::NamespaceSeen(_) => "Namespace".into(),
        Input::NamespacesSeen { .. } => "Namespaces".into(),
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

fn present() -> Observed {
    Observed::Present {
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

fn decision(what: Override, reason: &str) -> Input {
    let scope = Scope::of_words(Some("Deployment/resource"), None, None, None).unwrap();
    Input::Override { what, scope, by: "cat".into(), reason: reason.into() }
}

/// One input of every kind, about the task for which it makes most sense in this state.
fn inputs(place: &str) -> Vec<Input> {
    let error = || CallError::permanent("no");
    let applied = || Applied {
        uid: "uid".into(),
        resource_version: "10".into(),
        generation: 1,
        message: "applied".into(),
        observed: Observed::Gone { uid: Some("another".into()) },
        warnings: Vec::new(),
    };
    let stopped = Stopped { phase: OperationPhase::Running, message: String::new(), gone: true };
    let checked = if place.starts_with("Wave DryRun") { CHECKED_LATE } else { RESOURCE };
    let about = |task: TaskId, answer| Input::Answer { task, attempt: 1, answer };
    let by = || "cat".to_owned();
    let going = Identity { uid: "1".into(), resource_version: "1".into() };
    let observation = Observation { at: at(20), seen: present() };
    vec![
        Input::Request { operation: id(), request: Box::new(request()), targets: DIGEST, plan: None },
        Input::Request {
            operation: id(),
            request: Box::new(request()),
            targets: DIGEST,
            plan: Some(Box::new(taken_plan())),
        },
        Input::PlanRefused { reason: "it does not fit any more".into() },
        Input::Planned { plan: Arc::new(the_plan()), bundle: DIGEST, namespaces: Vec::new() },
        Input::Planned {
            plan: Arc::new(Plan { tasks: Vec::new(), waves: the_plan().waves, ..Plan::default() }),
            bundle: DIGEST,
            namespaces: Vec::new(),
        },
        Input::PlanFailed(CallError::transient("busy")),
        Input::PlanFailed(error()),
        Input::Answer { task: checked, attempt: 0, answer: Answer::Checked(Ok(Trial::default())) },
        about(checked, Answer::Checked(Ok(Trial { message: "fine".into(), ..Trial::default() }))),
        about(checked, Answer::Checked(Err(error()))),
        about(PRUNE, Answer::Pruned(Ok(Pruning::Gone))),
        about(PRUNE, Answer::Pruned(Err(error()))),
        about(HOOK, Answer::Cleared(Ok(Clearing::Clear))),
        about(HOOK, Answer::Cleared(Err(error()))),
        about(RESOURCE, Answer::Applied(Ok(Box::new(applied())))),
        about(RESOURCE, Answer::Applied(Err(error()))),
        about(RUNNER, Answer::Ran { success: true, message: String::new() }),
        about(RUNNER, Answer::Ran { success: false, message: String::new() }),
        about(HOOK, Answer::Released(Ok(()))),
        about(HOOK, Answer::Released(Err(error()))),
        about(HOOK, Answer::Deleted(Ok(()))),
        about(HOOK, Answer::Deleted(Err(error()))),
        about(LATE_HOOK, Answer::Stopped(Ok(stopped))),
        about(LATE_HOOK, Answer::Stopped(Err(error()))),
        about(LATE_HOOK, Answer::LogsRead { reason: String::new(), logs: Vec::new() }),
        Input::StopsOverdue,
        Input::Reason { task: RESOURCE, reason: "crash-looping".into() },
        Input::Watching { trouble: Some("connection refused".into()), since: at(30) },
        Input::Claim(Ok(ClaimNews::Lost { holder: None })),
        Input::Claim(Err(error())),
        Input::Observed {
            task: if place.starts_with("AwaitingGone") { PRUNE } else { RESOURCE },
            observation,
        },
        Input::NamespaceSeen(NamespaceSight { name: "shop".into(), found: Some(going), terminating: true }),
        Input::NamespacesSeen { namespaces: Vec::new() },
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
        decision(Override::Skip, "away"),
        decision(Override::Skip, ""),
        decision(Override::MarkDone, "seen"),
        decision(Override::Retry, "back"),
        Input::Abort { reason: "engine".into() },
    ]
}

/// The facts by kind, or the rejection. `-`: nothing follows.
fn outcome(result: &Result<Vec<Fact>, Rejection>) -> String {
    match result {
        Ok(facts) if facts.is_empty() => "-".into(),
        Ok(facts) => facts.iter().map(kind).collect::<Vec<_>>().join("+"),
        Err(Rejection::Stale { .. }) => "Stale".into(),
        Err(Rejection::NotStarted) => "NotStarted".into(),
        Err(Rejection::AlreadyStarted { .. }) => "AlreadyStarted".into(),
        Err(Rejection::AlreadyFinished { .. }) => "AlreadyFinished".into(),
        Err(Rejection::AlreadyEnding { .. }) => "AlreadyEnding".into(),
        Err(Rejection::AlreadyPaused { .. }) => "AlreadyPaused".into(),
        Err(Rejection::NotPaused) => "NotPaused".into(),
        Err(Rejection::NotSafe { .. }) => "NotSafe".into(),
        Err(Rejection::NothingToConfirm) => "NothingToConfirm".into(),
        Err(Rejection::NothingToApprove(_)) => "NothingToApprove".into(),
        Err(Rejection::NothingToOverride(_)) => "NothingToOverride".into(),
        Err(Rejection::ReasonWanted(_)) => "ReasonWanted".into(),
    }
}

/// What every running operation answers to people.
const RUNNING: &str = "Namespace=- Request=AlreadyStarted RequestOfPlan=AlreadyStarted Watching=Watching Claim=- Claim:err=- Resumed=- HealthRules=HealthRulesKnown Abort=Finished Terminate=TerminateRequested+Moved Supersede=NotSafe SupersedeFailed=NotSafe Pause=Paused \
    Unpause=NotPaused ConfirmPrune=PruneConfirmed Approve=NothingToApprove Skip=Overridden MarkDone=Overridden \
    Retry=NothingToOverride Unsaid=ReasonWanted";
const ENDING: &str = "Namespace=- Request=AlreadyStarted RequestOfPlan=AlreadyStarted Watching=Watching Claim=- Claim:err=- Resumed=- HealthRules=HealthRulesKnown Abort=Finished Terminate=AlreadyEnding Supersede=AlreadyEnding SupersedeFailed=AlreadyEnding Pause=AlreadyEnding \
    Unpause=AlreadyEnding ConfirmPrune=AlreadyEnding Approve=AlreadyEnding Skip=AlreadyEnding MarkDone=AlreadyEnding \
    Retry=AlreadyEnding Unsaid=AlreadyEnding";
const OVER: &str = "Request=AlreadyStarted RequestOfPlan=AlreadyStarted Terminate=AlreadyFinished Supersede=AlreadyFinished SupersedeFailed=AlreadyFinished Pause=AlreadyFinished \
    Unpause=AlreadyFinished ConfirmPrune=AlreadyFinished Approve=AlreadyFinished Skip=AlreadyFinished \
    MarkDone=AlreadyFinished Retry=AlreadyFinished Unsaid=AlreadyFinished";
/// What the hooks and resources of a wave answer while they are at work.
const AT_WORK: &str = "Namespace=NamespaceLost Ran=TaskCompleted Ran:err=TaskCompleted Released=HookReleased \
    Released:err=TaskCompleted+HookReleased Stopped=HookStopped Stopped:err=HookStopped LogsRead=LogsKept Reason=ReasonSeen Observed=TaskCompleted";

/// The same, when the wave has passed.
const PASSED: &str = "Namespace=NamespaceLost Ran=TaskCompleted Ran:err=TaskCompleted Released=HookReleased \
    Released:err=TaskCompleted+HookReleased Stopped=HookStopped Stopped:err=HookStopped LogsRead=LogsKept Reason=ReasonSeen Observed=TaskCompleted \
    Skip=NothingToOverride MarkDone=NothingToOverride";

/// What is not listed is stale: a late or repeated answer, dropped without harm.
const TABLE: [(&str, &str, &str); 20] = [
    ("New", "", "Request=Accepted RequestOfPlan=Accepted+PlanTaken *=NotStarted"),
    (
        "Accepted",
        RUNNING,
        "Namespace=Stale Watching=Stale HealthRules=- Claim:err=Finished Planned=Planned Planned:err=Finished PlanFailed=CallFailed PlanFailed:err=Finished PlanRefused=Finished \
         Terminate=TerminateRequested+Finished Supersede=Claim+Finished ConfirmPrune=NothingToConfirm Skip=NothingToOverride MarkDone=NothingToOverride \
         Unsaid=NothingToOverride",
    ),
    ("Planned", RUNNING, "Namespace=NamespaceLost+AttemptFailed"),
    ("DryRun", RUNNING, "Namespace=NamespaceLost+AttemptFailed Checked=Checked Checked:err=CheckFailed"),
    ("Held", RUNNING, "Namespace=NamespaceLost Gate=GateAnswered Supersede=Claim+Moved"),
    ("Wave DryRun", RUNNING, "Namespace=NamespaceLost Checked=Checked Checked:err=CheckFailed"),
    ("Pruning", RUNNING, "Namespace=NamespaceLost Pruned=PruneSent Pruned:err=TaskFailed"),
    ("AwaitingGone", RUNNING, "Namespace=NamespaceLost Observed=ObjectGone Supersede=Claim+Moved"),
    (
        "Clearing",
        RUNNING,
        "Namespace=NamespaceLost Cleared=HookCleared Cleared:err=TaskFailed Supersede=Claim+Moved",
    ),
    (
        "Applying",
        RUNNING,
        "Namespace=NamespaceLost Applied=Applied Applied:err=TaskFailed Cleared=HookCleared \
         Cleared:err=TaskFailed",
    ),
    ("AwaitingHealth", RUNNING, AT_WORK),
    ("Settling", RUNNING, AT_WORK),
    ("Verifying", RUNNING, AT_WORK),
    ("Passed", RUNNING, PASSED),
    ("AwaitingRetry", RUNNING, "Supersede=Claim+Moved SupersedeFailed=Claim+Moved"),
    (
        "Terminating",
        ENDING,
        "Released=HookReleased Released:err=TaskCompleted+HookReleased Stopped=HookStopped Stopped:err=HookStopped \
         StopsOverdue=TaskCompleted+HookReleased+HookStopped",
    ),
    ("Finishing", ENDING, "Deleted=HookDeleted Deleted:err=HookDeleted"),
    ("Succeeded", OVER, ""),
    ("Failed", OVER, ""),
    ("Error", OVER, ""),
];

fn expected(place: &str) -> BTreeMap<&'static str, &'static str> {
    let (is_paused, plain) = match place.strip_suffix(" paused") {
        Some(plain) => (true, plain),
        None => (false, place),
    };
    let (_, common, own) = TABLE.iter().find(|(name, _, _)| *name == plain).expect("every state has a row");
    let paused = match (is_paused, plain) {
        (true, _) => "Pause=AlreadyPaused Unpause=Unpaused Supersede=NotSafe SupersedeFailed=NotSafe",
        (false, "Verifying") => "Namespaces=Moved",
        (false, _) => "",
    };
    [*common, *own, paused]
        .into_iter()
        .flat_map(str::split_whitespace)
        .map(|cell| cell.split_once('=').unwrap())
        .collect()
}

fn check(state: &State, input: &Input, row: &BTreeMap<&str, &str>) {
    let (place, name) = (place(state), name(input));
    let result = decide(state, input, at(10_000));
    let cell = row.get(name.as_str()).or(row.get("*")).copied().unwrap_or("Stale");
    assert_eq!(outcome(&result), cell, "{name} in state {place}");
    let mut next = state.clone();
    for fact in result.unwrap_or_default() {
        next = evolve(next, &fact).unwrap_or_else(|illegal| panic!("{name} in state {place}: {illegal}"));
    }
}

#[test]
fn every_state_with_every_input() {
    let states = representatives();
    for state in &states {
        let place = place(state);
        let row = expected(&place);
        let inputs = inputs(&place);
        let names: Vec<String> = inputs.iter().map(name).collect();
        assert!(row.keys().all(|cell| *cell == "*" || names.iter().any(|name| name == cell)), "{row:?}");
        for input in &inputs {
            check(state, input, &row);
        }
    }
    for (row, _, _) in TABLE {
        assert!(states.iter().any(|state| place(state) == row), "no representative of {row}");
    }
    assert_eq!(states.len(), 34, "20 states, 14 of them paused as well");
}
