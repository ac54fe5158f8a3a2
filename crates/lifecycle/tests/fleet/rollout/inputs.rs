//! Every state combined with every input: the resulting events or the rejection. The resulting events must be
//! legal.

use tidegate_lifecycle::fleet::Scope;
use tidegate_lifecycle::operation::{CallError, Verdict};
use tidegate_lifecycle::rollout::{
    Event, Input, OperationReport, Progress, ProgressiveSync, Rejection, State, UserRequest, apply, decide,
};
use tidegate_model::{Digest, HealthStatus, OperationPhase};

use super::events::event_name;
use super::states::*;
use crate::build::*;
use crate::common::variant_name;
use crate::machines::decide_legally;

/// Formats the kinds of the events, or the rejection. `-` means that no events follow.
fn format_outcome(result: &Result<Vec<Event>, Rejection>) -> String {
    match result {
        Ok(events) if events.is_empty() => "-".into(),
        Ok(events) => {
            let mut kinds: Vec<&str> = events.iter().map(event_name).collect();
            kinds.dedup();
            kinds.join("+")
        }
        Err(rejection) => variant_name(rejection),
    }
}

fn check_decision(state: &State, input: &Input, expected: &str, what: &str) {
    let result = decide_legally::<ProgressiveSync>(state, input, what);
    assert_eq!(format_outcome(&result), expected, "{what}: {result:?}");
}

fn user_request(request: UserRequest) -> Input {
    Input::UserRequest { request, by: "ann".into(), reason: String::new() }
}

/// Inputs that aren't about a single Application, in every stage. The columns are New, Begun, Held, Rolling,
/// RollingBack, Ending and Finished. The second word of a cell applies to paused rollouts.
#[test]
fn every_state_handles_every_input_about_the_rollout() {
    let gate = |step| Input::Gate { step, gate: "gate".into(), verdict: Verdict::closed("no") };
    let joined = |name: &str| Input::Joined { member: Box::new(member(name, "env=dev")) };
    let targets = |byte| Input::NewTargets { targets: Digest([byte; 32]) };
    let abort = Input::Abort { reason: "engine".into() };
    let (new, started, over, ending, stale) =
        ("NotStarted", "AlreadyStarted", "AlreadyFinished", "AlreadyEnding", "Stale");
    let table: [(Input, [&str; 7]); 15] = [
        (
            Input::Begin(Box::new(sample_request())),
            ["Created", started, started, started, started, started, started],
        ),
        (Input::Recovered, [new, "-", "GateAnswered", "-", "-", "-", stale]),
        (gate(1), [new, stale, "GateAnswered", stale, stale, stale, stale]),
        (gate(0), [new, stale, stale, stale, stale, stale, stale]),
        (joined("new"), [new, "Added", "Added", "Added", "Added", stale, stale]),
        (joined("waiting"), [new, stale, stale, stale, stale, stale, stale]),
        (targets(9), [new, "-", "-", "-", "-", "-", stale]),
        (
            targets(3),
            [
                new,
                "TargetsChanged",
                "TargetsChanged",
                "TargetsChanged",
                "TargetsChanged",
                "TargetsChanged",
                stale,
            ],
        ),
        (abort, [new, "Finished", "Finished", "Finished", "Finished", "Finished", stale]),
        (
            user_request(UserRequest::Approve { step: None }),
            [new, "NothingToApprove", "Approved", "NothingToApprove", "NothingToApprove", ending, over],
        ),
        (
            user_request(UserRequest::Approve { step: Some(2) }),
            [new, "Approved", "Approved", "Approved", "Approved", ending, over],
        ),
        (
            user_request(UserRequest::Approve { step: Some(1) }),
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
            user_request(UserRequest::Pause),
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
            user_request(UserRequest::Resume),
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
            user_request(UserRequest::Terminate),
            // Terminating a rollout that is already ending also stops its running operations.
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
            let mut text = cells[column].split(' ');
            let plain = text.next().unwrap();
            let expected = text.next().filter(|_| is_paused).unwrap_or(plain);
            check_decision(&state, input, expected, &format!("{input:?} in {name}"));
        }
        seen += 1;
    }
    assert_eq!(seen, 11, "7 stages, 4 of them also held");
}

/// A retried Application must not count as done because of its earlier operation.
#[test]
fn a_retried_member_ignores_its_earlier_operation() {
    let rolling = representatives().into_iter().find(|(stage, _)| stage == "Rolling").unwrap().1;
    for name in ["adopted", "settling"] {
        let Progress::Settling { operation: before, .. } = rolling.rollout().unwrap().members[name].progress
        else {
            panic!("{name} has not settled")
        };
        let events = [
            Event::Retried { member: name.into(), said: attribution("ann") },
            Event::Promoted { member: name.into(), at: at(10) },
            Event::OperationAssigned { member: name.into(), operation: id(950) },
        ];
        let state = events.iter().fold(rolling.clone(), |state, event| apply(state, event).unwrap());
        let deployed = |by| {
            let report = OperationReport::Deployed { operation: by };
            Input::OperationReported { member: name.into(), operation: id(950), report }
        };
        check_decision(&state, &deployed(before), "Stale", name);
        check_decision(&state, &deployed(id(940)), "OperationAdopted", name);
    }
}

fn operation_report(member: &str, report: OperationReport) -> Input {
    // If the Application doesn't have an operation, this is the ID of another operation.
    Input::OperationReported { member: member.into(), operation: id(operation_number(member)), report }
}

/// Returns the inputs about an Application while its step is running, with the outcome for each state of the
/// Application.
fn member_inputs(name: &str) -> Vec<(Input, &'static str)> {
    let failed = CallError::permanent("no such project");
    let ended = |phase| OperationReport::Ended { phase, message: "over".into() };
    let skip = |name: &str| user_request(UserRequest::Skip(Scope::Member(name.into())));
    let retry = |name: &str| user_request(UserRequest::Retry(Scope::Member(name.into())));
    let sighted = |observation| Input::Observed { member: name.into(), observation };
    let stopped = |number, result| Input::Stopped { member: name.into(), operation: id(number), result };
    let own = operation_number(name);
    vec![
        (Input::IdChosen { member: name.into(), operation: Ok(id(500)) }, "promoted=OperationAssigned"),
        (Input::IdChosen { member: name.into(), operation: Err(busy_error()) }, "promoted=CallFailed"),
        (
            operation_report(name, OperationReport::Delayed { window: "night".into() }),
            "named=SyncWindowChanged",
        ),
        (
            operation_report(name, OperationReport::Unapproved { plan: "plan abc waits".into() }),
            "named=SyncWindowChanged",
        ),
        (operation_report(name, OperationReport::Started), "named=OperationStarted"),
        // A user deployed the Application, before or after the rollout began.
        (operation_report(name, OperationReport::Deployed { operation: id(900) }), "named=OperationAdopted"),
        (operation_report(name, OperationReport::Deployed { operation: id(1) }), ""),
        (
            operation_report(name, ended(OperationPhase::Succeeded)),
            "named=OperationEnded running=OperationEnded",
        ),
        (
            operation_report(name, ended(OperationPhase::Failed)),
            "named=OperationEnded running=OperationEnded",
        ),
        (
            operation_report(name, OperationReport::Failed(busy_error())),
            "named=CallFailed running=CallFailed",
        ),
        (
            operation_report(name, OperationReport::Failed(failed)),
            "named=OperationEnded running=OperationEnded",
        ),
        (
            Input::OperationReported {
                member: name.into(),
                operation: id(499),
                report: OperationReport::Started,
            },
            "",
        ),
        // The Application is Healthy after its own operation.
        (
            sighted(healthy_observation(name)),
            "settling=BecameHealthy adopted=OperationAdopted+BecameHealthy failed=StatusObserved",
        ),
        (
            sighted(observation_after(own, "new", HealthStatus::Progressing)),
            "settling=StatusObserved adopted=OperationAdopted failed=StatusObserved",
        ),
        // The Application is Healthy, but only its earlier operation is known, so there is no evidence.
        (
            sighted(observation_after(1, "new", HealthStatus::Healthy)),
            "settling=StatusObserved adopted=StatusObserved failed=StatusObserved",
        ),
        (
            sighted(observation_after(own, "old", HealthStatus::Healthy)),
            "settling=StatusObserved adopted=StatusObserved failed=StatusObserved",
        ),
        // Another operation has deployed the Application in the meantime.
        (
            sighted(observation_after(900, "new", HealthStatus::Healthy)),
            "settling=OperationAdopted+BecameHealthy adopted=OperationAdopted+BecameHealthy failed=OperationAdopted+BecameHealthy",
        ),
        (
            sighted(observation_after(900, "new", HealthStatus::Degraded)),
            "settling=OperationAdopted adopted=OperationAdopted failed=OperationAdopted",
        ),
        (
            sighted(observation_after(900, "other", HealthStatus::Healthy)),
            "settling=StatusObserved adopted=StatusObserved failed=StatusObserved",
        ),
        (stopped(own, Ok(())), "stopping=Stopped"),
        (stopped(own, Err(busy_error())), "stopping=CallFailed"),
        (stopped(499, Ok(())), ""),
        (
            Input::Gone { member: name.into() },
            "promoted=StopRequested named=StopRequested running=StopRequested stopping=StopRequested *=Removed gone=Stale",
        ),
        (
            skip(name),
            "waiting=Skipped next=Skipped settling=Skipped adopted=Skipped failed=Skipped promoted=StopRequested \
             named=StopRequested running=StopRequested *=NothingToSkip",
        ),
        (
            retry(name),
            "settling=Retried adopted=Retried failed=Retried skipped=Retried assumed=Retried \
             *=NothingToRetry",
        ),
    ]
}

#[test]
fn every_member_state_handles_every_input() {
    let states = representatives();
    let (_, rolling) = states.iter().find(|(name, _)| name == "Rolling").unwrap();
    for member in MEMBER_NAMES {
        for (input, row) in member_inputs(member) {
            let cell = |name: &str| {
                row.split_whitespace().find_map(|cell| cell.strip_prefix(name)?.strip_prefix('='))
            };
            let expected = cell(member).or_else(|| cell("*")).unwrap_or("Stale");
            // The adopted operation has a lower number than the operation in this input.
            check_decision(rolling, &input, expected, &format!("{input:?}"));
        }
    }
}

/// Observations of a step that isn't being watched are ignored.
#[test]
fn observations_of_unwatched_members_are_ignored() {
    for (name, state) in representatives() {
        for member in MEMBER_NAMES {
            let input = Input::Observed { member: member.into(), observation: healthy_observation(member) };
            let is_watched = name.starts_with("Rolling") && !name.contains("Back") && is_observed(member);
            let outcome = format_outcome(&decide(&state, &input, at(10_000)));
            assert_eq!(
                is_watched,
                !["Stale", "NotStarted"].contains(&outcome.as_str()),
                "{member} in {name}"
            );
        }
    }
}

fn is_observed(member: &str) -> bool {
    ["settling", "adopted", "failed"].contains(&member)
}

/// Every message contains the affected object and the next step.
#[test]
fn rejections_name_the_object_and_the_next_step() {
    let states = representatives();
    let (_, rolling) = states.iter().find(|(name, _)| name == "Rolling").unwrap();
    for (input, says) in [
        (
            user_request(UserRequest::Skip(Scope::Member("nobody".into()))),
            "argocd/fleet has no Application nobody",
        ),
        (
            user_request(UserRequest::Skip(Scope::Member("outside".into()))),
            "no step selects Application outside",
        ),
        (user_request(UserRequest::Skip(Scope::Step(3))), "step 3 does not exist; the rollout has 2"),
        (
            user_request(UserRequest::Retry(Scope::Step(2))),
            "Application next is Waiting and cannot be retried now",
        ),
        (user_request(UserRequest::Retry(Scope::Member("running".into()))), "running is Progressing"),
        (
            user_request(UserRequest::Approve { step: None }),
            "approve one of these with `tidegate appset approve --step`: 2",
        ),
    ] {
        let error = decide(rolling, &input, at(0)).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    let mut twice = sample_request();
    twice.members.push(member("next", ""));
    let error = decide(&State::New, &Input::Begin(Box::new(twice)), at(0)).unwrap_err().to_string();
    assert!(error.contains("argocd/fleet") && error.contains("next"), "{error}");
}
