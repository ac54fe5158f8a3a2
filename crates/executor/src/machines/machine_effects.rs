//! The interface that the owner of a machine implements.

use tidegate_lifecycle::Machine;
use tidegate_model::{StreamRecords, Timestamp};
use tidegate_oplog::Summary;

use super::machine_sender::MachineSender;

/// A machine whose events and state can be stored in the log. Implemented for every [`Machine`] with such
/// events.
pub trait DurableMachine: Machine<Event: StreamRecords<Snapshot = <Self as Machine>::State>> {}

impl<M: Machine<Event: StreamRecords<Snapshot = <M as Machine>::State>>> DurableMachine for M {}

/// Summary of a machine, as stored in the log.
pub type SummaryOf<M> = Summary<<<M as Machine>::Event as StreamRecords>::Details>;

/// Effects of a machine. The engine provides everything else: the log, the runner, timers, recovery and
/// restarts.
///
/// The machine's actor calls these functions one at a time, and they must not block. Work that takes time
/// must run elsewhere, for example in [`MachineSender::spawn`], and report its results through the
/// [`MachineSender`]. If a function panics, the actor fails, and the next actor starts from the log with new
/// effects.
///
/// When the actor stops, for whatever reason, the effects are dropped without calls to
/// [`end_subscription`](Self::end_subscription). All work that they have started must then stop. Outstanding
/// commands start again when the machine is resumed.
pub trait MachineEffects: Send + 'static {
    /// The machine that has these effects.
    type Machine: DurableMachine;

    /// Returns the summary that is logged for a machine in this state. `None` before the machine has started.
    fn summary(state: &<Self::Machine as Machine>::State) -> Option<SummaryOf<Self::Machine>>;

    /// Returns the machine's first input each time it is resumed, either after a restart of the engine or
    /// after a failure.
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

    /// Ends a subscription that is no longer outstanding.
    fn end_subscription(
        &mut self,
        state: &<Self::Machine as Machine>::State,
        command: &<Self::Machine as Machine>::Command,
    );

    /// Publishes a durable state, which [`RunningMachine::state`](super::RunningMachine::state) already
    /// returns. After a restart or a failure, the same state may be published again.
    fn publish_state(&mut self, _state: &<Self::Machine as Machine>::State) {}
}
