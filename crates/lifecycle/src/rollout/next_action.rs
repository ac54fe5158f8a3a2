//! Next action for each state of a rollout.

use tidegate_model::Timestamp;

use super::state::{End, Member, Progress, Rollout, Stage, State};
use crate::NextAction;
use crate::fleet::{describe_skip, qualify_name};
use crate::operation::Verdict;

#[cfg(test)]
mod tests;

/// Event that a rollout is waiting for, or the rollout's result. Each variant maps to a next action.
#[derive(Clone, Debug, PartialEq)]
enum Wait<'a> {
    /// The rollout is starting.
    Start,
    /// A user must resume the rollout.
    Resume,
    /// A user must resume the rollout after the failure of this step.
    Failure(u32),
    /// A step needs an approval.
    Approval,
    /// A step is soaking until this time.
    Soak(Timestamp),
    /// A gate is closed.
    Gate(&'a str, &'a str),
    /// Gates haven't returned a verdict yet.
    Gates,
    /// An Application failed.
    FailedMember(&'a str),
    /// A user must sync an Application (`maxUpdate: 0`).
    ManualSync(&'a str),
    /// A sync is waiting for a sync window or an approval.
    Delayed(&'a str),
    /// An Application has been synced, but isn't Synced and Healthy yet.
    Health(&'a str),
    /// An operation is running.
    Operation(&'a str),
    /// A sync is being created or started.
    Sync(&'a str),
    /// An operation is being stopped.
    Stop(&'a str),
    /// An Application is being retried.
    Retry(&'a str),
    /// The next step is about to start.
    NextStep,
    /// The running operations are ending.
    End,
    /// The rollout completed.
    Completed,
    /// New targets replaced the rollout.
    Superseded,
    /// The rollout ended before all Applications had reached their targets.
    Unfinished,
}

pub(super) fn next_action(state: &State, now: Timestamp) -> NextAction {
    let set = state.rollout().map(|rollout| rollout.set.as_str()).unwrap_or_default();
    find_wait(state, now).action(set)
}

impl Wait<'_> {
    fn action(&self, set: &str) -> NextAction {
        let full = |name: &str| qualify_name(set, name);
        let explain =
            |name: &str| format!("`tidegate app explain {}` shows the Application's state", full(name));
        let resume = format!("tidegate appset resume {set}");
        let skip = |name: &str| describe_skip(set, name);
        match self {
            Self::Start => NextAction::wait("the first step is evaluated"),
            Self::Resume => NextAction::run(resume, "continues the rollout"),
            Self::Failure(step) => {
                NextAction::run(resume, "continues the rollout without the failed Applications").or(&format!(
                    "before that, `tidegate appset retry {set} --step {step}` retries the failed Applications"
                ))
            }
            Self::Approval => NextAction::run(format!("tidegate appset approve {set}"), "opens the step"),
            Self::Soak(until) => NextAction::wait(&format!("the soak time ends at {until}")),
            Self::Gate(gate, reason) => NextAction::wait(&format!("the gate {gate} opens ({reason})")),
            Self::Gates => NextAction::wait("the gates report their results"),
            Self::FailedMember(name) => NextAction::run(
                format!("tidegate appset retry {set} --app {name}"),
                "retries the Application once the cause is fixed",
            )
            .or(&skip(name)),
            Self::ManualSync(name) => {
                NextAction::run(format!("tidegate app sync {}", full(name)), "syncs the Application")
                    .or(&skip(name))
            }
            Self::Delayed(name) => {
                NextAction::wait(&format!("the sync of Application {name} may start")).or(&explain(name))
            }
            Self::Health(name) => NextAction::run(
                format!("tidegate app get {}", full(name)),
                "shows which of its objects are not healthy",
            )
            .or(&skip(name)),
            Self::Operation(name) => {
                NextAction::wait(&format!("the operation for Application {name} ends")).or(&explain(name))
            }
            Self::Sync(name) => {
                NextAction::wait(&format!("the sync of Application {name} starts")).or(&explain(name))
            }
            Self::Stop(name) => NextAction::wait(&format!("the operation for Application {name} is stopped"))
                .or(&explain(name)),
            Self::Retry(name) => NextAction::wait(&format!("Application {name} is retried")),
            Self::NextStep => NextAction::wait("the next step starts"),
            Self::End => NextAction::nothing("the rollout ends when its running operations end"),
            Self::Completed => NextAction::nothing("the next rollout starts when the targets change"),
            Self::Superseded => NextAction::nothing("the rollout to the new targets takes over the work"),
            Self::Unfinished => NextAction::run(
                format!("tidegate appset retry {set}"),
                "restarts the rollout once the cause is fixed",
            ),
        }
    }
}

fn find_wait(state: &State, now: Timestamp) -> Wait<'_> {
    match state {
        State::New => Wait::Start,
        State::Running(rollout) => running_wait(rollout, now),
        State::Finished(rollout) => match rollout.outcome.as_ref().map(|outcome| outcome.end) {
            Some(End::Completed) | None => Wait::Completed,
            Some(End::Superseded) => Wait::Superseded,
            Some(End::Failed | End::RolledBack | End::Terminated | End::Error) => Wait::Unfinished,
        },
    }
}

fn running_wait(rollout: &Rollout, now: Timestamp) -> Wait<'_> {
    if rollout.paused.is_some() {
        let step = rollout.current_step();
        let failed = step.filter(|step| rollout.step(*step).is_some_and(|step| step.failed.is_some()));
        return failed.map_or(Wait::Resume, |step| Wait::Failure(step.saturating_add(1)));
    }
    match &rollout.stage {
        Stage::Begun => Wait::Start,
        Stage::Held { step } => held_wait(rollout, *step, now),
        Stage::Rolling { step } | Stage::RollingBack { step } => rolling_wait(rollout, *step, now),
        Stage::Ending { .. } => Wait::End,
    }
}

fn held_wait(rollout: &Rollout, step: u32, now: Timestamp) -> Wait<'_> {
    if rollout.needs_approval(step) {
        return Wait::Approval;
    }
    let asked: Vec<&str> = rollout.external_gates(step).map(String::as_str).collect();
    let closed = rollout.gates.iter().find_map(|answer| match &answer.verdict {
        Verdict::Closed { reason, .. } if asked.contains(&answer.gate.as_str()) => {
            Some(Wait::Gate(&answer.gate, reason))
        }
        Verdict::Closed { .. } | Verdict::Open => None,
    });
    let soak =
        rollout.soak_period(step).filter(|(_, until)| now < *until).map(|(_, until)| Wait::Soak(until));
    closed.or(soak).unwrap_or(Wait::Gates)
}

/// Returns the most important wait of a step: those that need a user's action come first, then the longest.
fn rolling_wait(rollout: &Rollout, step: u32, now: Timestamp) -> Wait<'_> {
    let unsettled = rollout.members_in_step(step).filter(|(_, member)| !rollout.is_settled(member));
    let waits = unsettled.filter_map(|(name, member)| {
        let wait = member_wait(rollout, name, member, now)?;
        Some((rank(&wait), member.since, wait))
    });
    let first = waits.min_by_key(|(rank, since, _)| (*rank, *since));
    first.map_or(Wait::NextStep, |(_, _, wait)| wait)
}

/// Returns the priority of an Application's wait. The wait with the lowest number is reported.
fn rank(wait: &Wait<'_>) -> u8 {
    match wait {
        Wait::FailedMember(_) => 0,
        Wait::ManualSync(_) => 1,
        Wait::Health(_) => 2,
        Wait::Delayed(_) => 3,
        _ => 4,
    }
}

fn member_wait<'a>(rollout: &Rollout, name: &'a str, member: &Member, now: Timestamp) -> Option<Wait<'a>> {
    match &member.progress {
        Progress::Waiting if rollout.is_watched(member, now) => Some(Wait::ManualSync(name)),
        Progress::Waiting if member.is_awaiting_retry() => Some(Wait::Retry(name)),
        Progress::Named { window: Some(_), .. } => Some(Wait::Delayed(name)),
        Progress::Promoted | Progress::Named { window: None, .. } => Some(Wait::Sync(name)),
        Progress::Running { .. } => Some(Wait::Operation(name)),
        Progress::Settling { .. } => Some(Wait::Health(name)),
        Progress::Stopping { .. } => Some(Wait::Stop(name)),
        Progress::Failed { .. } => Some(Wait::FailedMember(name)),
        // These Applications are done, or only wait for other Applications.
        Progress::Waiting
        | Progress::Healthy { .. }
        | Progress::RolledBack { .. }
        | Progress::Assumed
        | Progress::Skipped(_)
        | Progress::Gone
        | Progress::Late => None,
    }
}
