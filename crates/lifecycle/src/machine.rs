//! Trait for durable state machines. A machine's state is a fold over its recorded events, and all of its
//! functions are pure.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use tidegate_model::{StreamKind, Timestamp};

/// A durable state machine. The code that drives machines depends only on this trait.
///
/// All functions are pure: time and identity are arguments, and the same arguments always produce the same
/// result.
pub trait Machine: 'static {
    /// Kind of the machine's streams in the log.
    const KIND: StreamKind;

    /// State of one machine. The default is the state before the first event.
    type State: Clone + Default + PartialEq + fmt::Debug + Send + 'static;
    /// Recorded event, named in the past tense. Event types are append-only, because old logs must stay
    /// readable.
    type Event: Clone + PartialEq + fmt::Debug + Send + 'static;
    /// Input from outside the machine.
    type Input: Send + 'static;
    /// Outstanding command.
    type Command: Clone + Ord + fmt::Debug + Send + 'static;
    /// Subject of a command. Commands for the same subject run one at a time, even if the state
    /// has since dropped the command in flight.
    type Subject: Clone + Ord + fmt::Debug + Send + 'static;
    /// Key of an observed object. Only the newest observation per key counts.
    type ObservationKey: Ord + fmt::Debug + Send + 'static;
    /// Reason for rejecting an input.
    type Rejection: std::error::Error + Send + Sync + 'static;

    /// Returns the events that an input causes.
    fn decide(
        state: &Self::State,
        input: &Self::Input,
        now: Timestamp,
    ) -> Result<Vec<Self::Event>, Self::Rejection>;

    /// Returns the events that follow from the state and the time alone. The driver calls this until it
    /// returns nothing.
    fn advance(state: &Self::State, now: Timestamp) -> Vec<Self::Event>;

    /// Applies an event to a state. Returns an error if the event is illegal in this state.
    fn apply(state: Self::State, event: &Self::Event) -> Result<Self::State, IllegalEvent>;

    /// Returns the outstanding commands, and the time at which they change without further input. After a
    /// restart, these alone determine what to execute.
    fn outstanding(state: &Self::State, now: Timestamp) -> Outstanding<Self::Command>;

    /// Returns the time of the next automatic transition that follows from individual subjects. At this time, the
    /// runner calls [`Machine::advance`], but doesn't visit all subjects. [`Outstanding::wake_at`] doesn't include
    /// it. Must be fast, because the runner calls it after every step.
    fn next_transition(_state: &Self::State) -> Option<Timestamp> {
        None
    }

    /// Returns the outstanding commands for one subject. A machine that overrides
    /// [`Machine::affected_subjects`] or [`Machine::unblocked_subjects`] should also override this function,
    /// and visit only that subject.
    fn outstanding_for(state: &Self::State, subject: &Self::Subject, now: Timestamp) -> Vec<Self::Command> {
        let mut commands = Self::outstanding(state, now).commands;
        commands.retain(|command| Self::subject(command) == *subject);
        commands
    }

    /// Returns the subjects whose outstanding commands this event can change. `_state` is the state before
    /// the event. Defaults to all subjects. Machines with many subjects should override it, so that the
    /// runner visits only the affected ones.
    fn affected_subjects(_state: &Self::State, _event: &Self::Event) -> AffectedSubjects<Self::Subject> {
        AffectedSubjects::All
    }

    /// Returns the other subjects whose commands may become outstanding when a command for `_subject`
    /// completes. `_state` is the state before the command's result is handled.
    fn unblocked_subjects(_state: &Self::State, _subject: &Self::Subject) -> AffectedSubjects<Self::Subject> {
        AffectedSubjects::All
    }

    /// Returns the subjects whose subscriptions must restart after this event, even if the next outstanding
    /// command equals the previous one. `_state` is the state before the event.
    fn restarted_subjects(_state: &Self::State, _event: &Self::Event) -> Vec<Self::Subject> {
        Vec::new()
    }

    /// Returns the subject of a command. The command waits for the results of earlier commands for the same
    /// subject.
    fn subject(command: &Self::Command) -> Self::Subject;

    /// Returns true for a subscription, such as a watch, which runs while it is outstanding. All other
    /// commands run once and produce a result.
    fn is_subscription(_command: &Self::Command) -> bool {
        false
    }

    /// Returns the key of the observed object, or `None` for an input that a newer one must not replace.
    fn observation_key(_input: &Self::Input) -> Option<Self::ObservationKey> {
        None
    }

    /// Returns true if an observation is older than `_than`, an observation of the same object that arrived
    /// earlier. Observations can arrive out of order.
    fn is_older(_observation: &Self::Input, _than: &Self::Input) -> bool {
        false
    }

    /// Returns the urgency of an event that is about to be applied to the state: how long it may stay
    /// unwritten, and whether commands wait for it.
    fn urgency(_state: &Self::State, _event: &Self::Event) -> Urgency {
        Urgency::Now
    }

    /// Returns true if the machine has finished: no more events follow, and no commands are outstanding.
    fn is_over(state: &Self::State) -> bool;

    /// Returns the approximate size of a snapshot, expressed as a number of events.
    fn snapshot_weight(_state: &Self::State) -> u64 {
        0
    }

    /// Returns the input that the engine sends when it gives up on the machine.
    fn abort_input(reason: String) -> Self::Input;

    /// Returns true if a rejected input was merely a late or duplicate result, which is safe to ignore.
    fn is_late(rejection: &Self::Rejection) -> bool;
}

/// Implements the part of [`Machine`] that all machines share. The calling module must define the machine's
/// types and functions under their usual names.
macro_rules! implement_machine_core {
    () => {
        type State = State;
        type Event = Event;
        type Input = Input;
        type Command = Command;
        type Subject = Subject;
        type ObservationKey = ObservationKey;
        type Rejection = Rejection;

        fn decide(state: &State, input: &Input, now: Timestamp) -> Result<Vec<Event>, Rejection> {
            super::decide(state, input, now)
        }

        fn advance(state: &State, now: Timestamp) -> Vec<Event> {
            super::advance(state, now)
        }

        fn apply(state: State, event: &Event) -> Result<State, IllegalEvent> {
            super::apply(state, event)
        }

        fn outstanding(state: &State, now: Timestamp) -> Outstanding<Command> {
            super::outstanding(state, now)
        }

        fn subject(command: &Command) -> Subject {
            command.subject()
        }

        fn is_subscription(command: &Command) -> bool {
            command.is_subscription()
        }

        fn is_over(state: &State) -> bool {
            state.is_finished()
        }

        fn abort_input(reason: String) -> Input {
            Input::Abort { reason }
        }

        fn is_late(rejection: &Rejection) -> bool {
            matches!(rejection, Rejection::Stale { .. })
        }
    };
}
pub(crate) use implement_machine_core;

/// Outstanding commands of a machine, and the time of its next wake-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outstanding<C> {
    /// Commands to execute. Each may run twice, so it must be idempotent.
    pub commands: Vec<C>,
    /// Next time at which an event follows or a command becomes outstanding without further input. Waking up
    /// late or more than once is harmless.
    pub wake_at: Option<Timestamp>,
}

impl<C> Default for Outstanding<C> {
    fn default() -> Self {
        Self { commands: Vec::new(), wake_at: None }
    }
}

impl<C> Outstanding<C> {
    /// Requests a wake-up at `at`. Ignores times in the past.
    pub(crate) fn request_wake(&mut self, at: Timestamp, now: Timestamp) {
        if at > now {
            self.wake_at = self.wake_at.into_iter().chain([at]).min();
        }
    }
}

/// Subjects whose outstanding commands may have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AffectedSubjects<S> {
    /// Only these subjects.
    Only(BTreeSet<S>),
    /// All subjects.
    All,
}

impl<S: Ord> AffectedSubjects<S> {
    /// Returns an empty set of subjects.
    pub fn none() -> Self {
        Self::Only(BTreeSet::new())
    }

    /// Returns a set with one subject.
    pub fn only(subject: S) -> Self {
        Self::Only(BTreeSet::from([subject]))
    }

    /// Adds the subjects of `other`.
    pub fn merge(&mut self, other: Self) {
        match (self, other) {
            (Self::All, _) => {}
            (this, Self::All) => *this = Self::All,
            (Self::Only(these), Self::Only(those)) => these.extend(those),
        }
    }
}

/// Maximum delay before an event is made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Commands wait until the event is durable.
    Now,
    /// The event only removes outstanding commands, so losing it in a crash merely repeats an idempotent
    /// command. It is written along with the next urgent event, or after this time at the latest.
    Within(Duration),
}

/// Error for an event that is illegal in the current state: the log is damaged, or a buggy program wrote it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {event} is not valid in state {state}; the operation's log is damaged")]
pub struct IllegalEvent {
    /// Name of the state, such as `Wave 2 Applying`.
    pub state: String,
    /// Start of the event's text. The full event may be large or contain secrets.
    pub event: String,
}
