//! Queue of inputs for an operation or another machine.
//!
//! Actor mailboxes are unbounded and deliver one message at a time. An inbox keeps at most one wake-up
//! message in the mailbox, however many inputs arrive, and the actor takes them all at once. For an
//! operation, the number of arrivals is bounded by its commands in flight and the objects it watches.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_lifecycle::Machine;
use tidegate_lifecycle::operation::SyncOperation;
use tidegate_model::TaskId;
use tidegate_oplog::InventoryChange;

use crate::effects::Mask;
use crate::log::AppendFailure;
use crate::manifests::Bundle;

/// An arrival in the inbox.
pub(crate) type Arrival<M = SyncOperation, N = EffectMessage> = tidegate_lifecycle::Arrival<M, N>;

/// A message for the effects of an operation.
pub(crate) enum EffectMessage {
    /// The claim keeper has stopped.
    KeeperEnded,
    /// The claim was released, or its release was abandoned.
    ClaimReleased,
    /// Inventory changes for the plan that follows in the queue.
    Inventory(Vec<InventoryChange>),
    /// Manifests for the plan that follows in the queue.
    Bundle(Arc<Bundle>),
    /// Mask for the text that follows in the queue.
    Mask(Arc<Mask>),
    /// A hook runner has finished the hook of a task in an attempt.
    HookEnded(TaskId, u32),
    /// A concurrency gate's subscription is closed. All of its verdicts precede this message.
    GateUnsubscribed,
    /// The operation is old enough to watch the namespaces it writes to.
    NamespacesDue,
    /// The batch in flight couldn't be written.
    WriteFailed(AppendFailure),
}

impl From<AppendFailure> for EffectMessage {
    fn from(failure: AppendFailure) -> Self {
        Self::WriteFailed(failure)
    }
}

/// An inbox, for sending and receiving. The type parameters default to those of an operation.
pub(crate) struct Inbox<M: Machine = SyncOperation, N = EffectMessage> {
    arrivals: Arc<Mutex<tidegate_lifecycle::Inbox<M, N>>>,
    wake: Arc<dyn Fn() + Send + Sync>,
}

impl<M: Machine, N> Clone for Inbox<M, N> {
    fn clone(&self) -> Self {
        Self { arrivals: Arc::clone(&self.arrivals), wake: Arc::clone(&self.wake) }
    }
}

impl<M: Machine, N> Inbox<M, N> {
    /// Creates an inbox that calls `wake` when an arrival is added while it is empty.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self { arrivals: Arc::default(), wake: Arc::new(wake) }
    }

    fn lock(&self) -> MutexGuard<'_, tidegate_lifecycle::Inbox<M, N>> {
        // At worst, a panicking push leaves an outdated observation behind.
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends an arrival, and wakes the receiver if the inbox was empty.
    pub fn push(&self, arrival: Arrival<M, N>) {
        self.push_all([arrival]);
    }

    /// Appends several arrivals for the actor to take together.
    pub fn push_all(&self, together: impl IntoIterator<Item = Arrival<M, N>>) {
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

    /// Appends an input of the machine.
    pub fn push_input(&self, input: M::Input) {
        self.push(Arrival::Input(input));
    }

    /// Appends a message for the effects.
    pub fn push_message(&self, note: N) {
        self.push(Arrival::Message(note));
    }

    /// Takes all arrivals in order.
    pub fn take_all(&self) -> Vec<Arrival<M, N>> {
        self.lock().take_all()
    }
}

impl<M: Machine, N: From<AppendFailure>> Inbox<M, N> {
    /// Appends the outcome of the batch in flight.
    pub fn push_write_result(&self, result: Result<(), AppendFailure>) {
        self.push(match result {
            Ok(()) => Arrival::Persisted,
            Err(failure) => Arrival::Message(failure.into()),
        });
    }
}
