//! Requests of an earlier process that reach the cluster late.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use tidegate_cluster::sim::SimConfig;
use tidegate_cluster::{ApplyRequest, Cluster as _, DeleteRequest, ErrorKind, FinalizerRemoval, WriteMode};
use tidegate_model::{Gvk, Object, OperationPhase, annotations};
use tidegate_testkit::scenario::SyncSpec;

use crate::support::{
    CallOutcome, FaultyCluster, Log, builder, config, hook, submit, wait_for_end, with_time_limit,
};

const HOOK_POLICY: (&str, &str) =
    ("argocd.argoproj.io/hook-delete-policy", "BeforeHookCreation,HookSucceeded");

fn sync() -> SyncSpec {
    SyncSpec::new(&format!("{}{}", hook("migrate", "PreSync", &[HOOK_POLICY]), config("settings", 0, &[])))
}

/// Creates a cluster in which starts of Jobs have the given outcome until the flag is set.
fn cluster_without_starts(outcome: CallOutcome) -> (Arc<FaultyCluster>, Arc<AtomicBool>) {
    let can_start = Arc::new(AtomicBool::new(false));
    let allowed = Arc::clone(&can_start);
    let cluster = FaultyCluster::new(SimConfig::default(), move |verb, _| {
        match (verb, allowed.load(Ordering::SeqCst)) {
            ("start", false) => outcome,
            _ => CallOutcome::Answer,
        }
    });
    (cluster, can_start)
}

async fn read_job(cluster: &FaultyCluster) -> Option<Object> {
    cluster.sim.get(&Gvk::new("batch", "v1", "Job"), "default", "migrate").await.unwrap()
}

async fn wait_for_job(cluster: &FaultyCluster) -> Object {
    with_time_limit(async {
        loop {
            match read_job(cluster).await {
                Some(job) => return job,
                None => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    })
    .await
}

/// A process sends the request that creates a hook's Job, and stops. The next process runs the hook and
/// deletes the Job. When the request arrives after that, the hook must not run a second time.
#[tokio::test(start_paused = true)]
async fn a_job_that_is_created_late_never_runs() {
    let (cluster, can_start) = cluster_without_starts(CallOutcome::Refuse(ErrorKind::Timeout));
    let log = Log::new();
    let engine = builder(&cluster, &log).start().await.unwrap();
    let id = submit(&engine, &sync()).await;
    let created = wait_for_job(&cluster).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(
        cluster.sim.pods(&created).await.unwrap().is_empty(),
        "the Job must not run before it is started"
    );
    can_start.store(true, Ordering::SeqCst);
    assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Succeeded);
    // The deletion waits for the Job's pods.
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(read_job(&cluster).await, None, "the hook's policy deletes the Job");

    // The same request again.
    let mut manifest = created;
    for field in ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"] {
        manifest.metadata_mut().remove(field);
    }
    manifest.fields_mut().remove("status");
    let request = ApplyRequest::new(manifest, WriteMode::Create { client_side: true });
    let late = cluster.sim.apply(request).await.unwrap().object;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let found = read_job(&cluster).await.unwrap();
    assert_eq!(
        (found.uid(), found.annotation(annotations::HOOK_START), found.pointer("/spec/suspend")),
        (late.uid(), Some("pending"), Some(&Value::Bool(true)))
    );
    assert!(
        cluster.sim.pods(&found).await.unwrap().is_empty(),
        "no operation has recorded this Job, so it must not run"
    );

    // The next operation doesn't take the Job for another operation's running hook.
    let id = submit(&engine, &sync()).await;
    assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Succeeded);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(read_job(&cluster).await, None);
    engine.shutdown().await;
}

/// If a process stops between the creation of a Job and its start, the next process starts the same Job.
#[tokio::test(start_paused = true)]
async fn the_next_process_starts_the_job_that_an_earlier_one_created() {
    let (cluster, can_start) = cluster_without_starts(CallOutcome::Hang);
    let log = Log::new();
    let engine = builder(&cluster, &log).start().await.unwrap();
    let id = submit(&engine, &sync()).await;
    let created = wait_for_job(&cluster).await;
    engine.shutdown().await;
    can_start.store(true, Ordering::SeqCst);
    let log = log.reopen();
    let engine = builder(&cluster, &log).start().await.unwrap();
    engine.resume(id).await.unwrap();
    assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Succeeded);
    assert_eq!(cluster.creations_of("migrate"), 1, "the Job {} is used", created.uid());
    engine.shutdown().await;
}

/// A Job that another client deletes before it starts makes the hook fail. It may not run under another UID.
#[tokio::test(start_paused = true)]
async fn a_job_that_is_replaced_before_its_start_fails() {
    let (cluster, can_start) = cluster_without_starts(CallOutcome::Refuse(ErrorKind::Timeout));
    let log = Log::new();
    let engine = builder(&cluster, &log).start().await.unwrap();
    let id = submit(&engine, &sync()).await;
    let created = wait_for_job(&cluster).await;
    let removal = FinalizerRemoval::for_object(&created, annotations::HOOK_FINALIZER);
    cluster.sim.remove_finalizer(removal).await.unwrap();
    cluster.sim.delete(DeleteRequest::for_object(&created)).await.unwrap();
    can_start.store(true, Ordering::SeqCst);
    let view = wait_for_end(&engine, id).await;
    assert_eq!(view.phase, OperationPhase::Failed);
    assert!(view.message.contains("was deleted before it started"), "{}", view.message);
    assert_eq!(cluster.creations_of("migrate"), 1);
    engine.shutdown().await;
}
