//! Panicking actors, which are restarted from the log up to three times.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate_cluster::sim::SimConfig;
use tidegate_executor::EngineError;
use tidegate_model::OperationPhase;
use tidegate_testkit::scenario::SyncSpec;

use crate::support::{
    CallOutcome, FaultyCluster, Log, PanickingClock, builder, config, hook, server_deployment, submit,
    wait_for_end, wait_until, with_time_limit,
};

fn shop() -> SyncSpec {
    let policy = [("argocd.argoproj.io/hook-delete-policy", "HookSucceeded")];
    SyncSpec::new(&format!(
        "{}{}{}{}",
        hook("before", "PreSync", &policy),
        server_deployment("server", 0, &[]),
        config("config", 1, &[]),
        hook("after", "PostSync", &[])
    ))
}

#[tokio::test(start_paused = true)]
async fn a_panicking_call_is_repeated() {
    for verb in ["discover", "live", "check", "apply", "get", "release", "delete"] {
        let calls = AtomicUsize::new(0);
        let cluster = FaultyCluster::new(SimConfig::default(), move |called, _| {
            let first = called == verb && calls.fetch_add(1, Ordering::SeqCst) == 0;
            if first { CallOutcome::Panic } else { CallOutcome::Answer }
        });
        let engine = builder(&cluster, &Log::new()).start().await.unwrap();
        let id = submit(&engine, &shop()).await;
        let view = wait_for_end(&engine, id).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{verb}: {}", view.message);
        assert_eq!((cluster.creations_of("before"), cluster.creations_of("after")), (1, 1), "{verb}");
    }
}

/// Wherever the actor's handler panics, the operation must continue from the log, and each hook must be
/// created only once.
#[tokio::test(start_paused = true)]
async fn a_panicking_actor_continues_from_the_log() {
    let mut tried = 0;
    for read in 1..400 {
        let cluster = FaultyCluster::reliable();
        let clock = PanickingClock::new(move |count| count == read);
        let engine = builder(&cluster, &Log::new()).clock(clock).start().await.unwrap();
        let requester = engine.clone();
        let sync = shop();
        // The caller makes the first reads of the clock, and then panics itself.
        let submitted =
            tokio::spawn(async move { requester.submit(sync.request.clone(), sync.targets()).await });
        let Ok(submitted) = with_time_limit(submitted).await else { continue };
        let id = submitted.unwrap();
        let view = match with_time_limit(engine.wait(id)).await {
            Ok(view) => view,
            // No event was durable, so there is nothing to resume, and the caller receives the error.
            Err(EngineError::StartFailed { .. }) if cluster.writes().is_empty() => continue,
            // The operation had finished or been abandoned before the request.
            Err(EngineError::Log(_)) if cluster.writes().is_empty() => continue,
            Err(error) => panic!("read {read}: {error}"),
        };
        assert_eq!(view.phase, OperationPhase::Succeeded, "read {read}: {}", view.message);
        assert_eq!((cluster.creations_of("before"), cluster.creations_of("after")), (1, 1), "read {read}");
        tried += 1;
    }
    println!("panicked at {tried} reads of the clock");
    assert!(tried > 100, "{tried}");
}

#[tokio::test(start_paused = true)]
async fn after_three_restarts_the_operation_ends_in_error() {
    // While the operation waits for its gate, only the actor reads the clock.
    let failures = Arc::new(AtomicUsize::new(0));
    let clock = PanickingClock::new({
        let failures = Arc::clone(&failures);
        move |_| failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
    });
    let cluster = FaultyCluster::reliable();
    let engine = builder(&cluster, &Log::new()).clock(clock).start().await.unwrap();
    let id = submit(&engine, &SyncSpec::new(&config("a", 0, &[("tidegate.dev/gate", "nobody")]))).await;
    wait_until(&engine, id, |_, reason| reason.contains("no gate named nobody")).await;
    let waiters: Vec<_> = (0..3).map(|_| engine.wait(id)).collect();
    failures.store(4, Ordering::SeqCst);
    for view in with_time_limit(futures_util::future::join_all(waiters)).await {
        let view = view.unwrap();
        assert_eq!(view.phase, OperationPhase::Error, "{}", view.message);
        assert!(view.message.contains("gave up after 3 restarts"), "{}", view.message);
        assert!(view.message.contains("injected"), "{}", view.message);
    }
}

#[tokio::test(start_paused = true)]
async fn an_actor_that_cannot_record_its_failure_releases_all_waiters() {
    let clock = PanickingClock::new(|count| count >= 40);
    let cluster = FaultyCluster::reliable();
    let engine = builder(&cluster, &Log::new()).clock(clock).start().await.unwrap();
    let id = submit(
        &engine,
        &SyncSpec::new(&(0..50).map(|i| config(&format!("c{i}"), i, &[])).collect::<String>()),
    )
    .await;
    let error = with_time_limit(engine.wait(id)).await.unwrap_err();
    assert!(matches!(error, EngineError::StartFailed { .. } | EngineError::NotRunning { .. }), "{error}");
}
