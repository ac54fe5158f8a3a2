//! Every state with every fact: it follows, or it is illegal, and nothing panics.

use tidegate_lifecycle::operation::{
    ClaimNews, DeadlineScope, Fact, Loss, Stage, State, Verdict, WaveStep, evolve, follow,
};
use tidegate_model::{Health, HealthStatus, LogRecord as _, OperationPhase, Override, TaskId};

use super::states::*;
use crate::build::*;

/// The name of a fact. A new one does not compile until it is here, and then needs a column.
pub fn kind(fact: &Fact) -> &'static str {
    match fact {
        Fact::Accepted { .. } => "Accepted",
        Fact::Planned { .. } => "Planned",
        Fact::Moved { .. } => "Moved",
        Fact::GateAnswered { .. } => "GateAnswered",
        Fact::Checked { .. } => "Checked",
        Fact::CheckFailed { .. } => "CheckFailed",
        Fact::CallFailed { task: Some(_), .. } => "CallFailed:task",
        Fact::CallFailed { task: None, .. } => "CallFailed",
        Fact::PruneSent { .. } => "PruneSent",
        Fact::DeletionBegun { .. } => "DeletionBegun",
        Fact::RecreationBegun { .. } => "RecreationBegun",
        Fact::NamespaceTerminating { .. } => "NamespaceTerminating",
        Fact::NamespaceLost { .. } => "NamespaceLost",
        Fact::NamespacesSeen { .. } => "NamespacesSeen",
        Fact::HookCleared { .. } => "HookCleared",
        Fact::ObjectGone { .. } => "ObjectGone",
        Fact::Applied { .. } => "Applied",
        Fact::RunnerStarted { .. } => "RunnerStarted",
        Fact::HealthSeen { .. } => "HealthSeen",
        Fact::TaskCompleted { .. } => "TaskCompleted",
        Fact::TaskFailed { .. } => "TaskFailed",
        Fact::HookReleased { .. } => "HookReleased",
        Fact::HookDeleted { .. } => "HookDeleted",
        Fact::DeadlinePassed { scope, .. } => match scope {
            DeadlineScope::Operation => "DeadlinePassed:operation",
            DeadlineScope::Wave => "DeadlinePassed:wave",
            DeadlineScope::Hook(_) => "DeadlinePassed:hook",
        },
        Fact::HookStopped { .. } => "HookStopped",
        Fact::AttemptFailed { .. } => "AttemptFailed",
        Fact::RetryStarted { .. } => "RetryStarted",
        Fact::RetryPlansAnew { .. } => "RetryPlansAnew",
        Fact::TerminateRequested { .. } => "TerminateRequested",
        Fact::Paused { .. } => "Paused",
        Fact::Unpaused { .. } => "Unpaused",
        Fact::PruneConfirmed { .. } => "PruneConfirmed",
        Fact::Approved { .. } => "Approved",
        Fact::Finished { .. } => "Finished",
        Fact::ReasonSeen { .. } => "ReasonSeen",
        Fact::LogsKept { .. } => "LogsKept",
        Fact::Watching { .. } => "Watching",
        Fact::PlaceTaken { .. } => "PlaceTaken",
        Fact::Warned { .. } => "Warned",
        Fact::Claim { .. } => "Claim",
        Fact::HealthRulesKnown { .. } => "HealthRulesKnown",
        Fact::Overridden { .. } => "Overridden",
        Fact::PlanTaken { .. } => "PlanTaken",
    }
}

fn call_failed(task: Option<TaskId>) -> Fact {
    Fact::CallFailed { task, message: String::new(), retry_at: at(30), at: at(20), outage: false }
}

fn overridden(task: TaskId) -> Fact {
    Fact::Overridden { task, what: Override::Skip, by: "cat".into(), reason: "away".into(), at: at(30) }
}

/// One fact of every kind.
pub fn facts() -> Vec<Fact> {
    let (failed, message, by) = (OperationPhase::Failed, String::new, || "cat".to_owned());
    let late = |scope| Fact::DeadlinePassed { scope, message: "late".into(), at: at(30) };
    vec![
        accepted(),
        planned(),
        moved(Stage::AwaitingRetry { until: at(50) }),
        gate_open(),
        Fact::Checked { task: RESOURCE, message: message() },
        Fact::CheckFailed { task: RESOURCE, message: message() },
        call_failed(Some(RESOURCE)),
        call_failed(None),
        Fact::PruneSent { task: PRUNE, gone: false },
        Fact::DeletionBegun { task: PRUNE },
        Fact::RecreationBegun { task: RESOURCE, uid: "uid".into() },
        Fact::NamespaceTerminating { namespace: "shop".into(), at: at(30) },
        Fact::NamespaceLost { namespace: "shop".into(), loss: Loss::Gone, at: at(30) },
        Fact::NamespacesSeen { namespaces: Vec::new() },
        Fact::HookCleared { task: HOOK, deleting: None },
        Fact::ObjectGone { task: PRUNE },
        applied(RESOURCE),
        Fact::RunnerStarted { task: RUNNER, at: at(30) },
        Fact::HealthSeen {
            task: RESOURCE,
            health: Health::new(HealthStatus::Progressing, ""),
            fresh: true,
            at: at(30),
        },
        Fact::TaskCompleted { task: RESOURCE, phase: failed, message: message(), at: at(30) },
        Fact::TaskFailed { task: RESOURCE, phase: failed, message: message(), at: at(30) },
        Fact::HookReleased { task: HOOK },
        Fact::HookDeleted { task: HOOK, error: None },
        late(DeadlineScope::Operation),
        late(DeadlineScope::Wave),
        late(DeadlineScope::Hook(RUNNER)),
        Fact::HookStopped { task: LATE_HOOK, phase: failed, message: message(), clean: true },
        attempt_failed(),
        Fact::RetryStarted { attempt: 2, at: at(30) },
        Fact::RetryPlansAnew { attempt: 2, at: at(30) },
        Fact::TerminateRequested { by: by(), at: at(30) },
        paused(),
        Fact::Unpaused { by: by(), at: at(30) },
        Fact::PruneConfirmed { by: by(), at: at(30) },
        Fact::Approved { wave: 0, by: by(), reason: message(), at: at(30) },
        finished(failed),
        Fact::ReasonSeen { task: RESOURCE, reason: "crash-looping".into(), at: at(30) },
        Fact::LogsKept { task: LATE_HOOK, reason: message(), logs: Vec::new() },
        Fact::Watching { trouble: Some("connection refused".into()), at: at(30) },
        Fact::PlaceTaken { task: HOOK, by: None },
        Fact::Warned { task: RESOURCE, warnings: vec![message()] },
        // Illegal in an operation that asked for no claim, as these did; `claims.rs` is about those that do.
        Fact::Claim { news: ClaimNews::Without { reason: message() }, at: at(30) },
        Fact::HealthRulesKnown { digest: DIGEST, at: at(30) },
        overridden(RESOURCE),
        Fact::PlanTaken { plan: Box::new(taken_plan()), at: at(0) },
    ]
}

const ANY: &str = "DeadlinePassed:operation TerminateRequested Paused PruneConfirmed Approved Finished Watching HealthRulesKnown Overridden";
const WAVE: &str = "Moved AttemptFailed CallFailed:task DeadlinePassed:wave TaskFailed NamespaceTerminating NamespaceLost NamespacesSeen";
const AT_WORK: &str =
    "HealthSeen ReasonSeen TaskCompleted HookReleased HookStopped LogsKept DeadlinePassed:hook";

/// The facts that can follow; every other is illegal.
const TABLE: [(&str, [&str; 3]); 20] = [
    ("New", ["Accepted", "", ""]),
    ("Accepted", ["Planned PlanTaken CallFailed TerminateRequested Paused Finished", "", ""]),
    ("Planned", [ANY, "Moved AttemptFailed NamespaceLost NamespacesSeen", ""]),
    ("DryRun", [ANY, "Moved Checked CheckFailed CallFailed:task AttemptFailed NamespaceLost Warned", ""]),
    ("Held", [ANY, WAVE, "GateAnswered"]),
    ("Wave DryRun", [ANY, WAVE, "Checked CheckFailed"]),
    ("Pruning", [ANY, WAVE, "PruneSent DeletionBegun"]),
    ("AwaitingGone", [ANY, WAVE, "ObjectGone"]),
    ("Clearing", [ANY, WAVE, "HookCleared PlaceTaken Applied Warned"]),
    ("Applying", [ANY, WAVE, "Applied Warned RunnerStarted HookCleared PlaceTaken RecreationBegun"]),
    ("AwaitingHealth", [ANY, WAVE, AT_WORK]),
    ("Settling", [ANY, WAVE, AT_WORK]),
    ("Verifying", [ANY, WAVE, AT_WORK]),
    ("Passed", [ANY, WAVE, AT_WORK]),
    ("AwaitingRetry", [ANY, "RetryStarted RetryPlansAnew", ""]),
    (
        "Terminating",
        [
            "CallFailed:task TaskCompleted TaskFailed HookReleased HookStopped Finished Watching Warned HealthRulesKnown",
            "",
            "",
        ],
    ),
    ("Finishing", ["CallFailed:task HookDeleted Finished Watching HealthRulesKnown", "", ""]),
    ("Succeeded", ["", "", ""]),
    ("Failed", ["", "", ""]),
    ("Error", ["", "", ""]),
];

fn is_legal(place: &str, fact: &str) -> bool {
    let (is_paused, plain) = match place.strip_suffix(" paused") {
        Some(plain) => (true, plain),
        None => (false, place),
    };
    match (fact, is_paused) {
        ("Paused", true) => return false,
        ("Unpaused", _) => return is_paused,
        _ => {}
    }
    let (_, rows) = TABLE.iter().find(|(name, _)| *name == plain).expect("every state has a row");
    rows.iter().flat_map(|row| row.split_whitespace()).any(|legal| legal == fact)
}

#[test]
fn every_state_with_every_fact() {
    let facts = facts();
    let mut kinds: Vec<u16> = facts.iter().map(tidegate_model::LogRecord::kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let known = (1..=Fact::HIGHEST_KIND).filter(|kind| !Fact::is_earlier(*kind));
    assert_eq!(kinds, known.collect::<Vec<_>>(), "one fact of every kind");
    for state in representatives() {
        for fact in &facts {
            let (place, kind) = (place(&state), kind(fact));
            match evolve(state.clone(), fact) {
                Ok(_) => assert!(is_legal(&place, kind), "{kind} should not follow in {place}"),
                Err(illegal) => {
                    assert!(!is_legal(&place, kind), "{kind} should follow in {place}");
                    let named = kind.split(':').next().unwrap();
                    assert_eq!(illegal.state, state.name());
                    assert!(illegal.fact.starts_with(named), "{illegal}");
                }
            }
        }
    }
}

/// Facts about tasks that are not in the plan are damage, whatever the state.
#[test]
fn facts_about_unknown_tasks_are_illegal() {
    let task = TaskId(99);
    for state in representatives() {
        for fact in [
            Fact::Checked { task, message: String::new() },
            overridden(task),
            call_failed(Some(task)),
            Fact::ReasonSeen { task, reason: String::new(), at: at(0) },
            Fact::LogsKept { task, reason: String::new(), logs: Vec::new() },
            Fact::Warned { task, warnings: Vec::new() },
            Fact::PruneSent { task, gone: true },
            Fact::DeletionBegun { task },
            Fact::HookCleared { task, deleting: None },
            Fact::PlaceTaken { task, by: None },
            Fact::ObjectGone { task },
            applied(task),
            Fact::RunnerStarted { task, at: at(0) },
            Fact::HookReleased { task },
            Fact::HookDeleted { task, error: None },
            Fact::DeadlinePassed { scope: DeadlineScope::Hook(task), message: String::new(), at: at(0) },
        ] {
            assert!(evolve(state.clone(), &fact).is_err(), "{fact:?} in {}", state.name());
        }
    }
}

/// The arrows between stages: forward only.
#[test]
fn arrows_lead_forward() {
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
        ("Passed", Stage::Terminating, false), // nobody has asked for it
        ("Planned", Stage::Terminating, false),
        ("Terminating", Stage::Terminating, false),
        ("Finishing", Stage::Terminating, false),
        ("AwaitingRetry", wave(0, WaveStep::Held), false),
        ("AwaitingRetry", ended.clone(), false),
        ("Terminating", ended, false),
        ("Finishing", wave(2, WaveStep::Held), false),
    ] {
        let state = representatives().into_iter().find(|state| place(state) == from).unwrap();
        assert_eq!(evolve(state, &moved(to.clone())).is_ok(), legal, "{from} → {}", to.name());
    }
}

/// What earlier programs recorded before they went to another stage without recording the arrow, and what came next.
fn arrows_in_passing() -> Vec<(Vec<Fact>, Fact, Fact)> {
    let arrow = |to, millis| Fact::Moved { to, at: at(millis) };
    let work = || {
        let cleared = Fact::HookCleared { task: HOOK, deleting: None };
        vec![
            accepted(),
            planned(),
            to(WaveStep::Held),
            to(WaveStep::Clearing),
            cleared,
            to(WaveStep::Applying),
        ]
    };
    let failed = || {
        [work(), vec![applied(HOOK), attempt_failed(), moved(Stage::AwaitingRetry { until: at(5) })]].concat()
    };
    let ends = Fact::TerminateRequested { by: "ann".into(), at: at(20) };
    let late = Fact::DeadlinePassed { scope: DeadlineScope::Operation, message: "late".into(), at: at(20) };
    let again = Fact::RetryStarted { attempt: 2, at: at(20) };
    let stopped = |clean| Fact::HookStopped {
        task: HOOK,
        phase: OperationPhase::Failed,
        message: "stopped".into(),
        clean,
    };
    vec![
        ([work(), vec![applied(HOOK), ends.clone()]].concat(), arrow(Stage::Terminating, 20), stopped(true)),
        ([work(), vec![ends.clone()]].concat(), arrow(Stage::Terminating, 20), applied(HOOK)),
        ([work(), vec![applied(HOOK), late]].concat(), arrow(Stage::Terminating, 20), stopped(false)),
        ([failed(), vec![ends]].concat(), arrow(Stage::Terminating, 20), finished(OperationPhase::Failed)),
        (
            [failed(), vec![again]].concat(),
            arrow(Stage::Wave { index: 0, step: WaveStep::Held }, 20),
            gate_open(),
        ),
    ]
}

#[test]
fn an_arrow_that_was_not_recorded_is_taken_all_the_same() {
    for (facts, arrow, next) in arrows_in_passing() {
        let with_it = fold([facts.clone(), vec![arrow.clone(), next.clone()]].concat());
        let without = fold([facts.clone(), vec![next.clone()]].concat());
        assert_eq!(without, with_it, "{arrow:?} before {next:?}");
        let cut_off = fold(facts);
        assert_eq!(follow(&cut_off, at(20)), [arrow], "a log that ends there goes on with it");
    }
}

#[test]
fn an_illegal_fact_names_both_sides_and_keeps_secrets() {
    let illegal = evolve(State::New, &planned()).unwrap_err();
    assert_eq!(
        illegal.to_string(),
        "fact Planned cannot follow in state New; the operation's log is damaged"
    );
    let state = representatives().into_iter().find(|state| place(state) == "Applying").unwrap();
    let wrong = Fact::GateAnswered { gate: "x".repeat(5000), verdict: Verdict::Open, at: at(0) };
    let illegal = evolve(state, &wrong).unwrap_err();
    assert!(illegal.fact.len() <= 200 && illegal.state == "Wave 1 Applying", "{illegal}");
}
