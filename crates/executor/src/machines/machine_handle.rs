//! Shared handle to a running machine, independent of its current actor.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use ractor::ActorRef;
use tidegate_lifecycle::{Arrival, Machine};
use tidegate_model::StreamId;
use tidegate_oplog::StreamName;
use tokio::sync::watch;

use super::error::MachineError;
use super::machine_sender::ActorMessage;
use super::message::{MachineMessage, SupervisorMessage};
use crate::clock::Clock;
use crate::inbox::Inbox;

/// Returns the name of a machine for error messages.
pub(super) fn machine_name<M: Machine>(id: StreamId) -> StreamName {
    StreamName::with_kind(M::KIND, id)
}

/// Execution status of a machine.
pub(super) enum ExecutionStatus<M: Machine> {
    /// The machine is being loaded or started.
    Starting,
    /// This actor is running the machine.
    Running(ActorRef<MachineMessage<M>>),
    /// The machine's actor has failed, and the next one hasn't started.
    Down,
    /// The machine has stopped running in this engine.
    Ended(EndReason),
}

impl<M: Machine> Clone for ExecutionStatus<M> {
    fn clone(&self) -> Self {
        match self {
            Self::Starting => Self::Starting,
            Self::Running(actor) => Self::Running(actor.clone()),
            Self::Down => Self::Down,
            Self::Ended(end) => Self::Ended(end.clone()),
        }
    }
}

/// Reason why a machine stopped running in this engine.
#[derive(Clone, Debug)]
pub(super) enum EndReason {
    /// The machine has finished.
    Over,
    /// The machine was stopped gracefully.
    Stopped,
    /// The machine can't continue in this engine.
    Failed(MachineError),
}

/// Handle to a machine, from the first request for it until it ends.
pub(super) struct MachineHandle<M: Machine> {
    pub id: StreamId,
    pub clock: Arc<dyn Clock>,
    /// Inbox of the current actor.
    inbox: Mutex<Inbox<M, ActorMessage>>,
    /// Durable state.
    durable_state: Mutex<M::State>,
    status: watch::Sender<ExecutionStatus<M>>,
    supervisor: OnceLock<ActorRef<SupervisorMessage<M>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Values are replaced as a whole, so a panic can't leave a partial change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<M: Machine> MachineHandle<M> {
    pub fn new(id: StreamId, clock: Arc<dyn Clock>) -> Self {
        Self {
            id,
            clock,
            inbox: Mutex::new(Inbox::new(|| ())),
            durable_state: Mutex::default(),
            status: watch::Sender::new(ExecutionStatus::Starting),
            supervisor: OnceLock::new(),
        }
    }

    pub fn name(&self) -> StreamName {
        machine_name::<M>(self.id)
    }

    /// Sets the machine's supervisor.
    pub fn set_supervisor(&self, supervisor: ActorRef<SupervisorMessage<M>>) {
        let _ = self.supervisor.set(supervisor);
    }

    /// Sends a message to the machine's supervisor. Without one, the message is lost, which is harmless: a
    /// new supervisor itself checks whether it may start.
    pub fn send(&self, message: SupervisorMessage<M>) {
        if let Some(supervisor) = self.supervisor.get() {
            let _ = supervisor.send_message(message);
        }
    }

    /// Sets the inbox of the next actor, and moves the external inputs since the last failure into it.
    pub fn replace_inbox(&self, inbox: &Inbox<M, ActorMessage>) {
        let mut known = lock(&self.inbox);
        let left = known.take_all().into_iter().filter(|arrival| matches!(arrival, Arrival::Input(_)));
        inbox.push_all(left);
        *known = inbox.clone();
    }

    pub fn send_input(&self, input: M::Input) {
        if !self.has_ended() {
            lock(&self.inbox).push_input(input);
        }
    }

    pub fn durable_state(&self) -> M::State {
        lock(&self.durable_state).clone()
    }

    /// Sets the durable state.
    pub fn set_durable_state(&self, state: M::State) {
        *lock(&self.durable_state) = state;
    }

    pub fn has_ended(&self) -> bool {
        matches!(*self.status.borrow(), ExecutionStatus::Ended(_))
    }

    pub fn is_starting(&self) -> bool {
        matches!(*self.status.borrow(), ExecutionStatus::Starting)
    }

    /// Sets the execution status, unless the machine has ended.
    pub fn set_status(&self, status: ExecutionStatus<M>) {
        self.status.send_if_modified(|known| {
            let changes = !matches!(known, ExecutionStatus::Ended(_));
            if changes {
                *known = status;
            }
            changes
        });
    }

    /// Waits until `is_awaited` returns true for the execution status.
    pub async fn wait_for_status(
        &self,
        is_awaited: impl Fn(&ExecutionStatus<M>) -> bool,
    ) -> ExecutionStatus<M> {
        let mut status = self.status.subscribe();
        let found = status.wait_for(is_awaited).await.map(|status| status.clone());
        // The sender lives as long as this handle, so the channel never closes.
        found.unwrap_or(ExecutionStatus::Ended(EndReason::Stopped))
    }

    /// Waits until the machine stops running in this engine.
    pub async fn wait_until_ended(&self) -> EndReason {
        match self.wait_for_status(|status| matches!(status, ExecutionStatus::Ended(_))).await {
            ExecutionStatus::Ended(end) => end,
            _ => EndReason::Stopped,
        }
    }
}
