//! The alarm of a machine at work.

use std::time::Duration;

use tidegate_lifecycle::Machine;
use tokio::task::AbortHandle;

use crate::inbox::{Arrival, Inbox};

/// Rings in an inbox, once, at the time it was set to last. Dropped, it never rings.
#[derive(Default)]
pub(crate) struct Alarm(Option<AbortHandle>);

impl Alarm {
    /// Rings after so long, or not at all, instead of any time it was to ring before.
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
