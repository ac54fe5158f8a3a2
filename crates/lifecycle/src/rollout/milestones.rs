//! Milestones of a rollout, for notifications.

use std::collections::BTreeMap;

use super::messages;
use super::state::{Cause, End, Outcome, Rollout, Stage, State, StepState};
use crate::fleet::{Attribution, Milestone, MilestoneReason, format_application_count, step_name};

/// Returns all milestones of the rollout so far, except those that later events have superseded.
pub fn milestones(state: &State) -> Vec<Milestone> {
    let Some(rollout) = state.rollout() else { return Vec::new() };
    // Count the Applications in a single pass: this is called after every change, possibly with thousands of
    // Applications and many steps.
    let mut members = BTreeMap::<u32, u32>::new();
    for step in
        rollout.members.values().filter_map(|member| member.place.step.filter(|_| member.is_selected()))
    {
        let count = members.entry(step).or_default();
        *count = count.saturating_add(1);
    }
    let mut all = vec![started_milestone(rollout, members.values().sum())];
    for (step, state) in (0..).zip(&rollout.steps) {
        all.extend(step_milestones(rollout, step, state, members.get(&step).copied().unwrap_or_default()));
    }
    all.extend(rollout.paused.as_ref().map(paused_milestone));
    all.extend(rollout.outcome.as_ref().map(finished_milestone));
    all
}

fn started_milestone(rollout: &Rollout, selected: u32) -> Milestone {
    let selected = format_application_count(selected);
    let steps = match rollout.steps.len() {
        1 => "1 step".to_owned(),
        steps => format!("{steps} steps"),
    };
    Milestone {
        key: "started".to_owned(),
        reason: MilestoneReason::RolloutStarted,
        message: format!("{selected} in {steps}"),
        at: Some(rollout.started_at),
    }
}

fn step_milestones(rollout: &Rollout, step: u32, state: &StepState, members: u32) -> Vec<Milestone> {
    let number = step.saturating_add(1);
    let milestone = |what: &str, reason, message, at| Milestone {
        key: format!("step-{number}-{what}"),
        reason,
        message,
        at,
    };
    let name = step_name(step, rollout.steps.len());
    let mut all = Vec::new();
    if rollout.stage == (Stage::Held { step }) && rollout.outcome.is_none() {
        let message = format!("{name} is waiting for {}", state.step.gates.join(", "));
        all.push(milestone("held", MilestoneReason::StepHeld, message, Some(rollout.since)));
    }
    if let Some(at) = state.opened_at {
        let members = format_application_count(members);
        let message = format!("{name} ({}): {members}", state.step.describe_selector());
        all.push(milestone("opened", MilestoneReason::StepOpened, message, Some(at)));
    }
    if let Some(failure) = &state.failed {
        let reason = match failure.cause {
            Cause::Deadline => MilestoneReason::DeadlinePassed,
            Cause::Failures(_) => MilestoneReason::StepFailed,
        };
        let what = format!("failed-{}", state.forgiven);
        // Failures are recorded without their time. Once the rollout has finished, use its end time, so that
        // consumers can detect an old milestone.
        let at = rollout.outcome.as_ref().map(|outcome| outcome.at);
        all.push(milestone(&what, reason, failure.message.clone(), at));
    }
    if let Some(at) = state.passed_at {
        let message = format!("{name} ({}) is done", state.step.describe_selector());
        all.push(milestone("passed", MilestoneReason::StepPassed, message, Some(at)));
    }
    all
}

fn paused_milestone(attribution: &Attribution) -> Milestone {
    Milestone {
        key: format!("paused-{}", attribution.at.as_millis()),
        reason: MilestoneReason::RolloutPaused,
        message: format!("paused by {}", attribution.display()),
        at: Some(attribution.at),
    }
}

fn finished_milestone(outcome: &Outcome) -> Milestone {
    let (reason, message) = match outcome.end {
        End::Completed => (MilestoneReason::RolloutCompleted, outcome.message.clone()),
        End::Superseded => (MilestoneReason::RolloutCompleted, messages::SUPERSEDED_MESSAGE.to_owned()),
        end => (MilestoneReason::RolloutEnded, format!("{end:?}: {}", outcome.message)),
    };
    Milestone { key: "ended".to_owned(), reason, message, at: Some(outcome.at) }
}
