//! Where input for one operation, or another machine, gathers.
//!
//! Mailboxes of actors have no bound and take one message at a time. An inbox keeps one wake-up message in the mailbox
//! at most, however much arrives, and the actor takes everything there is at once. What an operation can have waiting
//! is bounded by its commands on the way and the objects it watches.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_lifecycle::Machine;
use tidegate_lifecycle::operation::SyncOperation;
use tidegate_model::TaskId;
use tidegate_oplog::InventoryChange;

use crate::effects::Mask;
use crate::log::AppendFailure;
use crate::manifests::Bundle;

/// One thing that arrived.
pub(crate) type Arrival<M = SyncOperation, N = Note> = tidegate_lifecycle::Arrival<M, N>;

/// Something for whoever carries out the operation's commands.
pub(crate) enum Note {
    /// Nobody keeps the claim any more.
    Unclaimed,
    /// The claim was given back, as far as that is possible.
    GivenBack,
    /// What a plan that follows means for the inventory.
    Inventory(Vec<InventoryChange>),
    /// The manifests of a plan that follows.
    Bundle(Arc<Bundle>),
    /// What must not show in words that follow.
    Mask(Arc<Mask>),
    /// A runner has ended the hook of a task, in an attempt.
    Ran(TaskId, u32),
    /// A gate that gives places is not asked any more. What it has said came before.
    Unasked,
    /// It has lasted long enough to watch the namespaces it writes into.
    NamespacesDue,
    /// The batch on its way was not written.
    NotWritten(AppendFailure),
}

impl From<AppendFailure> for Note {
    fn from(failure: AppendFailure) -> Self {
        Self::NotWritten(failure)
    }
}

/// The sending and the receiving side; of an operation, if not said otherwise.
pub(crate) struct Inbox<M: Machine = SyncOperation, N = Note> {
    arrivals: Arc<Mutex<tidegate_lifecycle::Inbox<M, N>>>,
    wake: Arc<dyn Fn() + Send + Sync>,
}

impl<M: Machine, N> Clone for Inbox<M, N> {
    fn clone(&self) -> Self {
        Self { arrivals: Arc::clone(&self.arrivals), wake: Arc::clone(&self.wake) }
    }
}

impl<M: Machine, N> Inbox<M, N> {
    /// An inbox that calls `wake` when something arrives in it while it is empty.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self { arrivals: Arc::default(), wake: Arc::new(wake) }
    }

    fn lock(&self) -> MutexGuard<'_, tidegate_lifecycle::Inbox<M, N>> {
        // A panic while pushing leaves at worst an old sight.
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts an arrival at the end, and wakes whoever empties it if it was empty.
    pub fn push(&self, arrival: Arrival<M, N>) {
        self.push_together([arrival]);
    }

    /// Puts several things in that are taken out together.
    pub fn push_together(&self, together: impl IntoIterator<Item = Arrival<M, N>>) {
        let was_empty = {
            let mut arrivals = self.lock();
            let was_empty = arrivals.is_empty();
            together.into_iter().for_each(|arrival| arrivals.push(arrival));
            was_empty
        };
        if was_empty {
            (self.wake)();
        }
    }

    /// Puts in something that happened.
    pub fn tell(&self, input: M::Input) {
        self.push(Arrival::Input(input));
    }

    /// Puts in something for the hands.
    pub fn note(&self, note: N) {
        self.push(Arrival::Note(note));
    }

    /// Takes out all there is, in the order in which it came.
    pub fn take(&self) -> Vec<Arrival<M, N>> {
        self.lock().take()
    }
}

impl<M: Machine, N: From<AppendFailure>> Inbox<M, N> {
    /// Puts in what became of the batch on its way.
    pub fn written(&self, result: Result<(), AppendFailure>) {
        self.push(match result {
            Ok(()) => Arrival::Persisted,
            Err(failure) => Arrival::Note(failure.into()),
        });
    }
}
