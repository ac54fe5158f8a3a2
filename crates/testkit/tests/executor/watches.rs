//! Watches that panic, fail or hang: what is awaited is seen all the same.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidegate_cluster::sim::SimConfig;
use tidegate_model::OperationPhase;
use tidegate_testkit::scenario::Sync;

use crate::support::{Fate, Log, Moody, builder, config, end, server, submit};

/// How long a sync takes when the first `times` calls of a verb meet a fate.
async fn takes(verb: &'static str, times: usize, fate: Fate) -> Duration {
    let calls = AtomicUsize::new(0);
    let cluster = Moody::new(SimConfig::default(), move |called, _| {
        let strikes = called == verb && calls.fetch_add(1, Ordering::SeqCst) < times;
        if strikes { fate } else { Fate::Answer }
    });
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let slow = server("slow", 0, &[("sim.tidegate.dev/ready-after", "20s")]);
    let began = tokio::time::Instant::now();
    let id = submit(&engine, &Sync::of(&format!("{slow}{}", config("last", 1, &[])))).await;
    let view = end(&engine, id).await;
    assert_eq!(view.phase, OperationPhase::Succeeded, "{verb} {times} {fate:?}: {}", view.message);
    began.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_panics_begins_again() {
    for (verb, times) in [("list", 1), ("list", 3), ("watch", 1), ("watch", 3), ("get", 1)] {
        let took = takes(verb, times, Fate::Panic).await;
        assert!(took < Duration::from_secs(60), "{verb} {times}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_hangs_is_made_good_by_looking() {
    for verb in ["list", "watch"] {
        let took = takes(verb, usize::MAX, Fate::Never).await;
        assert!(took < Duration::from_secs(60), "{verb}: {took:?}");
    }
}
