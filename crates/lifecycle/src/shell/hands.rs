//! What a shell needs done in the world.

use std::time::Duration;

use tidegate_model::Timestamp;

use crate::driver::BatchOf;
use crate::machine::Machine;

/// Carries out what one machine is owed, and keeps what that takes: manifests, connections, timers.
///
/// The shell decides what is begun and when; hands begin it and come back with an [`Arrival`](super::Arrival), never from
/// inside a call.
pub trait Hands<M: Machine> {
    /// Something that arrives for the hands alone.
    type Note;
    /// Where somebody waits for the answer to a wish.
    type Reply;
    /// What the log keeps in one line about the machine.
    type Summary;
    /// Why a batch could not be handed to the log.
    type Failure;

    /// The line about a machine in this state; `None` before there is anything to say.
    fn summary(state: &M::State) -> Option<Self::Summary>;

    /// Takes in a note.
    fn note(&mut self, _state: &M::State, _note: Self::Note) {}

    /// Begins to carry out a command. [`Arrival::Answer`](super::Arrival) must come back, whatever becomes of it.
    fn carry_out(&mut self, state: &M::State, command: M::Command, now: Timestamp);

    /// Begins what is to be kept up, such as a watch.
    fn begin(&mut self, _state: &M::State, _standing: &M::Command, _now: Timestamp) {}

    /// Ends what was kept up.
    fn end(&mut self, _state: &M::State, _standing: &M::Command) {}

    /// Makes a batch durable. [`Arrival::Persisted`](super::Arrival) must come back, unless the log refuses it: then the
    /// shell is dropped. A batch without facts only states the summary anew.
    fn append(&mut self, state: &M::State, batch: BatchOf<M>, now: Timestamp) -> Result<(), Self::Failure>;

    /// The batch on its way is durable: it may be announced.
    fn announce(&mut self, _state: &M::State) {}

    /// Sends [`Arrival::Alarm`](super::Arrival) after so long, instead of any time it was to be sent before.
    fn set_alarm(&mut self, after: Option<Duration>);

    /// Answers a wish: it is durable, or was refused.
    fn reply(&mut self, reply: Self::Reply, answer: Result<(), M::Rejection>);

    /// Nothing is on its way: what is only needed for work may be let go.
    fn rest(&mut self, _is_watching: bool) {}

    /// The machine is over. Whether nothing is left to be given back; otherwise that is on its way and a note will come.
    fn is_cleared_up(&mut self, _state: &M::State) -> bool {
        true
    }
}
