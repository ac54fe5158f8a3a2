//! Every state with every fact: it follows, or it is illegal, and nothing panics.

use tidegate_lifecycle::operation::Verdict;
use tidegate_lifecycle::rollout::{Cause, End, Fact, Failure, Stage, Then, evolve, follow, pending};
use tidegate_model::{Digest, HealthStatus, LogRecord as _, OperationPhase};

use super::states::*;
use crate::build::*;

/// The name of a fact. A new one does not compile until it is here, and then needs a column.
pub fn kind(fact: &Fact) -> &'static str {
    match fact {
        Fact::Begun { .. } => "Begun",
        Fact::Moved { .. } => "Moved",
        Fact::GateAnswered { .. } => "GateAnswered",
        Fact::Approved { .. } => "Approved",
        Fact::Promoted { .. } => "Promoted",
        Fact::Named { .. } => "Named",
        Fact::WindowSeen { .. } => "WindowSeen",
        Fact::Started { .. } => "Started",
        Fact::CallFailed { .. } => "CallFailed",
        Fact::Ended { .. } => "Ended",
        Fact::Seen { .. } => "Seen",
        Fact::Adopted { .. } => "Adopted",
        Fact::BecameHealthy { .. } => "BecameHealthy",
        Fact::Worsened { .. } => "Worsened",
        Fact::Overdue { .. } => "Overdue",
        Fact::StopBegun { .. } => "StopBegun",
        Fact::Stopped { .. } => "Stopped",
        Fact::RollBackBegun { .. } => "RollBackBegun",
        Fact::Skipped { .. } => "Skipped",
        Fact::Retried { .. } => "Retried",
        Fact::Gone { .. } => "Gone",
        Fact::Joined { .. } => "Joined",
        Fact::StepFailed { .. } => "StepFailed",
        Fact::Paused(_) => "Paused",
        Fact::Resumed(_) => "Resumed",
        Fact::TerminateRequested(_) => "TerminateRequested",
        Fact::NewTargets { .. } => "NewTargets",
        Fact::Finished { .. } => "Finished",
    }
}

/// One fact of every kind that is about a member, and which members it can be about.
fn about_members(name: &str) -> Vec<(Fact, &'static str)> {
    let member = || name.to_owned();
    let seen = || sight(1, "old", HealthStatus::Degraded);
    let phase = OperationPhase::Succeeded;
    vec![
        (Fact::Promoted { member: member(), at: at(9) }, "waiting"),
        (Fact::Named { member: member(), operation: id(500) }, "promoted"),
        (Fact::WindowSeen { member: member(), window: None, at: at(9) }, "named"),
        (Fact::Started { member: member(), at: at(9) }, "named"),
        (
            Fact::CallFailed { member: member(), message: "busy".into(), retry_at: at(9) },
            "promoted named running stopping",
        ),
        (Fact::Ended { member: member(), phase, message: String::new(), at: at(9) }, "named running"),
        (Fact::Seen { member: member(), sight: seen(), at: at(9) }, "waiting next settling failed adopted"),
        (
            Fact::Adopted { member: member(), operation: id(500), at: at(9) },
            "waiting next settling failed adopted",
        ),
        (Fact::BecameHealthy { member: member(), at: at(9) }, "settling adopted"),
        (Fact::Worsened { member: member(), sight: seen(), at: at(9) }, "healthy"),
        (Fact::Overdue { member: member(), at: at(9) }, "promoted named"),
        (Fact::StopBegun { member: member(), then: Then::Wait, at: at(9) }, "promoted named running"),
        (Fact::StopBegun { member: member(), then: Then::Go, at: at(9) }, "promoted named running stopping"),
        (
            Fact::StopBegun { member: member(), then: Then::Fail { message: "late".into() }, at: at(9) },
            "promoted named running settling adopted",
        ),
        (Fact::Stopped { member: member(), at: at(9) }, "stopping"),
        // Only what this rollout has changed is brought back.
        (Fact::RollBackBegun { member: member(), at: at(9) }, "settling failed assumed"),
        (Fact::Skipped { member: member(), said: said("ann") }, "waiting next settling failed adopted"),
        (Fact::Retried { member: member(), said: said("ann") }, "settling failed adopted skipped assumed"),
        (
            Fact::Gone { member: member(), at: at(9) },
            "waiting next settling failed adopted healthy skipped assumed",
        ),
    ]
}

#[test]
fn every_fact_about_every_member() {
    for (stage, state) in representatives() {
        let is_running = state.rollout().is_some() && !state.is_finished();
        for member in MEMBERS {
            for (fact, legal) in about_members(member) {
                // Before a step has begun all of its members wait, but for the one that was Healthy.
                let is = match (stage.starts_with("Begun"), member) {
                    (true, "healthy" | "next") | (false, _) => member,
                    (true, _) => "waiting",
                };
                let is_turn = matches!(stage.as_str(), "Rolling" | "Rolling paused");
                let may_be = legal.split_whitespace().any(|name| name == is)
                    && is_running
                    && (is_turn || !matches!(fact, Fact::Promoted { .. }));
                let what = format!("{} about {member} in {stage}", kind(&fact));
                match evolve(state.clone(), &fact) {
                    Ok(_) => assert!(may_be, "{what} should not follow"),
                    Err(illegal) => {
                        assert!(!may_be, "{what} should follow");
                        assert_eq!(illegal.state, state.name(), "{what}");
                        assert!(illegal.fact.starts_with(kind(&fact)), "{what}: {}", illegal.fact);
                    }
                }
            }
        }
        let outside = about_members("outside").into_iter();
        // One that no step selects can go, and nothing else.
        let outside = outside.filter(|(fact, _)| !matches!(fact, Fact::Gone { .. }));
        for (fact, _) in about_members("nobody").into_iter().chain(outside) {
            assert!(evolve(state.clone(), &fact).is_err(), "{} about nobody of a step", kind(&fact));
        }
    }
}

/// The other facts, and the stages in which they can follow.
fn about_the_rollout() -> Vec<(Fact, &'static str)> {
    let running = "Begun Held Rolling RollingBack Ending";
    let late = Failure { cause: Cause::Deadline, message: "late".into() };
    vec![
        (begun(), "New"),
        (moved(Stage::Begun), ""),
        (moved(Stage::Held { step: 1 }), "Begun Rolling"),
        (moved(Stage::Held { step: 2 }), ""),
        (moved(Stage::Rolling { step: 0 }), "Held"),
        (moved(Stage::Rolling { step: 1 }), "Held"),
        (moved(Stage::RollingBack { step: 0 }), "Rolling"),
        (moved(Stage::RollingBack { step: 1 }), ""),
        (moved(ending()), "Begun Held Rolling RollingBack"),
        (Fact::GateAnswered { gate: "gate".into(), verdict: Verdict::Open, at: at(9) }, "Held"),
        (Fact::GateAnswered { gate: "approval".into(), verdict: Verdict::Open, at: at(9) }, ""),
        (Fact::Approved { step: 1, said: said("ann") }, running),
        (Fact::Approved { step: 0, said: said("ann") }, ""),
        (Fact::Joined { member: Box::new(listed("new")), at: at(9) }, running),
        (Fact::StepFailed { step: 0, failure: late, at: at(9) }, "Rolling"),
        (Fact::Paused(said("ann")), "Begun Held Rolling RollingBack Ending"),
        (Fact::Resumed(said("ann")), "paused"),
        (Fact::TerminateRequested(said("ann")), running),
        (Fact::NewTargets { targets: Digest([3; 32]), at: at(9) }, running),
        (Fact::Finished { end: End::Error, message: "over".into(), at: at(9) }, running),
    ]
}

#[test]
fn every_fact_about_the_rollout() {
    for (name, state) in representatives() {
        let (stage, is_paused) =
            name.strip_suffix(" paused").map_or((name.as_str(), false), |stage| (stage, true));
        for (fact, legal) in about_the_rollout() {
            let may_be = match fact {
                Fact::Paused(_) if is_paused => false,
                Fact::Resumed(_) => is_paused,
                _ => legal.split_whitespace().any(|word| word == stage),
            };
            let what = format!("{} in {name}", kind(&fact));
            match evolve(state.clone(), &fact) {
                Ok(_) => assert!(may_be, "{what} should not follow: {fact:?}"),
                Err(illegal) => {
                    assert!(!may_be, "{what} should follow: {fact:?}");
                    assert_eq!(illegal.state, state.name(), "{what}");
                }
            }
        }
    }
}

/// One fact of every kind.
pub fn facts() -> Vec<Fact> {
    let all = about_members("waiting").into_iter().chain(about_the_rollout());
    all.map(|(fact, _)| fact).collect()
}

#[test]
fn every_kind_has_its_number_and_its_column() {
    let mut kinds: Vec<u16> = facts().iter().map(tidegate_model::LogRecord::kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds, (1..=Fact::HIGHEST_KIND).collect::<Vec<_>>());
}

/// Recovery may find any of them: what follows fits, and ends.
#[test]
fn what_follows_in_any_state_fits_it() {
    for (name, mut state) in representatives() {
        for _ in 0..40 {
            pending(&state, at(100_000));
            let facts = follow(&state, at(100_000));
            if facts.is_empty() {
                break;
            }
            for fact in facts {
                state = evolve(state, &fact).unwrap_or_else(|illegal| panic!("{name}: {illegal}"));
            }
        }
        assert_eq!(follow(&state, at(100_000)), [], "{name} goes round in circles");
    }
}
