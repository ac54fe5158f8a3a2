//! Milestones of a teardown, for notifications.

use super::order::Order;
use super::state::{End, Stage, State, Teardown};
use crate::fleet::{Milestone, MilestoneReason, count, format_application_count};

/// Returns all milestones of the teardown so far, except those that later events have superseded.
pub fn milestones(state: &State) -> Vec<Milestone> {
    let Some(teardown) = state.teardown() else { return Vec::new() };
    let mut all = vec![Milestone {
        key: "started".to_owned(),
        reason: MilestoneReason::DeletionStarted,
        message: format!(
            "{} are {}",
            format_application_count(count(teardown.members.iter())),
            if teardown.order == Order::Orphaned { "released" } else { "deleted" }
        ),
        at: Some(teardown.started_at),
    }];
    if let (Stage::Deleting { step }, false) = (teardown.stage, teardown.order.is_witnessed()) {
        all.extend(step_milestones(teardown, step));
    }
    all.extend(teardown.paused.as_ref().map(|attribution| Milestone {
        key: format!("paused-{}", attribution.at.as_millis()),
        reason: MilestoneReason::DeletionPaused,
        message: format!("paused by {}", attribution.display()),
        at: Some(attribution.at),
    }));
    all.extend(teardown.outcome.as_ref().map(|outcome| {
        let (reason, message) = match outcome.end {
            End::Completed => (MilestoneReason::DeletionCompleted, outcome.message.clone()),
            end => (MilestoneReason::DeletionEnded, format!("{end:?}: {}", outcome.message)),
        };
        Milestone { key: "ended".to_owned(), reason, message, at: Some(outcome.at) }
    }));
    all
}

fn step_milestones(teardown: &Teardown, step: u32) -> Vec<Milestone> {
    let key = |what: &str| format!("step-{}-{what}", step.saturating_add(1));
    let members = format_application_count(count(teardown.members_in_step(step)));
    let started = Milestone {
        key: key("deleted"),
        reason: MilestoneReason::DeletionStepStarted,
        message: format!("{}: {members}", teardown.order.step_name(step)),
        at: teardown.step(step).and_then(|state| state.opened_at),
    };
    let late = teardown.step(step).and_then(|state| state.late.clone()).map(|message| Milestone {
        key: key("late"),
        reason: MilestoneReason::DeadlinePassed,
        message,
        at: teardown.outcome.as_ref().map(|outcome| outcome.at),
    });
    [started].into_iter().chain(late).collect()
}
