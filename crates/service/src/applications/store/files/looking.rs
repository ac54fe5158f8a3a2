//! When files are looked at, and what a command has done to them meanwhile.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::applications::store::AppKey;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Files that were removed by a command since the last look, and of whom they were: nobody has to make sure of that.
#[derive(Clone, Default)]
pub(crate) struct Removed(Arc<Mutex<BTreeMap<PathBuf, AppKey>>>);

impl Removed {
    fn all(&self) -> MutexGuard<'_, BTreeMap<PathBuf, AppKey>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One that is not there any more.
    pub fn add(&self, path: PathBuf, key: AppKey) {
        self.all().insert(path, key);
    }

    /// Those of a look.
    pub fn take(&self) -> BTreeMap<PathBuf, AppKey> {
        std::mem::take(&mut *self.all())
    }

    /// A look could see nothing: they are left to the next one.
    pub fn put_back(&self, removed: BTreeMap<PathBuf, AppKey>) {
        self.all().extend(removed);
    }
}

/// Who may ask for a look at files, ahead of the next one.
#[derive(Clone, Default)]
pub(crate) struct Looks(watch::Sender<u64>);

impl Looks {
    /// Asks for one; the number that its [`keep_looking`] tells with what it has found.
    pub fn soon(&self) -> u64 {
        let mut number = 0;
        self.0.send_modify(|last| {
            *last = last.wrapping_add(1);
            number = *last;
        });
        number
    }
}

/// Looks again and again: regularly, and at once when it is said that something has changed, or somebody asks for that. What
/// looks is told the last number that was asked for before. Ends when nobody listens.
pub(crate) fn keep_looking<W: Send + 'static>(
    mut watcher: W,
    (mut changed, looks): (watch::Receiver<()>, &Looks),
    look: impl Fn(&mut W, u64) -> bool + Clone + Send + 'static,
) {
    let mut asked = looks.0.subscribe();
    tokio::spawn(async move {
        loop {
            let (look, number) = (look.clone(), *asked.borrow_and_update());
            let looking = tokio::task::spawn_blocking(move || {
                let goes_on = look(&mut watcher, number);
                (watcher, goes_on)
            });
            let Ok((back, true)) = looking.await else { return };
            watcher = back;
            tokio::select! {
                () = said(&mut changed) => {}
                () = said(&mut asked) => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    });
}

/// Returns when something is said. Where nobody is left who could, the files are looked at all the same.
async fn said<T>(what: &mut watch::Receiver<T>) {
    if what.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}
