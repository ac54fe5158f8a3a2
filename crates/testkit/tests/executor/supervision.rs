//! Actors that panic: started again from the log, three times.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate_cluster::sim::SimConfig;
use tidegate_executor::EngineError;
use tidegate_model::OperationPhase;
use tidegate_testkit::scenario::Sync;

use crate::support::{
    Fate, Log, Moody, MoodyClock, builder, config, end, hook, server, submit, until, within,
};

fn shop() -> Sync {
    let policy = [("argocd.argoproj.io/hook-delete-policy", "HookSucceeded")];
    Sync::of(&format!(
        "{}{}{}{}",
        hook("before", "PreSync", &policy),
        server("server", 0, &[]),
        config("config", 1, &[]),
        hook("after", "PostSync", &[])
    ))
}

#[tokio::test(start_paused = true)]
async fn a_call_that_panics_is_made_again() {
    for verb in ["discover", "live", "check", "apply", "get", "release", "delete"] {
        let calls = AtomicUsize::new(0);
        let cluster = Moody::new(SimConfig::default(), move |called, _| {
            let first = called == verb && calls.fetch_add(1, Ordering::SeqCst) == 0;
            if first { Fate::Panic } else { Fate::Answer }
        });
        let engine = builder(&cluster, &Log::new()).start().await.unwrap();
        let id = submit(&engine, &shop()).await;
        let view = end(&engine, id).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{verb}: {}", view.message);
        assert_eq!((cluster.created("before"), cluster.created("after")), (1, 1), "{verb}");
    }
}

/// Wherever the actor's own handler panics, the operation goes on from the log, and every hook is created once.
#[tokio::test(start_paused = true)]
async fn an_actor_that_panics_goes_on_from_the_log() {
    let mut tried = 0;
    for read in 1..400 {
        let cluster = Moody::calm();
        let clock = MoodyClock::new(move |count| count == read);
        let engine = builder(&cluster, &Log::new()).clock(clock).start().await.unwrap();
        let asking = engine.clone();
        let sync = shop();
        // The first reading is the caller's own.
        let submitted =
            tokio::spawn(async move { asking.submit(sync.request.clone(), sync.targets()).await });
        let Ok(submitted) = within(submitted).await else { continue };
        let id = submitted.unwrap();
        let view = match within(engine.wait(id)).await {
            Ok(view) => view,
            // Nothing was durable yet, so there is nothing to go on with, and the waiter knows.
            Err(EngineError::Start { .. }) if cluster.writes().is_empty() => continue,
            // It was over, or given up, before we asked.
            Err(EngineError::Log(_)) if cluster.writes().is_empty() => continue,
            Err(error) => panic!("read {read}: {error}"),
        };
        assert_eq!(view.phase, OperationPhase::Succeeded, "read {read}: {}", view.message);
        assert_eq!((cluster.created("before"), cluster.created("after")), (1, 1), "read {read}");
        tried += 1;
    }
    println!("panicked at {tried} readings of the clock");
    assert!(tried > 100, "{tried}");
}

#[tokio::test(start_paused = true)]
async fn after_three_restarts_the_operation_ends_in_error() {
    // While it waits for its gate nobody but the actor reads the clock.
    let failures = Arc::new(AtomicUsize::new(0));
    let clock = MoodyClock::new({
        let failures = Arc::clone(&failures);
        move |_| failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
    });
    let cluster = Moody::calm();
    let engine = builder(&cluster, &Log::new()).clock(clock).start().await.unwrap();
    let id = submit(&engine, &Sync::of(&config("a", 0, &[("tidegate.dev/gate", "nobody")]))).await;
    until(&engine, id, |_, why| why.contains("no gate named nobody")).await;
    let waiters: Vec<_> = (0..3).map(|_| engine.wait(id)).collect();
    failures.store(4, Ordering::SeqCst);
    for view in within(futures_util::future::join_all(waiters)).await {
        let view = view.unwrap();
        assert_eq!(view.phase, OperationPhase::Error, "{}", view.message);
        assert!(view.message.contains("gave up after 3 restarts"), "{}", view.message);
        assert!(view.message.contains("injected"), "{}", view.message);
    }
}

#[tokio::test(start_paused = true)]
async fn an_actor_that_cannot_even_give_up_leaves_nobody_waiting() {
    let clock = MoodyClock::new(|count| count >= 40);
    let cluster = Moody::calm();
    let engine = builder(&cluster, &Log::new()).clock(clock).start().await.unwrap();
    let id =
        submit(&engine, &Sync::of(&(0..50).map(|i| config(&format!("c{i}"), i, &[])).collect::<String>()))
            .await;
    let error = within(engine.wait(id)).await.unwrap_err();
    assert!(matches!(error, EngineError::Start { .. } | EngineError::NotRunning { .. }), "{error}");
}
