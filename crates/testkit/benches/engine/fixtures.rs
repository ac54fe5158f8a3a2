//! Shared code of the measurements.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidegate_cluster::sim::{Clock as SimClock, SimCluster, SimConfig};
use tidegate_executor::{Clock as _, Engine, EngineBuilder, SystemClock, Targets, codecs};
use tidegate_model::{Destination, SyncRequest};
use tidegate_oplog::{Codecs, Holder, Log, OpenOptions, SledLog, Store};
use tidegate_planner::{Limits, manifests};
use tokio::runtime::Runtime;

pub type DiskLog = SledLog;

/// Returns a runtime like the command's, with one worker thread per processor.
pub fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap()
}

pub fn open_log(folder: &Path) -> Arc<DiskLog> {
    open_log_with(folder, codecs())
}

pub fn open_log_with(folder: &Path, codecs: Codecs) -> Arc<DiskLog> {
    let holder = Holder { pid: std::process::id(), command: "cargo bench".into(), since: SystemClock.now() };
    Arc::new(SledLog::open(folder, OpenOptions { holder, key: None, codecs }).unwrap())
}

/// Returns an in-memory cluster without delays.
pub fn new_cluster() -> Arc<SimCluster> {
    Arc::new(SimCluster::in_memory(SimConfig::without_delays(), SimClock::wall(|| SystemClock.now())))
}

pub fn engine_builder(log: &Arc<impl Store>) -> EngineBuilder {
    let log = Arc::clone(log) as Log;
    Engine::builder(log).cluster(Destination::Simulated, new_cluster())
}

pub fn sync_request(application: &str) -> SyncRequest {
    SyncRequest::new(application, "default", Destination::Simulated)
}

pub fn parse_targets(yaml: &str) -> Targets {
    let targets = manifests::parse("bench.yaml", yaml.as_bytes(), &Limits::default()).unwrap();
    Targets { targets, ..Targets::default() }
}

/// Returns a config map of typical size in a wave.
pub fn config_map(name: &str, wave: usize) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  labels: {{app.kubernetes.io/part-of: bench}}\n  \
         annotations: {{argocd.argoproj.io/sync-wave: \"{wave}\"}}\ndata:\n  LOG_LEVEL: info\n  DATABASE_URL: \
         postgres://db.default.svc:5432/{name}\n  FEATURES: a,b,c\n---\n"
    )
}

/// Returns a custom resource of one of two alternating kinds, so that each resource forms its own kind group.
pub fn alternating_resource(name: &str, wave: usize, number: usize) -> String {
    let kind = if number.is_multiple_of(2) { "Ping" } else { "Pong" };
    format!(
        "apiVersion: bench.example/v1\nkind: {kind}\nmetadata:\n  name: {name}\n  \
         annotations: {{argocd.argoproj.io/sync-wave: \"{wave}\"}}\nspec:\n  number: {number}\n---\n"
    )
}

/// Returns the definitions of the two alternating kinds, in the previous wave.
pub fn alternating_definitions(wave: i64) -> String {
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

/// Returns a Deployment in a wave.
pub fn deployment(name: &str, wave: usize) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {name}\n  annotations: \
         {{argocd.argoproj.io/sync-wave: \"{wave}\"}}\nspec:\n  replicas: 2\n  selector: {{matchLabels: {{app: \
         {name}}}}}\n  template:\n    metadata: {{labels: {{app: {name}}}}}\n    spec:\n      containers:\n      - name: \
         main\n        image: registry.example/{name}:1.2.3\n        env: [{{name: LOG_LEVEL, value: info}}]\n        \
         resources: {{requests: {{cpu: 100m, memory: 128Mi}}}}\n---\n"
    )
}

/// Returns the median of an odd number of values.
pub fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

pub fn format_millis(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1000.0)
}
