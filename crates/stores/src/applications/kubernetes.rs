//! Applications as resources in a Kubernetes cluster. Users write `spec` and may request an `operation`. The
//! controller writes `status` for `kubectl` and dashboards.
//!
//! ```text
//! list, watch ──▶ ObservedResources ──▶ StoreEvent, for changes by other clients
//!                   ▲
//! adoption ─────────┤
//! persist ── merge ─┴── write (bound to the observed version; read again and retried after a conflict)
//! ```

pub mod adoption;
pub mod object_fields;
pub mod observed_resources;
mod resource;
pub mod resource_client;
pub mod status_size;

use std::collections::BTreeSet;
use std::env;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use async_trait::async_trait;
use futures_util::StreamExt as _;
use futures_util::stream::select_all;
use tidegate_application::control_namespace;
use tidegate_cluster::{
    Cluster, DeleteRequest, ErrorKind, FinalizerRemoval, Propagation, ScopeChange, list_and_watch,
};
use tidegate_model::annotations::{DELETION_REQUESTED_BY, RESOURCES_FINALIZER};
use tidegate_model::argo::{API_VERSION, AppProject, Application};
use tidegate_model::{Destination, Gvk, Object};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use self::adoption::{Adoption, AdoptionCheck};
use self::object_fields::writer_of_phase;
use self::observed_resources::{CandidateId, ObservedResources};
pub use self::resource::{ApplicationKind, parse_application};
use tidegate_application::AppKey;
use tidegate_state::error::ServiceError;
use tidegate_state::owned_shards::OwnedShards;

use self::resource_client::{RELIST_DELAYS, ResourceClient, WriteTarget, WrittenPart, lock, managed_kind};
use super::projects::{self, ProjectResults};
use super::{ApplicationStore, StoreEvent, send_events};

/// Label of the managed Applications with `--only-labelled`.
pub use tidegate_application::refresh::MANAGED_LABEL;

/// Selection of the managed Applications in a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManagedScope {
    /// Namespaces of the Applications; empty for all.
    pub namespaces: BTreeSet<String>,
    /// True if only Applications with [`MANAGED_LABEL`] are managed.
    pub is_label_required: bool,
    /// Namespace of the projects; empty for the control plane's namespace.
    pub project_namespace: String,
}

/// Store for Applications in a Kubernetes cluster.
pub struct KubernetesStore {
    pub(crate) client: ResourceClient,
    pub(crate) resources: Arc<Mutex<ObservedResources<ApplicationKind>>>,
    shards_changed: Arc<Notify>,
    adoption_check: OnceLock<AdoptionCheck>,
}

impl KubernetesStore {
    /// Opens the store.
    ///
    /// # Errors
    ///
    /// Returns an error if the cluster doesn't respond, lacks the Application kind, or denies access.
    pub async fn open(
        cluster: Arc<dyn Cluster>,
        destination: Destination,
        scope: ManagedScope,
    ) -> Result<Self, ServiceError> {
        let resources = Arc::new(Mutex::new(ObservedResources::new(scope.clone())));
        let client = ResourceClient { cluster, destination, scope };
        let store =
            Self { client, resources, shards_changed: Arc::default(), adoption_check: OnceLock::new() };
        let client = &store.client;
        if !client.has_kind::<ApplicationKind>().await? {
            return Err(ServiceError::refused(format!(
                "the {} does not serve Applications ({API_VERSION}); apply the output of `tidegate crds`, or set a folder of \
                 Applications with --apps",
                client.destination
            )));
        }
        client
            .check_list_permission::<ApplicationKind>()
            .await
            .map_err(|error| client.store_error(&error))?;
        // Without the projects, the Applications' permissions are unknown.
        match client.cluster.list(&projects::scope(&store.project_namespace())).await {
            Err(error) if error.kind != ErrorKind::UnknownKind => return Err(client.store_error(&error)),
            _ => {}
        }
        Ok(store)
    }

    /// Replaces Tidegate's own finalizers on an Application, keeping all others.
    async fn set_finalizers(&self, application: &Application) -> Result<(), ServiceError> {
        let key = AppKey::of(application);
        let requester = application.annotation(DELETION_REQUESTED_BY);
        let build = |all: &mut ObservedResources<ApplicationKind>| {
            let object = all.with_finalizers(&key, &application.metadata.finalizers);
            all.with_requester(&key, object, requester)
        };
        let target = WriteTarget { all: &self.resources, key: &key, part: WrittenPart::Resource };
        self.client.write(target, build, |all, object| all.record_conflict(&key, object)).await.map(drop)
    }
}

#[async_trait]
impl ApplicationStore for KubernetesStore {
    fn base(&self) -> PathBuf {
        env::current_dir().unwrap_or_default()
    }

    fn project_namespace(&self) -> String {
        match self.client.scope.project_namespace.as_str() {
            "" => control_namespace().to_owned(),
            namespace => namespace.to_owned(),
        }
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn watch(&self) -> UnboundedReceiver<StoreEvent> {
        let (sender, receiver) = unbounded_channel();
        let scopes = self.client.watched_scopes::<ApplicationKind>();
        let followed = scopes.into_iter().map(|scope| {
            let namespace = scope.namespace.clone();
            list_and_watch(Arc::clone(&self.client.cluster), scope, RELIST_DELAYS)
                .map(move |what| StoreWatchEvent::Applications(namespace.clone(), what))
                .boxed()
        });
        let projects = list_and_watch(
            Arc::clone(&self.client.cluster),
            projects::scope(&self.project_namespace()),
            RELIST_DELAYS,
        );
        let (all, shards_changed) = (Arc::clone(&self.resources), Arc::clone(&self.shards_changed));
        let mut adoption = Adoption::new(self.client.clone(), self.adoption_check.get().cloned());
        let mut followed = select_all(followed.chain([projects.map(StoreWatchEvent::Projects).boxed()]));
        tokio::spawn(async move {
            let mut known: Option<ProjectResults> = None;
            // Application events received before the projects were read.
            let mut early = Vec::new();
            loop {
                let happened = tokio::select! {
                    happened = followed.next() => happened,
                    () = shards_changed.notified() => Some(StoreWatchEvent::ShardsChanged),
                    objects = adoption.next(&all) => Some(StoreWatchEvent::Adopted(objects)),
                };
                let Some(happened) = happened else { return };
                // Hold the lock while sending, to preserve the order of events.
                let mut all = lock(&all);
                early.extend(all.take_queued());
                let events = match happened {
                    StoreWatchEvent::ShardsChanged => Vec::new(),
                    StoreWatchEvent::Adopted(objects) => objects
                        .into_iter()
                        .flat_map(|(object, candidate)| all.adopt(object, candidate))
                        .collect(),
                    StoreWatchEvent::Applications(namespace, what) => {
                        application_events(&mut all, namespace, what)
                    }
                    StoreWatchEvent::Projects(what) => projects::apply_event(&mut known, what)
                        .map(StoreEvent::Projects)
                        .into_iter()
                        .collect(),
                };
                early.extend(events);
                if known.is_none() {
                    continue;
                }
                // The projects arrived last but must be sent first.
                early.sort_by_key(|event| !matches!(event, StoreEvent::Projects(_)));
                if !send_events(&sender, std::mem::take(&mut early)) {
                    return;
                }
            }
        });
        receiver
    }

    fn set_adoption_check(&self, check: AdoptionCheck) {
        let _ = self.adoption_check.set(check);
    }

    fn set_owned_shards(&self, owned: OwnedShards) {
        lock(&self.resources).set_owned_shards(owned);
        self.shards_changed.notify_one();
    }

    async fn persist(&self, application: &Application) -> Result<(), ServiceError> {
        let key = AppKey::of(application);
        let merged = |all: &mut ObservedResources<ApplicationKind>| all.with_state(&key, application);
        let written = |all: &mut ObservedResources<ApplicationKind>, object| {
            all.record_write(&key, application.operation.is_some(), object)
        };
        let target = WriteTarget { all: &self.resources, key: &key, part: WrittenPart::Resource };
        self.client.write(target, merged, written).await.map(drop)
    }

    async fn delete(&self, application: &Application) -> Result<(), ServiceError> {
        self.set_finalizers(application).await?;
        let AppKey { namespace, name } = AppKey::of(application);
        let uid = application.metadata.uid.clone();
        let request = DeleteRequest {
            gvk: managed_kind::<ApplicationKind>(),
            namespace,
            name,
            uid,
            resource_version: String::new(),
            propagation: Propagation::Background,
            dry_run: false,
            operation: None,
        };
        match self.client.cluster.delete(request).await {
            Err(error) if error.kind != ErrorKind::NotFound => Err(self.client.store_error(&error)),
            _ => Ok(()),
        }
    }

    async fn release(&self, application: &Application) -> Result<(), ServiceError> {
        self.set_finalizers(application).await
    }

    /// Reads the object from the cluster, because the watched object has no `managedFields`.
    async fn writer_of_phase(&self, key: &AppKey) -> Option<String> {
        let found =
            self.client.cluster.get(&managed_kind::<ApplicationKind>(), &key.namespace, &key.name).await;
        writer_of_phase(&found.ok()??)
    }

    fn writer_of_approval(&self, key: &AppKey) -> Option<String> {
        lock(&self.resources).approver(key).map(str::to_owned)
    }

    /// If Argo CD is also running, it must release the project: only Argo CD knows all Applications that use
    /// it.
    async fn release_project(&self, project: &AppProject) -> Result<(), ServiceError> {
        if self.client.scope.is_label_required {
            return Ok(());
        }
        let AppProject { metadata, .. } = project;
        let request = FinalizerRemoval {
            gvk: Gvk::from_api_version(API_VERSION, projects::KIND),
            namespace: self.project_namespace(),
            name: metadata.name.clone(),
            uid: metadata.uid.clone(),
            finalizer: RESOURCES_FINALIZER.to_owned(),
            operation: None,
        };
        let removed = self.client.cluster.remove_finalizer(request).await;
        removed.map_err(|error| self.client.store_error(&error))
    }

    fn is_authoritative(&self, key: &AppKey) -> bool {
        let namespaces = &self.client.scope.namespaces;
        namespaces.is_empty() || namespaces.contains(&key.namespace)
    }

    /// Does nothing: the state went away with the resource's status.
    async fn delete_state(&self, _: &AppKey) -> Result<(), ServiceError> {
        Ok(())
    }
}

/// A watch event from the cluster.
enum StoreWatchEvent {
    /// A change to the Applications in a namespace, or in all namespaces if `None`.
    Applications(Option<String>, ScopeChange),
    Projects(ScopeChange),
    /// The shards that this process owns have changed.
    ShardsChanged,
    /// Applications that this process starts to manage, in their current state.
    Adopted(Vec<(Object, CandidateId)>),
}

fn application_events(
    all: &mut ObservedResources<ApplicationKind>,
    namespace: Option<String>,
    what: ScopeChange,
) -> Vec<StoreEvent> {
    match what {
        ScopeChange::Listed(objects) => all.apply_list(namespace, objects),
        ScopeChange::Applied(object) => all.apply_object(object),
        ScopeChange::Deleted(object) => all.apply_deletion(&object),
        ScopeChange::Failing(error) => {
            tracing::warn!(%error, "failed to watch Applications; retrying");
            Vec::new()
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]
mod tests;
