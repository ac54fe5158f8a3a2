//! Whose turn it is to read a repository.

use std::collections::{BTreeSet, HashMap};
use std::num::NonZero;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::available_parallelism;

use tidegate_source::Address;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// So many read one repository at the same time, at least.
const AT_ONCE_MIN: usize = 8;
/// And so many for each processor: some wait for programs and servers.
const AT_ONCE_EACH: usize = 2;

/// Of each repository only some applications read at the same time, the others wait without a thread: a server that never answers
/// holds back those who wait for it and nobody else, and thousands of threads would only hinder each other.
#[derive(Default)]
pub(super) struct Turns(Mutex<HashMap<Address, Weak<Semaphore>>>);

impl Turns {
    /// Waits until all of these may be read, until what is returned is dropped. They are taken in their order, so that nobody
    /// waits for somebody who waits for him.
    pub async fn take(&self, repositories: BTreeSet<Address>) -> Vec<OwnedSemaphorePermit> {
        let mut taken = Vec::new();
        for repository in repositories {
            // The semaphore is never closed.
            taken.extend(self.of(repository).acquire_owned().await.ok());
        }
        taken
    }

    fn of(&self, repository: Address) -> Arc<Semaphore> {
        // Every change under the lock is a single one, so a panic leaves nothing half done.
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.get(&repository).and_then(Weak::upgrade) {
            return known;
        }
        all.retain(|_, turns| turns.strong_count() > 0);
        let processors = available_parallelism().map_or(1, NonZero::get);
        let at_once = processors.saturating_mul(AT_ONCE_EACH).max(AT_ONCE_MIN);
        let turns = Arc::new(Semaphore::new(at_once));
        all.insert(repository, Arc::downgrade(&turns));
        turns
    }
}
