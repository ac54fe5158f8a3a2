//! Every state combined with every event. The event is either applied or rejected as illegal, and never
//! causes a panic.

use tidegate_lifecycle::operation::Verdict;
use tidegate_lifecycle::rollout::{
    Cause, End, Event, Failure, Stage, StopOutcome, advance, apply, outstanding,
};
use tidegate_model::{Digest, HealthStatus, LogRecord as _, OperationPhase};

use super::states::*;
use crate::build::*;

/// Returns the name of an event. The match is exhaustive, as a reminder to add new events here and to the
/// table.
pub fn event_name(event: &Event) -> &'static str {
    match event {
        Event::Created { .. } => "Created",
        Event::Moved { .. } => "Moved",
        Event::GateAnswered { .. } => "GateAnswered",
        Event::Approved { .. } => "Approved",
        Event::Promoted { .. } => "Promoted",
        Event::OperationAssigned { .. } => "OperationAssigned",
        Event::SyncWindowChanged { .. } => "SyncWindowChanged",
        Event::OperationStarted { .. } => "OperationStarted",
        Event::CallFailed { .. } => "CallFailed",
        Event::OperationEnded { .. } => "OperationEnded",
        Event::StatusObserved { .. } => "StatusObserved",
        Event::OperationAdopted { .. } => "OperationAdopted",
        Event::BecameHealthy { .. } => "BecameHealthy",
        Event::HealthLost { .. } => "HealthLost",
        Event::Overdue { .. } => "Overdue",
        Event::StopRequested { .. } => "StopRequested",
        Event::Stopped { .. } => "Stopped",
        Event::RollbackStarted { .. } => "RollbackStarted",
        Event::Skipped { .. } => "Skipped",
        Event::Retried { .. } => "Retried",
        Event::Removed { .. } => "Removed",
        Event::Added { .. } => "Added",
        Event::StepFailed { .. } => "StepFailed",
        Event::Paused(_) => "Paused",
        Event::Resumed(_) => "Resumed",
        Event::TerminateRequested(_) => "TerminateRequested",
        Event::TargetsChanged { .. } => "TargetsChanged",
        Event::Finished { .. } => "Finished",
    }
}

/// Returns one event of every kind about an Application, with the Applications for which it is legal.
fn member_events(name: &str) -> Vec<(Event, &'static str)> {
    let member = || name.to_owned();
    let seen = || observation_after(1, "old", HealthStatus::Degraded);
    let phase = OperationPhase::Succeeded;
    vec![
        (Event::Promoted { member: member(), at: at(9) }, "waiting"),
        (Event::OperationAssigned { member: member(), operation: id(500) }, "promoted"),
        (Event::SyncWindowChanged { member: member(), window: None, at: at(9) }, "named"),
        (Event::OperationStarted { member: member(), at: at(9) }, "named"),
        (
            Event::CallFailed { member: member(), message: "busy".into(), retry_at: at(9) },
            "promoted named running stopping",
        ),
        (
            Event::OperationEnded { member: member(), phase, message: String::new(), at: at(9) },
            "named running",
        ),
        (
            Event::StatusObserved { member: member(), sight: seen(), at: at(9) },
            "waiting next settling failed adopted",
        ),
        (
            Event::OperationAdopted { member: member(), operation: id(500), at: at(9) },
            "waiting next named settling failed adopted",
        ),
        (Event::BecameHealthy { member: member(), at: at(9) }, "settling adopted"),
        (Event::HealthLost { member: member(), sight: seen(), at: at(9) }, "healthy"),
        (Event::Overdue { member: member(), at: at(9) }, "promoted named"),
        (
            Event::StopRequested { member: member(), then: StopOutcome::Wait, at: at(9) },
            "promoted named running",
        ),
        (
            Event::StopRequested { member: member(), then: StopOutcome::Go, at: at(9) },
            "promoted named running stopping",
        ),
        (
            Event::StopRequested {
                member: member(),
                then: StopOutcome::Fail { message: "late".into() },
                at: at(9),
            },
            "promoted named running settling adopted",
        ),
        (Event::Stopped { member: member(), at: at(9) }, "stopping"),
        // Only Applications that this rollout changed are rolled back.
        (Event::RollbackStarted { member: member(), at: at(9) }, "settling failed assumed"),
        (
            Event::Skipped { member: member(), said: attribution("ann") },
            "waiting next settling failed adopted",
        ),
        (
            Event::Retried { member: member(), said: attribution("ann") },
            "settling failed adopted skipped assumed",
        ),
        (
            Event::Removed { member: member(), at: at(9) },
            "waiting next settling failed adopted healthy skipped assumed",
        ),
    ]
}

#[test]
fn every_event_about_a_member_is_applied_or_illegal() {
    for (stage, state) in representatives() {
        let is_running = state.rollout().is_some() && !state.is_finished();
        for member in MEMBER_NAMES {
            for (event, legal) in member_events(member) {
                // Before a step has begun, all of its Applications are waiting, except the Healthy one.
                let is = match (stage.starts_with("Begun"), member) {
                    (true, "healthy" | "next") | (false, _) => member,
                    (true, _) => "waiting",
                };
                let is_turn = matches!(stage.as_str(), "Rolling" | "Rolling paused");
                let may_be = legal.split_whitespace().any(|name| name == is)
                    && is_running
                    && (is_turn || !matches!(event, Event::Promoted { .. }));
                let what = format!("{} about {member} in {stage}", event_name(&event));
                match apply(state.clone(), &event) {
                    Ok(_) => assert!(may_be, "{what} must be illegal"),
                    Err(illegal) => {
                        assert!(!may_be, "{what} must be legal");
                        assert_eq!(illegal.state, state.name(), "{what}");
                        assert!(illegal.event.starts_with(event_name(&event)), "{what}: {}", illegal.event);
                    }
                }
            }
        }
        let outside = member_events("outside").into_iter();
        // An Application that no step selects can leave. All other events about it are illegal.
        let outside = outside.filter(|(event, _)| !matches!(event, Event::Removed { .. }));
        for (event, _) in member_events("nobody").into_iter().chain(outside) {
            assert!(
                apply(state.clone(), &event).is_err(),
                "{} about an Application that no step selects",
                event_name(&event)
            );
        }
    }
}

/// Returns the events that aren't about a single Application, with the stages in which they are legal.
fn rollout_events() -> Vec<(Event, &'static str)> {
    let running = "Begun Held Rolling RollingBack Ending";
    let late = Failure { cause: Cause::Deadline, message: "late".into() };
    vec![
        (begun_event(), "New"),
        (moved_event(Stage::Begun), ""),
        (moved_event(Stage::Held { step: 1 }), "Begun Rolling"),
        (moved_event(Stage::Held { step: 2 }), ""),
        (moved_event(Stage::Rolling { step: 0 }), "Held"),
        (moved_event(Stage::Rolling { step: 1 }), "Held"),
        (moved_event(Stage::RollingBack { step: 0 }), "Rolling"),
        (moved_event(Stage::RollingBack { step: 1 }), ""),
        (moved_event(ending_stage()), "Begun Held Rolling RollingBack"),
        (Event::GateAnswered { gate: "gate".into(), verdict: Verdict::Open, at: at(9) }, "Held"),
        (Event::GateAnswered { gate: "approval".into(), verdict: Verdict::Open, at: at(9) }, ""),
        (Event::Approved { step: 1, said: attribution("ann") }, running),
        (Event::Approved { step: 0, said: attribution("ann") }, ""),
        (Event::Added { member: Box::new(member_record("new")), at: at(9) }, running),
        (Event::StepFailed { step: 0, failure: late, at: at(9) }, "Rolling"),
        (Event::Paused(attribution("ann")), "Begun Held Rolling RollingBack Ending"),
        (Event::Resumed(attribution("ann")), "paused"),
        (Event::TerminateRequested(attribution("ann")), running),
        (Event::TargetsChanged { targets: Digest([3; 32]), at: at(9) }, running),
        (Event::Finished { end: End::Error, message: "over".into(), at: at(9) }, running),
    ]
}

#[test]
fn every_event_about_the_rollout_is_applied_or_illegal() {
    for (name, state) in representatives() {
        let (stage, is_paused) =
            name.strip_suffix(" paused").map_or((name.as_str(), false), |stage| (stage, true));
        for (event, legal) in rollout_events() {
            let may_be = match event {
                Event::Paused(_) if is_paused => false,
                Event::Resumed(_) => is_paused,
                _ => legal.split_whitespace().any(|word| word == stage),
            };
            let what = format!("{} in {name}", event_name(&event));
            match apply(state.clone(), &event) {
                Ok(_) => assert!(may_be, "{what} must be illegal: {event:?}"),
                Err(illegal) => {
                    assert!(!may_be, "{what} must be legal: {event:?}");
                    assert_eq!(illegal.state, state.name(), "{what}");
                }
            }
        }
    }
}

/// Returns one event of every kind.
pub fn all_events() -> Vec<Event> {
    let all = member_events("waiting").into_iter().chain(rollout_events());
    all.map(|(event, _)| event).collect()
}

#[test]
fn every_event_has_a_number_and_a_column() {
    let mut kinds: Vec<u16> = all_events().iter().map(tidegate_model::LogRecord::kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds, (1..=Event::HIGHEST_KIND).collect::<Vec<_>>());
}

/// A recovered rollout may be in any of these states. Its automatic transitions must be legal and terminate.
#[test]
fn events_that_follow_in_any_state_are_legal() {
    for (name, mut state) in representatives() {
        for _ in 0..40 {
            outstanding(&state, at(100_000));
            let events = advance(&state, at(100_000));
            if events.is_empty() {
                break;
            }
            for event in events {
                state = apply(state, &event).unwrap_or_else(|illegal| panic!("{name}: {illegal}"));
            }
        }
        assert_eq!(advance(&state, at(100_000)), [], "{name} never stops making transitions");
    }
}
