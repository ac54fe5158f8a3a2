//! Sends the results of a machine's work to its actor.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use tidegate_lifecycle::Machine;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::inbox::{Arrival, Inbox};
use crate::log::AppendFailure;

/// Message that the actor sends to itself.
pub(crate) enum ActorMessage {
    /// The batch in flight couldn't be written.
    WriteFailed(AppendFailure),
    /// A background task of the actor panicked with this message.
    Panicked(String),
}

impl From<AppendFailure> for ActorMessage {
    fn from(failure: AppendFailure) -> Self {
        Self::WriteFailed(failure)
    }
}

/// Sender for the results of a machine's work: results of commands, and other inputs. Cheap to clone and
/// usable from any task. Inputs are dropped if the machine has finished or its actor has failed; after a
/// failure, outstanding commands start again.
pub struct MachineSender<M: Machine> {
    inbox: Inbox<M, ActorMessage>,
    /// Closed once the actor has stopped.
    alive: watch::Receiver<()>,
}

impl<M: Machine> Clone for MachineSender<M> {
    fn clone(&self) -> Self {
        Self { inbox: self.inbox.clone(), alive: self.alive.clone() }
    }
}

impl<M: Machine> MachineSender<M> {
    pub(super) fn new(inbox: Inbox<M, ActorMessage>, alive: watch::Receiver<()>) -> Self {
        Self { inbox, alive }
    }

    /// Reports the result of a subject's command in flight. The engine may then execute another command for
    /// the subject.
    pub fn answer(&self, about: M::Subject, input: M::Input) {
        self.inbox.push(Arrival::Answer { subject: about, input });
    }

    /// Sends an input, such as an observation.
    pub fn send_input(&self, input: M::Input) {
        self.inbox.push_input(input);
    }

    /// Reports the end of a subscription. If it is still outstanding, the engine restarts it.
    pub fn end_subscription(&self, about: M::Subject) {
        self.inbox.push(Arrival::SubscriptionEnded(about));
    }

    /// Spawns work that takes time. The work is aborted when the actor stops. If it panics, the actor fails,
    /// because the command would otherwise be in flight forever. The caller can abort it earlier, for example
    /// at the end of a subscription.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let Self { inbox, mut alive } = self.clone();
        let task = tokio::spawn(async move {
            let work = AssertUnwindSafe(work).catch_unwind();
            tokio::select! {
                biased;
                _ = alive.changed() => {}
                done = work => {
                    if let Err(panic) = done {
                        inbox.push_message(ActorMessage::Panicked(panic_message(panic.as_ref())));
                    }
                }
            }
        });
        task.abort_handle()
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a background task of the machine panicked")
        .to_owned()
}
