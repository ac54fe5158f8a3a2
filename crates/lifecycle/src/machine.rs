//! What a durable state machine is: a state that is a fold over recorded facts, and pure functions between them.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use tidegate_model::{StreamKind, Timestamp};

/// One kind of durable operation. Everything that drives machines is written against this trait and knows none of them.
///
/// All functions are pure: time and identity come in as arguments, and the same arguments give the same answer.
pub trait Machine: 'static {
    /// Which streams of the log are of this machine.
    const KIND: StreamKind;

    /// How one of them stands. The default is the state before anything was recorded.
    type State: Clone + Default + PartialEq + fmt::Debug + Send + 'static;
    /// What is recorded, in the past tense. Append-only: an old log must stay readable.
    type Fact: Clone + PartialEq + fmt::Debug + Send + 'static;
    /// What can reach it from outside.
    type Input: Send + 'static;
    /// What the world owes it.
    type Command: Clone + Ord + fmt::Debug + Send + 'static;
    /// What a command is about. Commands about one subject are carried out one after the other: the next one waits for the
    /// answer to the one on its way, even if that is not owed any more.
    type Subject: Clone + Ord + fmt::Debug + Send + 'static;
    /// What an input is a sight of, where only the newest counts.
    type Sight: Ord + fmt::Debug + Send + 'static;
    /// Why an input is not accepted.
    type Rejection: std::error::Error + Send + Sync + 'static;

    /// The facts an input means.
    fn decide(
        state: &Self::State,
        input: &Self::Input,
        now: Timestamp,
    ) -> Result<Vec<Self::Fact>, Self::Rejection>;

    /// The facts that follow from state and time alone. Called again until nothing follows.
    fn follow(state: &Self::State, now: Timestamp) -> Vec<Self::Fact>;

    /// The state after a fact. Total: what cannot be is a value that names both sides.
    fn evolve(state: Self::State, fact: &Self::Fact) -> Result<Self::State, Illegal>;

    /// What the world owes now, and when that changes by itself. Recovery asks this and nothing else.
    fn pending(state: &Self::State, now: Timestamp) -> Owed<Self::Command>;

    /// What of [`Machine::pending`] is about one subject. To be found by a look at little more than that subject, where
    /// [`Machine::changes`] or [`Machine::frees`] name single ones.
    fn pending_about(state: &Self::State, subject: &Self::Subject, now: Timestamp) -> Vec<Self::Command> {
        let mut commands = Self::pending(state, now).commands;
        commands.retain(|command| Self::subject(command) == *subject);
        commands
    }

    /// Of what a fact may change what is owed, in the state before it. A machine with many subjects says so where it is
    /// about few of them: what has happened is then all that is looked at.
    fn changes(_state: &Self::State, _fact: &Self::Fact) -> Changed<Self::Subject> {
        Changed::All
    }

    /// Of what else may be owed once a command about a subject was answered, in the state before that.
    fn frees(_state: &Self::State, _subject: &Self::Subject) -> Changed<Self::Subject> {
        Changed::All
    }

    /// About what a fact, in the state before it, ends all that was told so far: what is kept up about these subjects is
    /// ended and begun anew, even if the command that is owed next looks the same.
    fn renews(_state: &Self::State, _fact: &Self::Fact) -> Vec<Self::Subject> {
        Vec::new()
    }

    /// What a command is about, which decides whose answers it waits for.
    fn subject(command: &Self::Command) -> Self::Subject;

    /// Whether a command is kept up for as long as it is owed, such as a watch. Others are carried out and answered.
    fn is_standing(_command: &Self::Command) -> bool {
        false
    }

    /// What an input is a sight of; `None` for one that must not be lost, however many come.
    fn sight(_input: &Self::Input) -> Option<Self::Sight> {
        None
    }

    /// Whether a sight is older than an earlier one of the same: what comes later may have been on its way for longer.
    fn is_older(_sight: &Self::Input, _than: &Self::Input) -> bool {
        false
    }

    /// Whether commands wait until a fact that has just been folded in is on the disk.
    fn urgency(_state: &Self::State, _fact: &Self::Fact) -> Urgency {
        Urgency::Now
    }

    /// Whether it is over: nothing follows any more, and nothing is owed.
    fn is_over(state: &Self::State) -> bool;

    /// About how many facts a snapshot of the state is as large as.
    fn weight(_state: &Self::State) -> u64 {
        0
    }

    /// The input by which the engine itself gives up.
    fn abort(reason: String) -> Self::Input;

    /// Whether a refused input was only a late or repeated answer, which is dropped without harm.
    fn is_late(rejection: &Self::Rejection) -> bool;
}

/// What the world owes a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owed<C> {
    /// Each may be carried out twice and must then change nothing the second time.
    pub commands: Vec<C>,
    /// When something follows or is owed by the passing of time alone. Waking late or twice does no harm.
    pub wake_at: Option<Timestamp>,
}

impl<C> Default for Owed<C> {
    fn default() -> Self {
        Self { commands: Vec::new(), wake_at: None }
    }
}

impl<C> Owed<C> {
    /// Something follows or is owed at that moment. One that has come already wakes nobody.
    pub(crate) fn wake(&mut self, at: Timestamp, now: Timestamp) {
        if at > now {
            self.wake_at = self.wake_at.into_iter().chain([at]).min();
        }
    }
}

/// What may have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed<S> {
    /// Only what is about these subjects.
    Only(BTreeSet<S>),
    /// All that is owed is to be asked for anew.
    All,
}

impl<S: Ord> Changed<S> {
    /// Nothing that is owed is otherwise than before.
    pub fn nothing() -> Self {
        Self::Only(BTreeSet::new())
    }

    /// What is about one subject.
    pub fn only(subject: S) -> Self {
        Self::Only(BTreeSet::from([subject]))
    }

    /// What has changed by either.
    pub fn and(&mut self, other: Self) {
        match (self, other) {
            (Self::All, _) => {}
            (this, Self::All) => *this = Self::All,
            (Self::Only(these), Self::Only(those)) => these.extend(those),
        }
    }
}

/// How long a fact may wait before it is made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Commands wait until it is.
    Now,
    /// It only shortens the list of what is owed: when it is lost in a crash, an idempotent command is carried out again.
    /// It travels with the next urgent fact, or after this time.
    Within(Duration),
}

/// A fact that cannot follow in this state: the log is damaged, or was written by a faulty program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("fact {fact} cannot follow in state {state}; the operation's log is damaged")]
pub struct Illegal {
    /// Name of the state, such as `Wave 2 Applying`.
    pub state: String,
    /// First words of the fact, whose content may be large or secret.
    pub fact: String,
}
