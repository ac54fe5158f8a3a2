//! Effects that a runner calls.

use std::time::Duration;

use tidegate_model::Timestamp;

use crate::driver::MachineBatch;
use crate::machine::Machine;

/// Executes the commands of one machine, and owns the resources that they need: manifests, connections,
/// timers.
///
/// The runner decides which command starts, and when. The effects start the command and report its result
/// later as an [`Arrival`](super::Arrival), never from within the call.
pub trait Effects<M: Machine> {
    /// Message that only the effects handle.
    type Message;
    /// Reply channel of a caller whose request is in progress.
    type Reply;
    /// One-line summary of the machine in the log.
    type Summary;
    /// Reason why the log rejected a batch.
    type AppendError;

    /// Returns the summary of a machine in this state, or `None` if it doesn't have one yet.
    fn summary(state: &M::State) -> Option<Self::Summary>;

    /// Handles a message.
    fn handle_message(&mut self, _state: &M::State, _message: Self::Message) {}

    /// Starts a command. [`Arrival::Answer`](super::Arrival) must follow, whatever the outcome.
    fn execute(&mut self, state: &M::State, command: M::Command, now: Timestamp);

    /// Starts a subscription, such as a watch.
    fn start_subscription(&mut self, _state: &M::State, _subscription: &M::Command, _now: Timestamp) {}

    /// Ends a subscription.
    fn end_subscription(&mut self, _state: &M::State, _subscription: &M::Command) {}

    /// Makes a batch durable. [`Arrival::Persisted`](super::Arrival) must follow, unless the log rejects the
    /// batch. In that case, the runner is dropped. A batch without events only rewrites the summary.
    fn append(
        &mut self,
        state: &M::State,
        batch: MachineBatch<M>,
        now: Timestamp,
    ) -> Result<(), Self::AppendError>;

    /// Announces the batch in flight, which is now durable.
    fn announce(&mut self, _state: &M::State) {}

    /// Sends [`Arrival::Alarm`](super::Arrival) after this time, or never for `None`. Replaces any earlier
    /// alarm.
    fn set_alarm(&mut self, after: Option<Duration>);

    /// Replies to a request once it is durable or was rejected.
    fn reply(&mut self, reply: Self::Reply, answer: Result<(), M::Rejection>);

    /// Called when no command is in flight. Resources that only commands need may be released.
    fn on_idle(&mut self, _is_watching: bool) {}

    /// Called when the machine has finished. Returns true if nothing is left to release. Otherwise, the
    /// release is in progress, and a message follows.
    fn is_cleaned_up(&mut self, _state: &M::State) -> bool {
        true
    }
}
