//! Hands that only write down what is to be done, for whoever does it step by step: simulations and tests.

use std::convert::Infallible;
use std::time::Duration;

use tidegate_model::Timestamp;

use super::Hands;
use crate::driver::BatchOf;
use crate::machine::Machine;

/// What a shell wants done. Whoever drives the shell empties it after every turn.
pub struct Outbox<M: Machine> {
    /// Commands to carry out.
    pub commands: Vec<M::Command>,
    /// What is to be kept up from now on.
    pub begun: Vec<M::Command>,
    /// What is not to be kept up any more.
    pub ended: Vec<M::Command>,
    /// What is to be made durable.
    pub batch: Option<BatchOf<M>>,
    /// The alarm was set to ring after so long, or not at all.
    pub alarm: Option<Option<Duration>>,
    /// What became of the wishes, in order of their answers. An accepted one is on the disk.
    pub answers: Vec<Result<(), M::Rejection>>,
}

impl<M: Machine> Default for Outbox<M> {
    fn default() -> Self {
        Self {
            commands: Vec::new(),
            begun: Vec::new(),
            ended: Vec::new(),
            batch: None,
            alarm: None,
            answers: Vec::new(),
        }
    }
}

impl<M: Machine> Hands<M> for Outbox<M> {
    type Note = Infallible;
    type Reply = ();
    type Summary = ();
    type Failure = Infallible;

    fn summary(_: &M::State) -> Option<()> {
        Some(())
    }

    fn carry_out(&mut self, _: &M::State, command: M::Command, _: Timestamp) {
        self.commands.push(command);
    }

    fn begin(&mut self, _: &M::State, standing: &M::Command, _: Timestamp) {
        self.begun.push(standing.clone());
    }

    fn end(&mut self, _: &M::State, standing: &M::Command) {
        self.ended.push(standing.clone());
    }

    fn append(&mut self, _: &M::State, batch: BatchOf<M>, _: Timestamp) -> Result<(), Infallible> {
        self.batch = Some(batch);
        Ok(())
    }

    fn set_alarm(&mut self, after: Option<Duration>) {
        self.alarm = Some(after);
    }

    fn reply(&mut self, (): (), answer: Result<(), M::Rejection>) {
        self.answers.push(answer);
    }
}
