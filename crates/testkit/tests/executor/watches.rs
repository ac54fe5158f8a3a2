//! Watches that panic, fail or hang. Awaited objects must still be observed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidegate_cluster::sim::SimConfig;
use tidegate_model::OperationPhase;
use tidegate_testkit::scenario::SyncSpec;

use crate::support::{
    CallOutcome, FaultyCluster, Log, builder, config, server_deployment, submit, wait_for_end,
};

/// Returns the duration of a sync when the first `times` calls of a verb fail.
async fn sync_duration(verb: &'static str, times: usize, fate: CallOutcome) -> Duration {
    let calls = AtomicUsize::new(0);
    let cluster = FaultyCluster::new(SimConfig::default(), move |called, _| {
        let strikes = called == verb && calls.fetch_add(1, Ordering::SeqCst) < times;
        if strikes { fate } else { CallOutcome::Answer }
    });
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let slow = server_deployment("slow", 0, &[("sim.tidegate.dev/ready-after", "20s")]);
    let began = tokio::time::Instant::now();
    let id = submit(&engine, &SyncSpec::new(&format!("{slow}{}", config("last", 1, &[])))).await;
    let view = wait_for_end(&engine, id).await;
    assert_eq!(view.phase, OperationPhase::Succeeded, "{verb} {times} {fate:?}: {}", view.message);
    began.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_panicking_watch_restarts() {
    for (verb, times) in [("list", 1), ("list", 3), ("watch", 1), ("watch", 3), ("get", 1)] {
        let took = sync_duration(verb, times, CallOutcome::Panic).await;
        assert!(took < Duration::from_secs(60), "{verb} {times}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn periodic_reads_replace_a_hanging_watch() {
    for verb in ["list", "watch"] {
        let took = sync_duration(verb, usize::MAX, CallOutcome::Hang).await;
        assert!(took < Duration::from_secs(60), "{verb}: {took:?}");
    }
}

/// Returns an autoscaler without metrics, followed by another wave.
fn autoscaler(grace: Option<&str>) -> String {
    let grace = grace.map_or_else(String::new, |grace| format!("    tidegate.dev/health-grace: {grace}\n"));
    let scaler = format!(
        "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata:\n  name: web\n  annotations:\n    \
         sim.tidegate.dev/outcome: fail\n{grace}spec:\n  scaleTargetRef: {{apiVersion: apps/v1, kind: Deployment, name: web}}\n  \
         maxReplicas: 3\n---\n"
    );
    format!("{scaler}{}", config("last", 1, &[]))
}

/// The object doesn't change at the end of its grace period, so a periodic read must end the wave.
#[tokio::test(start_paused = true)]
async fn a_wave_fails_after_the_grace_period_of_an_autoscaler() {
    for (grace, least) in [(None, 300), (Some("1m"), 60), (Some("0s"), 0)] {
        let cluster = FaultyCluster::new(SimConfig::default(), |_, _| CallOutcome::Answer);
        let engine = builder(&cluster, &Log::new()).start().await.unwrap();
        let began = tokio::time::Instant::now();
        let id = submit(&engine, &SyncSpec::new(&autoscaler(grace))).await;
        let view = wait_for_end(&engine, id).await;
        assert_eq!(view.phase, OperationPhase::Failed, "{grace:?}: {}", view.message);
        let took = began.elapsed().as_secs();
        assert!((least..least + 30).contains(&took), "{grace:?}: {took} s");
    }
}
