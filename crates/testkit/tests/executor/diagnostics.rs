//! Unhealthy states in the cluster. They are reported while they last, and recorded if they cause a failure.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidegate_cluster::sim::SimConfig;
use tidegate_cluster::{Cluster as _, DeleteRequest, Propagation};
use tidegate_model::{Gvk, OperationPhase};
use tidegate_testkit::scenario::SyncSpec;

use crate::support::{
    CallOutcome, FaultyCluster, Log, builder, config, hook, server_deployment, submit, wait_for_end,
    wait_until,
};

const LOGS: (&str, &str) = ("sim.tidegate.dev/logs", "connecting\nERROR: no such table");
const FAILS: (&str, &str) = ("sim.tidegate.dev/outcome", "fail");

#[tokio::test(start_paused = true)]
async fn a_crash_looping_pod_is_named() {
    let read_count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&read_count);
    let cluster = FaultyCluster::new(SimConfig::default(), move |verb, _| {
        if verb == "pods" {
            counted.fetch_add(1, Ordering::SeqCst);
        }
        CallOutcome::Answer
    });
    let log = Log::new();
    let engine = builder(&cluster, &log).start().await.unwrap();
    let annotations = [("sim.tidegate.dev/outcome", "crashloop"), ("tidegate.dev/wave-timeout", "1h")];
    let id = submit(
        &engine,
        &SyncSpec::new(&format!("{}{}", server_deployment("api", 0, &annotations), config("a", 1, &[]))),
    )
    .await;
    let named = "is crash-looping (exit 1, restarted 3 times)";
    wait_until(&engine, id, |_, explanation| explanation.contains(named)).await;
    tokio::time::sleep(Duration::from_secs(500)).await;
    // While nothing changes, there are hardly any reads.
    let count = read_count.load(Ordering::SeqCst);
    assert!((1..20).contains(&count), "{count} reads of pods");
    // The log contains the reason, so another engine on the same log reports it too.
    let other = builder(&FaultyCluster::reliable(), &log).start().await.unwrap();
    let (view, explanation) = other.inspect(id).await.unwrap();
    assert!(explanation.to_string().contains(named), "{explanation}");
    assert!(view.resources[0].reason.contains(named), "{view:?}");
    let view = wait_for_end(&engine, id).await;
    assert_eq!(view.phase, OperationPhase::Failed);
    assert!(view.resources[0].reason.contains(named));
}

#[tokio::test(start_paused = true)]
async fn the_logs_of_a_failed_hook_outlive_it() {
    let cluster = FaultyCluster::reliable();
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let policy = ("argocd.argoproj.io/hook-delete-policy", "HookFailed");
    let id = submit(&engine, &SyncSpec::new(&hook("migrate", "PreSync", &[FAILS, LOGS, policy]))).await;
    let view = wait_for_end(&engine, id).await;
    assert_eq!(view.phase, OperationPhase::Failed);
    assert_eq!(view.hook_logs.len(), 1);
    let log = &view.hook_logs[0];
    assert_eq!((log.kind.as_str(), log.name.as_str(), log.container.as_str()), ("Job", "migrate", "main"));
    assert_eq!(log.text, LOGS.1);
    assert!(view.resources[0].reason.contains("has failed (exit 1)"), "{:?}", view.resources[0]);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let job = Gvk::new("batch", "v1", "Job");
    assert_eq!(cluster.sim.get(&job, "default", "migrate").await.unwrap(), None, "its policy deleted it");
    let (_, explanation) = engine.inspect(id).await.unwrap();
    assert!(explanation.to_string().contains("last log line: \"ERROR: no such table\""), "{explanation}");
}

/// Only the end of a long log is stored. A server that hangs or has no logs must not affect the outcome.
#[tokio::test(start_paused = true)]
async fn logs_do_not_change_outcomes() {
    let long = "ä".repeat(20_000);
    for (verb, text, kept) in [("", long.as_str(), 16 * 1024), ("logs", "short", 0), ("pods", "short", 0)] {
        let cluster = FaultyCluster::new(SimConfig::default(), move |called, _| {
            if called == verb { CallOutcome::Hang } else { CallOutcome::Answer }
        });
        let engine = builder(&cluster, &Log::new()).start().await.unwrap();
        let logs = ("sim.tidegate.dev/logs", text);
        let began = tokio::time::Instant::now();
        let id = submit(&engine, &SyncSpec::new(&hook("migrate", "PreSync", &[FAILS, logs]))).await;
        let view = wait_for_end(&engine, id).await;
        let begins =
            "one or more synchronization tasks completed unsuccessfully, reason: hook Job default/migrate: ";
        assert!(view.message.starts_with(begins), "{}", view.message);
        assert!(began.elapsed() < Duration::from_secs(60), "{verb}: {:?}", began.elapsed());
        let bytes: usize = view.hook_logs.iter().map(|log| log.text.len()).sum();
        assert_eq!(bytes, kept, "{verb}");
    }
}

/// However another user deletes a running hook, the hook must count as failed and leave no object behind.
#[tokio::test(start_paused = true)]
async fn a_hook_deleted_by_another_user_has_failed() {
    for propagation in [Propagation::Background, Propagation::Foreground] {
        let cluster = FaultyCluster::reliable();
        let engine = builder(&cluster, &Log::new()).start().await.unwrap();
        let id = submit(
            &engine,
            &SyncSpec::new(&hook("migrate", "Sync", &[("sim.tidegate.dev/ready-after", "1h")])),
        )
        .await;
        wait_until(&engine, id, |_, explanation| explanation.contains("hook Job default/migrate")).await;
        let job = Gvk::new("batch", "v1", "Job");
        let found = cluster.sim.get(&job, "default", "migrate").await.unwrap().unwrap();
        let delete = DeleteRequest { propagation, ..DeleteRequest::for_object(&found) };
        cluster.sim.delete(delete).await.unwrap();
        let view = wait_for_end(&engine, id).await;
        assert_eq!(view.phase, OperationPhase::Failed);
        let missing = "Resource batch/Job/migrate is missing, it might have been deleted";
        assert_eq!(view.resources[0].message, missing);
        assert!(view.message.contains(missing), "{}", view.message);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(cluster.sim.get(&job, "default", "migrate").await.unwrap(), None, "{propagation:?}");
    }
}

/// The finalizer must keep a Job with a TTL of zero until its result is recorded, even if the engine
/// restarts.
#[tokio::test(start_paused = true)]
async fn a_job_with_a_zero_ttl_is_read_before_it_is_deleted() {
    for (outcome, phase) in [("", OperationPhase::Succeeded), ("fail", OperationPhase::Failed)] {
        for restarts in [false, true] {
            let cluster = FaultyCluster::reliable();
            let log = Log::new();
            let mut engine = builder(&cluster, &log).start().await.unwrap();
            let mut annotations = vec![("sim.tidegate.dev/ready-after", "20s")];
            annotations.extend((!outcome.is_empty()).then_some(("sim.tidegate.dev/outcome", outcome)));
            let job = hook("migrate", "Sync", &annotations);
            let job = job.replace("backoffLimit: 0", "backoffLimit: 0\n  ttlSecondsAfterFinished: 0");
            let id = submit(&engine, &SyncSpec::new(&job)).await;
            if restarts {
                wait_until(&engine, id, |_, explanation| explanation.contains("hook Job default/migrate"))
                    .await;
                engine.shutdown().await;
                tokio::time::sleep(Duration::from_secs(600)).await;
                let job = Gvk::new("batch", "v1", "Job");
                let found = cluster.sim.get(&job, "default", "migrate").await.unwrap().unwrap();
                assert!(found.is_deleting(), "its time has passed, but the finalizer blocks it");
                engine = builder(&cluster, &log).start().await.unwrap();
                engine.resume(id).await.unwrap();
            }
            let view = wait_for_end(&engine, id).await;
            assert_eq!(view.phase, phase, "{outcome} {restarts}: {}", view.message);
            assert_eq!(cluster.creations_of("migrate"), 1);
            tokio::time::sleep(Duration::from_secs(60)).await;
            let job = Gvk::new("batch", "v1", "Job");
            assert_eq!(cluster.sim.get(&job, "default", "migrate").await.unwrap(), None);
        }
    }
}
