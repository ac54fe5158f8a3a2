//! Outstanding commands of a teardown. They depend only on the state and the time, so a restarted engine
//! computes the same commands.

use tidegate_model::Timestamp;

use super::command::Command;
use super::state::{Progress, State};
use crate::machine::Outstanding;

/// Returns the commands that must be executed now. A pause prevents new deletions, but running deletions are
/// still observed.
pub fn outstanding(state: &State, now: Timestamp) -> Outstanding<Command> {
    let mut outstanding = Outstanding::default();
    let State::Running(teardown) = state else { return outstanding };
    for (name, member) in &teardown.members {
        let (name, uid) = (|| name.clone(), || member.uid.clone());
        let call = match member.progress {
            Progress::Condemned if teardown.paused.is_none() => {
                Command::Delete { member: name(), uid: uid() }
            }
            Progress::Confirming { .. } => Command::Read { member: name(), uid: uid() },
            _ if teardown.is_watched(member) => {
                outstanding.commands.push(Command::WatchMember { member: name(), uid: uid() });
                continue;
            }
            _ => continue,
        };
        member.calls.schedule_call(call, &mut outstanding, now);
    }
    if let Some(at) = teardown.deadline_at().filter(|_| teardown.paused.is_none()) {
        outstanding.request_wake(at, now);
    }
    outstanding
}
