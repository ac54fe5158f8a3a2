//! Access to the managed resources in a cluster, including writes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_application::AppKey;
use tidegate_cluster::{Cluster, ClusterError, Detail, ErrorKind, Scope, WatchBackoff};
use tidegate_model::argo::API_VERSION;
use tidegate_model::{Destination, GroupKind, Gvk, Object};
use tidegate_state::error::ServiceError;

use super::ManagedScope;
use super::observed_resources::{ManagedKind, ObservedResources};

/// Delays before listing the resources again.
pub const RELIST_DELAYS: WatchBackoff =
    WatchBackoff { min: Duration::from_millis(500), max: Duration::from_secs(60) };
/// Maximum number of attempts to write a resource after conflicts.
const WRITE_ATTEMPTS_MAX: usize = 8;

/// Cluster with the managed resources.
#[derive(Clone)]
pub struct ResourceClient {
    /// Connection to the cluster.
    pub cluster: Arc<dyn Cluster>,
    /// Destination that identifies the cluster.
    pub destination: Destination,
    /// Selection of the managed resources.
    pub scope: ManagedScope,
}

/// Resource to write.
pub struct WriteTarget<'w, K: ManagedKind> {
    /// Observed resources of the kind.
    pub all: &'w Mutex<ObservedResources<K>>,
    /// Key of the resource.
    pub key: &'w AppKey,
    /// Part of the resource to write.
    pub part: WrittenPart,
}

/// Part of a resource that a write changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrittenPart {
    /// The metadata, the specification and the operation.
    Resource,
    /// The status.
    Status,
}

/// Result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// The cluster accepted the write.
    Written,
    /// Nothing had to be written.
    Unchanged,
    /// The resource is gone. The watch reports its deletion.
    Gone,
}

/// Returns the group, version and kind of a managed kind.
pub fn managed_kind<K: ManagedKind>() -> Gvk {
    Gvk::from_api_version(API_VERSION, K::KIND)
}

pub(crate) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ResourceClient {
    /// Converts a cluster error.
    pub fn store_error(&self, error: &ClusterError) -> ServiceError {
        ServiceError::from_call(&self.destination, error)
    }

    /// Returns true if the cluster serves the managed kind.
    pub async fn has_kind<K: ManagedKind>(&self) -> Result<bool, ServiceError> {
        let discovery = self.cluster.discover().await.map_err(|error| self.store_error(&error))?;
        let Gvk { group, version, kind } = managed_kind::<K>();
        let info = discovery.get(&GroupKind::new(&group, &kind));
        Ok(info.is_some_and(|info| info.versions.contains(&version)))
    }

    /// Returns the scopes to watch for the kind.
    pub fn watched_scopes<K: ManagedKind>(&self) -> Vec<Scope> {
        let of = |namespace| Scope { gvk: managed_kind::<K>(), namespace, detail: Detail::Full };
        match self.scope.namespaces.is_empty() {
            true => vec![of(None)],
            false => self.scope.namespaces.iter().cloned().map(Some).map(of).collect(),
        }
    }

    /// Checks that this process may list the kind. The watch does the actual listing.
    pub async fn check_list_permission<K: ManagedKind>(&self) -> Result<(), ClusterError> {
        for scope in self.watched_scopes::<K>() {
            let scope = Scope { detail: Detail::Metadata, ..scope };
            self.cluster.list(&scope).await?;
        }
        Ok(())
    }

    /// Writes the resource that `build` derives from the last observed version. Builds and writes it again
    /// after each conflict.
    pub async fn write<K: ManagedKind>(
        &self,
        target: WriteTarget<'_, K>,
        build: impl Fn(&mut ObservedResources<K>) -> Option<Object> + Send,
        written: impl Fn(&mut ObservedResources<K>, Object) + Send,
    ) -> Result<WriteOutcome, ServiceError> {
        let WriteTarget { all, key, part } = target;
        for _ in 0..WRITE_ATTEMPTS_MAX {
            let Some(object) = build(&mut lock(all)) else { return Ok(WriteOutcome::Unchanged) };
            let answer = match part {
                WrittenPart::Resource => self.cluster.put(object, None).await,
                WrittenPart::Status => self.cluster.put_status(object, None).await,
            };
            let wrong = match answer {
                Ok(object) => {
                    written(&mut lock(all), object);
                    return Ok(WriteOutcome::Written);
                }
                Err(error) => error,
            };
            match wrong.kind {
                ErrorKind::NotFound => return Ok(WriteOutcome::Gone),
                ErrorKind::Conflict => {
                    let now = self.cluster.get(&managed_kind::<K>(), &key.namespace, &key.name).await;
                    match now.map_err(|error| self.store_error(&error))? {
                        Some(now) => lock(all).record_conflict(key, now),
                        None => return Ok(WriteOutcome::Gone),
                    }
                }
                _ => return Err(self.store_error(&wrong)),
            }
        }
        Err(ServiceError::refused(format!(
            "{} {key} was changed by other clients during {WRITE_ATTEMPTS_MAX} attempts to write it; retrying",
            K::NOUN
        )))
    }
}
