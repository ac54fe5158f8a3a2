//! What the world still owes a teardown: a function of state and time alone, so recovery needs no path of its own.

use tidegate_model::Timestamp;

use super::command::Command;
use super::state::{Progress, State};
use crate::machine::Owed;

/// The commands to carry out now. While a person holds the teardown nothing is deleted; what goes is still looked at.
pub fn pending(state: &State, now: Timestamp) -> Owed<Command> {
    let mut owed = Owed::default();
    let State::Running(teardown) = state else { return owed };
    for (name, member) in &teardown.members {
        let (name, uid) = (|| name.clone(), || member.uid.clone());
        let call = match member.progress {
            Progress::Condemned if teardown.paused.is_none() => {
                Command::Delete { member: name(), uid: uid() }
            }
            Progress::Confirming { .. } => Command::Look { member: name(), uid: uid() },
            _ if teardown.is_watched(member) => {
                owed.commands.push(Command::Watch { member: name(), uid: uid() });
                continue;
            }
            _ => continue,
        };
        member.calls.owe(call, &mut owed, now);
    }
    if let Some(at) = teardown.too_late_at().filter(|_| teardown.paused.is_none()) {
        owed.wake(at, now);
    }
    owed
}
