//! A cluster in which resources are served, and how they are written there.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_cluster::{Cluster, ClusterError, Detail, ErrorKind, Pauses, Scope};
use tidegate_model::argo::API_VERSION;
use tidegate_model::{Destination, GroupKind, Gvk, Object};

use super::Reach;
use super::seen::{All, Served};
use crate::applications::store::AppKey;
use crate::error::ServiceError;

/// How long to wait before resources are listed anew.
pub(crate) const PAUSES: Pauses = Pauses { min: Duration::from_millis(500), max: Duration::from_secs(60) };
/// How often a write is tried that others are faster than.
const TRIES: usize = 8;

/// A cluster, and what of it is served.
#[derive(Clone)]
pub(crate) struct Site {
    pub cluster: Arc<dyn Cluster>,
    pub destination: Destination,
    pub reach: Reach,
}

/// What of a resource is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Whole,
    Status,
}

/// What has become of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Written,
    /// There was nothing to write.
    Nothing,
    /// The resource is not there any more; the watch tells.
    Gone,
}

/// A kind that is served.
pub(crate) fn kind<K: Served>() -> Gvk {
    Gvk::from_api_version(API_VERSION, K::KIND)
}

pub(crate) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Site {
    pub fn failed(&self, error: &ClusterError) -> ServiceError {
        ServiceError::of_call(&self.destination, error)
    }

    /// Whether the cluster serves the kind.
    pub async fn serves<K: Served>(&self) -> Result<bool, ServiceError> {
        let discovery = self.cluster.discover().await.map_err(|error| self.failed(&error))?;
        let Gvk { group, version, kind } = kind::<K>();
        let info = discovery.get(&GroupKind::new(&group, &kind));
        Ok(info.is_some_and(|info| info.versions.contains(&version)))
    }

    /// Where resources of the kind are served.
    pub fn scopes<K: Served>(&self) -> Vec<Scope> {
        let of = |namespace| Scope { gvk: kind::<K>(), namespace, detail: Detail::Full };
        match self.reach.namespaces.is_empty() {
            true => vec![of(None)],
            false => self.reach.namespaces.iter().cloned().map(Some).map(of).collect(),
        }
    }

    /// Whether they may be listed there; what is there comes with the watch.
    pub async fn try_list<K: Served>(&self) -> Result<(), ClusterError> {
        for scope in self.scopes::<K>() {
            let scope = Scope { detail: Detail::Metadata, ..scope };
            self.cluster.list(&scope).await?;
        }
        Ok(())
    }

    /// Writes a resource as it is made from what was seen last: bound to that version, and made anew after a conflict.
    pub async fn write<K: Served>(
        &self,
        (all, key, part): (&Mutex<All<K>>, &AppKey, Part),
        made: impl Fn(&mut All<K>) -> Option<Object> + Send,
        written: impl Fn(&mut All<K>, Object) + Send,
    ) -> Result<Outcome, ServiceError> {
        for _ in 0..TRIES {
            let Some(made) = made(&mut lock(all)) else { return Ok(Outcome::Nothing) };
            let answer = match part {
                Part::Whole => self.cluster.put(made, None).await,
                Part::Status => self.cluster.put_status(made, None).await,
            };
            let wrong = match answer {
                Ok(object) => {
                    written(&mut lock(all), object);
                    return Ok(Outcome::Written);
                }
                Err(error) => error,
            };
            match wrong.kind {
                ErrorKind::NotFound => return Ok(Outcome::Gone),
                ErrorKind::Conflict => {
                    let now = self.cluster.get(&kind::<K>(), &key.namespace, &key.name).await;
                    match now.map_err(|error| self.failed(&error))? {
                        Some(now) => lock(all).read_anew(key, now),
                        None => return Ok(Outcome::Gone),
                    }
                }
                _ => return Err(self.failed(&wrong)),
            }
        }
        Err(ServiceError::refused(format!(
            "{} {key} was changed by others {TRIES} times while it was written; it is tried again",
            K::NOUN
        )))
    }
}
