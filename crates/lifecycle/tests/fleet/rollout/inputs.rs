//! Every state with every input: which facts it means, or why it is refused; and that these facts fit.

use tidegate_lifecycle::fleet::Scope;
use tidegate_lifecycle::operation::{CallError, Verdict};
use tidegate_lifecycle::rollout::{ChildNews, Fact, Input, Rejection, State, Wish, decide, evolve};
use tidegate_model::{Digest, HealthStatus, OperationPhase};

use super::facts::kind;
use super::states::*;
use crate::build::*;

/// The facts by kind, or the rejection. `-`: nothing follows.
fn outcome(result: &Result<Vec<Fact>, Rejection>) -> String {
    match result {
        Ok(facts) if facts.is_empty() => "-".into(),
        Ok(facts) => {
            let mut kinds: Vec<&str> = facts.iter().map(kind).collect();
            kinds.dedup();
            kinds.join("+")
        }
        Err(Rejection::Stale { .. }) => "Stale".into(),
        Err(Rejection::NotStarted) => "NotStarted".into(),
        Err(Rejection::AlreadyStarted { .. }) => "AlreadyStarted".into(),
        Err(Rejection::NamedTwice { .. }) => "NamedTwice".into(),
        Err(Rejection::AlreadyFinished { .. }) => "AlreadyFinished".into(),
        Err(Rejection::AlreadyEnding { .. }) => "AlreadyEnding".into(),
        Err(Rejection::AlreadyPaused { .. }) => "AlreadyPaused".into(),
        Err(Rejection::NotPaused) => "NotPaused".into(),
        Err(Rejection::NothingToApprove(_)) => "NothingToApprove".into(),
        Err(Rejection::NothingToSkip(_)) => "NothingToSkip".into(),
        Err(Rejection::NothingToRetry(_)) => "NothingToRetry".into(),
    }
}

fn check(state: &State, input: &Input, expected: &str, what: &str) {
    let result = decide(state, input, at(10_000));
    assert_eq!(outcome(&result), expected, "{what}: {result:?}");
    let mut next = state.clone();
    for fact in result.unwrap_or_default() {
        next = evolve(next, &fact).unwrap_or_else(|illegal| panic!("{what}: {illegal}"));
    }
}

fn wish(wish: Wish) -> Input {
    Input::Wish { wish, by: "ann".into(), why: String::new() }
}

/// What is not about a member, in every stage. The columns: New, Begun, Held, Rolling, RollingBack, Ending, Finished; where a
/// person holds the rollout, the second word of a cell.
#[test]
fn every_state_with_every_input_about_the_rollout() {
    let gate = |step| Input::Gate { step, gate: "gate".into(), verdict: Verdict::closed("no") };
    let joined = |name: &str| Input::Joined { member: Box::new(member(name, "env=dev")) };
    let targets = |byte| Input::NewTargets { targets: Digest([byte; 32]) };
    let abort = Input::Abort { reason: "engine".into() };
    let (new, started, over, ending, stale) =
        ("NotStarted", "AlreadyStarted", "AlreadyFinished", "AlreadyEnding", "Stale");
    let table: [(Input, [&str; 7]); 15] = [
        (
            Input::Begin(Box::new(the_request())),
            ["Begun", started, started, started, started, started, started],
        ),
        (Input::Recovered, [new, "-", "GateAnswered", "-", "-", "-", stale]),
        (gate(1), [new, stale, "GateAnswered", stale, stale, stale, stale]),
        (gate(0), [new, stale, stale, stale, stale, stale, stale]),
        (joined("new"), [new, "Joined", "Joined", "Joined", "Joined", stale, stale]),
        (joined("waiting"), [new, stale, stale, stale, stale, stale, stale]),
        (targets(9), [new, "-", "-", "-", "-", "-", stale]),
        (targets(3), [new, "NewTargets", "NewTargets", "NewTargets", "NewTargets", "NewTargets", stale]),
        (abort, [new, "Finished", "Finished", "Finished", "Finished", "Finished", stale]),
        (
            wish(Wish::Approve { step: None }),
            [new, "NothingToApprove", "Approved", "NothingToApprove", "NothingToApprove", ending, over],
        ),
        (
            wish(Wish::Approve { step: Some(2) }),
            [new, "Approved", "Approved", "Approved", "Approved", ending, over],
        ),
        (
            wish(Wish::Approve { step: Some(1) }),
            [
                new,
                "NothingToApprove",
                "NothingToApprove",
                "NothingToApprove",
                "NothingToApprove",
                ending,
                over,
            ],
        ),
        (
            wish(Wish::Pause),
            [
                new,
                "Paused AlreadyPaused",
                "Paused AlreadyPaused",
                "Paused AlreadyPaused",
                "Paused AlreadyPaused",
                ending,
                over,
            ],
        ),
        (
            wish(Wish::Resume),
            [
                new,
                "NotPaused Resumed",
                "NotPaused Resumed",
                "NotPaused Resumed",
                "NotPaused Resumed",
                ending,
                over,
            ],
        ),
        (
            wish(Wish::Terminate),
            // Who does not want to wait for what is at work may say so.
            [
                new,
                "TerminateRequested",
                "TerminateRequested",
                "TerminateRequested",
                "TerminateRequested",
                "TerminateRequested",
                over,
            ],
        ),
    ];
    let stages = ["New", "Begun", "Held", "Rolling", "RollingBack", "Ending", "Finished"];
    let mut seen = 0;
    for (name, state) in representatives() {
        let (stage, is_paused) =
            name.strip_suffix(" paused").map_or((name.as_str(), false), |stage| (stage, true));
        let column = stages.iter().position(|known| *known == stage).unwrap();
        for (input, cells) in &table {
            let mut words = cells[column].split(' ');
            let plain = words.next().unwrap();
            let expected = words.next().filter(|_| is_paused).unwrap_or(plain);
            check(&state, input, expected, &format!("{input:?} in {name}"));
        }
        seen += 1;
    }
    assert_eq!(seen, 11, "7 stages, 4 of them held as well");
}

fn child(member: &str, news: ChildNews) -> Input {
    // Members that have no operation answer for another one.
    Input::Child { member: member.into(), operation: id(operation(member)), news }
}

/// What reaches a member while its step is at work, by what the member is.
fn about(name: &str) -> Vec<(Input, &'static str)> {
    let failed = CallError::permanent("no such project");
    let ended = |phase| ChildNews::Ended { phase, message: "over".into() };
    let skip = |name: &str| wish(Wish::Skip(Scope::Member(name.into())));
    let retry = |name: &str| wish(Wish::Retry(Scope::Member(name.into())));
    let sighted = |sight| Input::Sighted { member: name.into(), sight };
    let stopped = |number, result| Input::Stopped { member: name.into(), operation: id(number), result };
    let own = operation(name);
    vec![
        (Input::Chosen { member: name.into(), operation: Ok(id(500)) }, "promoted=Named"),
        (Input::Chosen { member: name.into(), operation: Err(busy()) }, "promoted=CallFailed"),
        (child(name, ChildNews::Held { window: "night".into() }), "named=WindowSeen"),
        (child(name, ChildNews::Unapproved { plan: "plan abc waits".into() }), "named=WindowSeen"),
        (child(name, ChildNews::Begun), "named=Started"),
        (child(name, ended(OperationPhase::Succeeded)), "named=Ended running=Ended"),
        (child(name, ended(OperationPhase::Failed)), "named=Ended running=Ended"),
        (child(name, ChildNews::Failed(busy())), "named=CallFailed running=CallFailed"),
        (child(name, ChildNews::Failed(failed)), "named=Ended running=Ended"),
        (Input::Child { member: name.into(), operation: id(499), news: ChildNews::Begun }, ""),
        // Its own operation, and well.
        (sighted(well(name)), "settling=BecameHealthy adopted=Adopted+BecameHealthy failed=Seen"),
        (sighted(sight(own, "new", HealthStatus::Progressing)), "settling=Seen adopted=Adopted failed=Seen"),
        // As it was before: well, and no evidence.
        (sighted(sight(1, "new", HealthStatus::Healthy)), "settling=Seen adopted=Seen failed=Seen"),
        (sighted(sight(own, "old", HealthStatus::Healthy)), "settling=Seen adopted=Seen failed=Seen"),
        // Somebody else brought it there since.
        (
            sighted(sight(900, "new", HealthStatus::Healthy)),
            "settling=Adopted+BecameHealthy adopted=Adopted+BecameHealthy failed=Adopted+BecameHealthy",
        ),
        (
            sighted(sight(900, "new", HealthStatus::Degraded)),
            "settling=Adopted adopted=Adopted failed=Adopted",
        ),
        (sighted(sight(900, "other", HealthStatus::Healthy)), "settling=Seen adopted=Seen failed=Seen"),
        (stopped(own, Ok(())), "stopping=Stopped"),
        (stopped(own, Err(busy())), "stopping=CallFailed"),
        (stopped(499, Ok(())), ""),
        (
            Input::Gone { member: name.into() },
            "promoted=StopBegun named=StopBegun running=StopBegun stopping=StopBegun *=Gone gone=Stale",
        ),
        (
            skip(name),
            "waiting=Skipped next=Skipped settling=Skipped adopted=Skipped failed=Skipped promoted=StopBegun \
             named=StopBegun running=StopBegun *=NothingToSkip",
        ),
        (
            retry(name),
            "settling=Retried adopted=Retried failed=Retried skipped=Retried assumed=Retried \
             *=NothingToRetry",
        ),
    ]
}

#[test]
fn every_member_with_every_input() {
    let states = representatives();
    let (_, rolling) = states.iter().find(|(name, _)| name == "Rolling").unwrap();
    for member in MEMBERS {
        for (input, row) in about(member) {
            let cell = |name: &str| {
                row.split_whitespace().find_map(|cell| cell.strip_prefix(name)?.strip_prefix('='))
            };
            let expected = cell(member).or_else(|| cell("*")).unwrap_or("Stale");
            // The adopted one went by an operation below its own number here.
            check(rolling, &input, expected, &format!("{input:?}"));
        }
    }
}

/// While nothing of a step is looked at, nothing that is seen counts.
#[test]
fn what_is_not_watched_is_not_believed() {
    for (name, state) in representatives() {
        for member in MEMBERS {
            let input = Input::Sighted { member: member.into(), sight: well(member) };
            let is_watched = name.starts_with("Rolling") && !name.contains("Back") && is_looked_at(member);
            let outcome = outcome(&decide(&state, &input, at(10_000)));
            assert_eq!(
                is_watched,
                !["Stale", "NotStarted"].contains(&outcome.as_str()),
                "{member} in {name}"
            );
        }
    }
}

fn is_looked_at(member: &str) -> bool {
    ["settling", "adopted", "failed"].contains(&member)
}

/// A message that says nothing helps nobody.
#[test]
fn refusals_name_the_object_and_what_to_do() {
    let states = representatives();
    let (_, rolling) = states.iter().find(|(name, _)| name == "Rolling").unwrap();
    for (input, says) in [
        (wish(Wish::Skip(Scope::Member("nobody".into()))), "argocd/fleet has no Application nobody"),
        (wish(Wish::Skip(Scope::Member("outside".into()))), "no step selects Application outside"),
        (wish(Wish::Skip(Scope::Step(3))), "there is no step 3; the rollout has 2"),
        (wish(Wish::Retry(Scope::Step(2))), "Application next is Waiting and cannot be retried now"),
        (wish(Wish::Retry(Scope::Member("running".into()))), "running is Progressing"),
        (wish(Wish::Approve { step: None }), "name one that will with --step: 2"),
    ] {
        let error = decide(rolling, &input, at(0)).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    let mut twice = the_request();
    twice.members.push(member("next", ""));
    let error = decide(&State::New, &Input::Begin(Box::new(twice)), at(0)).unwrap_err().to_string();
    assert!(error.contains("argocd/fleet") && error.contains("next"), "{error}");
}
