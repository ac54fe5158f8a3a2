//! What the measurements share.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidegate_cluster::sim::{Clock as SimClock, SimCluster, SimConfig};
use tidegate_executor::{Clock as _, Engine, EngineBuilder, SystemClock, Targets, codecs};
use tidegate_model::{Destination, SyncRequest};
use tidegate_oplog::{Holder, OpenOptions, SledLog};
use tidegate_planner::{Limits, manifests};
use tokio::runtime::Runtime;

pub type Disk = SledLog;

/// A runtime like the command's: a worker for each processor.
pub fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap()
}

pub fn open(folder: &Path) -> Arc<Disk> {
    let holder = Holder { pid: std::process::id(), command: "cargo bench".into(), since: SystemClock.now() };
    Arc::new(SledLog::open(folder, OpenOptions { holder, key: None, codecs: codecs() }).unwrap())
}

/// A cluster in memory on which everything happens at once.
pub fn cluster() -> Arc<SimCluster> {
    Arc::new(SimCluster::in_memory(SimConfig::instant(), SimClock::wall(|| SystemClock.now())))
}

pub fn engine(log: &Arc<Disk>) -> EngineBuilder {
    let log = Arc::clone(log) as tidegate_oplog::Log;
    Engine::builder(log).cluster(Destination::Simulated, cluster())
}

pub fn request(application: &str) -> SyncRequest {
    SyncRequest::new(application, "default", Destination::Simulated)
}

pub fn targets(yaml: &str) -> Targets {
    let targets = manifests::parse("bench.yaml", yaml.as_bytes(), &Limits::default()).unwrap();
    Targets { targets, ..Targets::default() }
}

/// A config map of a wave, about as large as they are.
pub fn config(name: &str, wave: usize) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  labels: {{app.kubernetes.io/part-of: bench}}\n  \
         annotations: {{argocd.argoproj.io/sync-wave: \"{wave}\"}}\ndata:\n  LOG_LEVEL: info\n  DATABASE_URL: \
         postgres://db.default.svc:5432/{name}\n  FEATURES: a,b,c\n---\n"
    )
}

/// A custom resource of one of two kinds that take turns, so that each is a kind group of its own.
pub fn taking_turns(name: &str, wave: usize, number: usize) -> String {
    let kind = if number.is_multiple_of(2) { "Ping" } else { "Pong" };
    format!(
        "apiVersion: bench.example/v1\nkind: {kind}\nmetadata:\n  name: {name}\n  \
         annotations: {{argocd.argoproj.io/sync-wave: \"{wave}\"}}\nspec:\n  number: {number}\n---\n"
    )
}

/// The definitions of these kinds, in the wave before.
pub fn definitions(wave: i64) -> String {
    let define = |kind: &str| {
        let (singular, plural) = (kind.to_lowercase(), format!("{}s", kind.to_lowercase()));
        format!(
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: \
             {plural}.bench.example\n  annotations: {{argocd.argoproj.io/sync-wave: \"{wave}\"}}\nspec:\n  group: \
             bench.example\n  scope: Namespaced\n  names: {{kind: {kind}, plural: {plural}, singular: \
             {singular}}}\n  versions:\n  - {{name: v1, served: true, storage: true, schema: {{openAPIV3Schema: \
             {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}}}\n---\n"
        )
    };
    [define("Ping"), define("Pong")].concat()
}

/// A Deployment of a wave.
pub fn server(name: &str, wave: usize) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {name}\n  annotations: \
         {{argocd.argoproj.io/sync-wave: \"{wave}\"}}\nspec:\n  replicas: 2\n  selector: {{matchLabels: {{app: \
         {name}}}}}\n  template:\n    metadata: {{labels: {{app: {name}}}}}\n    spec:\n      containers:\n      - name: \
         main\n        image: registry.example/{name}:1.2.3\n        env: [{{name: LOG_LEVEL, value: info}}]\n        \
         resources: {{requests: {{cpu: 100m, memory: 128Mi}}}}\n---\n"
    )
}

/// The middle of an odd number of values.
pub fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

pub fn millis(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1000.0)
}
