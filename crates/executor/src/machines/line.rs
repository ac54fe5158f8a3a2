//! What is known of a machine at work by all who ask for it, whichever actor carries it out now.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use ractor::ActorRef;
use tidegate_lifecycle::{Arrival, Machine};
use tidegate_model::StreamId;
use tidegate_oplog::StreamName;
use tokio::sync::watch;

use super::error::MachineError;
use super::message::{MachineMessage, SupervisorMessage};
use super::post::Note;
use crate::clock::Clock;
use crate::inbox::Inbox;

/// A machine as errors name it.
pub(super) fn name<M: Machine>(id: StreamId) -> StreamName {
    StreamName::of(M::KIND, id)
}

/// Who carries a machine out.
pub(super) enum Stand<M: Machine> {
    /// It is being read, or begun.
    Starting,
    /// This actor.
    AtWork(ActorRef<MachineMessage<M>>),
    /// Its actor has failed, and the next one has not begun.
    Down,
    /// Nobody any more.
    Ended(End),
}

impl<M: Machine> Clone for Stand<M> {
    fn clone(&self) -> Self {
        match self {
            Self::Starting => Self::Starting,
            Self::AtWork(actor) => Self::AtWork(actor.clone()),
            Self::Down => Self::Down,
            Self::Ended(end) => Self::Ended(end.clone()),
        }
    }
}

/// Why nobody carries a machine out any more.
#[derive(Clone, Debug)]
pub(super) enum End {
    /// It is over.
    Over,
    /// It was stopped in order.
    Stopped,
    /// It cannot go on here.
    Failed(MachineError),
}

/// One machine, from when it is asked for to its end.
pub(super) struct Line<M: Machine> {
    pub id: StreamId,
    pub clock: Arc<dyn Clock>,
    /// That of the actor at work.
    inbox: Mutex<Inbox<M, Note>>,
    /// How it stands, as far as the log has it.
    durable: Mutex<M::State>,
    stand: watch::Sender<Stand<M>>,
    supervisor: OnceLock<ActorRef<SupervisorMessage<M>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is in them is replaced as a whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<M: Machine> Line<M> {
    pub fn new(id: StreamId, clock: Arc<dyn Clock>) -> Self {
        Self {
            id,
            clock,
            inbox: Mutex::new(Inbox::new(|| ())),
            durable: Mutex::default(),
            stand: watch::Sender::new(Stand::Starting),
            supervisor: OnceLock::new(),
        }
    }

    pub fn name(&self) -> StreamName {
        name::<M>(self.id)
    }

    /// From now on it has a supervisor.
    pub fn supervised_by(&self, supervisor: ActorRef<SupervisorMessage<M>>) {
        let _ = self.supervisor.set(supervisor);
    }

    /// Tells its supervisor. One that has none yet looks for itself whether it may begin.
    pub fn send(&self, message: SupervisorMessage<M>) {
        if let Some(supervisor) = self.supervisor.get() {
            let _ = supervisor.send_message(message);
        }
    }

    /// From now on another actor empties the inbox. What came from outside since the last one failed is still to be taken in.
    pub fn renew(&self, inbox: &Inbox<M, Note>) {
        let mut known = lock(&self.inbox);
        let left = known.take().into_iter().filter(|arrival| matches!(arrival, Arrival::Input(_)));
        inbox.push_together(left);
        *known = inbox.clone();
    }

    /// News from outside.
    pub fn tell(&self, input: M::Input) {
        if !self.has_ended() {
            lock(&self.inbox).tell(input);
        }
    }

    pub fn durable(&self) -> M::State {
        lock(&self.durable).clone()
    }

    /// This is how it stands, as far as the log has it.
    pub fn keep(&self, state: M::State) {
        *lock(&self.durable) = state;
    }

    pub fn has_ended(&self) -> bool {
        matches!(*self.stand.borrow(), Stand::Ended(_))
    }

    pub fn is_starting(&self) -> bool {
        matches!(*self.stand.borrow(), Stand::Starting)
    }

    /// It stands otherwise, unless it has ended.
    pub fn set_stand(&self, stand: Stand<M>) {
        self.stand.send_if_modified(|known| {
            let changes = !matches!(known, Stand::Ended(_));
            if changes {
                *known = stand;
            }
            changes
        });
    }

    /// How it stands, once that is as asked for.
    pub async fn stands(&self, is_awaited: impl Fn(&Stand<M>) -> bool) -> Stand<M> {
        let mut stand = self.stand.subscribe();
        let found = stand.wait_for(is_awaited).await.map(|stand| stand.clone());
        // It lives as long as its line, which is ours.
        found.unwrap_or(Stand::Ended(End::Stopped))
    }

    /// Returns when nobody carries it out any more.
    pub async fn ended(&self) -> End {
        match self.stands(|stand| matches!(stand, Stand::Ended(_))).await {
            Stand::Ended(end) => end,
            _ => End::Stopped,
        }
    }
}
