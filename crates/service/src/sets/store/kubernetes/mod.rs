//! ApplicationSets as resources of a Kubernetes cluster, beside the Applications: their authors write `spec`, what is known
//! of them is written into `status`, and what they generate is made, changed and deleted as resources. What a set has owned
//! goes after it, by Kubernetes' garbage collector.

mod resource;

use std::env;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::StreamExt as _;
use futures_util::stream::select_all;
use tidegate_cluster::{DeleteRequest, Deleted, ErrorKind, Followed, Propagation, follow};
use tidegate_model::annotations::DELETION_REQUESTED_BY;
use tidegate_model::argo::{Application, ApplicationSet};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use self::resource::Sets;
use super::{Found, SetEvent, SetStore, Written};
use crate::applications::store::kubernetes::Applications;
use crate::applications::store::kubernetes::seen::{All, Served};
use crate::applications::store::kubernetes::site::{Outcome, PAUSES, Part, Site, kind, lock};
use crate::applications::store::{AppKey, KubernetesStore, MANAGED_LABEL};
use crate::error::ServiceError;

/// ApplicationSets of a Kubernetes cluster.
pub struct KubernetesSets {
    site: Site,
    applications: Arc<Mutex<All<Applications>>>,
    all: Arc<Mutex<All<Sets>>>,
}

impl KubernetesSets {
    /// Those beside the Applications of a cluster, of the same reach. Where the cluster serves no ApplicationSets there are
    /// none, until it does; where we may not list them, the watch says so.
    ///
    /// # Errors
    ///
    /// The cluster does not answer.
    pub async fn open(applications: &KubernetesStore) -> Result<Self, ServiceError> {
        let site = applications.site.clone();
        if site.serves::<Sets>().await? {
            match site.try_list::<Sets>().await {
                Err(error) if is_refused(error.kind).is_none() => return Err(site.failed(&error)),
                _ => {}
            }
        }
        let all = Arc::new(Mutex::new(All::new(site.reach.clone())));
        Ok(Self { site, applications: Arc::clone(&applications.all), all })
    }

    async fn remove<K: Served>(
        &self,
        key: &AppKey,
        uid: &str,
        propagation: Propagation,
    ) -> Result<Found, ServiceError> {
        // Without one, any object of the name would be meant.
        if uid.is_empty() {
            return Err(ServiceError::refused(format!("{} {key} has no UID, so it is not deleted", K::NOUN)));
        }
        let AppKey { namespace, name } = key.clone();
        let request = DeleteRequest {
            gvk: kind::<K>(),
            namespace,
            name,
            uid: uid.to_owned(),
            resource_version: String::new(),
            propagation,
            dry_run: false,
            operation: None,
        };
        match self.site.cluster.delete(request).await {
            Ok(Deleted::Deleting) => Ok(Found::There),
            Ok(Deleted::Gone) => Ok(Found::Gone),
            Err(error) if error.kind == ErrorKind::NotFound => Ok(Found::Gone),
            // Another one of its name, or that was read while it went.
            Err(error) if error.kind == ErrorKind::Conflict => self.find::<K>(key, uid).await,
            Err(error) => Err(self.site.failed(&error)),
        }
    }

    async fn find<K: Served>(&self, key: &AppKey, uid: &str) -> Result<Found, ServiceError> {
        let found = self.site.cluster.get(&kind::<K>(), &key.namespace, &key.name).await;
        let found = found.map_err(|error| self.site.failed(&error))?;
        Ok(if found.is_some_and(|object| object.uid() == uid) { Found::There } else { Found::Gone })
    }
}

/// Whether sets cannot be listed as things are, whatever the cluster does: why, where somebody should mend that.
fn is_refused(kind: ErrorKind) -> Option<bool> {
    match kind {
        ErrorKind::UnknownKind => Some(false),
        ErrorKind::Forbidden => Some(true),
        _ => None,
    }
}

fn happened(all: &mut All<Sets>, namespace: Option<String>, what: Followed) -> Vec<SetEvent> {
    match what {
        Followed::Listed(objects) => all.listed(namespace, objects),
        Followed::Applied(object) => all.applied(object),
        Followed::Deleted(object) => all.deleted(&object),
        Followed::Failing(error) => match is_refused(error.kind) {
            Some(is_mended) => {
                let why = || format!("ApplicationSets are not served: {error}");
                all.refused(namespace, is_mended.then(why))
            }
            None => {
                tracing::warn!(%error, "the ApplicationSets of the cluster cannot be watched; it is tried again");
                Vec::new()
            }
        },
    }
}

#[async_trait]
impl SetStore for KubernetesSets {
    fn base(&self) -> PathBuf {
        env::current_dir().unwrap_or_default()
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn collects_garbage(&self) -> bool {
        true
    }

    fn own_labels(&self) -> &'static [&'static str] {
        if self.site.reach.only_labelled { &[MANAGED_LABEL] } else { &[] }
    }

    fn watch(&self) -> UnboundedReceiver<SetEvent> {
        let (tell, told) = unbounded_channel();
        let followed = self.site.scopes::<Sets>().into_iter().map(|scope| {
            let namespace = scope.namespace.clone();
            follow(Arc::clone(&self.site.cluster), scope, PAUSES)
                .map(move |what| (namespace.clone(), what))
                .boxed()
        });
        let mut followed = select_all(followed);
        let all = Arc::clone(&self.all);
        tokio::spawn(async move {
            loop {
                let next = tokio::select! {
                    next = followed.next() => next,
                    () = tell.closed() => return,
                };
                let Some((namespace, what)) = next else { return };
                // Told under the lock, so that nothing is told after what came later.
                let mut all = lock(&all);
                for event in happened(&mut all, namespace, what) {
                    if tell.send(event).is_err() {
                        return;
                    }
                }
            }
        });
        told
    }

    async fn keep(&self, set: &ApplicationSet) -> Result<(), ServiceError> {
        let key = AppKey::of_set(set);
        let what = (self.all.as_ref(), &key, Part::Status);
        let made = |all: &mut All<Sets>| all.with_status(&key, set);
        self.site.write(what, made, |all, object| all.read_anew(&key, object)).await.map(drop)
    }

    async fn mark(&self, set: &ApplicationSet) -> Result<(), ServiceError> {
        let key = AppKey::of_set(set);
        let what = (self.all.as_ref(), &key, Part::Whole);
        let made = |all: &mut All<Sets>| all.marked(&key, set);
        self.site.write(what, made, |all, object| all.written(&key, false, object)).await.map(drop)
    }

    async fn annotate(
        &self,
        set: &ApplicationSet,
        names: &'static [&'static str],
    ) -> Result<(), ServiceError> {
        let key = AppKey::of_set(set);
        let what = (self.all.as_ref(), &key, Part::Whole);
        let made = |all: &mut All<Sets>| all.annotated(&key, set, names);
        self.site.write(what, made, |all, object| all.written(&key, false, object)).await.map(drop)
    }

    async fn is_going(&self, set: &ApplicationSet) -> Result<bool, ServiceError> {
        let AppKey { namespace, name } = AppKey::of_set(set);
        let found = self.site.cluster.get(&kind::<Sets>(), &namespace, &name).await;
        let found = found.map_err(|error| self.site.failed(&error))?;
        let found = found.filter(|object| object.uid() == set.metadata.uid);
        Ok(found.is_some_and(|object| object.pointer("/metadata/deletionTimestamp").is_some()))
    }

    async fn is_there(&self, set: &ApplicationSet) -> Result<bool, ServiceError> {
        Ok(self.find::<Sets>(&AppKey::of_set(set), &set.metadata.uid).await? == Found::There)
    }

    async fn delete(&self, set: &ApplicationSet, orphan: bool) -> Result<(), ServiceError> {
        let propagation = if orphan { Propagation::Orphan } else { Propagation::Background };
        let key = AppKey::of_set(set);
        let what = (self.all.as_ref(), &key, Part::Whole);
        let asker = set.metadata.annotations.get(DELETION_REQUESTED_BY).map(String::as_str);
        let made = |all: &mut All<Sets>| all.with_asker(&key, None, asker);
        self.site.write(what, made, |all, object| all.written(&key, false, object)).await?;
        self.remove::<Sets>(&key, &set.metadata.uid, propagation).await.map(drop)
    }

    /// It was the status of a resource that is gone.
    async fn forget(&self, _: &AppKey) -> Result<(), ServiceError> {
        Ok(())
    }

    async fn create(&self, application: &Application) -> Result<Written, ServiceError> {
        let key = AppKey::of(application);
        let made = lock(&self.applications).made(application);
        let made = made.map_err(|error| {
            ServiceError::refused(format!("application {key} cannot be written: {error}"))
        })?;
        match self.site.cluster.put(made, None).await {
            Ok(_) => Ok(Written::Done),
            Err(error) if error.kind == ErrorKind::AlreadyExists => {
                Ok(Written::Outdated(format!("there is an application {key} by now")))
            }
            Err(error) => Err(self.site.failed(&error)),
        }
    }

    async fn update(&self, application: &Application) -> Result<Written, ServiceError> {
        let key = AppKey::of(application);
        let what = (self.applications.as_ref(), &key, Part::Whole);
        let made = |all: &mut All<Applications>| all.updated(&key, application);
        let outcome = self.site.write(what, made, |all, object| all.read_anew(&key, object)).await?;
        Ok(match outcome {
            Outcome::Written => Written::Done,
            Outcome::Nothing => {
                Written::Outdated(format!("application {key} was changed since it was looked at"))
            }
            Outcome::Gone => Written::Outdated(format!("application {key} is gone")),
        })
    }

    async fn delete_application(&self, key: &AppKey, uid: &str) -> Result<Found, ServiceError> {
        self.remove::<Applications>(key, uid, Propagation::Background).await
    }

    async fn look(&self, key: &AppKey, uid: &str) -> Result<Found, ServiceError> {
        self.find::<Applications>(key, uid).await
    }
}
