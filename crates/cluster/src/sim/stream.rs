//! A watch as a stream: it sleeps until something of its kind changes, or a controller step is due.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use tidegate_model::Timestamp;
use tokio::sync::watch;

use super::Cursor;
use super::shared::Shared;
use crate::{ClusterError, WatchEvent, WatchStream};

struct Watcher {
    shared: Arc<Shared>,
    cursor: Cursor,
    changed: watch::Receiver<u64>,
    schedule: watch::Receiver<u64>,
    ready: VecDeque<WatchEvent>,
    ended: bool,
}

/// A stream of what changes after the cursor. An error ends it.
pub(crate) fn watch(shared: Arc<Shared>, cursor: Cursor, changed: watch::Receiver<u64>) -> WatchStream {
    let schedule = shared.schedule.subscribe();
    let watcher = Watcher { shared, cursor, changed, schedule, ready: VecDeque::new(), ended: false };
    Box::pin(stream::unfold(watcher, |mut watcher| async move {
        watcher.next().await.map(|event| (event, watcher))
    }))
}

impl Watcher {
    async fn next(&mut self) -> Option<Result<WatchEvent, ClusterError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            if self.ended {
                return None;
            }
            match self.look() {
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
                Ok(pause) if self.ready.is_empty() => self.sleep(pause).await,
                Ok(_) => {}
            }
        }
    }

    /// Fetches what changed. Returns how long nothing more can happen by itself.
    fn look(&mut self) -> Result<Option<Duration>, ClusterError> {
        // Notices are taken before the look, so that a change in between is not missed.
        self.changed.borrow_and_update();
        self.schedule.borrow_and_update();
        let cursor = &mut self.cursor;
        let (now, events, due) = self.shared.act(|inner, now| {
            let events = inner.refuse_if_broken().and_then(|()| inner.state.changes(now, cursor));
            (now, events, inner.state.next_due())
        });
        self.ready.extend(events?);
        let wake = [due, self.cursor.wake_at()].into_iter().flatten().min();
        Ok(wake.map(|at| pause(now, at)))
    }

    async fn sleep(&mut self, pause: Option<Duration>) {
        let timer = async {
            match pause {
                Some(pause) => tokio::time::sleep(pause).await,
                None => std::future::pending().await,
            }
        };
        // The senders live as long as this watcher, so neither notice can fail.
        tokio::select! {
            _ = self.changed.changed() => {}
            _ = self.schedule.changed() => {}
            () = timer => {}
        }
    }
}

/// At least a millisecond, the grain of the clock: what is due at once is due at the next tick.
fn pause(now: Timestamp, at: Timestamp) -> Duration {
    at.since(now).max(Duration::from_millis(1))
}
