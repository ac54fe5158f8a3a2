//! Effects that only record the calls of the runner. Simulations and tests execute the recorded effects step
//! by step.

use std::convert::Infallible;
use std::time::Duration;

use tidegate_model::Timestamp;

use super::Effects;
use crate::driver::MachineBatch;
use crate::machine::Machine;

/// Recorded effects. The caller takes them after every step of the runner.
pub struct Outbox<M: Machine> {
    /// Commands to execute.
    pub commands: Vec<M::Command>,
    /// Subscriptions to start.
    pub started_subscriptions: Vec<M::Command>,
    /// Subscriptions to end.
    pub ended_subscriptions: Vec<M::Command>,
    /// Batch to make durable.
    pub batch: Option<MachineBatch<M>>,
    /// Last alarm setting. `Some(None)` cancels the alarm.
    pub alarm: Option<Option<Duration>>,
    /// Replies to requests, in order. An accepted request is durable.
    pub answers: Vec<Result<(), M::Rejection>>,
}

impl<M: Machine> Default for Outbox<M> {
    fn default() -> Self {
        Self {
            commands: Vec::new(),
            started_subscriptions: Vec::new(),
            ended_subscriptions: Vec::new(),
            batch: None,
            alarm: None,
            answers: Vec::new(),
        }
    }
}

impl<M: Machine> Effects<M> for Outbox<M> {
    type Message = Infallible;
    type Reply = ();
    type Summary = ();
    type AppendError = Infallible;

    fn summary(_: &M::State) -> Option<()> {
        Some(())
    }

    fn execute(&mut self, _: &M::State, command: M::Command, _: Timestamp) {
        self.commands.push(command);
    }

    fn start_subscription(&mut self, _: &M::State, subscription: &M::Command, _: Timestamp) {
        self.started_subscriptions.push(subscription.clone());
    }

    fn end_subscription(&mut self, _: &M::State, subscription: &M::Command) {
        self.ended_subscriptions.push(subscription.clone());
    }

    fn append(&mut self, _: &M::State, batch: MachineBatch<M>, _: Timestamp) -> Result<(), Infallible> {
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
