//! Applications as resources of a Kubernetes cluster. Their authors write `spec`, and may ask for an `operation`; what is
//! known of them is written into `status`, where `kubectl` and dashboards read it.
//!
//! ```text
//! list, watch ──▶ Seen (one per application) ──▶ StoreEvent, for what others have changed
//!                   ▲
//! keep ── merged ───┴── put (bound to the version that was seen; read anew and tried again after a conflict)
//! ```

mod seen;
mod shortened;

use std::collections::BTreeSet;
use std::env;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use futures_util::stream::select_all;
use tidegate_application::CONTROL_NAMESPACE;
use tidegate_cluster::{
    Cluster, ClusterError, DeleteRequest, Detail, ErrorKind, Followed, Pauses, Propagation, Scope, follow,
};
use tidegate_model::argo::{API_VERSION, Application};
use tidegate_model::{Destination, GroupKind, Gvk, Object};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use self::seen::All;
use super::projects::{self, Named};
use super::{AppKey, ApplicationStore, StoreEvent, tell_all};
use crate::error::ServiceError;

/// Says that an application is ours, where only such ones are served (`--only-labelled`).
pub const MANAGED_LABEL: &str = "tidegate.dev/managed";
/// How long to wait before the applications are listed anew.
const PAUSES: Pauses = Pauses { min: Duration::from_millis(500), max: Duration::from_secs(60) };
/// How often a write is tried that others are faster than.
const TRIES: usize = 8;

/// Which applications of a cluster are served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// Those of these namespaces; of all where it is empty.
    pub namespaces: BTreeSet<String>,
    /// Only those with the label [`MANAGED_LABEL`].
    pub only_labelled: bool,
    /// The namespace of the projects; that of the control plane where it is empty.
    pub projects: String,
}

/// Applications of a Kubernetes cluster.
pub struct KubernetesStore {
    cluster: Arc<dyn Cluster>,
    destination: Destination,
    reach: Reach,
    all: Arc<Mutex<All>>,
}

impl KubernetesStore {
    /// The applications of a cluster.
    ///
    /// # Errors
    ///
    /// The cluster does not answer, serves no Applications, or does not let us list them.
    pub async fn open(
        cluster: Arc<dyn Cluster>,
        destination: Destination,
        reach: Reach,
    ) -> Result<Self, ServiceError> {
        let store = Self { cluster, destination, all: Arc::new(Mutex::new(All::new(reach.clone()))), reach };
        let discovery = store.cluster.discover().await.map_err(|error| store.failed(&error))?;
        let Gvk { group, version, kind } = kind();
        if !discovery.get(&GroupKind::new(&group, &kind)).is_some_and(|info| info.versions.contains(&version))
        {
            return Err(ServiceError::refused(format!(
                "the {} serves no Applications ({API_VERSION}); `tidegate crds` prints their definitions: apply them, or name a folder of Applications with --apps",
                store.destination
            )));
        }
        // Whether that is allowed; what is there comes with the watch.
        for scope in store.scopes() {
            let scope = Scope { detail: Detail::Metadata, ..scope };
            store.cluster.list(&scope).await.map_err(|error| store.failed(&error))?;
        }
        // Without its projects nobody knows what an application may do.
        match store.cluster.list(&projects::scope(&store.home())).await {
            Err(error) if error.kind != ErrorKind::UnknownKind => return Err(store.failed(&error)),
            _ => {}
        }
        Ok(store)
    }

    fn failed(&self, error: &ClusterError) -> ServiceError {
        ServiceError::of_cluster(&self.destination, &error.to_string())
    }

    fn scopes(&self) -> Vec<Scope> {
        let of = |namespace| Scope { gvk: kind(), namespace, detail: Detail::Full };
        match self.reach.namespaces.is_empty() {
            true => vec![of(None)],
            false => self.reach.namespaces.iter().cloned().map(Some).map(of).collect(),
        }
    }

    fn all(&self) -> MutexGuard<'_, All> {
        lock(&self.all)
    }

    /// Writes a resource as it is made from what was seen last: bound to that version, and made anew after a conflict.
    async fn write(
        &self,
        key: &AppKey,
        made: impl Fn(&mut All) -> Option<Object> + Send,
        written: impl Fn(&mut All, Object) + Send,
    ) -> Result<(), ServiceError> {
        for _ in 0..TRIES {
            let Some(made) = made(&mut self.all()) else { return Ok(()) };
            let wrong = match self.cluster.put(made, None).await {
                Ok(object) => {
                    written(&mut self.all(), object);
                    return Ok(());
                }
                Err(error) => error,
            };
            match wrong.kind {
                // It has gone; the watch tells.
                ErrorKind::NotFound => return Ok(()),
                ErrorKind::Conflict => {
                    let now = self.cluster.get(&kind(), &key.namespace, &key.name).await;
                    match now.map_err(|error| self.failed(&error))? {
                        Some(now) => self.all().read_anew(key, now),
                        None => return Ok(()),
                    }
                }
                _ => return Err(self.failed(&wrong)),
            }
        }
        Err(ServiceError::refused(format!(
            "application {key} was changed by others {TRIES} times while it was written; it is tried again"
        )))
    }

    /// The finalizers that say how an application is deleted are now these; those of others are left alone.
    async fn set_finalizers(&self, application: &Application) -> Result<(), ServiceError> {
        let key = AppKey::of(application);
        let made = |all: &mut All| all.with_finalizers(&key, &application.metadata.finalizers);
        self.write(&key, made, |all, object| all.read_anew(&key, object)).await
    }
}

fn kind() -> Gvk {
    Gvk::from_api_version(API_VERSION, "Application")
}

fn lock(all: &Mutex<All>) -> MutexGuard<'_, All> {
    all.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl ApplicationStore for KubernetesStore {
    fn base(&self) -> PathBuf {
        env::current_dir().unwrap_or_default()
    }

    fn home(&self) -> String {
        match self.reach.projects.as_str() {
            "" => CONTROL_NAMESPACE.to_owned(),
            namespace => namespace.to_owned(),
        }
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn watch(&self) -> UnboundedReceiver<StoreEvent> {
        let (tell, told) = unbounded_channel();
        let scopes = self.scopes();
        let followed = scopes.into_iter().map(|scope| {
            let namespace = scope.namespace.clone();
            follow(Arc::clone(&self.cluster), scope, PAUSES)
                .map(move |what| Happened::Applications(namespace.clone(), what))
                .boxed()
        });
        let projects = follow(Arc::clone(&self.cluster), projects::scope(&self.home()), PAUSES);
        let all = Arc::clone(&self.all);
        let mut followed = select_all(followed.chain([projects.map(Happened::Projects).boxed()]));
        tokio::spawn(async move {
            let mut known: Option<Named> = None;
            // What was told of applications before it was known what they may do.
            let mut early = Vec::new();
            while let Some(happened) = followed.next().await {
                // Told under the lock, so that nothing is told after what came later.
                let mut all = lock(&all);
                let events = match happened {
                    Happened::Applications(namespace, what) => of_applications(&mut all, namespace, what),
                    Happened::Projects(what) => {
                        projects::followed(&mut known, what).map(StoreEvent::Projects).into_iter().collect()
                    }
                };
                early.extend(events);
                if known.is_none() {
                    continue;
                }
                // The projects are the last of what was early.
                early.sort_by_key(|event| !matches!(event, StoreEvent::Projects(_)));
                if !tell_all(&tell, std::mem::take(&mut early)) {
                    return;
                }
            }
        });
        told
    }

    async fn keep(&self, application: &Application) -> Result<(), ServiceError> {
        let key = AppKey::of(application);
        let written = |all: &mut All, written| all.written(&key, application, written);
        self.write(&key, |all: &mut All| all.merged(&key, application), written).await
    }

    async fn delete(&self, application: &Application) -> Result<(), ServiceError> {
        self.set_finalizers(application).await?;
        let AppKey { namespace, name } = AppKey::of(application);
        let uid = application.metadata.uid.clone();
        let request = DeleteRequest {
            gvk: kind(),
            namespace,
            name,
            uid,
            resource_version: String::new(),
            propagation: Propagation::Background,
            dry_run: false,
            operation: None,
        };
        match self.cluster.delete(request).await {
            Err(error) if error.kind != ErrorKind::NotFound => Err(self.failed(&error)),
            _ => Ok(()),
        }
    }

    async fn release(&self, application: &Application) -> Result<(), ServiceError> {
        self.set_finalizers(application).await
    }

    /// It was the status of a resource that is gone.
    async fn forget(&self, _: &AppKey) -> Result<(), ServiceError> {
        Ok(())
    }
}

/// What was heard of the cluster.
enum Happened {
    /// Of the applications of a namespace, or of all.
    Applications(Option<String>, Followed),
    Projects(Followed),
}

fn of_applications(all: &mut All, namespace: Option<String>, what: Followed) -> Vec<StoreEvent> {
    match what {
        Followed::Listed(objects) => all.listed(namespace, objects),
        Followed::Applied(object) => all.applied(object),
        Followed::Deleted(object) => all.deleted(&object),
        Followed::Failing(error) => {
            tracing::warn!(%error, "the applications of the cluster cannot be watched; it is tried again");
            Vec::new()
        }
    }
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]
mod tests;
