//! Stores based on a folder or a simulated cluster, and their events.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;
use tidegate_cluster::Cluster;
use tidegate_model::argo::{API_VERSION, Application, ApplicationSet, ApplicationSetCondition};
use tidegate_model::{Destination, Object};
use tidegate_testkit::argo_cluster::{apply, argo_gvk, cluster_with_definitions};
use tokio::sync::mpsc::UnboundedReceiver;

use tidegate_application::AppKey;

use crate::applications::{ApplicationStore, FolderStore, KubernetesStore, ManagedScope, StoreEvent};
use crate::appsets::{AppSetEvent, AppSetStore, FolderAppSetStore, KubernetesAppSetStore, StoredAppSet};

/// Backend of a store.
pub enum StoreBackend {
    Folder(TempDir),
    Cluster(Arc<dyn Cluster>),
}

/// Stores of one process.
pub struct OpenStores {
    pub sets: Arc<dyn AppSetStore>,
    pub events: UnboundedReceiver<AppSetEvent>,
    pub applications: Arc<dyn ApplicationStore>,
    pub application_events: UnboundedReceiver<StoreEvent>,
}

pub fn sample_appset() -> Value {
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

pub fn sample_application(name: &str) -> Application {
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

pub async fn all_backends() -> Vec<StoreBackend> {
    vec![
        StoreBackend::Folder(tempfile::tempdir().unwrap()),
        StoreBackend::Cluster(Arc::new(cluster_with_definitions(true).await)),
        StoreBackend::Cluster(Arc::new(cluster_with_definitions(false).await)),
    ]
}

impl StoreBackend {
    pub async fn open(&self) -> OpenStores {
        self.open_with_scope(ManagedScope::default()).await
    }

    pub async fn open_with_scope(&self, reach: ManagedScope) -> OpenStores {
        let (applications, sets): (Arc<dyn ApplicationStore>, Arc<dyn AppSetStore>) = match self {
            Self::Folder(folder) => {
                let state = |name: &str| folder.path().join("state").join(name);
                let files = folder.path().join("apps");
                fs::create_dir_all(&files).unwrap();
                fs::create_dir_all(folder.path().join("state")).unwrap();
                let store = FolderStore::open(&files, state("applications"), state("generated")).unwrap();
                let sets = FolderAppSetStore::open(&store, state("applicationsets"));
                (Arc::new(store), Arc::new(sets))
            }
            Self::Cluster(cluster) => {
                let store = KubernetesStore::open(Arc::clone(cluster), Destination::Simulated, reach);
                let store = store.await.unwrap();
                let sets = KubernetesAppSetStore::open(&store).await.unwrap();
                (Arc::new(store), Arc::new(sets))
            }
        };
        let (events, application_events) = (sets.watch(), applications.watch());
        OpenStores { sets, events, applications, application_events }
    }

    pub fn file_path(&self, name: &str) -> PathBuf {
        let Self::Folder(folder) = self else { panic!("no folder") };
        folder.path().join("apps").join(name)
    }

    /// Writes an ApplicationSet like a user.
    pub async fn write_appset(&self, set: Value) {
        match self {
            Self::Folder(_) => self.write_file("fleet.yaml", &set.to_string()),
            Self::Cluster(cluster) => drop(apply(cluster.as_ref(), set).await),
        }
    }

    /// Replaces a file like an editor.
    pub fn write_file(&self, name: &str, content: &str) {
        let path = self.file_path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path.with_extension("swap"), content).unwrap();
        fs::rename(path.with_extension("swap"), path).unwrap();
    }

    pub async fn live_object(&self, kind_of: &str, name: &str) -> Object {
        let Self::Cluster(cluster) = self else { panic!("no cluster") };
        cluster.get(&argo_gvk(kind_of), "argocd", name).await.unwrap().unwrap()
    }
}

impl OpenStores {
    pub async fn next_appset(&mut self) -> StoredAppSet {
        loop {
            match self.events.recv().await.unwrap() {
                AppSetEvent::Applied(stored) => return *stored,
                AppSetEvent::Settled | AppSetEvent::Problems(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    pub async fn await_appset_removal(&mut self) {
        loop {
            match self.events.recv().await.unwrap() {
                AppSetEvent::Gone(key) => return assert_eq!(key.name, "fleet"),
                AppSetEvent::Applied(stored) if stored.appset.metadata.deletion_timestamp.is_some() => {}
                AppSetEvent::Settled | AppSetEvent::Problems(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    pub async fn next_problems(&mut self) -> Vec<String> {
        loop {
            match self.events.recv().await.unwrap() {
                AppSetEvent::Problems(problems) if !problems.is_empty() => return problems,
                AppSetEvent::Settled | AppSetEvent::Problems(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    pub async fn next_application(&mut self) -> Application {
        loop {
            match self.application_events.recv().await.unwrap() {
                StoreEvent::Applied(stored) => return stored.application,
                StoreEvent::Gone(key) => panic!("{key} is gone"),
                _ => {}
            }
        }
    }

    pub async fn await_application_removal(&mut self, wanted: &AppKey) {
        loop {
            match self.application_events.recv().await.unwrap() {
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

pub fn spec_value(set: &ApplicationSet) -> Value {
    serde_json::to_value(&set.spec).unwrap()
}
