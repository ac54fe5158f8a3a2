//! Stopping in order: nothing false is recorded, everything can be resumed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidegate_cluster::sim::SimConfig;
use tidegate_executor::EngineError;
use tidegate_model::OperationPhase;
use tidegate_testkit::recorded::Recorded as _;
use tidegate_testkit::scenario::Sync;

use crate::support::{Fate, Log, Moody, builder, config, end, hook, server, submit, until, within};

fn shop() -> Sync {
    let servers: String = (0..40).map(|i| server(&format!("s{i}"), 0, &[])).collect();
    Sync::of(&format!("{}{servers}{}", hook("before", "PreSync", &[]), config("last", 1, &[])))
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_in_the_middle_of_a_wave_is_resumed() {
    for after_millis in [0, 1, 30, 100, 250, 300, 350, 400, 500] {
        let latency = Duration::from_millis(20);
        let cluster = Moody::new(SimConfig { latency, ..SimConfig::default() }, |_, _| Fate::Answer);
        let log = Log::new();
        let engine = builder(&cluster, &log).start().await.unwrap();
        let id = submit(&engine, &shop()).await;
        let waiter = tokio::spawn({
            let engine = engine.clone();
            async move { engine.wait(id).await }
        });
        tokio::time::sleep(Duration::from_millis(after_millis)).await;
        within(engine.shutdown()).await;
        let error = within(waiter).await.unwrap().unwrap_err();
        assert!(matches!(error, EngineError::ShuttingDown), "{after_millis}: {error}");
        assert!(engine.submit(shop().request, shop().targets()).await.is_err());
        let facts = format!("{:?}", log.facts(id).unwrap());
        for word in ["CallFailed", "TaskFailed", "AttemptFailed", "Finished"] {
            assert!(!facts.contains(&format!("{word} {{")), "{after_millis}: {word} was recorded");
        }
        let written = cluster.sim.audit().len();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(cluster.sim.audit().len(), written, "written after the shutdown");
        let engine = builder(&cluster, &log.reopen()).start().await.unwrap();
        engine.resume(id).await.unwrap();
        let view = end(&engine, id).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{after_millis}: {}", view.message);
        assert_eq!((cluster.created("before"), cluster.created("last")), (1, 1), "{after_millis}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_wait_for_a_silent_cluster() {
    let silent = Arc::new(AtomicBool::new(true));
    let cluster = Moody::new(SimConfig::default(), {
        let silent = Arc::clone(&silent);
        move |verb, name| {
            let stuck = verb == "apply" && name.starts_with('s') && silent.load(Ordering::SeqCst);
            if stuck { Fate::Never } else { Fate::Answer }
        }
    });
    let log = Log::new();
    let engine = builder(&cluster, &log).start().await.unwrap();
    let id = submit(&engine, &shop()).await;
    until(&engine, id, |_, why| why.contains("(Sync, wave 0)")).await;
    let waiter = tokio::spawn({
        let engine = engine.clone();
        async move { engine.wait(id).await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let began = tokio::time::Instant::now();
    within(engine.shutdown()).await;
    assert!(began.elapsed() <= Duration::from_secs(11), "{:?}", began.elapsed());
    assert!(matches!(within(waiter).await.unwrap(), Err(EngineError::ShuttingDown)));
    let facts = format!("{:?}", log.facts(id).unwrap());
    assert!(!facts.contains("CallFailed {"), "a call that never ended was recorded as failed: {facts}");
    silent.store(false, Ordering::SeqCst);
    let engine = builder(&cluster, &log.reopen()).start().await.unwrap();
    engine.resume(id).await.unwrap();
    assert_eq!(end(&engine, id).await.phase, OperationPhase::Succeeded);
    assert_eq!(cluster.created("before"), 1);
}
