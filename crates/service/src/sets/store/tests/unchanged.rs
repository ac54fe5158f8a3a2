//! Sets that are served, and what is written of Applications that nothing has changed: the cluster's audit says it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;
use tidegate_cluster::Cluster as _;
use tidegate_cluster::sim::SimCluster;
use tidegate_executor::Engine;
use tidegate_health::HealthRules;
use tidegate_model::Destination;
use tidegate_model::argo::{API_VERSION, Application};
use tidegate_oplog::{Log, MemoryLog};

use super::bench::{apply, cluster, kind};
use crate::applications::store::{AppKey, ApplicationStore, KubernetesStore, Reach};
use crate::applications::testing::LIMIT;
use crate::applications::{Applications, Places, Sourcing};
use crate::gates::GateFile;
use crate::sets::store::{KubernetesSets, SetStore};
use crate::sets::{SetOptions, Sets};
use crate::state_dir::StateDir;

const MEMBERS: usize = 40;

struct Served {
    sim: SimCluster,
    folder: TempDir,
    engine: Engine,
    applications: Applications,
    sets: Sets,
}

fn name(at: usize) -> String {
    format!("web-{at:02}")
}

impl Served {
    /// A set whose members have a folder each, and are synced by nobody.
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let repository = folder.path().join("repo");
        for at in 0..MEMBERS {
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name(at)}});
            std::fs::create_dir_all(repository.join(name(at))).unwrap();
            std::fs::write(repository.join(name(at)).join("all.json"), map.to_string()).unwrap();
        }
        tidegate_source::commit_folder(&repository, "all", 1).unwrap().unwrap();
        let sim = cluster(true).await;
        let log: Log = Arc::new(MemoryLog::new());
        let engine = Engine::builder(Arc::clone(&log)).cluster(Destination::Simulated, Arc::new(sim.clone()));
        let engine = engine.start().await.unwrap();
        let store = KubernetesStore::open(Arc::new(sim.clone()), Destination::Simulated, Reach::default());
        let store = store.await.unwrap();
        let sets: Arc<dyn SetStore> = Arc::new(KubernetesSets::open(&store).await.unwrap());
        let store: Arc<dyn ApplicationStore> = Arc::new(store);
        let state = StateDir::resolve(Some(&folder.path().join("state"))).unwrap();
        let places = Places::new(Destination::Simulated, Arc::new(sim.clone()), "default".to_owned());
        let rules = (HealthRules::built_in(), GateFile::default(), Duration::ZERO.into());
        let applications = Applications::serve(
            engine.clone(),
            log,
            (state, store, None),
            places,
            rules,
            Sourcing::default(),
        );
        let applications = applications.await.unwrap();
        let sets = Sets::serve(applications.serving(), sets, SetOptions::default()).await.unwrap();
        Self { sim, folder, engine, applications, sets }
    }

    /// Its author writes the set: what each member is labelled with.
    async fn write(&self, label: impl Fn(usize) -> String) {
        let element = |at: usize| json!({"name": name(at), "label": label(at)});
        let set = json!({
            "apiVersion": API_VERSION, "kind": "ApplicationSet",
            "metadata": {"name": "fleet", "namespace": "argocd"},
            "spec": {
                "generators": [{"list": {"elements": (0..MEMBERS).map(element).collect::<Vec<_>>()}}],
                "template": {
                    "metadata": {"name": "{{name}}", "labels": {"is": "{{label}}"}},
                    "spec": {
                        "project": "default", "destination": {"name": "in-cluster", "namespace": "default"},
                        "source": {"repoURL": self.folder.path().join("repo"), "path": "{{name}}", "targetRevision": "main"},
                    },
                },
            },
        });
        apply(&self.sim, set).await;
    }

    async fn live(&self, name: &str) -> Option<Application> {
        let found = self.sim.get(&kind("Application"), "argocd", name).await.unwrap()?;
        Some(serde_json::from_value(found.as_value().clone()).unwrap())
    }

    /// Waits until a member is labelled so, was compared, and is written down as it is shown.
    async fn until_quiet(&self, at: usize, label: &str) {
        let key = AppKey { namespace: "argocd".to_owned(), name: name(at) };
        let is_quiet = async || {
            let (Some(live), Some(shown)) = (self.live(&key.name).await, self.applications.board().get(&key))
            else {
                return false;
            };
            let mut status = live.status.clone();
            status.reconciled_at = shown.status.reconciled_at;
            live.metadata.labels.get("is").is_some_and(|is| is == label)
                && shown.metadata.labels == live.metadata.labels
                && status.sync.is_some()
                && status == shown.status
        };
        let waiting = async {
            while !is_quiet().await {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        if tokio::time::timeout(LIMIT, waiting).await.is_err() {
            panic!("{:#?}", (self.live(&key.name).await, self.applications.board().get(&key)));
        }
    }

    /// The Applications that were written since.
    fn written(&self, since: usize) -> Vec<String> {
        let audit = self.sim.audit().split_off(since);
        audit.into_iter().filter(|one| one.kind == "Application").map(|one| one.name).collect()
    }

    async fn end(self) {
        self.sets.stop().await;
        self.applications.stop().await;
        self.engine.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_applications_that_nothing_has_changed_nothing_is_written() {
    let served = Served::new().await;
    served.write(|_| "first".to_owned()).await;
    for at in 0..MEMBERS {
        served.until_quiet(at, "first").await;
    }
    // The set is generated and compared with all of them; one is to be another, and the last one goes back.
    for (round, changed) in [(0, [7, 7]), (1, [21, 7]), (2, [7, 21])] {
        let before = served.sim.audit().len();
        let label = format!("round-{round}");
        let [new, back] = changed;
        served.write(|at| if at == new { label.clone() } else { "first".to_owned() }).await;
        served.until_quiet(new, &label).await;
        if back != new {
            served.until_quiet(back, "first").await;
        }
        let written: BTreeSet<String> = served.written(before).into_iter().collect();
        assert_eq!(written, changed.into_iter().map(name).collect(), "round {round}");
    }
    served.end().await;
}
