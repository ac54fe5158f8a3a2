//! Effects that a runner calls.

use std::time::Duration;

use tidegate_model::Timestamp;

use crate::driver::MachineBatch;
use crate::machine::Machine;

/// Executor of one machine's commands. Owns the resources that they need: manifests, connections, timers.
///
/// The runner decides which command starts, and when. The effects start the command, and report its result
/// later as an [`Arrival`](super::Arrival), never during the call.
pub trait Effects<M: Machine> {
    /// Message that only the effects handle.
    type Message;
    /// Reply channel of a waiting caller.
    type Reply;
    /// One-line summary of the machine in the log.
    type Summary;
    /// Reason why the log rejected a batch.
    type AppendError;

    /// Returns the summary of a machine in this state, or `None` if it doesn't have one yet.
    fn summary(state: &M::State) -> Option<Self::Summary>;

    /// Handles a message.
    fn handle_message(&mut self, _state: &M::State, _message: Self::Message) {}

    /// Starts a command. [`Arrival::Answer`](super::Arrival) must follow, even if the command fails.
    fn execute(&mut self, state: &M::State, command: M::Command, now: Timestamp);

    /// Starts a subscription, such as a watch.
    fn start_subscription(&mut self, _state: &M::State, _subscription: &M::Command, _now: Timestamp) {}

    /// Ends a subscription.
    fn end_subscription(&mut self, _state: &M::State, _subscription: &M::Command) {}

    /// Makes a batch durable. [`Arrival::Persisted`](super::Arrival) must follow. If the log rejects the
    /// batch, the runner is dropped instead. A batch without events only rewrites the summary.
    fn append(
        &mut self,
        state: &M::State,
        batch: MachineBatch<M>,
        now: Timestamp,
    ) -> Result<(), Self::AppendError>;

    /// Publishes the events of the batch in flight, which is now durable.
    fn announce(&mut self, _state: &M::State) {}

    /// Sets the timer for [`Arrival::Alarm`](super::Arrival), replacing any previous setting. `None` disables
    /// it.
    fn set_alarm(&mut self, after: Option<Duration>);

    /// Replies to a request that is now durable or was rejected.
    fn reply(&mut self, reply: Self::Reply, answer: Result<(), M::Rejection>);

    /// Reacts to the completion of the last command in flight. May release resources that only commands need.
    fn on_idle(&mut self, _is_watching: bool) {}

    /// Releases the remaining resources of a finished machine. Returns true if nothing is left to release.
    /// Otherwise, a message must follow once there is progress.
    fn is_cleaned_up(&mut self, _state: &M::State) -> bool {
        true
    }
}
