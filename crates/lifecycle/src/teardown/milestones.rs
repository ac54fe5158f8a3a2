//! What a teardown has come to, for whoever is told of it.

use super::order::Order;
use super::state::{End, Stage, State, Teardown};
use crate::fleet::{Milestone, MilestoneReason, applications, count};

/// What has happened so far, as far as it still matters.
pub fn milestones(state: &State) -> Vec<Milestone> {
    let Some(teardown) = state.teardown() else { return Vec::new() };
    let mut all = vec![Milestone {
        key: "started".to_owned(),
        reason: MilestoneReason::DeletionStarted,
        message: format!(
            "{} are {}",
            applications(count(teardown.members.iter())),
            if teardown.order == Order::Orphaned { "let go" } else { "deleted" }
        ),
        at: Some(teardown.started_at),
    }];
    if let (Stage::Deleting { step }, false) = (teardown.stage, teardown.order.is_witnessed()) {
        all.extend(of_step(teardown, step));
    }
    all.extend(teardown.paused.as_ref().map(|said| Milestone {
        key: format!("paused-{}", said.at.as_millis()),
        reason: MilestoneReason::DeletionPaused,
        message: format!("paused by {}", said.words()),
        at: Some(said.at),
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

fn of_step(teardown: &Teardown, step: u32) -> Vec<Milestone> {
    let key = |what: &str| format!("step-{}-{what}", step.saturating_add(1));
    let members = applications(count(teardown.members_of(step)));
    let begun = Milestone {
        key: key("deleted"),
        reason: MilestoneReason::DeletionStepStarted,
        message: format!("{}: {members}", teardown.order.name(step)),
        at: teardown.step(step).and_then(|state| state.opened_at),
    };
    let late = teardown.step(step).and_then(|state| state.late.clone()).map(|message| Milestone {
        key: key("late"),
        reason: MilestoneReason::DeadlinePassed,
        message,
        at: teardown.outcome.as_ref().map(|outcome| outcome.at),
    });
    [begun].into_iter().chain(late).collect()
}
