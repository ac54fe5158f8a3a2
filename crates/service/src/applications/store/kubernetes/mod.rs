//! Applications as resources of a Kubernetes cluster. Their authors write `spec`, and may ask for an `operation`; what is
//! known of them is written into `status`, where `kubectl` and dashboards read it.
//!
//! ```text
//! list, watch ──▶ Seen (one per application) ──▶ StoreEvent, for what others have changed
//!                   ▲
//! keep ── merged ───┴── put (bound to the version that was seen; read anew and tried again after a conflict)
//! ```

mod resource;
pub(crate) mod seen;
pub(crate) mod shortened;
pub(crate) mod site;

use std::collections::BTreeSet;
use std::env;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::StreamExt as _;
use futures_util::stream::select_all;
use tidegate_application::CONTROL_NAMESPACE;
use tidegate_cluster::{Cluster, DeleteRequest, ErrorKind, Followed, Propagation, follow};
use tidegate_model::annotations::{DELETION_REQUESTED_BY, RESOURCES_FINALIZER};
use tidegate_model::argo::{API_VERSION, AppProject, Application};
use tidegate_model::{Destination, Gvk, ObjectKey};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

pub(crate) use self::resource::{Applications, read};
use self::seen::{All, writer_of_phase};
use self::site::{PAUSES, Part, Site, kind, lock};
use super::projects::{self, Named};
use super::{AppKey, ApplicationStore, StoreEvent, tell_all};
use crate::error::ServiceError;

/// Where only such applications are served (`--only-labelled`), it says so.
pub use tidegate_application::refresh::MANAGED_LABEL;

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
    pub(crate) site: Site,
    pub(crate) all: Arc<Mutex<All<Applications>>>,
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
        let all = Arc::new(Mutex::new(All::new(reach.clone())));
        let store = Self { site: Site { cluster, destination, reach }, all };
        let site = &store.site;
        if !site.serves::<Applications>().await? {
            return Err(ServiceError::refused(format!(
                "the {} serves no Applications ({API_VERSION}); `tidegate crds` prints their definitions: apply them, or name a folder of Applications with --apps",
                site.destination
            )));
        }
        site.try_list::<Applications>().await.map_err(|error| site.failed(&error))?;
        // Without its projects nobody knows what an application may do.
        match site.cluster.list(&projects::scope(&store.home())).await {
            Err(error) if error.kind != ErrorKind::UnknownKind => return Err(site.failed(&error)),
            _ => {}
        }
        Ok(store)
    }

    /// The finalizers that say how an application is deleted are now these; those of others are left alone.
    async fn set_finalizers(&self, application: &Application) -> Result<(), ServiceError> {
        let key = AppKey::of(application);
        let asker = application.annotation(DELETION_REQUESTED_BY);
        let made = |all: &mut All<Applications>| {
            let object = all.with_finalizers(&key, &application.metadata.finalizers);
            all.with_asker(&key, object, asker)
        };
        let what = (self.all.as_ref(), &key, Part::Whole);
        self.site.write(what, made, |all, object| all.read_anew(&key, object)).await.map(drop)
    }
}

#[async_trait]
impl ApplicationStore for KubernetesStore {
    fn base(&self) -> PathBuf {
        env::current_dir().unwrap_or_default()
    }

    fn home(&self) -> String {
        match self.site.reach.projects.as_str() {
            "" => CONTROL_NAMESPACE.to_owned(),
            namespace => namespace.to_owned(),
        }
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn watch(&self) -> UnboundedReceiver<StoreEvent> {
        let (tell, told) = unbounded_channel();
        let scopes = self.site.scopes::<Applications>();
        let followed = scopes.into_iter().map(|scope| {
            let namespace = scope.namespace.clone();
            follow(Arc::clone(&self.site.cluster), scope, PAUSES)
                .map(move |what| Happened::Applications(namespace.clone(), what))
                .boxed()
        });
        let projects = follow(Arc::clone(&self.site.cluster), projects::scope(&self.home()), PAUSES);
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
        let merged = |all: &mut All<Applications>| all.merged(&key, application);
        let written =
            |all: &mut All<Applications>, object| all.written(&key, application.operation.is_some(), object);
        self.site.write((self.all.as_ref(), &key, Part::Whole), merged, written).await.map(drop)
    }

    async fn delete(&self, application: &Application) -> Result<(), ServiceError> {
        self.set_finalizers(application).await?;
        let AppKey { namespace, name } = AppKey::of(application);
        let uid = application.metadata.uid.clone();
        let request = DeleteRequest {
            gvk: kind::<Applications>(),
            namespace,
            name,
            uid,
            resource_version: String::new(),
            propagation: Propagation::Background,
            dry_run: false,
            operation: None,
        };
        match self.site.cluster.delete(request).await {
            Err(error) if error.kind != ErrorKind::NotFound => Err(self.site.failed(&error)),
            _ => Ok(()),
        }
    }

    async fn release(&self, application: &Application) -> Result<(), ServiceError> {
        self.set_finalizers(application).await
    }

    /// Watches do not tell.
    async fn writer_of_phase(&self, key: &AppKey) -> Option<String> {
        let found = self.site.cluster.get(&kind::<Applications>(), &key.namespace, &key.name).await;
        writer_of_phase(&found.ok()??)
    }

    fn writer_of_approval(&self, key: &AppKey) -> Option<String> {
        lock(&self.all).approver(key).map(str::to_owned)
    }

    /// Beside an Argo CD it is for that, which knows all that name the project.
    async fn release_project(&self, project: &AppProject) -> Result<(), ServiceError> {
        if self.site.reach.only_labelled {
            return Ok(());
        }
        let AppProject { metadata, .. } = project;
        let gvk = Gvk::from_api_version(API_VERSION, projects::KIND);
        let key = ObjectKey::new(&gvk.group, &gvk.kind, self.home(), &metadata.name);
        let removed =
            self.site.cluster.remove_finalizer(&key, &gvk, &metadata.uid, RESOURCES_FINALIZER, None).await;
        removed.map_err(|error| self.site.failed(&error))
    }

    fn speaks_for(&self, key: &AppKey) -> bool {
        let namespaces = &self.site.reach.namespaces;
        namespaces.is_empty() || namespaces.contains(&key.namespace)
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

fn of_applications(
    all: &mut All<Applications>,
    namespace: Option<String>,
    what: Followed,
) -> Vec<StoreEvent> {
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
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
pub(crate) mod testing;
#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]
mod tests;
