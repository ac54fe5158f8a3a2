//! What the world still owes a rollout: a function of state and time alone, so recovery needs no path of its own.

use tidegate_model::Timestamp;

use super::command::Command;
use super::state::{Member, Progress, Rollout, Stage, State, StepState};
use crate::machine::Owed;

/// The commands to carry out now.
pub fn pending(state: &State, now: Timestamp) -> Owed<Command> {
    let mut owed = Owed::default();
    let State::Running(rollout) = state else { return owed };
    for (name, member) in &rollout.members {
        of_member(rollout, name, member, &mut owed, now);
    }
    if rollout.paused.is_none() {
        of_stage(rollout, &mut owed, now);
    }
    owed
}

/// While a person holds the rollout nothing begins; what is at work is still listened to.
fn of_member(rollout: &Rollout, name: &str, member: &Member, owed: &mut Owed<Command>, now: Timestamp) {
    let name = || name.to_owned();
    let call = match member.progress {
        Progress::Promoted if rollout.paused.is_none() => Some(Command::Choose { member: name() }),
        Progress::Named { operation, .. } | Progress::Running { operation } => {
            Some(Command::Run { member: name(), operation, work: member.work })
        }
        Progress::Stopping { operation, .. } => Some(Command::Stop { member: name(), operation }),
        _ => None,
    };
    if let Some(call) = call {
        member.calls.owe(call, owed, now);
    }
    if rollout.is_watched(member, now) {
        owed.commands.push(Command::Watch { member: name() });
    }
    let timeout = rollout.options.pending_timeout.filter(|_| rollout.paused.is_none());
    if let Some(timeout) = timeout.filter(|_| member.is_pending() && !member.overdue) {
        owed.wake(member.pending_from + timeout, now);
    }
}

fn of_stage(rollout: &Rollout, owed: &mut Owed<Command>, now: Timestamp) {
    match rollout.stage {
        Stage::Held { step } => {
            let ask = |gate: &String| Command::AskGate { step, gate: gate.clone() };
            owed.commands.extend(rollout.asked_gates(step).map(ask));
            if let Some((_, until)) = rollout.soak(step) {
                owed.wake(until, now);
            }
        }
        Stage::Rolling { step } => {
            if let Some(at) = rollout.step(step).and_then(StepState::too_late_at) {
                owed.wake(at, now);
            }
        }
        Stage::Begun | Stage::RollingBack { .. } | Stage::Ending { .. } => {}
    }
}
