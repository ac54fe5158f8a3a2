//! Polling of files, and tracking of files that commands remove between polls.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use tidegate_application::AppKey;

/// Poll interval.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Files removed by commands since the last poll, with their Applications. Their deletion is certain.
#[derive(Clone, Default)]
pub struct RemovedFiles(Arc<Mutex<BTreeMap<PathBuf, AppKey>>>);

impl RemovedFiles {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PathBuf, AppKey>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a removed file.
    pub fn add(&self, path: PathBuf, key: AppKey) {
        self.lock().insert(path, key);
    }

    /// Takes the removed files, for use in a poll.
    pub fn take(&self) -> BTreeMap<PathBuf, AppKey> {
        std::mem::take(&mut *self.lock())
    }

    /// Restores the removed files after a failed poll, for use in the next one.
    pub fn restore(&self, removed: BTreeMap<PathBuf, AppKey>) {
        self.lock().extend(removed);
    }
}

/// Requests for early polls.
#[derive(Clone, Default)]
pub struct PollRequests(watch::Sender<u64>);

impl PollRequests {
    /// Requests a poll. Returns the number that [`run_polling`] passes to the poll.
    pub fn request(&self) -> u64 {
        let mut number = 0;
        self.0.send_modify(|last| {
            *last = last.wrapping_add(1);
            number = *last;
        });
        number
    }
}

/// Polls regularly, and immediately after a change or a request. `poll` gets the number of the last request
/// before it. Stops when `poll` returns false.
pub fn run_polling<W: Send + 'static>(
    mut watcher: W,
    mut changed: watch::Receiver<()>,
    requests: &PollRequests,
    poll: impl Fn(&mut W, u64) -> bool + Clone + Send + 'static,
) {
    let mut requested = requests.0.subscribe();
    tokio::spawn(async move {
        loop {
            let (poll, number) = (poll.clone(), *requested.borrow_and_update());
            let looking = tokio::task::spawn_blocking(move || {
                let should_continue = poll(&mut watcher, number);
                (watcher, should_continue)
            });
            let Ok((back, true)) = looking.await else { return };
            watcher = back;
            tokio::select! {
                () = await_notification(&mut changed) => {}
                () = await_notification(&mut requested) => {}
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
        }
    });
}

/// Waits for a notification. Once the sender is dropped, never returns, which leaves only regular polling.
async fn await_notification<T>(what: &mut watch::Receiver<T>) {
    if what.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}
