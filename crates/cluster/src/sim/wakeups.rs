use std::time::Duration;

use tokio::sync::watch;

use super::shared_state::SharedState;

/// Notifications that wake a stream: a change to an object of its kind, or a new time for the next controller
/// step.
pub(super) struct Wakeups {
    changes: watch::Receiver<u64>,
    schedule: watch::Receiver<u64>,
}

impl Wakeups {
    pub fn new(shared: &SharedState, changes: watch::Receiver<u64>) -> Self {
        Self { changes, schedule: shared.schedule.subscribe() }
    }

    /// Marks all notifications as seen. Call this before a read, so that a change between the read and the
    /// next wait is not missed.
    pub fn mark_seen(&mut self) {
        self.changes.borrow_and_update();
        self.schedule.borrow_and_update();
    }

    /// Waits for a notification, at most for the given time.
    pub async fn wait(&mut self, limit: Option<Duration>) {
        let timer = async {
            match limit {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        // The senders live as long as the stream, so waiting for either notification cannot fail.
        tokio::select! {
            _ = self.changes.changed() => {}
            _ = self.schedule.changed() => {}
            () = timer => {}
        }
    }
}
