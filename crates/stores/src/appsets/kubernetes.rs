//! ApplicationSets as resources in the same Kubernetes cluster as their Applications. Users write `spec`, and
//! the controller writes `status`. Generated Applications are resources, too, and the Kubernetes garbage
//! collector deletes them after their ApplicationSet.

mod resource;

use std::env;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::StreamExt as _;
use futures_util::stream::select_all;
use tidegate_application::AppKey;
use tidegate_cluster::{DeleteRequest, DeleteResult, ErrorKind, Propagation, ScopeChange, list_and_watch};
use tidegate_model::annotations::DELETION_REQUESTED_BY;
use tidegate_model::argo::{Application, ApplicationSet};
use tidegate_state::error::ServiceError;
use tidegate_state::owned_shards::OwnedShards;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use self::resource::ApplicationSets;
use super::{AppSetEvent, AppSetStore, Existence, WriteResult};
use crate::applications::kubernetes::ApplicationKind;
use crate::applications::kubernetes::adoption::Adoption;
use crate::applications::kubernetes::observed_resources::{ManagedKind, ObservedResources};
use crate::applications::kubernetes::resource_client::{
    RELIST_DELAYS, ResourceClient, WriteOutcome, WriteTarget, WrittenPart, lock, managed_kind,
};
use crate::applications::{KubernetesStore, MANAGED_LABEL};

/// ApplicationSets in a Kubernetes cluster.
pub struct KubernetesAppSetStore {
    client: ResourceClient,
    applications: Arc<Mutex<ObservedResources<ApplicationKind>>>,
    all: Arc<Mutex<ObservedResources<ApplicationSets>>>,
    shards_changed: Arc<Notify>,
}

impl KubernetesAppSetStore {
    /// Opens the ApplicationSets in the same cluster and scope as the given Applications. If the cluster
    /// lacks the kind, there are none until it is installed. If listing ApplicationSets is forbidden, the
    /// watch reports it.
    ///
    /// # Errors
    ///
    /// Returns an error if the cluster doesn't respond.
    pub async fn open(applications: &KubernetesStore) -> Result<Self, ServiceError> {
        let client = applications.client.clone();
        if client.has_kind::<ApplicationSets>().await? {
            match client.check_list_permission::<ApplicationSets>().await {
                Err(error) if listing_refusal(error.kind).is_none() => return Err(client.store_error(&error)),
                _ => {}
            }
        }
        let all = Arc::new(Mutex::new(ObservedResources::new(client.scope.clone())));
        let applications = Arc::clone(&applications.resources);
        Ok(Self { client, applications, all, shards_changed: Arc::default() })
    }

    async fn remove<K: ManagedKind>(
        &self,
        key: &AppKey,
        uid: &str,
        propagation: Propagation,
    ) -> Result<Existence, ServiceError> {
        // Without a UID, the request would delete any object with this name.
        if uid.is_empty() {
            return Err(ServiceError::refused(format!(
                "{} {key} has no UID, so it was not deleted",
                K::NOUN
            )));
        }
        let AppKey { namespace, name } = key.clone();
        let request = DeleteRequest {
            gvk: managed_kind::<K>(),
            namespace,
            name,
            uid: uid.to_owned(),
            resource_version: String::new(),
            propagation,
            dry_run: false,
            operation: None,
        };
        match self.client.cluster.delete(request).await {
            Ok(DeleteResult::Deleting) => Ok(Existence::Exists),
            Ok(DeleteResult::Gone) => Ok(Existence::Gone),
            Err(error) if error.kind == ErrorKind::NotFound => Ok(Existence::Gone),
            // The name belongs to a different object now, or the object was read during its deletion.
            Err(error) if error.kind == ErrorKind::Conflict => self.find::<K>(key, uid).await,
            Err(error) => Err(self.client.store_error(&error)),
        }
    }

    async fn find<K: ManagedKind>(&self, key: &AppKey, uid: &str) -> Result<Existence, ServiceError> {
        let found = self.client.cluster.get(&managed_kind::<K>(), &key.namespace, &key.name).await;
        let found = found.map_err(|error| self.client.store_error(&error))?;
        Ok(if found.is_some_and(|object| object.uid() == uid) { Existence::Exists } else { Existence::Gone })
    }
}

/// Returns `Some` if the cluster's current setup doesn't allow listing ApplicationSets, with true if a user
/// must fix it.
fn listing_refusal(kind: ErrorKind) -> Option<bool> {
    match kind {
        ErrorKind::UnknownKind => Some(false),
        ErrorKind::Forbidden => Some(true),
        _ => None,
    }
}

fn watch_events(
    all: &mut ObservedResources<ApplicationSets>,
    namespace: Option<String>,
    what: ScopeChange,
) -> Vec<AppSetEvent> {
    match what {
        ScopeChange::Listed(objects) => all.apply_list(namespace, objects),
        ScopeChange::Applied(object) => all.apply_object(object),
        ScopeChange::Deleted(object) => all.apply_deletion(&object),
        ScopeChange::Failing(error) => match listing_refusal(error.kind) {
            Some(is_fixable) => {
                let reason = || format!("ApplicationSets are not managed: {error}");
                all.record_denied(namespace, is_fixable.then(reason))
            }
            None => {
                tracing::warn!(%error, "failed to watch ApplicationSets; retrying");
                Vec::new()
            }
        },
    }
}

#[async_trait]
impl AppSetStore for KubernetesAppSetStore {
    fn base(&self) -> PathBuf {
        env::current_dir().unwrap_or_default()
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn has_garbage_collector(&self) -> bool {
        true
    }

    fn own_labels(&self) -> &'static [&'static str] {
        if self.client.scope.is_label_required { &[MANAGED_LABEL] } else { &[] }
    }

    fn watch(&self) -> UnboundedReceiver<AppSetEvent> {
        let (sender, receiver) = unbounded_channel();
        let followed = self.client.watched_scopes::<ApplicationSets>().into_iter().map(|scope| {
            let namespace = scope.namespace.clone();
            list_and_watch(Arc::clone(&self.client.cluster), scope, RELIST_DELAYS)
                .map(move |what| (namespace.clone(), what))
                .boxed()
        });
        let mut followed = select_all(followed);
        let (all, shards_changed) = (Arc::clone(&self.all), Arc::clone(&self.shards_changed));
        let mut adoption = Adoption::new(self.client.clone(), None);
        tokio::spawn(async move {
            loop {
                let mut adopted = Vec::new();
                let change = tokio::select! {
                    next = followed.next() => match next {
                        Some(change) => Some(change),
                        None => return,
                    },
                    () = shards_changed.notified() => None,
                    objects = adoption.next(&all) => {
                        adopted = objects;
                        None
                    }
                    () = sender.closed() => return,
                };
                // Hold the lock while sending, to preserve the order of events.
                let mut all = lock(&all);
                let mut events = all.take_queued();
                events
                    .extend(adopted.into_iter().flat_map(|(object, candidate)| all.adopt(object, candidate)));
                events.extend(
                    change.into_iter().flat_map(|(namespace, what)| watch_events(&mut all, namespace, what)),
                );
                for event in events {
                    if sender.send(event).is_err() {
                        return;
                    }
                }
            }
        });
        receiver
    }

    fn set_owned_shards(&self, owned: OwnedShards) {
        lock(&self.all).set_owned_shards(owned);
        self.shards_changed.notify_one();
    }

    async fn write_status(&self, set: &ApplicationSet) -> Result<(), ServiceError> {
        let key = AppKey::of_appset(set);
        let target = WriteTarget { all: &self.all, key: &key, part: WrittenPart::Status };
        let build = |all: &mut ObservedResources<ApplicationSets>| all.with_status(&key, set);
        self.client.write(target, build, |all, object| all.record_conflict(&key, object)).await.map(drop)
    }

    async fn write_finalizer(&self, set: &ApplicationSet) -> Result<(), ServiceError> {
        let key = AppKey::of_appset(set);
        let target = WriteTarget { all: &self.all, key: &key, part: WrittenPart::Resource };
        let build = |all: &mut ObservedResources<ApplicationSets>| all.with_finalizer(&key, set);
        self.client.write(target, build, |all, object| all.record_write(&key, false, object)).await.map(drop)
    }

    async fn write_annotations(
        &self,
        set: &ApplicationSet,
        names: &'static [&'static str],
    ) -> Result<(), ServiceError> {
        let key = AppKey::of_appset(set);
        let target = WriteTarget { all: &self.all, key: &key, part: WrittenPart::Resource };
        let build = |all: &mut ObservedResources<ApplicationSets>| all.with_annotations(&key, set, names);
        self.client.write(target, build, |all, object| all.record_write(&key, false, object)).await.map(drop)
    }

    async fn is_being_deleted(&self, set: &ApplicationSet) -> Result<bool, ServiceError> {
        let AppKey { namespace, name } = AppKey::of_appset(set);
        let found = self.client.cluster.get(&managed_kind::<ApplicationSets>(), &namespace, &name).await;
        let found = found.map_err(|error| self.client.store_error(&error))?;
        let found = found.filter(|object| object.uid() == set.metadata.uid);
        Ok(found.is_some_and(|object| object.pointer("/metadata/deletionTimestamp").is_some()))
    }

    async fn exists(&self, set: &ApplicationSet) -> Result<bool, ServiceError> {
        Ok(self.find::<ApplicationSets>(&AppKey::of_appset(set), &set.metadata.uid).await?
            == Existence::Exists)
    }

    async fn delete(&self, set: &ApplicationSet, orphan: bool) -> Result<(), ServiceError> {
        let propagation = if orphan { Propagation::Orphan } else { Propagation::Background };
        let key = AppKey::of_appset(set);
        let target = WriteTarget { all: &self.all, key: &key, part: WrittenPart::Resource };
        let requester = set.metadata.annotations.get(DELETION_REQUESTED_BY).map(String::as_str);
        let build = |all: &mut ObservedResources<ApplicationSets>| all.with_requester(&key, None, requester);
        self.client.write(target, build, |all, object| all.record_write(&key, false, object)).await?;
        self.remove::<ApplicationSets>(&key, &set.metadata.uid, propagation).await.map(drop)
    }

    /// Does nothing: the state went away with the resource's status.
    async fn remove_state(&self, _: &AppKey) -> Result<(), ServiceError> {
        Ok(())
    }

    async fn create(&self, application: &Application) -> Result<WriteResult, ServiceError> {
        let key = AppKey::of(application);
        let made = lock(&self.applications).new_resource(application);
        let made =
            made.map_err(|error| ServiceError::refused(format!("cannot write application {key}: {error}")))?;
        match self.client.cluster.put(made, None).await {
            Ok(_) => Ok(WriteResult::Done),
            Err(error) if error.kind == ErrorKind::AlreadyExists => {
                Ok(WriteResult::Outdated(format!("application {key} already exists")))
            }
            Err(error) => Err(self.client.store_error(&error)),
        }
    }

    async fn update(&self, application: &Application) -> Result<WriteResult, ServiceError> {
        let key = AppKey::of(application);
        let target = WriteTarget { all: &self.applications, key: &key, part: WrittenPart::Resource };
        let build = |all: &mut ObservedResources<ApplicationKind>| all.with_spec(&key, application);
        let outcome =
            self.client.write(target, build, |all, object| all.record_conflict(&key, object)).await?;
        Ok(match outcome {
            WriteOutcome::Written => WriteResult::Done,
            WriteOutcome::Unchanged => {
                WriteResult::Outdated(format!("application {key} has changed since it was read"))
            }
            WriteOutcome::Gone => WriteResult::Outdated(format!("application {key} no longer exists")),
        })
    }

    async fn delete_application(&self, key: &AppKey, uid: &str) -> Result<Existence, ServiceError> {
        self.remove::<ApplicationKind>(key, uid, Propagation::Background).await
    }

    async fn application_existence(&self, key: &AppKey, uid: &str) -> Result<Existence, ServiceError> {
        self.find::<ApplicationKind>(key, uid).await
    }
}
