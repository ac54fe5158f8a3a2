//! The record shows all decisions by users, and escapes all text.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests may panic")]

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;
use tidegate_lifecycle::fleet::{Assignment, Attribution};
use tidegate_lifecycle::operation::Verdict;
use tidegate_lifecycle::rollout::{
    Cause, End, Event, Failure, MemberObservation, MemberRecord, Options, Stage, State, Step, StopOutcome,
    Target, apply,
};
use tidegate_lifecycle::teardown as down;
use tidegate_model::{
    Digest, HealthStatus, LogRecord as _, OperationId, OperationPhase, StreamId, Timestamp,
};

use super::{RunEvent, RunKind, RunSummary, RunWithEvents, deletion, rollout};

const HOSTILE: &str = "</title></style><script>window.hit=1</script><img src=x onerror=window.hit=1>\" onload='x' javascript:window.hit=1 \u{202e}\u{0}";

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_795_000_000_000 + seconds * 1_000)
}

fn id() -> OperationId {
    "01a1fdbf-da23-70f8-b7a6-18e4810d225a".parse().unwrap()
}

fn attribution(by: &str, reason: &str, seconds: i64) -> Attribution {
    Attribution { by: by.to_owned(), why: reason.to_owned(), at: at(seconds) }
}

fn assignment(step: u32) -> Assignment {
    Assignment { step: Some(step), also: Vec::new() }
}

fn target() -> Target {
    Target { revisions: vec!["4f2a9c".to_owned()], spec: Digest([1; 32]) }
}

fn member_record(name: &str, step: u32) -> MemberRecord {
    MemberRecord {
        name: name.to_owned(),
        place: assignment(step),
        target: target(),
        before: None,
        done_by: None,
    }
}

fn gated_step(gates: &[&str]) -> Step {
    Step { gates: gates.iter().map(|gate| (*gate).to_owned()).collect(), ..Step::default() }
}

fn started_event(word: &str) -> Event {
    Event::Created {
        set: "argocd/shops".to_owned(),
        uid: "u1".to_owned(),
        targets: Digest([7; 32]),
        by: "the service".to_owned(),
        steps: vec![gated_step(&[]), gated_step(&["approval", "window:night"])],
        members: vec![member_record("dev", 0), member_record(word, 1)],
        options: Options::default(),
        at: at(0),
    }
}

/// Returns the events of a promoted Application with a finished operation.
fn synced_events(member: &str, seconds: i64, phase: OperationPhase, message: &str) -> Vec<Event> {
    let member = || member.to_owned();
    vec![
        Event::Promoted { member: member(), at: at(seconds) },
        Event::OperationAssigned { member: member(), operation: id() },
        Event::OperationStarted { member: member(), at: at(seconds + 1) },
        Event::OperationEnded { member: member(), phase, message: message.to_owned(), at: at(seconds + 5) },
    ]
}

/// Returns the events of a rollout. The first step completes. The second step waits for a sync window and for
/// ben's approval, while ann pauses the rollout. Then ann skips the Application that fails in the second
/// step.
fn sample_events(word: &str) -> Vec<Event> {
    let closed = Verdict::Closed { reason: word.to_owned(), ask_again_after: Duration::from_secs(1) };
    let gate = || "window:night".to_owned();
    let mut events = vec![
        started_event(word),
        Event::Moved { to: Stage::Held { step: 0 }, at: at(1) },
        Event::Moved { to: Stage::Rolling { step: 0 }, at: at(1) },
    ];
    events.extend(synced_events("dev", 2, OperationPhase::Succeeded, ""));
    events.extend([
        Event::BecameHealthy { member: "dev".to_owned(), at: at(9) },
        Event::Moved { to: Stage::Held { step: 1 }, at: at(10) },
        Event::GateAnswered { gate: gate(), verdict: closed, at: at(11) },
        Event::Paused(attribution("ann", "lunch", 20)),
        Event::Resumed(attribution("ann", "", 50)),
        Event::Approved { step: 1, said: attribution("ben", "CHG-7", 60) },
        Event::GateAnswered { gate: gate(), verdict: Verdict::Open, at: at(70) },
        Event::Moved { to: Stage::Rolling { step: 1 }, at: at(71) },
    ]);
    events.extend(synced_events(word, 72, OperationPhase::Failed, word));
    events.extend([
        Event::Skipped { member: word.to_owned(), said: attribution("ann", word, 90) },
        Event::Moved {
            to: Stage::Ending { end: End::Completed, message: "all done".to_owned(), stops: false },
            at: at(91),
        },
        Event::Finished { end: End::Completed, message: "all done".to_owned(), at: at(92) },
    ]);
    events
}

fn run_summary(kind: RunKind) -> RunSummary {
    RunSummary {
        id: StreamId::from(id()),
        kind,
        set: Some("argocd/shops".to_owned()),
        end: Some("Completed".to_owned()),
        paused: false,
        message: "all done".to_owned(),
        started_at: at(0),
        finished_at: Some(at(92)),
        by: None,
        reason: None,
        targets: None,
        revisions: vec!["4f2a9c".to_owned()],
        steps_passed: Some(2),
        steps: Some(2),
        done: 1,
        skipped: Some(1),
        applications: 2,
        damage: None,
    }
}

fn sample_run(word: &str) -> RunWithEvents {
    let events = sample_events(word);
    let state = events.iter().try_fold(State::New, apply).unwrap();
    RunWithEvents::from_rollout(run_summary(RunKind::Rollout), 1, &events, &state, at(100), |_| None)
}

/// Returns an Application's message and operation ID, if any, from the record. The operation was running when
/// it was stopped. `log` is its outcome in the list of operations.
fn record_of_stopped_operation(
    then: impl IntoIterator<Item = Event>,
    log: Option<(OperationPhase, &str)>,
) -> (Option<OperationId>, String) {
    let mut events = vec![
        started_event("prod"),
        Event::Moved { to: Stage::Held { step: 0 }, at: at(1) },
        Event::Moved { to: Stage::Rolling { step: 0 }, at: at(1) },
        Event::Promoted { member: "dev".to_owned(), at: at(2) },
        Event::OperationAssigned { member: "dev".to_owned(), operation: id() },
    ];
    events.extend(then);
    let state = events.iter().try_fold(State::New, apply).unwrap();
    let end_of = |operation: OperationId| {
        assert_eq!(operation, id());
        log.map(|(phase, message)| (phase, message.to_owned()))
    };
    let run = RunWithEvents::from_rollout(run_summary(RunKind::Rollout), 1, &events, &state, at(100), end_of);
    let members = run.run.rollout.unwrap().members;
    let of = |name: &str| members.iter().find(|member| member.application == name).unwrap();
    assert_eq!(of("prod").operation, None, "its turn has not come");
    assert!(!of("prod").message.contains("operation"), "{}", of("prod").message);
    (of("dev").operation, of("dev").message.clone())
}

/// The rollout doesn't wait for a stopped operation, but readers of the record want to see the operation and
/// its outcome.
#[test]
fn a_stopped_operation_is_named_with_its_outcome() {
    let member = || "dev".to_owned();
    let started = || Event::OperationStarted { member: member(), at: at(3) };
    let terminated = (OperationPhase::Failed, "Operation terminated (retried 4 times).");
    let over = "its last operation ended (Failed): Operation terminated (retried 4 times).";

    // The operation was stopped together with the rollout.
    let stages = || {
        [
            Event::TerminateRequested(attribution("ann", "the wrong image", 10)),
            Event::Moved {
                to: Stage::Ending { end: End::Terminated, message: "terminated".to_owned(), stops: true },
                at: at(10),
            },
            Event::StopRequested { member: member(), then: StopOutcome::Wait, at: at(10) },
            Event::Stopped { member: member(), at: at(12) },
            Event::Finished { end: End::Terminated, message: "terminated".to_owned(), at: at(12) },
        ]
    };
    let with_rollout = || std::iter::once(started()).chain(stages());
    let waiting = "No Application status found, defaulting status to Waiting";
    assert_eq!(
        record_of_stopped_operation(with_rollout(), Some(terminated)),
        (Some(id()), format!("{waiting}; {over}"))
    );
    let unknown = format!("{waiting}; its last operation was stopped");
    assert_eq!(
        record_of_stopped_operation(with_rollout(), None),
        (Some(id()), unknown),
        "it is no longer listed"
    );
    let never = format!("{waiting}; its last operation was stopped or never started");
    assert_eq!(record_of_stopped_operation(stages(), None), (Some(id()), never));

    // Skipping the Application during a retry stopped the operation.
    let skipped = [
        started(),
        Event::StopRequested {
            member: member(),
            then: StopOutcome::Skip(attribution("ann", "moved", 10)),
            at: at(10),
        },
        Event::Stopped { member: member(), at: at(12) },
    ];
    assert_eq!(
        record_of_stopped_operation(skipped, Some(terminated)),
        (Some(id()), format!("skipped by ann (moved); {over}"))
    );

    // An operation that had already finished keeps its recorded outcome.
    let failed = [
        started(),
        Event::OperationEnded {
            member: member(),
            phase: OperationPhase::Error,
            message: "it broke".to_owned(),
            at: at(8),
        },
        Event::Skipped { member: member(), said: attribution("ann", "moved", 10) },
    ];
    let own = "skipped by ann (moved); its last operation ended (Error): it broke";
    assert_eq!(record_of_stopped_operation(failed, Some(terminated)), (Some(id()), own.to_owned()));
}

#[test]
fn decisions_are_listed_in_order_with_who_and_why() {
    let RunWithEvents { run, facts: events } = sample_run("prod");
    let described = |event: &RunEvent| {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        (event.kind.clone(), text(&event.by), text(&event.reason), event.at.unwrap())
    };
    let expected = [
        ("paused", "ann", "lunch", 20),
        ("resumed", "ann", "", 50),
        ("approved", "ben", "CHG-7", 60),
        ("skipped", "ann", "prod", 90),
    ];
    let expected = expected
        .map(|(kind, by, reason, seconds)| (kind.to_owned(), by.to_owned(), reason.to_owned(), at(seconds)));
    assert_eq!(run.decisions.iter().map(described).collect::<Vec<_>>(), expected);
    assert_eq!((run.decisions[2].step, run.decisions[3].application.as_deref()), (Some(2), Some("prod")));
    assert_eq!(run.line.by.as_deref(), Some("the service"), "the requester is in the events");
    assert_eq!(events.len(), 22);
    assert!(events.iter().zip(1..).all(|(event, number)| event.sequence == number));
    let view = run.rollout.unwrap();
    assert_eq!((view.end, view.members.len()), (Some(End::Completed), 2));
    assert!(run.explanation.is_none() && run.deletion.is_none() && run.compacted_events == 0);
}

#[test]
fn waits_have_their_start_and_end_times() {
    let waits = sample_run("prod").run.waits;
    let documents: Vec<(&str, &str, Timestamp, Option<Timestamp>)> =
        waits.iter().map(|one| (one.subject.as_str(), one.reason.as_str(), one.since, one.until)).collect();
    let expected = [
        ("step 2", "approval, given by ben (CHG-7); window:night, open", at(10), Some(at(71))),
        ("the rollout", "paused by ann: lunch", at(20), Some(at(50))),
        ("Application prod", "failed and needs manual action: prod", at(77), Some(at(90))),
    ];
    assert_eq!(documents, expected);
    // An open wait has no end time, but shows why the gate is closed.
    let so_far = sample_events("prod");
    let upto = so_far.iter().position(|event| matches!(event, Event::Paused(_))).unwrap();
    let waits = rollout::collect_waits(&so_far[..=upto]);
    assert_eq!(waits.len(), 2);
    assert_eq!((waits[0].reason.as_str(), waits[0].until), ("approval; window:night: prod", None));
    assert_eq!((waits[1].reason.as_str(), waits[1].until), ("paused by ann: lunch", None));
    // A tolerated failure doesn't make the rollout wait. A failed step that blocks the rollout does.
    let mut lenient = so_far.clone();
    let Event::Created { steps, .. } = &mut lenient[0] else { panic!() };
    steps[1].max_failures = Some(1);
    assert_eq!(rollout::collect_waits(&lenient).len(), 2);
    let failure = Failure { cause: Cause::Deadline, message: "too late".to_owned() };
    let failed = [so_far[0].clone(), Event::StepFailed { step: 0, failure, at: at(5) }];
    assert_eq!(rollout::collect_waits(&failed)[0].reason, "held, because a step failed: too late");
}

#[test]
fn a_deletion_numbers_its_steps_as_the_strategy_does() {
    let order = down::Order::reverse(vec![down::Selection::default(), down::Selection::default()]);
    let listed = |name: &str, step| down::MemberRecord {
        name: name.to_owned(),
        uid: name.to_owned(),
        place: assignment(step),
    };
    // The deletion order starts with the second step of the strategy.
    let events = vec![
        down::Event::Created {
            set: "argocd/shops".to_owned(),
            uid: "u1".to_owned(),
            by: "ann, because: moved away".to_owned(),
            order,
            members: vec![listed("prod", 0), listed("dev", 1)],
            options: down::Options::default(),
            at: at(0),
        },
        down::Event::Moved { to: down::Stage::Deleting { step: 0 }, at: at(1) },
        down::Event::DeletionScheduled { member: "prod".to_owned(), at: at(1) },
        down::Event::DeletionStarted { member: "prod".to_owned(), at: at(2) },
        down::Event::DeletionBlocked {
            member: "prod".to_owned(),
            kept_by: "finalizer example.com/hold".to_owned(),
            at: at(3),
        },
        down::Event::Paused(attribution("ben", "", 4)),
        down::Event::Resumed(attribution("ben", "", 5)),
        down::Event::Skipped { member: "prod".to_owned(), said: attribution("ann", "it stays", 6) },
        down::Event::Moved { to: down::Stage::Deleting { step: 1 }, at: at(7) },
    ];
    let state = events.iter().try_fold(down::State::New, down::apply).unwrap();
    let line = RunSummary { end: None, finished_at: None, ..run_summary(RunKind::Deletion) };
    let RunWithEvents { run, facts: documents } =
        RunWithEvents::from_deletion(line, 1, &events, &state, at(8));
    let steps: Vec<Option<u32>> =
        documents.iter().filter(|event| event.kind == "stage-changed").map(|event| event.step).collect();
    assert_eq!(steps, [Some(2), Some(1)]);
    assert!(documents[1].text.contains("step 2"), "{}", documents[1].text);
    let (text, by, reason) =
        (documents[0].text.as_str(), documents[0].by.as_deref(), documents[0].reason.as_deref());
    let begun = "started by ann (moved away): 2 Applications will be deleted";
    assert_eq!((text, by, reason), (begun, Some("ann"), Some("moved away")));
    assert_eq!((run.line.by.as_deref(), run.line.reason.as_deref()), (Some("ann"), Some("moved away")));
    let view = run.deletion.as_ref().unwrap();
    assert_eq!((view.by.as_str(), view.reason.as_deref()), ("ann", Some("moved away")));
    let said: Vec<&str> = run.decisions.iter().map(|event| event.text.as_str()).collect();
    assert_eq!(said, ["ben paused the deletion", "ben resumed the deletion", "ann skipped prod: it stays"]);
    let waits: Vec<(&str, &str, Timestamp, Option<Timestamp>)> = run
        .waits
        .iter()
        .map(|wait| (wait.subject.as_str(), wait.reason.as_str(), wait.since, wait.until))
        .collect();
    let blocker = "it is being deleted and is waiting for finalizer example.com/hold";
    assert_eq!(
        waits,
        [
            ("Application prod", blocker, at(3), Some(at(6))),
            ("the deletion", "paused by ben", at(4), Some(at(5)))
        ]
    );
    assert!(run.explanation.unwrap().to_string().contains("step 1"), "it continues");
    assert!(run.deletion.is_some());
}

#[test]
fn a_record_is_rendered_as_a_document_and_a_page_of_plain_text() {
    let run = sample_run(HOSTILE);
    let record = serde_json::to_value(run.record(at(100))).unwrap();
    assert_eq!(
        (&record["record"], &record["run"]["applicationSet"]),
        (&json!("tidegate.dev/run/v1"), &json!("argocd/shops"))
    );
    assert_eq!(record["events"].as_array().unwrap().len(), run.facts.len());
    let again: RunWithEvents =
        serde_json::from_value(json!({"run": record["run"], "events": record["events"]})).unwrap();
    assert_eq!(again, run, "another process reads the same");
    let page = run.render_page(at(100));
    for part in [
        "Rollout of argocd/shops",
        "Decisions",
        "ben approved step 2: CHG-7",
        "Waits",
        "paused by ann: lunch",
        "&lt;script&gt;window.hit=1&lt;/script&gt;",
        "Content-Security-Policy",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    for markup in ["<script", "<img", "href=", "\u{202e}", "\u{0}", " onload='x'"] {
        assert!(!page.contains(markup), "{markup}");
    }
    let gone = RunWithEvents::from_summary(run_summary(RunKind::Deletion), 40);
    assert!(gone.run.is_compacted() && gone.run.compacted_events == 40);
    let page = gone.render_page(at(100));
    assert!(page.contains("The details were compacted") && page.contains("all done"), "{page}");
}

/// Returns one rollout event of each kind.
fn all_rollout_events() -> Vec<Event> {
    let member = || "prod".to_owned();
    let observation = || MemberObservation {
        operation: Some(id()),
        deployed: Some(target()),
        synced: true,
        health: HealthStatus::Degraded,
        message: "words".to_owned(),
    };
    let mut all = sample_events("prod");
    all.extend([
        Event::SyncWindowChanged { member: member(), window: Some("words".to_owned()), at: at(1) },
        Event::CallFailed { member: member(), message: "words".to_owned(), retry_at: at(1) },
        Event::StatusObserved { member: member(), sight: observation(), at: at(1) },
        Event::HealthLost { member: member(), sight: observation(), at: at(1) },
        Event::OperationAdopted { member: member(), operation: id(), at: at(1) },
        Event::Overdue { member: member(), at: at(1) },
        Event::StopRequested { member: member(), then: StopOutcome::Wait, at: at(1) },
        Event::StopRequested {
            member: member(),
            then: StopOutcome::Skip(attribution("ann", "moved", 1)),
            at: at(1),
        },
        Event::Stopped { member: member(), at: at(1) },
        Event::RollbackStarted { member: member(), at: at(1) },
        Event::Retried { member: member(), said: attribution("ann", "again", 1) },
        Event::Removed { member: member(), at: at(1) },
        Event::Added { member: Box::new(member_record("new", 1)), at: at(1) },
        Event::StepFailed {
            step: 0,
            failure: Failure { cause: Cause::Deadline, message: "words".to_owned() },
            at: at(1),
        },
        Event::TerminateRequested(attribution("ann", "", 1)),
        Event::TargetsChanged { targets: Digest([8; 32]), at: at(1) },
    ]);
    all
}

/// Returns one deletion event of each kind.
fn all_deletion_events() -> Vec<down::Event> {
    let member = || "prod".to_owned();
    let listed = || down::MemberRecord { name: member(), uid: member(), place: assignment(0) };
    let at = at(1);
    let started = |order| down::Event::Created {
        set: "argocd/shops".to_owned(),
        uid: "u1".to_owned(),
        by: "ann".to_owned(),
        order,
        members: vec![listed()],
        options: down::Options::default(),
        at,
    };
    vec![
        started(down::Order::AllAtOnce),
        started(down::Order::Orphaned),
        down::Event::Released { member: member(), at },
        down::Event::Moved { to: down::Stage::Deleting { step: 0 }, at },
        down::Event::DeletionScheduled { member: member(), at },
        down::Event::DeletionStarted { member: member(), at },
        down::Event::DeletionBlocked { member: member(), kept_by: "words".to_owned(), at },
        down::Event::AbsenceObserved { member: member(), at },
        down::Event::PresenceConfirmed { member: member(), at },
        down::Event::Deleted { member: member(), at },
        down::Event::CallFailed { member: member(), message: "words".to_owned(), retry_at: at },
        down::Event::Skipped { member: member(), said: attribution("ann", "moved", 1) },
        down::Event::Joined { member: Box::new(listed()), at },
        down::Event::DeadlinePassed { step: 0, message: "words".to_owned(), at },
        down::Event::Paused(attribution("ann", "", 1)),
        down::Event::Resumed(attribution("ann", "", 1)),
        down::Event::TerminateRequested(attribution("ann", "", 1)),
        down::Event::Finished { end: down::End::Completed, message: "words".to_owned(), at },
        down::Event::Approved(down::Approval {
            token: "words".to_owned(),
            said: attribution("ann", "moved", 1),
        }),
    ]
}

/// Programs rely on these names, so the documentation must cover every kind of event and every field.
#[test]
fn every_kind_has_a_stable_name_and_fields_and_is_documented() {
    let rollouts = all_rollout_events();
    let numbers: BTreeSet<u16> = rollouts.iter().map(|event| event.kind()).collect();
    assert_eq!(numbers, (1..=Event::HIGHEST_KIND).collect(), "a kind of rollout event is missing here");
    let documents = rollout::documents(1, &rollouts);
    let text: BTreeSet<&str> = documents.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(text.len(), numbers.len(), "two kinds have the same name: {text:?}");
    let deletions = all_deletion_events();
    let numbers: BTreeSet<u16> = deletions.iter().map(|event| event.kind()).collect();
    let today = (1..=down::Event::HIGHEST_KIND).filter(|kind| !down::Event::is_earlier(*kind));
    assert_eq!(numbers, today.collect(), "a kind of deletion event is missing here");
    let of_deletions = deletion::documents(1, &deletions, &down::Order::AllAtOnce);
    let text: BTreeSet<&str> = of_deletions.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(text.len(), numbers.len(), "two kinds have the same name: {text:?}");

    let docs = include_str!("../../../../docs/reference/json-output.md");
    let section = docs.split("## Events of rollouts and deletions").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    for event in documents.iter().chain(&of_deletions) {
        let word = &event.kind;
        let mut rows = section.lines().filter(|line| line.starts_with(&format!("| `{word}` |")));
        let row = rows.next().unwrap_or_else(|| panic!("`{word}` is not documented"));
        for field in event.details.as_object().unwrap().keys() {
            assert!(row.contains(&format!("`{field}`")), "`{field}` of `{word}` is not documented");
        }
    }
}
