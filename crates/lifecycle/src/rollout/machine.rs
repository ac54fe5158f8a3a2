//! The rollout as a machine among others.

use tidegate_model::{StreamKind, Timestamp};

use super::command::{Command, Subject};
use super::decide::Rejection;
use super::fact::Fact;
use super::input::Input;
use super::state::{Stage, State};
use crate::driver::{LAZY_WAIT, TOLD_WAIT};
use crate::machine::{Illegal, Machine, Owed, Urgency};
use crate::operation::Verdict;

/// One progressive sync: from its begin to its end.
#[derive(Clone, Copy, Debug)]
pub enum Progressive {}

/// Of what only the newest news counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Seen {
    /// What a member is like.
    Member(String),
    /// What a gate says.
    Gate(String),
}

impl Machine for Progressive {
    const KIND: StreamKind = StreamKind::ROLLOUT;

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

    fn renews(state: &State, fact: &Fact) -> Vec<Subject> {
        let Some(rollout) = state.rollout() else { return Vec::new() };
        match (fact, &rollout.stage) {
            // Nothing more is told of a call that has failed.
            (Fact::CallFailed { member, .. }, _) => vec![Subject::Operation(member.clone())],
            // The same step may be held again before anybody has acted: its gates are asked anew.
            (Fact::Moved { .. }, Stage::Held { step }) => {
                rollout.asked_gates(*step).map(|gate| Subject::Gate(gate.clone())).collect()
            }
            _ => Vec::new(),
        }
    }

    fn subject(command: &Command) -> Subject {
        command.subject()
    }

    fn is_standing(command: &Command) -> bool {
        command.is_standing()
    }

    fn sight(input: &Input) -> Option<Seen> {
        match input {
            Input::Sighted { member, .. } => Some(Seen::Member(member.clone())),
            Input::Gate { gate, .. } => Some(Seen::Gate(gate.clone())),
            _ => None,
        }
    }

    fn urgency(_: &State, fact: &Fact) -> Urgency {
        match fact {
            // Each follows once more from what is recorded, or is told once more by whoever keeps watching.
            Fact::Promoted { .. } => Urgency::Within(LAZY_WAIT),
            Fact::WindowSeen { .. }
            | Fact::Started { .. }
            | Fact::CallFailed { .. }
            | Fact::Seen { .. }
            | Fact::GateAnswered { verdict: Verdict::Closed { .. }, .. } => Urgency::Within(TOLD_WAIT),
            _ => Urgency::Now,
        }
    }

    fn is_over(state: &State) -> bool {
        state.is_finished()
    }

    fn weight(state: &State) -> u64 {
        let members = state.rollout().map_or(0, |rollout| rollout.members.len());
        u64::try_from(members).unwrap_or(u64::MAX)
    }

    fn abort(reason: String) -> Input {
        Input::Abort { reason }
    }

    fn is_late(rejection: &Rejection) -> bool {
        matches!(rejection, Rejection::Stale { .. })
    }
}
