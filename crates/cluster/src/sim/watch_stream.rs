//! A watch as a stream. The stream sleeps until an object of the watched kind changes or a controller step is
//! due.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use tidegate_model::Timestamp;
use tokio::sync::watch;

use super::WatchCursor;
use super::shared_state::SharedState;
use super::wakeups::Wakeups;
use crate::{ClusterError, WatchEvent, WatchStream};

struct Watcher {
    shared: Arc<SharedState>,
    cursor: WatchCursor,
    wakeups: Wakeups,
    pending: VecDeque<WatchEvent>,
    has_ended: bool,
}

/// Returns a stream of the changes after the cursor. The stream ends after an error.
pub(crate) fn stream_changes(
    shared: Arc<SharedState>,
    cursor: WatchCursor,
    changed: watch::Receiver<u64>,
) -> WatchStream {
    let wakeups = Wakeups::new(&shared, changed);
    let watcher = Watcher { shared, cursor, wakeups, pending: VecDeque::new(), has_ended: false };
    Box::pin(stream::unfold(watcher, |mut watcher| async move {
        watcher.next_event().await.map(|event| (event, watcher))
    }))
}

impl Watcher {
    async fn next_event(&mut self) -> Option<Result<WatchEvent, ClusterError>> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Some(Ok(event));
            }
            if self.has_ended {
                return None;
            }
            match self.fetch_changes() {
                Err(error) => {
                    self.has_ended = true;
                    return Some(Err(error));
                }
                Ok(pause) if self.pending.is_empty() => self.wakeups.wait(pause).await,
                Ok(_) => {}
            }
        }
    }

    /// Fetches the changes. Returns the time until the next possible change if nothing is written before
    /// then.
    fn fetch_changes(&mut self) -> Result<Option<Duration>, ClusterError> {
        self.wakeups.mark_seen();
        let cursor = &mut self.cursor;
        let (now, events, due) = self.shared.with_state(|inner, now| {
            let events = inner.check_journal().and_then(|()| inner.state.next_changes(now, cursor));
            (now, events, inner.state.next_due())
        });
        self.pending.extend(events?);
        let wake = [due, self.cursor.wake_at()].into_iter().flatten().min();
        Ok(wake.map(|at| delay_until(now, at)))
    }
}

/// Returns the delay until `at`: at least one millisecond, the resolution of the clock. Overdue steps run at
/// the next tick.
fn delay_until(now: Timestamp, at: Timestamp) -> Duration {
    at.since(now).max(Duration::from_millis(1))
}
