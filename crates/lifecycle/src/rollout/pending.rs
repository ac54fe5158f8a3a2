//! What the world still owes a rollout: a function of state and time alone, so recovery needs no path of its own.

use tidegate_model::Timestamp;

use super::command::Command;
use super::state::{Member, Progress, Rollout, Stage, State, StepState};
use crate::machine::Owed;

/// The commands to carry out now.
pub fn pending(state: &State, now: Timestamp) -> Owed<Command> {
    let State::Running(rollout) = state else { return Owed::default() };
    let mut collected = Collected { owed: Owed::default(), now };
    for (name, member) in &rollout.members {
        collected.member(rollout, name, member);
    }
    if rollout.paused.is_none() {
        collected.stage(rollout);
    }
    collected.owed
}

struct Collected {
    owed: Owed<Command>,
    now: Timestamp,
}

impl Collected {
    fn wake(&mut self, at: Timestamp) {
        if at > self.now {
            self.owed.wake_at = self.owed.wake_at.into_iter().chain([at]).min();
        }
    }

    /// A call about a member, unless it has failed a moment ago.
    fn call(&mut self, member: &Member, command: Command) {
        match member.calls.may_call(self.now) {
            Ok(()) => self.owed.commands.push(command),
            Err(at) => self.wake(at),
        }
    }

    /// While a person holds the rollout nothing begins; what is at work is still listened to.
    fn member(&mut self, rollout: &Rollout, name: &str, member: &Member) {
        let name = || name.to_owned();
        match member.progress {
            Progress::Promoted if rollout.paused.is_none() => {
                self.call(member, Command::Choose { member: name() });
            }
            Progress::Named { operation, .. } | Progress::Running { operation } => {
                self.call(member, Command::Run { member: name(), operation, work: member.work });
            }
            Progress::Stopping { operation, .. } => {
                self.call(member, Command::Stop { member: name(), operation });
            }
            _ => {}
        }
        if rollout.is_watched(member, self.now) {
            self.owed.commands.push(Command::Watch { member: name() });
        }
        let timeout = rollout.options.pending_timeout.filter(|_| rollout.paused.is_none());
        if let Some(timeout) = timeout.filter(|_| member.is_pending() && !member.overdue) {
            self.wake(member.pending_from + timeout);
        }
    }

    fn stage(&mut self, rollout: &Rollout) {
        match rollout.stage {
            Stage::Held { step } => {
                for gate in rollout.asked_gates(step) {
                    self.owed.commands.push(Command::AskGate { step, gate: gate.clone() });
                }
                if let Some((_, until)) = rollout.soak(step) {
                    self.wake(until);
                }
            }
            Stage::Rolling { step } => {
                if let Some(at) = rollout.step(step).and_then(StepState::too_late_at) {
                    self.wake(at);
                }
            }
            Stage::Begun | Stage::RollingBack { .. } | Stage::Ending { .. } => {}
        }
    }
}
