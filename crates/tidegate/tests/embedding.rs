//! Program that depends only on this crate and resumes an operation after a restart.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "tests may panic")]

use std::time::Duration;

use tidegate::cluster::sim::Verb;
use tidegate::prelude::*;
use tidegate::tokio;

const MANIFESTS: &[u8] = br#"
apiVersion: batch/v1
kind: Job
metadata:
  name: migrate
  annotations: {argocd.argoproj.io/hook: PreSync, sim.tidegate.dev/ready-after: 500ms}
spec:
  template: {spec: {restartPolicy: Never, containers: [{name: main, image: busybox}]}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
"#;

#[tokio::test(crate = "tidegate::tokio", flavor = "multi_thread")]
async fn a_running_operation_resumes_in_the_next_process() {
    let folder = tempfile::tempdir().unwrap();
    let start = || async {
        // The engine releases its log shortly after `shutdown` returns.
        let log = loop {
            match open_log(folder.path()) {
                Err(LogError::Locked { .. }) => tokio::task::yield_now().await,
                opened => break opened.unwrap(),
            }
        };
        let cluster = open_simulated_cluster(&folder.path().join("cluster")).unwrap();
        let engine = Engine::builder(log).cluster(Destination::Simulated, cluster.clone()).start().await;
        (engine.unwrap(), cluster)
    };
    let (engine, cluster) = start().await;
    let targets = read_manifests("shop.yaml", MANIFESTS).unwrap();
    let request = SyncRequest::new("shop", "default", Destination::Simulated);
    let operation = engine.submit(request, targets).await.unwrap();
    let mut events = engine.events(operation, 0).await.unwrap();
    let has_job = || cluster.objects().iter().any(|object| object.kind() == "Job");
    while !has_job() {
        tokio::time::timeout(Duration::from_secs(30), events.next()).await.unwrap().unwrap().unwrap();
    }
    engine.shutdown().await;
    drop((engine, events, cluster));

    let (engine, cluster) = start().await;
    let open = engine.find(Lookup::open()).await.unwrap();
    assert_eq!(open.iter().map(|open| open.operation).collect::<Vec<_>>(), [operation]);
    engine.resume(operation).await.unwrap();
    let view = engine.wait(operation).await.unwrap();
    assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
    let audit = cluster.audit();
    let creations =
        audit.iter().filter(|entry| entry.kind == "Job" && entry.verb == Verb::Create && !entry.dry_run);
    assert_eq!(creations.count(), 1, "the hook ran once");
    engine.shutdown().await;
}
