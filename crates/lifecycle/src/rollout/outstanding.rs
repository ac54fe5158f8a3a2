//! Outstanding commands of a rollout. They depend only on the state and the time, so a restarted engine
//! computes the same commands.

use tidegate_model::Timestamp;

use super::command::Command;
use super::state::{Member, Progress, Rollout, Stage, State, StepState};
use crate::machine::Outstanding;

/// Returns the commands that must be executed now.
pub fn outstanding(state: &State, now: Timestamp) -> Outstanding<Command> {
    let mut outstanding = Outstanding::default();
    let State::Running(rollout) = state else { return outstanding };
    for (name, member) in &rollout.members {
        add_member_commands(rollout, name, member, &mut outstanding, now);
    }
    if rollout.paused.is_none() {
        add_stage_commands(rollout, &mut outstanding, now);
    }
    outstanding
}

/// Adds the commands for an Application. A pause prevents new work, but running operations are still
/// observed.
fn add_member_commands(
    rollout: &Rollout,
    name: &str,
    member: &Member,
    outstanding: &mut Outstanding<Command>,
    now: Timestamp,
) {
    let name = || name.to_owned();
    let call = match member.progress {
        Progress::Promoted if rollout.paused.is_none() => Some(Command::ChooseId { member: name() }),
        Progress::Named { operation, .. } | Progress::Running { operation } => {
            Some(Command::Run { member: name(), operation, work: member.work })
        }
        Progress::Stopping { operation, .. } => Some(Command::Stop { member: name(), operation }),
        _ => None,
    };
    if let Some(call) = call {
        member.calls.schedule_call(call, outstanding, now);
    }
    if rollout.is_watched(member, now) {
        outstanding.commands.push(Command::WatchMember { member: name() });
    }
    let timeout = rollout.options.pending_timeout.filter(|_| rollout.paused.is_none());
    if let Some(timeout) = timeout.filter(|_| member.is_pending() && !member.overdue) {
        outstanding.request_wake(member.pending_from + timeout, now);
    }
}

fn add_stage_commands(rollout: &Rollout, outstanding: &mut Outstanding<Command>, now: Timestamp) {
    match rollout.stage {
        Stage::Held { step } => {
            let ask = |gate: &String| Command::AskGate { step, gate: gate.clone() };
            outstanding.commands.extend(rollout.external_gates(step).map(ask));
            if let Some((_, until)) = rollout.soak_period(step) {
                outstanding.request_wake(until, now);
            }
        }
        Stage::Rolling { step } => {
            if let Some(at) = rollout.step(step).and_then(StepState::deadline_at) {
                outstanding.request_wake(at, now);
            }
        }
        Stage::Begun | Stage::RollingBack { .. } | Stage::Ending { .. } => {}
    }
}
