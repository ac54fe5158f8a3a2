//! Clean shutdown. The recorded events are correct, and every operation can be resumed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidegate_cluster::sim::SimConfig;
use tidegate_executor::EngineError;
use tidegate_model::OperationPhase;
use tidegate_testkit::operation_events::OperationEvents as _;
use tidegate_testkit::scenario::SyncSpec;

use crate::support::{
    CallOutcome, FaultyCluster, Log, builder, config, hook, server_deployment, submit, wait_for_end,
    wait_until, with_time_limit,
};

fn shop() -> SyncSpec {
    let servers: String = (0..40).map(|i| server_deployment(&format!("s{i}"), 0, &[])).collect();
    SyncSpec::new(&format!("{}{servers}{}", hook("before", "PreSync", &[]), config("last", 1, &[])))
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_in_the_middle_of_a_wave_is_resumed() {
    for after_millis in [0, 1, 30, 100, 250, 300, 350, 400, 500] {
        let latency = Duration::from_millis(20);
        let cluster =
            FaultyCluster::new(SimConfig { latency, ..SimConfig::default() }, |_, _| CallOutcome::Answer);
        let log = Log::new();
        let engine = builder(&cluster, &log).start().await.unwrap();
        let id = submit(&engine, &shop()).await;
        let waiter = tokio::spawn({
            let engine = engine.clone();
            async move { engine.wait(id).await }
        });
        tokio::time::sleep(Duration::from_millis(after_millis)).await;
        with_time_limit(engine.shutdown()).await;
        let error = with_time_limit(waiter).await.unwrap().unwrap_err();
        assert!(matches!(error, EngineError::ShuttingDown), "{after_millis}: {error}");
        assert!(engine.submit(shop().request, shop().targets()).await.is_err());
        let events = format!("{:?}", log.recorded_events(id).unwrap());
        for word in ["CallFailed", "TaskFailed", "AttemptFailed", "Finished"] {
            assert!(!events.contains(&format!("{word} {{")), "{after_millis}: {word} was recorded");
        }
        let written = cluster.sim.audit().len();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(cluster.sim.audit().len(), written, "written after the shutdown");
        let engine = builder(&cluster, &log.reopen()).start().await.unwrap();
        engine.resume(id).await.unwrap();
        let view = wait_for_end(&engine, id).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{after_millis}: {}", view.message);
        assert_eq!((cluster.creations_of("before"), cluster.creations_of("last")), (1, 1), "{after_millis}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_wait_for_a_silent_cluster() {
    let silent = Arc::new(AtomicBool::new(true));
    let cluster = FaultyCluster::new(SimConfig::default(), {
        let silent = Arc::clone(&silent);
        move |verb, name| {
            let stuck = verb == "apply" && name.starts_with('s') && silent.load(Ordering::SeqCst);
            if stuck { CallOutcome::Hang } else { CallOutcome::Answer }
        }
    });
    let log = Log::new();
    let engine = builder(&cluster, &log).start().await.unwrap();
    let id = submit(&engine, &shop()).await;
    wait_until(&engine, id, |_, reason| reason.contains("(Sync, wave 0)")).await;
    let waiter = tokio::spawn({
        let engine = engine.clone();
        async move { engine.wait(id).await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let began = tokio::time::Instant::now();
    with_time_limit(engine.shutdown()).await;
    assert!(began.elapsed() <= Duration::from_secs(11), "{:?}", began.elapsed());
    assert!(matches!(with_time_limit(waiter).await.unwrap(), Err(EngineError::ShuttingDown)));
    let events = format!("{:?}", log.recorded_events(id).unwrap());
    assert!(!events.contains("CallFailed {"), "a call that never ended was recorded as failed: {events}");
    silent.store(false, Ordering::SeqCst);
    let engine = builder(&cluster, &log.reopen()).start().await.unwrap();
    engine.resume(id).await.unwrap();
    assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Succeeded);
    assert_eq!(cluster.creations_of("before"), 1);
}
