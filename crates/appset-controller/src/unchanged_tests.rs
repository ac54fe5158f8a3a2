//! Checks in the cluster's audit log that managed ApplicationSets don't write unchanged Applications.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;
use tidegate_application::AppKey;
use tidegate_cluster::Cluster as _;
use tidegate_cluster::sim::SimCluster;
use tidegate_executor::Engine;
use tidegate_health::HealthRules;
use tidegate_model::Destination;
use tidegate_model::argo::{API_VERSION, Application};
use tidegate_oplog::{Log, MemoryLog};
use tidegate_state::gates::GateFile;
use tidegate_state::owned_shards::OwnedShards;
use tidegate_state::state_dir::StateDir;
use tidegate_stores::applications::{ApplicationStore, KubernetesStore, ManagedScope};
use tidegate_stores::appsets::{AppSetStore, KubernetesAppSetStore};
use tidegate_testkit::argo_cluster::{apply, argo_gvk, cluster_with_definitions};

use crate::applications::testing::TEST_TIMEOUT;
use crate::applications::{Destinations, ManagedApplications, ManagedApplicationsInput, SourceSettings};
use crate::{AppSetController, AppSetOptions};

const MEMBER_COUNT: usize = 40;

struct Environment {
    sim: SimCluster,
    folder: TempDir,
    engine: Engine,
    applications: ManagedApplications,
    sets: AppSetController,
}

fn member_name(at: usize) -> String {
    format!("web-{at:02}")
}

impl Environment {
    /// Creates an ApplicationSet. Each of its members has its own folder and doesn't sync automatically.
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let repository = folder.path().join("repo");
        for at in 0..MEMBER_COUNT {
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": member_name(at)}});
            std::fs::create_dir_all(repository.join(member_name(at))).unwrap();
            std::fs::write(repository.join(member_name(at)).join("all.json"), map.to_string()).unwrap();
        }
        tidegate_source::commit_folder(&repository, "all", 1).unwrap().unwrap();
        let sim = cluster_with_definitions(true).await;
        let log: Log = Arc::new(MemoryLog::new());
        let engine = Engine::builder(Arc::clone(&log)).cluster(Destination::Simulated, Arc::new(sim.clone()));
        let engine = engine.start().await.unwrap();
        let store =
            KubernetesStore::open(Arc::new(sim.clone()), Destination::Simulated, ManagedScope::default());
        let store = store.await.unwrap();
        let sets: Arc<dyn AppSetStore> = Arc::new(KubernetesAppSetStore::open(&store).await.unwrap());
        let store: Arc<dyn ApplicationStore> = Arc::new(store);
        let state = StateDir::resolve(Some(&folder.path().join("state"))).unwrap();
        let places = Destinations::new(Destination::Simulated, Arc::new(sim.clone()), "default".to_owned());
        let applications = ManagedApplications::start(ManagedApplicationsInput {
            engine: engine.clone(),
            log,
            state_dir: state,
            store,
            owned_shards: OwnedShards::All,
            plans: None,
            destinations: places,
            rules: HealthRules::built_in(),
            gates: GateFile::default(),
            reconcile: Duration::ZERO.into(),
            sourcing: SourceSettings::default(),
        });
        let applications = applications.await.unwrap();
        let sets =
            AppSetController::start(applications.service(), sets, AppSetOptions::default()).await.unwrap();
        Self { sim, folder, engine, applications, sets }
    }

    /// Writes the ApplicationSet as a user would, with a label for each member.
    async fn write_appset(&self, label: impl Fn(usize) -> String) {
        let element = |at: usize| json!({"name": member_name(at), "label": label(at)});
        let set = json!({
            "apiVersion": API_VERSION, "kind": "ApplicationSet",
            "metadata": {"name": "fleet", "namespace": "argocd"},
            "spec": {
                "generators": [{"list": {"elements": (0..MEMBER_COUNT).map(element).collect::<Vec<_>>()}}],
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

    async fn live_application(&self, name: &str) -> Option<Application> {
        let found = self.sim.get(&argo_gvk("Application"), "argocd", name).await.unwrap()?;
        Some(serde_json::from_value(found.as_value().clone()).unwrap())
    }

    /// Waits until a member has the given label and was compared, and its stored state matches the published
    /// state.
    async fn await_quiet(&self, at: usize, label: &str) {
        let key = AppKey { namespace: "argocd".to_owned(), name: member_name(at) };
        let is_quiet = async || {
            let (Some(live), Some(shown)) =
                (self.live_application(&key.name).await, self.applications.cache().get(&key))
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
        if tokio::time::timeout(TEST_TIMEOUT, waiting).await.is_err() {
            panic!("{:#?}", (self.live_application(&key.name).await, self.applications.cache().get(&key)));
        }
    }

    /// Returns the Applications written since `since`.
    fn written_applications(&self, since: usize) -> Vec<String> {
        let audit = self.sim.audit().split_off(since);
        audit.into_iter().filter(|one| one.kind == "Application").map(|one| one.name).collect()
    }

    async fn stop(self) {
        self.sets.stop().await;
        self.applications.stop().await;
        self.engine.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unchanged_applications_are_not_written() {
    let environment = Environment::new().await;
    environment.write_appset(|_| "first".to_owned()).await;
    for at in 0..MEMBER_COUNT {
        environment.await_quiet(at, "first").await;
    }
    // Each round generates and compares all members. One member changes, and the one from the previous round
    // changes back.
    for (round, changed) in [(0, [7, 7]), (1, [21, 7]), (2, [7, 21])] {
        let before = environment.sim.audit().len();
        let label = format!("round-{round}");
        let [new, back] = changed;
        environment.write_appset(|at| if at == new { label.clone() } else { "first".to_owned() }).await;
        environment.await_quiet(new, &label).await;
        if back != new {
            environment.await_quiet(back, "first").await;
        }
        let written: BTreeSet<String> = environment.written_applications(before).into_iter().collect();
        assert_eq!(written, changed.into_iter().map(member_name).collect(), "round {round}");
    }
    environment.stop().await;
}
