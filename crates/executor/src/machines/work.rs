//! What the owner of a machine brings.

use tidegate_lifecycle::Machine;
use tidegate_model::{Records, Timestamp};
use tidegate_oplog::Summary;

use super::post::Post;

/// A machine whose facts and state the log can keep. Every [`Machine`] with such facts is one.
pub trait Durable: Machine<Fact: Records<Snapshot = <Self as Machine>::State>> {}

impl<M: Machine<Fact: Records<Snapshot = <M as Machine>::State>>> Durable for M {}

/// The line that the log keeps about a machine.
pub type SummaryOf<M> = Summary<<<M as Machine>::Fact as Records>::Details>;

/// What a machine is owed, carried out. Everything else (log, shell, alarm, recovery, restarts) is the engine's.
///
/// The functions are called by the machine's actor, one at a time, and none may wait: what takes time is done elsewhere, as by
/// [`Post::spawn`], and comes back by the [`Post`]. A panic costs this actor: the next one begins with new hands, from what
/// the log has.
///
/// It is dropped when its actor ends, for whatever reason, without an [`end`](Self::end) of what is kept up: then nothing it
/// has begun may go on by itself. What is still owed is begun anew by whoever goes on with the machine.
pub trait Work: Send + 'static {
    /// Whose hands these are.
    type Machine: Durable;

    /// The line that the log keeps about a machine in this state; `None` before it has begun.
    fn summary(state: &<Self::Machine as Machine>::State) -> Option<SummaryOf<Self::Machine>>;

    /// What the machine is told first whenever somebody goes on with it: after a restart of the engine, and after a fault.
    fn resumed() -> Option<<Self::Machine as Machine>::Input> {
        None
    }

    /// Begins to carry out a command. Exactly one [`Post::answer`] about its subject comes back, whatever becomes of it, or
    /// none where the engine stops.
    fn carry_out(
        &mut self,
        state: &<Self::Machine as Machine>::State,
        command: <Self::Machine as Machine>::Command,
        now: Timestamp,
        post: Post<Self::Machine>,
    );

    /// Begins what is to be kept up, such as a watch.
    fn begin(
        &mut self,
        state: &<Self::Machine as Machine>::State,
        standing: &<Self::Machine as Machine>::Command,
        now: Timestamp,
        post: Post<Self::Machine>,
    );

    /// Ends what was kept up: it is not owed any more.
    fn end(
        &mut self,
        state: &<Self::Machine as Machine>::State,
        standing: &<Self::Machine as Machine>::Command,
    );

    /// This state is durable: it may be shown, and [`Running::state`](super::Running::state) tells it already. After a restart or
    /// a fault it may be one that was announced before.
    fn announce(&mut self, _state: &<Self::Machine as Machine>::State) {}
}
