//! Where input for one operation gathers.
//!
//! Mailboxes of actors have no bound and take one message at a time. An inbox keeps one wake-up message in the mailbox
//! at most, however much arrives, and the actor takes everything there is at once. What an operation can have waiting
//! is bounded by its commands on the way and the objects it watches.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_lifecycle::operation::{Input, SyncOperation};
use tidegate_model::TaskId;
use tidegate_oplog::InventoryChange;

use crate::effects::Mask;
use crate::manifests::Bundle;

/// One thing that arrived.
pub(crate) type Arrival = tidegate_lifecycle::Arrival<SyncOperation, Note>;

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

/// Why a batch was not written.
#[derive(Clone, Debug)]
pub(crate) enum AppendFailure {
    /// The log takes nothing any more; in its words.
    Final(String),
    /// The log refused this group and goes on; in its words.
    Refused(String),
    /// The log actor failed: the batch may be written or not.
    Lost,
}

/// The sending and the receiving side.
#[derive(Clone)]
pub(crate) struct Inbox {
    arrivals: Arc<Mutex<tidegate_lifecycle::Inbox<SyncOperation, Note>>>,
    wake: Arc<dyn Fn() + Send + Sync>,
}

impl Inbox {
    /// An inbox that calls `wake` when something arrives in it while it is empty.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self { arrivals: Arc::default(), wake: Arc::new(wake) }
    }

    fn lock(&self) -> MutexGuard<'_, tidegate_lifecycle::Inbox<SyncOperation, Note>> {
        // A panic while pushing leaves at worst an old sight.
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts an arrival at the end, and wakes whoever empties it if it was empty.
    pub fn push(&self, arrival: Arrival) {
        self.push_together([arrival]);
    }

    /// Puts several things in that are taken out together.
    pub fn push_together(&self, together: impl IntoIterator<Item = Arrival>) {
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
    pub fn tell(&self, input: Input) {
        self.push(Arrival::Input(input));
    }

    /// Puts in something for the hands.
    pub fn note(&self, note: Note) {
        self.push(Arrival::Note(note));
    }

    /// Takes out all there is, in the order in which it came.
    pub fn take(&self) -> Vec<Arrival> {
        self.lock().take()
    }
}
