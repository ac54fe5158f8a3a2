//! Stores over a folder or a simulated cluster, and what they tell.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tidegate_cluster::sim::{Clock, SimCluster, SimConfig};
use tidegate_cluster::{ApplyRequest, Cluster, WriteMode};
use tidegate_model::argo::{API_VERSION, Application, ApplicationSet, ApplicationSetCondition, definitions};
use tidegate_model::{Destination, Gvk, Object, Timestamp};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::applications::store::{AppKey, ApplicationStore, FolderStore, KubernetesStore, Reach, StoreEvent};
use crate::sets::store::{FolderSets, KubernetesSets, SetEvent, SetStore, StoredSet};

/// Where things are written down.
pub enum Backing {
    Folder(TempDir),
    Cluster(Arc<dyn Cluster>),
}

/// The stores of one process.
pub struct Open {
    pub sets: Arc<dyn SetStore>,
    pub events: UnboundedReceiver<SetEvent>,
    pub applications: Arc<dyn ApplicationStore>,
    pub told: UnboundedReceiver<StoreEvent>,
}

pub fn fleet() -> Value {
    json!({
        "apiVersion": API_VERSION, "kind": "ApplicationSet", "metadata": {"name": "fleet", "namespace": "argocd"},
        "spec": {
            "generators": [{"list": {"elements": [{"env": "dev"}]}}],
            "template": {
                "metadata": {"name": "{{env}}"},
                "spec": {"project": "default", "destination": {"name": "in-cluster"}, "source": {"repoURL": "./repo"}},
            },
        },
    })
}

pub fn web(name: &str) -> Application {
    serde_json::from_value(json!({
        "apiVersion": API_VERSION, "kind": "Application",
        "metadata": {
            "name": name, "namespace": "argocd", "labels": {"env": "dev"},
            "ownerReferences": [{"apiVersion": API_VERSION, "kind": "ApplicationSet", "name": "fleet", "uid": "1", "controller": true}],
        },
        "spec": {"project": "default", "destination": {"name": "in-cluster"}, "source": {"repoURL": "https://me:pass@example.com/a.git"}},
    }))
    .unwrap()
}

pub fn kind(kind: &str) -> Gvk {
    Gvk::from_api_version(API_VERSION, kind)
}

pub async fn apply(cluster: &dyn Cluster, value: Value) -> Object {
    let request = ApplyRequest::new(Object::try_from(value).unwrap(), WriteMode::Apply { force: true });
    cluster.apply(request).await.unwrap().object
}

/// Our own definitions: the status of a set is apart, that of an application is not. `is_apart`: or not.
pub async fn cluster(is_apart: bool) -> SimCluster {
    let clock = Clock::tokio(Timestamp::from_millis(1_700_000_000_000));
    let cluster = SimCluster::in_memory(SimConfig::default(), clock);
    for mut definition in definitions() {
        if !is_apart {
            let version = definition.pointer_mut("/spec/versions/0").unwrap();
            version.as_object_mut().unwrap().remove("subresources");
        }
        apply(&cluster, definition).await;
    }
    while cluster.discover().await.unwrap().get(&kind("ApplicationSet").group_kind()).is_none() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "argocd"}});
    apply(&cluster, namespace).await;
    cluster
}

/// All there are.
pub async fn backings() -> Vec<Backing> {
    vec![
        Backing::Folder(tempfile::tempdir().unwrap()),
        Backing::Cluster(Arc::new(cluster(true).await)),
        Backing::Cluster(Arc::new(cluster(false).await)),
    ]
}

impl Backing {
    pub async fn open(&self) -> Open {
        self.open_with(Reach::default()).await
    }

    pub async fn open_with(&self, reach: Reach) -> Open {
        let (applications, sets): (Arc<dyn ApplicationStore>, Arc<dyn SetStore>) = match self {
            Self::Folder(folder) => {
                let state = |name: &str| folder.path().join("state").join(name);
                let files = folder.path().join("apps");
                fs::create_dir_all(&files).unwrap();
                fs::create_dir_all(folder.path().join("state")).unwrap();
                let store = FolderStore::open(&files, state("applications"), state("generated")).unwrap();
                let sets = FolderSets::beside(&store, state("applicationsets"));
                (Arc::new(store), Arc::new(sets))
            }
            Self::Cluster(cluster) => {
                let store = KubernetesStore::open(Arc::clone(cluster), Destination::Simulated, reach);
                let store = store.await.unwrap();
                let sets = KubernetesSets::open(&store).await.unwrap();
                (Arc::new(store), Arc::new(sets))
            }
        };
        let (events, told) = (sets.watch(), applications.watch());
        Open { sets, events, applications, told }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        let Self::Folder(folder) = self else { panic!("no folder") };
        folder.path().join("apps").join(name)
    }

    /// The author's part of a set is this now.
    pub async fn write(&self, set: Value) {
        match self {
            Self::Folder(_) => self.write_file("fleet.yaml", &set.to_string()),
            Self::Cluster(cluster) => drop(apply(cluster.as_ref(), set).await),
        }
    }

    /// As editors do it.
    pub fn write_file(&self, name: &str, content: &str) {
        let path = self.file(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path.with_extension("swap"), content).unwrap();
        fs::rename(path.with_extension("swap"), path).unwrap();
    }

    pub async fn live(&self, kind_of: &str, name: &str) -> Object {
        let Self::Cluster(cluster) = self else { panic!("no cluster") };
        cluster.get(&kind(kind_of), "argocd", name).await.unwrap().unwrap()
    }
}

impl Open {
    pub async fn set(&mut self) -> StoredSet {
        loop {
            match self.events.recv().await.unwrap() {
                SetEvent::Applied(stored) => return *stored,
                SetEvent::Settled | SetEvent::Problems(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    pub async fn set_is_gone(&mut self) {
        loop {
            match self.events.recv().await.unwrap() {
                SetEvent::Gone(key) => return assert_eq!(key.name, "fleet"),
                SetEvent::Applied(stored) if stored.set.metadata.deletion_timestamp.is_some() => {}
                SetEvent::Settled | SetEvent::Problems(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    pub async fn problems(&mut self) -> Vec<String> {
        loop {
            match self.events.recv().await.unwrap() {
                SetEvent::Problems(problems) if !problems.is_empty() => return problems,
                SetEvent::Settled | SetEvent::Problems(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    pub async fn application(&mut self) -> Application {
        loop {
            match self.told.recv().await.unwrap() {
                StoreEvent::Applied(stored) => return stored.application,
                StoreEvent::Gone(key) => panic!("{key} is gone"),
                _ => {}
            }
        }
    }

    pub async fn application_is_gone(&mut self, wanted: &AppKey) {
        loop {
            match self.told.recv().await.unwrap() {
                StoreEvent::Gone(key) => return assert_eq!(key, *wanted),
                StoreEvent::Applied(stored) => assert!(stored.application.is_deleting(), "{stored:?}"),
                _ => {}
            }
        }
    }
}

pub fn condition(message: &str) -> ApplicationSetCondition {
    let (kind, status, reason) = ("ErrorOccurred".into(), "True".into(), "ErrorOccurred".into());
    ApplicationSetCondition { kind, status, reason, message: message.into(), ..Default::default() }
}

pub fn spec_of(set: &ApplicationSet) -> Value {
    serde_json::to_value(&set.spec).unwrap()
}
