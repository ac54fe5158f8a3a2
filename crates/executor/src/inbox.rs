//! Where input for one operation gathers.
//!
//! Mailboxes of actors have no bound and take one message at a time. An inbox keeps one wake-up message in the mailbox
//! at most, however much arrives, and the actor takes everything there is at once. What an operation can have waiting
//! is bounded by its commands on the way and the objects it watches.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_lifecycle::operation::Input;
use tidegate_oplog::InventoryChange;

use crate::actors::operation::Bundle;
use crate::effects::Mask;

/// One thing that arrived.
pub(crate) enum Arrival {
    /// Input for the machine, with the key of the command it answers, if it answers one.
    Input { input: Input, answers: Option<Errand> },
    /// What became of the claim. The last word: nobody keeps it any more.
    Claim { input: Input, is_last: bool },
    /// The claim was given back, as far as that is possible.
    GivenBack,
    /// What a plan that follows means for the inventory.
    Inventory(Vec<InventoryChange>),
    /// The manifests of a plan that follows.
    Bundle(Arc<Bundle>),
    /// What must not show in words that follow.
    Mask(Arc<Mask>),
    /// The timer that was set.
    Alarm,
    /// The batch on its way was written, or not.
    Persisted(Result<(), AppendFailure>),
}

/// Why a batch was not written.
#[derive(Clone, Debug)]
pub(crate) struct AppendFailure {
    /// The log takes nothing any more; otherwise it only refused this group and goes on.
    pub is_final: bool,
    /// What it said.
    pub reason: String,
}

/// What a command on its way is about; one command per subject at a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Errand {
    /// Planning.
    Plan,
    /// A task.
    Task(tidegate_model::TaskId),
    /// A hook at work by a runner, in this attempt. It may never end, and must then not stand in the way of ending the
    /// hook or of the next attempt.
    Run(tidegate_model::TaskId, u32),
    /// A gate.
    Gate(String),
}

/// The sending and the receiving side.
#[derive(Clone)]
pub(crate) struct Inbox {
    arrivals: Arc<Mutex<Vec<Arrival>>>,
    wake: Arc<dyn Fn() + Send + Sync>,
}

impl Inbox {
    /// An inbox that calls `wake` when something arrives in it while it is empty.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self { arrivals: Arc::default(), wake: Arc::new(wake) }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arrival>> {
        // A panic while pushing leaves the list as it was.
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts something in.
    pub fn push(&self, arrival: Arrival) {
        let was_empty = {
            let mut arrivals = self.lock();
            arrivals.push(arrival);
            arrivals.len() == 1
        };
        if was_empty {
            (self.wake)();
        }
    }

    /// Takes everything out.
    pub fn take(&self) -> Vec<Arrival> {
        std::mem::take(&mut *self.lock())
    }
}
