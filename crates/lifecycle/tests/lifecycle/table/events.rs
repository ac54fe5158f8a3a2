//! Every state combined with every event. The event is either applied or rejected as illegal, and never
//! causes a panic.

use tidegate_lifecycle::operation::{
    ClaimEvent, DeadlineScope, Loss, OperationEvent, Stage, State, Verdict, WaveStep, apply,
};
use tidegate_model::{Health, HealthStatus, LogRecord as _, OperationPhase, Override, TaskId};

use super::states::*;
use crate::build::*;

/// Returns the name of an event. The match is exhaustive, as a reminder to add new events here and to the
/// table.
pub fn event_name(event: &OperationEvent) -> &'static str {
    match event {
        OperationEvent::Accepted { .. } => "Accepted",
        OperationEvent::Planned { .. } => "Planned",
        OperationEvent::StageChanged { .. } => "StageChanged",
        OperationEvent::GateEvaluated { .. } => "GateEvaluated",
        OperationEvent::DryRunPassed { .. } => "DryRunPassed",
        OperationEvent::DryRunFailed { .. } => "DryRunFailed",
        OperationEvent::CallFailed { task: Some(_), .. } => "CallFailed:task",
        OperationEvent::CallFailed { task: None, .. } => "CallFailed",
        OperationEvent::ObjectDeleted { .. } => "ObjectDeleted",
        OperationEvent::DeletionStarted { .. } => "DeletionStarted",
        OperationEvent::RecreationStarted { .. } => "RecreationStarted",
        OperationEvent::NamespaceLost { .. } => "NamespaceLost",
        OperationEvent::NamespacesObserved { .. } => "NamespacesObserved",
        OperationEvent::HookCleared { .. } => "HookCleared",
        OperationEvent::HookSuspended { .. } => "HookSuspended",
        OperationEvent::DeletionCompleted { .. } => "DeletionCompleted",
        OperationEvent::Applied { .. } => "Applied",
        OperationEvent::RunnerStarted { .. } => "RunnerStarted",
        OperationEvent::HealthChanged { .. } => "HealthChanged",
        OperationEvent::TaskCompleted { .. } => "TaskCompleted",
        OperationEvent::TaskFailed { .. } => "TaskFailed",
        OperationEvent::HookFinalizerRemoved { .. } => "HookFinalizerRemoved",
        OperationEvent::HookDeleted { .. } => "HookDeleted",
        OperationEvent::DeadlineExceeded { scope, .. } => match scope {
            DeadlineScope::Operation => "DeadlineExceeded:operation",
            DeadlineScope::Wave => "DeadlineExceeded:wave",
            DeadlineScope::Hook(_) => "DeadlineExceeded:hook",
        },
        OperationEvent::HookStopped { .. } => "HookStopped",
        OperationEvent::AttemptFailed { .. } => "AttemptFailed",
        OperationEvent::RetryStarted { .. } => "RetryStarted",
        OperationEvent::ReplanStarted { .. } => "ReplanStarted",
        OperationEvent::TerminationRequested { .. } => "TerminationRequested",
        OperationEvent::Paused { .. } => "Paused",
        OperationEvent::Unpaused { .. } => "Unpaused",
        OperationEvent::PruneConfirmed { .. } => "PruneConfirmed",
        OperationEvent::Approved { .. } => "Approved",
        OperationEvent::Finished { .. } => "Finished",
        OperationEvent::ReasonChanged { .. } => "ReasonChanged",
        OperationEvent::LogsStored { .. } => "LogsStored",
        OperationEvent::WatchChanged { .. } => "WatchChanged",
        OperationEvent::HookNameInUse { .. } => "HookNameInUse",
        OperationEvent::WarningsReceived { .. } => "WarningsReceived",
        OperationEvent::ClaimChanged { .. } => "ClaimChanged",
        OperationEvent::HealthRulesSet { .. } => "HealthRulesSet",
        OperationEvent::Overridden { .. } => "Overridden",
        OperationEvent::StoredPlanUsed { .. } => "StoredPlanUsed",
    }
}

fn call_failed_event(task: Option<TaskId>) -> OperationEvent {
    OperationEvent::CallFailed { task, message: String::new(), retry_at: at(30), at: at(20), outage: false }
}

fn overridden_event(task: TaskId) -> OperationEvent {
    OperationEvent::Overridden {
        task,
        what: Override::Skip,
        by: "cat".into(),
        reason: "away".into(),
        at: at(30),
    }
}

/// Returns one event of every kind.
pub fn all_events() -> Vec<OperationEvent> {
    let (failed, message, by) = (OperationPhase::Failed, String::new, || "cat".to_owned());
    let late = |scope| OperationEvent::DeadlineExceeded { scope, message: "late".into(), at: at(30) };
    vec![
        accepted_event(),
        planned_event(),
        moved_event(Stage::AwaitingRetry { until: at(50) }),
        gate_open_event(),
        OperationEvent::DryRunPassed { task: RESOURCE, message: message() },
        OperationEvent::DryRunFailed { task: RESOURCE, message: message() },
        call_failed_event(Some(RESOURCE)),
        call_failed_event(None),
        OperationEvent::ObjectDeleted { task: PRUNE },
        OperationEvent::DeletionStarted { task: PRUNE },
        OperationEvent::RecreationStarted { task: RESOURCE, uid: "uid".into() },
        OperationEvent::NamespaceLost { namespace: "shop".into(), loss: Loss::Gone, at: at(30) },
        OperationEvent::NamespacesObserved { namespaces: Vec::new() },
        OperationEvent::HookCleared { task: HOOK, deleting: None },
        OperationEvent::HookSuspended { task: HOOK, uid: "uid".into(), message: message() },
        OperationEvent::DeletionCompleted { task: PRUNE },
        applied_event(RESOURCE),
        OperationEvent::RunnerStarted { task: RUNNER, at: at(30) },
        OperationEvent::HealthChanged {
            task: RESOURCE,
            health: Health::new(HealthStatus::Progressing, ""),
            fresh: true,
            at: at(30),
        },
        OperationEvent::TaskCompleted { task: RESOURCE, phase: failed, message: message(), at: at(30) },
        OperationEvent::TaskFailed { task: RESOURCE, phase: failed, message: message(), at: at(30) },
        OperationEvent::HookFinalizerRemoved { task: HOOK },
        OperationEvent::HookDeleted { task: HOOK, error: None },
        late(DeadlineScope::Operation),
        late(DeadlineScope::Wave),
        late(DeadlineScope::Hook(RUNNER)),
        OperationEvent::HookStopped { task: LATE_HOOK, phase: failed, message: message(), clean: true },
        attempt_failed_event(),
        OperationEvent::RetryStarted { attempt: 2, at: at(30) },
        OperationEvent::ReplanStarted { attempt: 2, at: at(30) },
        OperationEvent::TerminationRequested { by: by(), at: at(30) },
        paused_event(),
        OperationEvent::Unpaused { by: by(), at: at(30) },
        OperationEvent::PruneConfirmed { by: by(), at: at(30) },
        OperationEvent::Approved { wave: 0, by: by(), reason: message(), at: at(30) },
        finished_event(failed),
        OperationEvent::ReasonChanged { task: RESOURCE, reason: "crash-looping".into(), at: at(30) },
        OperationEvent::LogsStored { task: LATE_HOOK, reason: message(), logs: Vec::new() },
        OperationEvent::WatchChanged { trouble: Some("connection refused".into()), at: at(30) },
        OperationEvent::HookNameInUse { task: HOOK, by: None },
        OperationEvent::WarningsReceived { task: RESOURCE, warnings: vec![message()] },
        // The operations in this table don't request a claim, so this event is illegal. `claims.rs` covers
        // operations with a claim.
        OperationEvent::ClaimChanged { news: ClaimEvent::Without { reason: message() }, at: at(30) },
        OperationEvent::HealthRulesSet { digest: DIGEST, at: at(30) },
        overridden_event(RESOURCE),
        OperationEvent::StoredPlanUsed { plan: Box::new(stored_plan()), at: at(0) },
    ]
}

const ALWAYS_LEGAL: &str = "DeadlineExceeded:operation TerminationRequested Paused PruneConfirmed Approved Finished WatchChanged HealthRulesSet Overridden";
const LEGAL_IN_WAVE: &str = "StageChanged AttemptFailed CallFailed:task DeadlineExceeded:wave TaskFailed NamespaceLost NamespacesObserved";
const LEGAL_WHILE_RUNNING: &str = "HealthChanged ReasonChanged TaskCompleted HookFinalizerRemoved HookStopped LogsStored DeadlineExceeded:hook";

/// Legal events. All other events are illegal.
const TABLE: [(&str, [&str; 3]); 20] = [
    ("New", ["Accepted", "", ""]),
    ("Accepted", ["Planned StoredPlanUsed CallFailed TerminationRequested Paused Finished", "", ""]),
    ("Planned", [ALWAYS_LEGAL, "StageChanged AttemptFailed NamespaceLost NamespacesObserved", ""]),
    (
        "DryRun",
        [
            ALWAYS_LEGAL,
            "StageChanged DryRunPassed DryRunFailed CallFailed:task AttemptFailed NamespaceLost WarningsReceived",
            "",
        ],
    ),
    ("Held", [ALWAYS_LEGAL, LEGAL_IN_WAVE, "GateEvaluated"]),
    ("Wave DryRun", [ALWAYS_LEGAL, LEGAL_IN_WAVE, "DryRunPassed DryRunFailed"]),
    ("Pruning", [ALWAYS_LEGAL, LEGAL_IN_WAVE, "ObjectDeleted DeletionStarted"]),
    ("AwaitingGone", [ALWAYS_LEGAL, LEGAL_IN_WAVE, "DeletionCompleted"]),
    ("Clearing", [ALWAYS_LEGAL, LEGAL_IN_WAVE, "HookCleared HookNameInUse Applied WarningsReceived"]),
    (
        "Applying",
        [
            ALWAYS_LEGAL,
            LEGAL_IN_WAVE,
            "Applied WarningsReceived RunnerStarted HookCleared HookNameInUse HookSuspended RecreationStarted",
        ],
    ),
    ("AwaitingHealth", [ALWAYS_LEGAL, LEGAL_IN_WAVE, LEGAL_WHILE_RUNNING]),
    ("Settling", [ALWAYS_LEGAL, LEGAL_IN_WAVE, LEGAL_WHILE_RUNNING]),
    ("Verifying", [ALWAYS_LEGAL, LEGAL_IN_WAVE, LEGAL_WHILE_RUNNING]),
    ("Passed", [ALWAYS_LEGAL, LEGAL_IN_WAVE, LEGAL_WHILE_RUNNING]),
    ("AwaitingRetry", [ALWAYS_LEGAL, "RetryStarted ReplanStarted", ""]),
    (
        "Terminating",
        [
            "CallFailed:task TaskCompleted TaskFailed HookFinalizerRemoved HookStopped Finished WatchChanged WarningsReceived HealthRulesSet",
            "",
            "",
        ],
    ),
    ("Finishing", ["CallFailed:task HookDeleted Finished WatchChanged HealthRulesSet", "", ""]),
    ("Succeeded", ["", "", ""]),
    ("Failed", ["", "", ""]),
    ("Error", ["", "", ""]),
];

fn is_legal(place: &str, event: &str) -> bool {
    let (is_paused, plain) = match place.strip_suffix(" paused") {
        Some(plain) => (true, plain),
        None => (false, place),
    };
    match (event, is_paused) {
        ("Paused", true) => return false,
        ("Unpaused", _) => return is_paused,
        _ => {}
    }
    let (_, rows) = TABLE.iter().find(|(name, _)| *name == plain).expect("every state has a row");
    rows.iter().flat_map(|row| row.split_whitespace()).any(|legal| legal == event)
}

#[test]
fn every_event_is_applied_or_illegal_in_every_state() {
    let events = all_events();
    let mut kinds: Vec<u16> = events.iter().map(tidegate_model::LogRecord::kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let known = (1..=OperationEvent::HIGHEST_KIND).filter(|kind| !OperationEvent::is_earlier(*kind));
    assert_eq!(kinds, known.collect::<Vec<_>>(), "one event of every kind");
    for state in representatives() {
        for event in &events {
            let (place, kind) = (state_name(&state), event_name(event));
            match apply(state.clone(), event) {
                Ok(_) => assert!(is_legal(&place, kind), "{kind} must be illegal in {place}"),
                Err(illegal) => {
                    assert!(!is_legal(&place, kind), "{kind} must be legal in {place}");
                    let named = kind.split(':').next().unwrap();
                    assert_eq!(illegal.state, state.name());
                    assert!(illegal.event.starts_with(named), "{illegal}");
                }
            }
        }
    }
}

/// An event about a task that isn't in the plan is illegal in every state, because the log must be damaged.
#[test]
fn events_about_unknown_tasks_are_illegal() {
    let task = TaskId(99);
    for state in representatives() {
        for event in [
            OperationEvent::DryRunPassed { task, message: String::new() },
            overridden_event(task),
            call_failed_event(Some(task)),
            OperationEvent::ReasonChanged { task, reason: String::new(), at: at(0) },
            OperationEvent::LogsStored { task, reason: String::new(), logs: Vec::new() },
            OperationEvent::WarningsReceived { task, warnings: Vec::new() },
            OperationEvent::ObjectDeleted { task },
            OperationEvent::DeletionStarted { task },
            OperationEvent::HookCleared { task, deleting: None },
            OperationEvent::HookNameInUse { task, by: None },
            OperationEvent::HookSuspended { task, uid: String::new(), message: String::new() },
            OperationEvent::DeletionCompleted { task },
            applied_event(task),
            OperationEvent::RunnerStarted { task, at: at(0) },
            OperationEvent::HookFinalizerRemoved { task },
            OperationEvent::HookDeleted { task, error: None },
            OperationEvent::DeadlineExceeded {
                scope: DeadlineScope::Hook(task),
                message: String::new(),
                at: at(0),
            },
        ] {
            assert!(apply(state.clone(), &event).is_err(), "{event:?} in {}", state.name());
        }
    }
}

/// Without overrides, a transition never leads to an earlier stage.
#[test]
fn transitions_lead_forward_only() {
    let wave = |index, step| Stage::Wave { index, step };
    let settling = WaveStep::Settling { until: at(9) };
    let ended = Stage::Finishing { phase: OperationPhase::Failed, message: String::new() };
    let not_ended = Stage::Finishing { phase: OperationPhase::Running, message: String::new() };
    for (from, to, legal) in [
        ("Planned", Stage::DryRun, true),
        ("Planned", wave(1, WaveStep::Held), true),
        ("Planned", wave(0, WaveStep::Applying), false),
        ("Planned", wave(9, WaveStep::Held), false),
        ("DryRun", Stage::Planned, false),
        ("DryRun", ended.clone(), true),
        ("Held", wave(0, WaveStep::Passed), true),
        ("Applying", wave(0, WaveStep::Clearing), false),
        ("Applying", wave(1, WaveStep::Held), true),
        ("Applying", wave(1, WaveStep::Applying), false),
        ("Settling", wave(0, WaveStep::AwaitingHealth), true),
        ("Settling", wave(0, settling), true),
        ("AwaitingHealth", wave(0, WaveStep::Applying), false),
        ("Passed", ended.clone(), true),
        ("Passed", not_ended, false),
        ("Passed", Stage::Terminating, false), // No termination was requested.
        ("Planned", Stage::Terminating, false),
        ("Terminating", Stage::Terminating, false),
        ("Finishing", Stage::Terminating, false),
        ("AwaitingRetry", wave(0, WaveStep::Held), false),
        ("AwaitingRetry", ended.clone(), false),
        ("Terminating", ended, false),
        ("Finishing", wave(2, WaveStep::Held), false),
    ] {
        let state = representatives().into_iter().find(|state| state_name(state) == from).unwrap();
        assert_eq!(apply(state, &moved_event(to.clone())).is_ok(), legal, "{from} → {}", to.name());
    }
}

#[test]
fn an_illegal_event_names_both_sides_and_hides_secrets() {
    let illegal = apply(State::New, &planned_event()).unwrap_err();
    assert_eq!(
        illegal.to_string(),
        "event Planned is not valid in state New; the operation's log is damaged"
    );
    let state = representatives().into_iter().find(|state| state_name(state) == "Applying").unwrap();
    let wrong = OperationEvent::GateEvaluated { gate: "x".repeat(5000), verdict: Verdict::Open, at: at(0) };
    let illegal = apply(state, &wrong).unwrap_err();
    assert!(illegal.event.len() <= 200 && illegal.state == "Wave 1 Applying", "{illegal}");
}
