//! A machine at work, as those have it who have asked for it.

use std::sync::Arc;

use tidegate_lifecycle::Machine;
use tidegate_model::StreamId;
use tokio::sync::oneshot;

use super::error::MachineError;
use super::line::{End, Line, Stand};
use super::message::{MachineMessage, SupervisorMessage};

/// A machine at work. Cheap to clone; it goes on when all clones are dropped.
pub struct Running<M: Machine>(Arc<Line<M>>);

impl<M: Machine> Clone for Running<M> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<M: Machine> Running<M> {
    /// Of a line, once the machine has begun or goes on.
    pub(super) async fn of(line: Arc<Line<M>>) -> Result<Self, MachineError> {
        match line.stands(|stand| !matches!(stand, Stand::Starting)).await {
            Stand::Ended(End::Failed(error)) => Err(error),
            _ => Ok(Self(line)),
        }
    }

    /// Its id.
    pub fn id(&self) -> StreamId {
        self.0.id
    }

    /// News; nobody waits. What the machine does not want is dropped, with a word in this process's own log. A fault may cost
    /// news that was not durable yet: what must not be lost is a [`wish`](Self::wish).
    pub fn tell(&self, input: M::Input) {
        self.0.tell(input);
    }

    /// A wish; answered when it is durable.
    ///
    /// # Errors
    ///
    /// It was refused, in the machine's words; the machine is not at work any more; or it met a fault, and may be asked again.
    pub async fn wish(&self, input: M::Input) -> Result<(), MachineError> {
        let at_work = self.0.stands(|stand| matches!(stand, Stand::AtWork(_) | Stand::Ended(_))).await;
        let Stand::AtWork(actor) = at_work else { return self.too_late(&input, at_work) };
        let (reply, answer) = oneshot::channel();
        let sent = actor.send_message(MachineMessage::Wish { input, reply });
        if sent.is_ok()
            && let Ok(answer) = answer.await
        {
            return answer;
        }
        // It was not taken in, or not recorded.
        let of_this =
            |stand: &Stand<M>| matches!(stand, Stand::AtWork(other) if other.get_id() == actor.get_id());
        match self.0.stands(|stand| !of_this(stand)).await {
            Stand::Ended(End::Failed(error)) => Err(error),
            Stand::Ended(End::Stopped) => Err(MachineError::NotAtWork { machine: self.0.name() }),
            _ => Err(MachineError::Restarted { machine: self.0.name() }),
        }
    }

    fn too_late(&self, input: &M::Input, stand: Stand<M>) -> Result<(), MachineError> {
        let machine = self.0.name();
        match stand {
            Stand::Ended(End::Failed(error)) => Err(error),
            Stand::Ended(End::Over) => match M::decide(&self.0.durable(), input, self.0.clock.now()) {
                Err(rejection) if !M::is_late(&rejection) => {
                    Err(MachineError::Refused { machine, reason: rejection.to_string() })
                }
                _ => Ok(()),
            },
            _ => Err(MachineError::NotAtWork { machine }),
        }
    }

    /// How it stands, as far as the log has it.
    ///
    /// # Errors
    ///
    /// It was given up, and why; [`Engine::machine_state`](crate::Engine::machine_state) tells what the log has.
    pub async fn state(&self) -> Result<M::State, MachineError> {
        match self.0.stands(|_| true).await {
            Stand::Ended(End::Failed(error)) => Err(error),
            _ => Ok(self.0.durable()),
        }
    }

    /// Returns when it is over and that is durable, or when it is not at work any more: [`Running::state`] tells which.
    pub async fn over(&self) {
        self.0.ended().await;
    }

    /// Stops it in order: nothing more is begun, and what is on its way is recorded, if that does not take too long. Returns
    /// when it has stopped; it can be gone on with.
    pub async fn stop(&self) {
        self.0.send(SupervisorMessage::Stop);
        self.0.ended().await;
    }
}
