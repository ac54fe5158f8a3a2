//! What is not well in the cluster: named while it lasts, kept when it has failed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidegate_cluster::sim::SimConfig;
use tidegate_cluster::{Cluster as _, DeleteRequest, Propagation};
use tidegate_model::{Gvk, OperationPhase};
use tidegate_testkit::scenario::Sync;

use crate::support::{Fate, Log, Moody, builder, config, end, hook, server, submit, until};

const LOGS: (&str, &str) = ("sim.tidegate.dev/logs", "connecting\nERROR: no such table");
const FAILS: (&str, &str) = ("sim.tidegate.dev/outcome", "fail");

#[tokio::test(start_paused = true)]
async fn a_crash_looping_pod_is_named() {
    let looks = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&looks);
    let cluster = Moody::new(SimConfig::default(), move |verb, _| {
        if verb == "pods" {
            counted.fetch_add(1, Ordering::SeqCst);
        }
        Fate::Answer
    });
    let log = Log::new();
    let engine = builder(&cluster, &log).start().await.unwrap();
    let annotations = [("sim.tidegate.dev/outcome", "crashloop"), ("tidegate.dev/wave-timeout", "1h")];
    let id =
        submit(&engine, &Sync::of(&format!("{}{}", server("api", 0, &annotations), config("a", 1, &[]))))
            .await;
    let named = "is crash-looping (exit 1, restarted 3 times)";
    until(&engine, id, |_, explanation| explanation.contains(named)).await;
    tokio::time::sleep(Duration::from_secs(500)).await;
    // Nothing changes, so they are hardly looked at.
    let count = looks.load(Ordering::SeqCst);
    assert!((1..20).contains(&count), "{count} looks at pods");
    // The log knows it, when no engine works on the operation any more.
    let other = builder(&Moody::calm(), &log).start().await.unwrap();
    let (view, explanation) = other.inspect(id).await.unwrap();
    assert!(explanation.to_string().contains(named), "{explanation}");
    assert!(view.resources[0].reason.contains(named), "{view:?}");
    let view = end(&engine, id).await;
    assert_eq!(view.phase, OperationPhase::Failed);
    assert!(view.resources[0].reason.contains(named));
}

#[tokio::test(start_paused = true)]
async fn the_logs_of_a_failed_hook_outlive_it() {
    let cluster = Moody::calm();
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let policy = ("argocd.argoproj.io/hook-delete-policy", "HookFailed");
    let id = submit(&engine, &Sync::of(&hook("migrate", "PreSync", &[FAILS, LOGS, policy]))).await;
    let view = end(&engine, id).await;
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
    assert!(explanation.to_string().contains("its log ends with \"ERROR: no such table\""), "{explanation}");
}

/// Only the end of long logs is kept, and a server that hangs or has none changes nothing.
#[tokio::test(start_paused = true)]
async fn logs_change_no_outcome() {
    let long = "ä".repeat(20_000);
    for (verb, text, kept) in [("", long.as_str(), 16 * 1024), ("logs", "short", 0), ("pods", "short", 0)] {
        let cluster =
            Moody::new(
                SimConfig::default(),
                move |called, _| {
                    if called == verb { Fate::Never } else { Fate::Answer }
                },
            );
        let engine = builder(&cluster, &Log::new()).start().await.unwrap();
        let logs = ("sim.tidegate.dev/logs", text);
        let began = tokio::time::Instant::now();
        let id = submit(&engine, &Sync::of(&hook("migrate", "PreSync", &[FAILS, logs]))).await;
        let view = end(&engine, id).await;
        assert_eq!(view.message, "one or more synchronization tasks completed unsuccessfully");
        assert!(began.elapsed() < Duration::from_secs(60), "{verb}: {:?}", began.elapsed());
        let bytes: usize = view.hook_logs.iter().map(|log| log.text.len()).sum();
        assert_eq!(bytes, kept, "{verb}");
    }
}

/// A hook that somebody deletes while it runs has failed, however it was deleted, and leaves nothing behind.
#[tokio::test(start_paused = true)]
async fn a_hook_that_somebody_deletes_has_failed() {
    for propagation in [Propagation::Background, Propagation::Foreground] {
        let cluster = Moody::calm();
        let engine = builder(&cluster, &Log::new()).start().await.unwrap();
        let id =
            submit(&engine, &Sync::of(&hook("migrate", "Sync", &[("sim.tidegate.dev/ready-after", "1h")])))
                .await;
        until(&engine, id, |_, explanation| explanation.contains("hook Job default/migrate")).await;
        let job = Gvk::new("batch", "v1", "Job");
        let found = cluster.sim.get(&job, "default", "migrate").await.unwrap().unwrap();
        let delete = DeleteRequest { propagation, ..DeleteRequest::of(&found) };
        cluster.sim.delete(delete).await.unwrap();
        let view = end(&engine, id).await;
        assert_eq!(view.phase, OperationPhase::Failed);
        let missing = "Resource batch/Job/migrate is missing, it might have been deleted";
        assert_eq!(view.resources[0].message, missing);
        assert!(view.message.contains(missing), "{}", view.message);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(cluster.sim.get(&job, "default", "migrate").await.unwrap(), None, "{propagation:?}");
    }
}

/// The finalizer keeps a Job with no time to live until its result is recorded, also over a restart of the engine.
#[tokio::test(start_paused = true)]
async fn a_job_without_time_to_live_is_read_before_it_goes() {
    for (outcome, phase) in [("", OperationPhase::Succeeded), ("fail", OperationPhase::Failed)] {
        for restarts in [false, true] {
            let cluster = Moody::calm();
            let log = Log::new();
            let mut engine = builder(&cluster, &log).start().await.unwrap();
            let mut annotations = vec![("sim.tidegate.dev/ready-after", "20s")];
            annotations.extend((!outcome.is_empty()).then_some(("sim.tidegate.dev/outcome", outcome)));
            let job = hook("migrate", "Sync", &annotations);
            let job = job.replace("backoffLimit: 0", "backoffLimit: 0\n  ttlSecondsAfterFinished: 0");
            let id = submit(&engine, &Sync::of(&job)).await;
            if restarts {
                until(&engine, id, |_, explanation| explanation.contains("hook Job default/migrate")).await;
                engine.shutdown().await;
                tokio::time::sleep(Duration::from_secs(600)).await;
                let job = Gvk::new("batch", "v1", "Job");
                let found = cluster.sim.get(&job, "default", "migrate").await.unwrap().unwrap();
                assert!(found.is_deleting(), "its time is over, and the finalizer keeps it");
                engine = builder(&cluster, &log).start().await.unwrap();
                engine.resume(id).await.unwrap();
            }
            let view = end(&engine, id).await;
            assert_eq!(view.phase, phase, "{outcome} {restarts}: {}", view.message);
            assert_eq!(cluster.created("migrate"), 1);
            tokio::time::sleep(Duration::from_secs(60)).await;
            let job = Gvk::new("batch", "v1", "Job");
            assert_eq!(cluster.sim.get(&job, "default", "migrate").await.unwrap(), None);
        }
    }
}
