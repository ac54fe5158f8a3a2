//! Start of the management of resources whose shard this process has gained.
//!
//! Another replica may have managed them until now, so their watched state may be older than its last writes. They are
//! therefore read again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use tidegate_application::AppKey;
use tidegate_model::Object;

use super::observed_resources::{CandidateId, ManagedKind, ObservedResources};
use super::resource_client::{ResourceClient, lock, managed_kind};

/// Maximum number of concurrent reads.
const READS_MAX: usize = 32;
/// Delay before another attempt, if a resource could not be read or must not be managed yet.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Check whether this process may start to manage resources. Returns the candidates that no other replica is still working
/// on.
pub type AdoptionCheck = Arc<dyn Fn(BTreeSet<AppKey>) -> BoxFuture<'static, BTreeSet<AppKey>> + Send + Sync>;

/// Reads of candidates.
pub struct Adoption {
    client: ResourceClient,
    check: Option<AdoptionCheck>,
    /// Current reads.
    reads: Option<BoxFuture<'static, Vec<(Object, CandidateId)>>>,
    /// Number of candidates of the current reads.
    count: usize,
    is_retry: bool,
}

impl Adoption {
    /// Creates the reads of a store's candidates.
    pub fn new(client: ResourceClient, check: Option<AdoptionCheck>) -> Self {
        Self { client, check, reads: None, count: 0, is_retry: false }
    }

    /// Returns the current state of candidates that this process may start to manage. Waits forever if there are none. The
    /// caller may drop the future and call this function again.
    pub async fn next<K: ManagedKind>(
        &mut self,
        all: &Mutex<ObservedResources<K>>,
    ) -> Vec<(Object, CandidateId)> {
        if self.reads.is_none() {
            let candidates = lock(all).candidates();
            if candidates.is_empty() {
                return std::future::pending().await;
            }
            self.count = candidates.len();
            let delay = if self.is_retry { RETRY_DELAY } else { Duration::ZERO };
            let reads =
                read_candidates::<K>(self.client.clone(), self.check.clone(), candidates.clone(), delay);
            self.reads = Some(reads.boxed());
        }
        let Some(reads) = &mut self.reads else { return std::future::pending().await };
        let objects = reads.await;
        self.is_retry = objects.len() < self.count;
        self.reads = None;
        objects
    }
}

async fn read_candidates<K: ManagedKind>(
    client: ResourceClient,
    check: Option<AdoptionCheck>,
    candidates: BTreeMap<AppKey, CandidateId>,
    delay: Duration,
) -> Vec<(Object, CandidateId)> {
    tokio::time::sleep(delay).await;
    let keys: BTreeSet<AppKey> = candidates.keys().cloned().collect();
    let ready = match check {
        Some(check) => check(keys).await,
        None => keys,
    };
    let ready = candidates.into_iter().filter(|(key, _)| ready.contains(key));
    let kind = managed_kind::<K>();
    let read = async |(AppKey { namespace, name }, candidate)| match client
        .cluster
        .get(&kind, &namespace, &name)
        .await
    {
        Ok(found) => Some((found?, candidate)),
        Err(error) => {
            tracing::warn!(kind = K::KIND, name, %error, "failed to read a resource of this replica's shards; retrying");
            None
        }
    };
    stream::iter(ready).map(read).buffer_unordered(READS_MAX).filter_map(async |found| found).collect().await
}
