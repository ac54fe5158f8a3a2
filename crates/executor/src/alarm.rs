//! Timer of a running state machine.

use std::time::Duration;

use tidegate_lifecycle::Machine;
use tokio::task::AbortHandle;

use crate::inbox::{Arrival, Inbox};

/// One-shot timer that sends a message to an inbox. Canceled on drop.
#[derive(Default)]
pub(crate) struct Alarm(Option<AbortHandle>);

impl Alarm {
    /// Sets the timer, replacing any previous setting, or disables it with `None`.
    pub fn set<M: Machine, N: Send + 'static>(&mut self, after: Option<Duration>, inbox: &Inbox<M, N>) {
        let inbox = inbox.clone();
        *self = Self(after.map(|wait| {
            let task = tokio::spawn(async move {
                tokio::time::sleep(wait).await;
                inbox.push(Arrival::Alarm);
            });
            task.abort_handle()
        }));
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        if let Some(alarm) = &self.0 {
            alarm.abort();
        }
    }
}
