//! What a record tells is what people did, and nothing in it is anything but text.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests stop at the first surprise"
)]

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;
use tidegate_lifecycle::fleet::{Assignment, Said};
use tidegate_lifecycle::operation::Verdict;
use tidegate_lifecycle::rollout::{
    Cause, End, Fact, Failure, Listed, Options, Sight, Stage, State, Step, Target, Then, evolve,
};
use tidegate_lifecycle::teardown as down;
use tidegate_model::{
    Digest, HealthStatus, LogRecord as _, OperationId, OperationPhase, StreamId, Timestamp,
};

use super::{Run, RunFact, RunKind, RunLine, deletion, rollout};

const HOSTILE: &str = "</title></style><script>window.hit=1</script><img src=x onerror=window.hit=1>\" onload='x' javascript:window.hit=1 \u{202e}\u{0}";

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_795_000_000_000 + seconds * 1_000)
}

fn id() -> OperationId {
    "01a1fdbf-da23-70f8-b7a6-18e4810d225a".parse().unwrap()
}

fn said(by: &str, why: &str, seconds: i64) -> Said {
    Said { by: by.to_owned(), why: why.to_owned(), at: at(seconds) }
}

fn place(step: u32) -> Assignment {
    Assignment { step: Some(step), also: Vec::new() }
}

fn target() -> Target {
    Target { revisions: vec!["4f2a9c".to_owned()], spec: Digest([1; 32]) }
}

fn listed(name: &str, step: u32) -> Listed {
    Listed { name: name.to_owned(), place: place(step), target: target(), before: None, done_by: None }
}

fn gated(gates: &[&str]) -> Step {
    Step { gates: gates.iter().map(|gate| (*gate).to_owned()).collect(), ..Step::default() }
}

fn begun(word: &str) -> Fact {
    Fact::Begun {
        set: "argocd/shops".to_owned(),
        uid: "u1".to_owned(),
        targets: Digest([7; 32]),
        by: "the service".to_owned(),
        steps: vec![gated(&[]), gated(&["approval", "window:night"])],
        members: vec![listed("dev", 0), listed(word, 1)],
        options: Options::default(),
        at: at(0),
    }
}

/// Of one Application: its turn comes, and its operation ends.
fn synced(member: &str, seconds: i64, phase: OperationPhase, message: &str) -> Vec<Fact> {
    let member = || member.to_owned();
    vec![
        Fact::Promoted { member: member(), at: at(seconds) },
        Fact::Named { member: member(), operation: id() },
        Fact::Started { member: member(), at: at(seconds + 1) },
        Fact::Ended { member: member(), phase, message: message.to_owned(), at: at(seconds + 5) },
    ]
}

/// The first step passes; the second waits for a window and for ben, while ann holds it; what fails there is skipped by ann.
fn facts(word: &str) -> Vec<Fact> {
    let closed = Verdict::Closed { reason: word.to_owned(), ask_again_after: Duration::from_secs(1) };
    let gate = || "window:night".to_owned();
    let mut facts = vec![
        begun(word),
        Fact::Moved { to: Stage::Held { step: 0 }, at: at(1) },
        Fact::Moved { to: Stage::Rolling { step: 0 }, at: at(1) },
    ];
    facts.extend(synced("dev", 2, OperationPhase::Succeeded, ""));
    facts.extend([
        Fact::BecameHealthy { member: "dev".to_owned(), at: at(9) },
        Fact::Moved { to: Stage::Held { step: 1 }, at: at(10) },
        Fact::GateAnswered { gate: gate(), verdict: closed, at: at(11) },
        Fact::Paused(said("ann", "lunch", 20)),
        Fact::Resumed(said("ann", "", 50)),
        Fact::Approved { step: 1, said: said("ben", "CHG-7", 60) },
        Fact::GateAnswered { gate: gate(), verdict: Verdict::Open, at: at(70) },
        Fact::Moved { to: Stage::Rolling { step: 1 }, at: at(71) },
    ]);
    facts.extend(synced(word, 72, OperationPhase::Failed, word));
    facts.extend([
        Fact::Skipped { member: word.to_owned(), said: said("ann", word, 90) },
        Fact::Moved {
            to: Stage::Ending { end: End::Completed, message: "all done".to_owned(), stops: false },
            at: at(91),
        },
        Fact::Finished { end: End::Completed, message: "all done".to_owned(), at: at(92) },
    ]);
    facts
}

fn line(kind: RunKind) -> RunLine {
    RunLine {
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

fn run(word: &str) -> Run {
    let facts = facts(word);
    let state = facts.iter().try_fold(State::New, evolve).unwrap();
    Run::of_rollout(line(RunKind::Rollout), (1, &facts), &state, at(100), |_| None)
}

/// What its record has of an Application whose operation was under way when that happened: whether it names the operation, and
/// the message. `log` is what the list of operations says of it.
fn stopped(
    then: impl IntoIterator<Item = Fact>,
    log: Option<(OperationPhase, &str)>,
) -> (Option<OperationId>, String) {
    let mut facts = vec![
        begun("prod"),
        Fact::Moved { to: Stage::Held { step: 0 }, at: at(1) },
        Fact::Moved { to: Stage::Rolling { step: 0 }, at: at(1) },
        Fact::Promoted { member: "dev".to_owned(), at: at(2) },
        Fact::Named { member: "dev".to_owned(), operation: id() },
    ];
    facts.extend(then);
    let state = facts.iter().try_fold(State::New, evolve).unwrap();
    let end_of = |operation: OperationId| {
        assert_eq!(operation, id());
        log.map(|(phase, message)| (phase, message.to_owned()))
    };
    let run = Run::of_rollout(line(RunKind::Rollout), (1, &facts), &state, at(100), end_of);
    let members = run.run.rollout.unwrap().members;
    let of = |name: &str| members.iter().find(|member| member.application == name).unwrap();
    assert_eq!(of("prod").operation, None, "its turn has not come");
    assert!(!of("prod").message.contains("operation"), "{}", of("prod").message);
    (of("dev").operation, of("dev").message.clone())
}

/// It has none that it waits for; that it had one, and how that has ended, is what is looked for later.
#[test]
fn an_application_whose_operation_was_stopped_names_it_and_how_it_ended() {
    let member = || "dev".to_owned();
    let started = || Fact::Started { member: member(), at: at(3) };
    let terminated = (OperationPhase::Failed, "Operation terminated (retried 4 times).");
    let over = "its last operation is over, Failed: Operation terminated (retried 4 times).";

    // With the rollout.
    let stages = || {
        [
            Fact::TerminateRequested(said("ann", "the wrong image", 10)),
            Fact::Moved {
                to: Stage::Ending { end: End::Terminated, message: "terminated".to_owned(), stops: true },
                at: at(10),
            },
            Fact::StopBegun { member: member(), then: Then::Wait, at: at(10) },
            Fact::Stopped { member: member(), at: at(12) },
            Fact::Finished { end: End::Terminated, message: "terminated".to_owned(), at: at(12) },
        ]
    };
    let with_rollout = || std::iter::once(started()).chain(stages());
    let waiting = "No Application status found, defaulting status to Waiting";
    assert_eq!(stopped(with_rollout(), Some(terminated)), (Some(id()), format!("{waiting}; {over}")));
    let unknown = format!("{waiting}; its last operation was stopped");
    assert_eq!(stopped(with_rollout(), None), (Some(id()), unknown), "it is not listed any more");
    let never = format!("{waiting}; its last operation was stopped, or never began");
    assert_eq!(stopped(stages(), None), (Some(id()), never));

    // By whoever goes on without the Application, while it is tried again.
    let skipped = [
        started(),
        Fact::StopBegun { member: member(), then: Then::Skip(said("ann", "moved", 10)), at: at(10) },
        Fact::Stopped { member: member(), at: at(12) },
    ];
    assert_eq!(stopped(skipped, Some(terminated)), (Some(id()), format!("skipped by ann (moved); {over}")));

    // What had ended before by itself is told as it was recorded.
    let failed = [
        started(),
        Fact::Ended {
            member: member(),
            phase: OperationPhase::Error,
            message: "it broke".to_owned(),
            at: at(8),
        },
        Fact::Skipped { member: member(), said: said("ann", "moved", 10) },
    ];
    let own = "skipped by ann (moved); its last operation is over, Error: it broke";
    assert_eq!(stopped(failed, Some(terminated)), (Some(id()), own.to_owned()));
}

#[test]
fn who_decided_what_and_why_is_told_in_order() {
    let Run { run, facts } = run("prod");
    let told = |fact: &RunFact| {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        (fact.kind.clone(), text(&fact.by), text(&fact.reason), fact.at.unwrap())
    };
    let expected = [
        ("paused", "ann", "lunch", 20),
        ("resumed", "ann", "", 50),
        ("approved", "ben", "CHG-7", 60),
        ("skipped", "ann", "prod", 90),
    ];
    let expected = expected
        .map(|(kind, by, why, seconds)| (kind.to_owned(), by.to_owned(), why.to_owned(), at(seconds)));
    assert_eq!(run.decisions.iter().map(told).collect::<Vec<_>>(), expected);
    assert_eq!((run.decisions[2].step, run.decisions[3].application.as_deref()), (Some(2), Some("prod")));
    assert_eq!(run.line.by.as_deref(), Some("the service"), "who asked is known from the facts");
    assert_eq!(facts.len(), 22);
    assert!(facts.iter().zip(1..).all(|(fact, number)| fact.sequence == number));
    let view = run.rollout.unwrap();
    assert_eq!((view.end, view.members.len()), (Some(End::Completed), 2));
    assert!(run.explanation.is_none() && run.deletion.is_none() && run.compacted == 0);
}

#[test]
fn what_was_waited_for_is_told_from_when_to_when() {
    let waits = run("prod").run.waits;
    let told: Vec<(&str, &str, Timestamp, Option<Timestamp>)> =
        waits.iter().map(|one| (one.what.as_str(), one.why.as_str(), one.since, one.until)).collect();
    let expected = [
        ("step 2", "approval, given by ben (CHG-7); window:night, open", at(10), Some(at(71))),
        ("the rollout", "held by ann: lunch", at(20), Some(at(50))),
        ("Application prod", "somebody has to see to it, since it failed: prod", at(77), Some(at(90))),
    ];
    assert_eq!(told, expected);
    // While it lasts there is no end, and why it is closed is told.
    let so_far = facts("prod");
    let upto = so_far.iter().position(|fact| matches!(fact, Fact::Paused(_))).unwrap();
    let waits = rollout::waits(&so_far[..=upto]);
    assert_eq!(waits.len(), 2);
    assert_eq!((waits[0].why.as_str(), waits[0].until), ("approval; window:night: prod", None));
    assert_eq!((waits[1].why.as_str(), waits[1].until), ("held by ann: lunch", None));
    // Of those that may fail nobody is waited for; a step that failed and holds the rollout is waited for.
    let mut lenient = so_far.clone();
    let Fact::Begun { steps, .. } = &mut lenient[0] else { panic!() };
    steps[1].max_failures = Some(1);
    assert_eq!(rollout::waits(&lenient).len(), 2);
    let failure = Failure { cause: Cause::Deadline, message: "too late".to_owned() };
    let failed = [so_far[0].clone(), Fact::StepFailed { step: 0, failure, at: at(5) }];
    assert_eq!(rollout::waits(&failed)[0].why, "held, since a step has failed: too late");
}

#[test]
fn a_deletion_tells_its_steps_as_the_strategy_counts_them() {
    let order = down::Order::reverse(vec![down::Selection::default(), down::Selection::default()]);
    let listed =
        |name: &str, step| down::Listed { name: name.to_owned(), uid: name.to_owned(), place: place(step) };
    // In the order of the deletion the second step of the strategy is the first.
    let facts = vec![
        down::Fact::Begun {
            set: "argocd/shops".to_owned(),
            uid: "u1".to_owned(),
            by: "ann, because: moved away".to_owned(),
            order,
            members: vec![listed("prod", 0), listed("dev", 1)],
            options: down::Options::default(),
            at: at(0),
        },
        down::Fact::Moved { to: down::Stage::Deleting { step: 0 }, at: at(1) },
        down::Fact::Condemned { member: "prod".to_owned(), at: at(1) },
        down::Fact::Going { member: "prod".to_owned(), at: at(2) },
        down::Fact::KeptBy {
            member: "prod".to_owned(),
            kept_by: "finalizer example.com/hold".to_owned(),
            at: Some(at(3)),
        },
        down::Fact::Paused(said("ben", "", 4)),
        down::Fact::Resumed(said("ben", "", 5)),
        down::Fact::Left { member: "prod".to_owned(), said: said("ann", "it stays", 6) },
        down::Fact::Moved { to: down::Stage::Deleting { step: 1 }, at: at(7) },
    ];
    let state = facts.iter().try_fold(down::State::New, down::evolve).unwrap();
    let line = RunLine { end: None, finished_at: None, ..line(RunKind::Deletion) };
    let Run { run, facts: told } = Run::of_deletion(line, (1, &facts), &state, at(8));
    let steps: Vec<Option<u32>> =
        told.iter().filter(|fact| fact.kind == "moved").map(|fact| fact.step).collect();
    assert_eq!(steps, [Some(2), Some(1)]);
    assert!(told[1].text.contains("step 2"), "{}", told[1].text);
    let (text, by, why) = (told[0].text.as_str(), told[0].by.as_deref(), told[0].reason.as_deref());
    let begun = "begun by ann (moved away): 2 Applications are to be deleted";
    assert_eq!((text, by, why), (begun, Some("ann"), Some("moved away")));
    assert_eq!((run.line.by.as_deref(), run.line.reason.as_deref()), (Some("ann"), Some("moved away")));
    let view = run.deletion.as_ref().unwrap();
    assert_eq!((view.by.as_str(), view.reason.as_deref()), ("ann", Some("moved away")));
    let said: Vec<&str> = run.decisions.iter().map(|fact| fact.text.as_str()).collect();
    assert_eq!(said, ["ben holds it", "ben lets it go on", "ann skips prod: it stays"]);
    let waits: Vec<(&str, &str, Timestamp, Option<Timestamp>)> = run
        .waits
        .iter()
        .map(|wait| (wait.what.as_str(), wait.why.as_str(), wait.since, wait.until))
        .collect();
    let kept = "it is being deleted and waits for finalizer example.com/hold";
    assert_eq!(
        waits,
        [("Application prod", kept, at(3), Some(at(6))), ("the deletion", "held by ben", at(4), Some(at(5)))]
    );
    assert!(run.explanation.unwrap().to_string().contains("step 1"), "it goes on");
    assert!(run.deletion.is_some());
}

#[test]
fn a_record_is_a_document_and_a_page_of_texts() {
    let run = run(HOSTILE);
    let record = serde_json::to_value(run.record(at(100))).unwrap();
    assert_eq!(
        (&record["record"], &record["run"]["set"]),
        (&json!("tidegate.dev/run/v1"), &json!("argocd/shops"))
    );
    assert_eq!(record["facts"].as_array().unwrap().len(), run.facts.len());
    let again: Run = serde_json::from_value(json!({"run": record["run"], "facts": record["facts"]})).unwrap();
    assert_eq!(again, run, "whoever asks another process reads the same");
    let page = run.page(at(100));
    for part in [
        "Rollout of argocd/shops",
        "What was decided",
        "ben approves step 2: CHG-7",
        "What it waited for",
        "held by ann: lunch",
        "&lt;script&gt;window.hit=1&lt;/script&gt;",
        "Content-Security-Policy",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    for markup in ["<script", "<img", "href=", "\u{202e}", "\u{0}", " onload='x'"] {
        assert!(!page.contains(markup), "{markup}");
    }
    let gone = Run::of_line(line(RunKind::Deletion), 40);
    assert!(gone.run.is_compacted() && gone.run.compacted == 40);
    let page = gone.page(at(100));
    assert!(page.contains("Its details were compacted") && page.contains("all done"), "{page}");
}

/// One of each kind of a rollout.
fn all_of_rollouts() -> Vec<Fact> {
    let member = || "prod".to_owned();
    let sight = || Sight {
        operation: Some(id()),
        deployed: Some(target()),
        synced: true,
        health: HealthStatus::Degraded,
        message: "words".to_owned(),
    };
    let mut all = facts("prod");
    all.extend([
        Fact::WindowSeen { member: member(), window: Some("words".to_owned()), at: at(1) },
        Fact::CallFailed { member: member(), message: "words".to_owned(), retry_at: at(1) },
        Fact::Seen { member: member(), sight: sight(), at: at(1) },
        Fact::Worsened { member: member(), sight: sight(), at: at(1) },
        Fact::Adopted { member: member(), operation: id(), at: at(1) },
        Fact::Overdue { member: member(), at: at(1) },
        Fact::StopBegun { member: member(), then: Then::Wait, at: at(1) },
        Fact::StopBegun { member: member(), then: Then::Skip(said("ann", "moved", 1)), at: at(1) },
        Fact::Stopped { member: member(), at: at(1) },
        Fact::RollBackBegun { member: member(), at: at(1) },
        Fact::Retried { member: member(), said: said("ann", "again", 1) },
        Fact::Gone { member: member(), at: at(1) },
        Fact::Joined { member: Box::new(listed("new", 1)), at: at(1) },
        Fact::StepFailed {
            step: 0,
            failure: Failure { cause: Cause::Deadline, message: "words".to_owned() },
            at: at(1),
        },
        Fact::TerminateRequested(said("ann", "", 1)),
        Fact::NewTargets { targets: Digest([8; 32]), at: at(1) },
    ]);
    all
}

/// One of each kind of a deletion.
fn all_of_deletions() -> Vec<down::Fact> {
    let member = || "prod".to_owned();
    let listed = || down::Listed { name: member(), uid: member(), place: place(0) };
    let at = at(1);
    let begun = |order| down::Fact::Begun {
        set: "argocd/shops".to_owned(),
        uid: "u1".to_owned(),
        by: "ann".to_owned(),
        order,
        members: vec![listed()],
        options: down::Options::default(),
        at,
    };
    vec![
        begun(down::Order::AllAtOnce),
        begun(down::Order::Orphaned),
        down::Fact::Released { member: member(), at },
        down::Fact::Moved { to: down::Stage::Deleting { step: 0 }, at },
        down::Fact::Condemned { member: member(), at },
        down::Fact::Going { member: member(), at },
        down::Fact::KeptBy { member: member(), kept_by: "words".to_owned(), at: Some(at) },
        down::Fact::SeenGone { member: member(), at },
        down::Fact::StillThere { member: member(), at },
        down::Fact::Gone { member: member(), at },
        down::Fact::CallFailed { member: member(), message: "words".to_owned(), retry_at: at },
        down::Fact::Left { member: member(), said: said("ann", "moved", 1) },
        down::Fact::Joined { member: Box::new(listed()), at },
        down::Fact::DeadlinePassed { step: 0, message: "words".to_owned(), at },
        down::Fact::Paused(said("ann", "", 1)),
        down::Fact::Resumed(said("ann", "", 1)),
        down::Fact::TerminateRequested(said("ann", "", 1)),
        down::Fact::Finished { end: down::End::Completed, message: "words".to_owned(), at },
        down::Fact::Approved(down::Approval { token: "words".to_owned(), said: said("ann", "moved", 1) }),
    ]
}

/// What programs rely on is written down, and no kind is forgotten.
#[test]
fn every_kind_has_its_word_and_its_fields_and_is_documented() {
    let rollouts = all_of_rollouts();
    let numbers: BTreeSet<u16> = rollouts.iter().map(|fact| fact.kind()).collect();
    assert_eq!(numbers, (1..=Fact::HIGHEST_KIND).collect(), "a kind of rollouts is missing here");
    let told = rollout::documents(1, &rollouts);
    let words: BTreeSet<&str> = told.iter().map(|fact| fact.kind.as_str()).collect();
    assert_eq!(words.len(), numbers.len(), "two kinds have one word: {words:?}");
    let deletions = all_of_deletions();
    let numbers: BTreeSet<u16> = deletions.iter().map(|fact| fact.kind()).collect();
    let today = (1..=down::Fact::HIGHEST_KIND).filter(|kind| !down::Fact::is_earlier(*kind));
    assert_eq!(numbers, today.collect(), "a kind of deletions is missing here");
    let of_deletions = deletion::documents(1, &deletions, &down::Order::AllAtOnce);
    let words: BTreeSet<&str> = of_deletions.iter().map(|fact| fact.kind.as_str()).collect();
    // One that is only recorded begins under a number of its own.
    assert_eq!(words.len(), numbers.len() - 1, "two kinds have one word: {words:?}");

    let docs = include_str!("../../../../../docs/cli.md");
    let section = docs.split("### What is recorded of rollouts and deletions").nth(1).unwrap();
    let section = section.split("\n### ").next().unwrap();
    for fact in told.iter().chain(&of_deletions) {
        let word = &fact.kind;
        let mut rows = section.lines().filter(|line| line.starts_with(&format!("| `{word}` |")));
        let row = rows.next().unwrap_or_else(|| panic!("`{word}` is not documented"));
        for field in fact.details.as_object().unwrap().keys() {
            assert!(row.contains(&format!("`{field}`")), "`{field}` of `{word}` is not documented");
        }
    }
}
