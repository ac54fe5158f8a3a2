//! The interface that the owner of a machine implements.

use tidegate_lifecycle::Machine;
use tidegate_model::{StreamRecords, Timestamp};
use tidegate_oplog::Summary;

use super::machine_sender::MachineSender;

/// A machine whose events and state can be stored in the log. Every [`Machine`] with such events implements this trait.
pub trait DurableMachine: Machine<Event: StreamRecords<Snapshot = <Self as Machine>::State>> {}

impl<M: Machine<Event: StreamRecords<Snapshot = <M as Machine>::State>>> DurableMachine for M {}

/// Summary of a machine in the log.
pub type SummaryOf<M> = Summary<<<M as Machine>::Event as StreamRecords>::Details>;

/// Effects of a machine. All other parts belong to the engine: log, runner, timers, recovery and restarts.
///
/// The machine's actor calls these functions one at a time. None of them may block: work that takes time must run
/// elsewhere, for example in [`MachineSender::spawn`], and report its results through the [`MachineSender`]. A panic
/// makes this actor fail. The next actor starts from the log, with new effects.
///
/// The effects are dropped when their actor ends for any reason, without an
/// [`end_subscription`](Self::end_subscription) for their subscriptions. All work that they started must then stop.
/// Outstanding commands start again when the machine is resumed.
pub trait MachineEffects: Send + 'static {
    /// Machine of these effects.
    type Machine: DurableMachine;

    /// Returns the machine's summary for the log in this state. `None` before the machine has started.
    fn summary(state: &<Self::Machine as Machine>::State) -> Option<SummaryOf<Self::Machine>>;

    /// Returns the machine's first input on each resume: after a restart of the engine, and after a failure.
    fn resume_input() -> Option<<Self::Machine as Machine>::Input> {
        None
    }

    /// Starts executing a command. Exactly one [`MachineSender::answer`] for its subject must always follow, except
    /// when the engine stops.
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

    /// Publishes a durable state, which [`RunningMachine::state`](super::RunningMachine::state) already returns. After
    /// a restart or a failure, it may repeat an earlier state.
    fn publish_state(&mut self, _state: &<Self::Machine as Machine>::State) {}
}
