//! The interface for the owner of a machine to implement.

use tidegate_lifecycle::Machine;
use tidegate_model::{StreamRecords, Timestamp};
use tidegate_oplog::Summary;

use super::machine_sender::MachineSender;

/// A machine with events and state that the log can store. Implemented for every such [`Machine`].
pub trait DurableMachine: Machine<Event: StreamRecords<Snapshot = <Self as Machine>::State>> {}

impl<M: Machine<Event: StreamRecords<Snapshot = <M as Machine>::State>>> DurableMachine for M {}

/// Summary of a machine in the log.
pub type SummaryOf<M> = Summary<<<M as Machine>::Event as StreamRecords>::Details>;

/// Effects of a machine. The engine provides everything else: the log, the runner, timers, recovery and
/// restarts.
///
/// The machine's actor calls these functions one at a time, and they must not block. Longer work must run
/// elsewhere, for example in [`MachineSender::spawn`], and report its results through the [`MachineSender`].
/// If a function panics, the actor fails, and the next actor starts from the log with new effects.
///
/// When the actor stops, for whatever reason, the effects are dropped without calls to
/// [`end_subscription`](Self::end_subscription). All work that they started must then stop. Outstanding
/// commands start again when the machine resumes.
pub trait MachineEffects: Send + 'static {
    /// The machine with these effects.
    type Machine: DurableMachine;

    /// Returns the summary to log for a machine in this state, or `None` before it has started.
    fn summary(state: &<Self::Machine as Machine>::State) -> Option<SummaryOf<Self::Machine>>;

    /// Returns the machine's first input on each resume, after a restart of the engine or after a failure.
    fn resume_input() -> Option<<Self::Machine as Machine>::Input> {
        None
    }

    /// Starts executing a command. Exactly one [`MachineSender::answer`] call for the command's subject must
    /// follow, unless the engine stops.
    fn execute(
        &mut self,
        state: &<Self::Machine as Machine>::State,
        command: <Self::Machine as Machine>::Command,
        now: Timestamp,
        sender: MachineSender<Self::Machine>,
    );

    /// Starts a subscription, such as a watch.
    fn start_subscription(
        &mut self,
        state: &<Self::Machine as Machine>::State,
        command: &<Self::Machine as Machine>::Command,
        now: Timestamp,
        sender: MachineSender<Self::Machine>,
    );

    /// Ends a subscription that isn't outstanding anymore.
    fn end_subscription(
        &mut self,
        state: &<Self::Machine as Machine>::State,
        command: &<Self::Machine as Machine>::Command,
    );

    /// Publishes a durable state, which [`RunningMachine::state`](super::RunningMachine::state) already
    /// returns. After a restart or a failure, the same state may be published again.
    fn publish_state(&mut self, _state: &<Self::Machine as Machine>::State) {}
}
