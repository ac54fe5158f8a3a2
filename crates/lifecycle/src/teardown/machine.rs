//! The teardown as a machine among others.

use tidegate_model::{StreamKind, Timestamp};

use super::command::{Command, Subject};
use super::decide::Rejection;
use super::fact::Fact;
use super::input::Input;
use super::state::State;
use crate::driver::{LAZY_WAIT, TOLD_WAIT};
use crate::machine::{Illegal, Machine, Owed, Urgency};

/// One ordered deletion: from its begin to its end.
#[derive(Clone, Copy, Debug)]
pub enum OrderedDeletion {}

/// Of what only the newest news counts: the member with this name and UID.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seen(pub String, pub String);

impl Machine for OrderedDeletion {
    const KIND: StreamKind = StreamKind::TEARDOWN;

    type State = State;
    type Fact = Fact;
    type Input = Input;
    type Command = Command;
    type Subject = Subject;
    type Sight = Seen;
    type Rejection = Rejection;

    fn decide(state: &State, input: &Input, now: Timestamp) -> Result<Vec<Fact>, Rejection> {
        super::decide(state, input, now)
    }

    fn follow(state: &State, now: Timestamp) -> Vec<Fact> {
        super::follow(state, now)
    }

    fn evolve(state: State, fact: &Fact) -> Result<State, Illegal> {
        super::evolve(state, fact)
    }

    fn pending(state: &State, now: Timestamp) -> Owed<Command> {
        super::pending(state, now)
    }

    fn subject(command: &Command) -> Subject {
        command.subject()
    }

    fn is_standing(command: &Command) -> bool {
        command.is_standing()
    }

    fn sight(input: &Input) -> Option<Seen> {
        match input {
            Input::Sighted { member, uid, .. } => Some(Seen(member.clone(), uid.clone())),
            _ => None,
        }
    }

    fn urgency(state: &State, fact: &Fact) -> Urgency {
        let is_witnessed = state.teardown().is_some_and(|teardown| teardown.order.is_witnessed());
        match fact {
            // Nothing rests on it, and it is seen again.
            Fact::Gone { .. } | Fact::Released { .. } if is_witnessed => Urgency::Within(TOLD_WAIT),
            // Found again by the same call, or told again by whoever watches.
            Fact::Going { .. } | Fact::SeenGone { .. } | Fact::StillThere { .. } => {
                Urgency::Within(LAZY_WAIT)
            }
            Fact::KeptBy { .. } | Fact::CallFailed { .. } => Urgency::Within(TOLD_WAIT),
            _ => Urgency::Now,
        }
    }

    fn is_over(state: &State) -> bool {
        state.is_finished()
    }

    fn weight(state: &State) -> u64 {
        let members = state.teardown().map_or(0, |teardown| teardown.members.len());
        u64::try_from(members).unwrap_or(u64::MAX)
    }

    fn abort(reason: String) -> Input {
        Input::Abort { reason }
    }

    fn is_late(rejection: &Rejection) -> bool {
        matches!(rejection, Rejection::Stale { .. })
    }
}
