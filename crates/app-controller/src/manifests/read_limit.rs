//! Limit on concurrent reads from a repository.

use std::collections::{BTreeSet, HashMap};
use std::num::NonZero;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::available_parallelism;

use tidegate_source::Address;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Minimum limit on concurrent reads from one repository.
const CONCURRENT_READS_MIN: usize = 8;
/// Concurrent reads per CPU. More than one, because some reads wait for programs and servers.
const CONCURRENT_READS_PER_PROCESSOR: usize = 2;

/// Semaphores, by repository. Excess reads wait without occupying a thread, so an unresponsive server blocks
/// only its own users and a few threads.
#[derive(Default)]
pub(super) struct ReadLimit(Mutex<HashMap<Address, Weak<Semaphore>>>);

impl ReadLimit {
    /// Waits for permits for all of these repositories; dropping them releases them. They are acquired in a
    /// fixed order to avoid deadlocks.
    pub async fn acquire(&self, repositories: BTreeSet<Address>) -> Vec<OwnedSemaphorePermit> {
        let mut taken = Vec::new();
        for repository in repositories {
            // The semaphore is never closed.
            taken.extend(self.semaphore(repository).acquire_owned().await.ok());
        }
        taken
    }

    fn semaphore(&self, repository: Address) -> Arc<Semaphore> {
        // Each critical section makes only a single change, so a panic can't leave an inconsistent state.
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.get(&repository).and_then(Weak::upgrade) {
            return known;
        }
        all.retain(|_, permits| permits.strong_count() > 0);
        let processors = available_parallelism().map_or(1, NonZero::get);
        let at_once = processors.saturating_mul(CONCURRENT_READS_PER_PROCESSOR).max(CONCURRENT_READS_MIN);
        let permits = Arc::new(Semaphore::new(at_once));
        all.insert(repository, Arc::downgrade(&permits));
        permits
    }
}
