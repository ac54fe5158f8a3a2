//! The way back from the work of a machine to its actor.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use tidegate_lifecycle::Machine;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::inbox::{Arrival, Inbox};
use crate::log::AppendFailure;

/// Something for the actor itself.
pub(crate) enum Note {
    /// The batch on its way was not written.
    NotWritten(AppendFailure),
    /// Work beside the actor has panicked; in its words.
    Panicked(String),
}

impl From<AppendFailure> for Note {
    fn from(failure: AppendFailure) -> Self {
        Self::NotWritten(failure)
    }
}

/// Where answers and news of the work go. Cheap to clone, and used from any task. What is sent to a machine that is over, or
/// whose actor has failed meanwhile, is dropped: what is still owed is begun anew.
pub struct Post<M: Machine> {
    inbox: Inbox<M, Note>,
    /// Closed when the actor has ended.
    alive: watch::Receiver<()>,
}

impl<M: Machine> Clone for Post<M> {
    fn clone(&self) -> Self {
        Self { inbox: self.inbox.clone(), alive: self.alive.clone() }
    }
}

impl<M: Machine> Post<M> {
    pub(super) fn new(inbox: Inbox<M, Note>, alive: watch::Receiver<()>) -> Self {
        Self { inbox, alive }
    }

    /// The answer to the command about a subject that is on its way. Another one about it may then be carried out.
    pub fn answer(&self, about: M::Subject, input: M::Input) {
        self.inbox.push(Arrival::Answer { about, input });
    }

    /// News, such as a sight.
    pub fn tell(&self, input: M::Input) {
        self.inbox.tell(input);
    }

    /// What was kept up about a subject has ended by itself. If it is still owed, it is begun again.
    pub fn ended(&self, about: M::Subject) {
        self.inbox.push(Arrival::Ended(about));
    }

    /// Work that takes time. It ends with the actor, whatever it is waiting for, and a panic in it is a fault of the actor's:
    /// otherwise its command would be on its way for ever. It may be ended earlier, as what was kept up is.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let Self { inbox, mut alive } = self.clone();
        let task = tokio::spawn(async move {
            let work = AssertUnwindSafe(work).catch_unwind();
            tokio::select! {
                biased;
                _ = alive.changed() => {}
                done = work => {
                    if let Err(panic) = done {
                        inbox.note(Note::Panicked(words(panic.as_ref())));
                    }
                }
            }
        });
        task.abort_handle()
    }
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("its work panicked").to_owned()
}
