//! Machines that are stopped in order, and gone on with; and of which there is one of each id.

use std::sync::Arc;
use std::time::Duration;

use tidegate_executor::MachineError;
use tidegate_lifecycle::rollout::{End, Progressive, Wish};
use tidegate_oplog::{MemoryLog, OperationLog as _};
use tokio::time::Instant;

use super::fleet::{Fleet, Rolling, Tearing};
use super::play::{begin, clock, engine, engine_on, outcome, run, wish};
use super::requests::{named, recorded, stream};
use crate::support::within;

#[tokio::test(start_paused = true)]
async fn a_shutdown_in_the_middle_can_be_gone_on_with() {
    let mut expected = None;
    for after_millis in [3_600_000, 0, 1, 4_000, 5_000, 7_500, 10_500, 40_000, 71_000, 78_000, 90_000] {
        let (log, fleet) = (MemoryLog::new(), Fleet::default());
        let clock = clock();
        let first = engine_on(Arc::new(log.clone()), clock).await;
        let running = run(&first, &fleet).await.unwrap();
        let waiter = tokio::spawn({
            let running = running.clone();
            async move { running.over().await }
        });
        tokio::time::sleep(Duration::from_millis(after_millis)).await;
        within(first.shutdown()).await;
        within(waiter).await.unwrap();
        if outcome(&running.state().await.unwrap()).is_none() {
            let late = running.wish(wish(Wish::Pause)).await.unwrap_err();
            assert!(matches!(late, MachineError::NotAtWork { .. }), "{after_millis}: {late}");
        }
        let error = run(&first, &fleet).await.err().unwrap();
        assert!(matches!(error, MachineError::Stopped { .. }), "{after_millis}: {error}");
        let calls = fleet.calls();
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(fleet.calls(), calls, "{after_millis}: the hands go on after the shutdown");

        let log = log.reopen();
        let hands = fleet.clone();
        let next = engine_on(Arc::new(log.clone()), clock).await;
        let running = next.run_machine(stream(1), None, move || Rolling::of(&hands)).await.unwrap();
        within(running.over()).await;
        assert_eq!(outcome(&running.state().await.unwrap()).unwrap().end, End::Completed);
        let found = (recorded::<Progressive>(&log, stream(1)), fleet.deeds());
        assert_eq!(*expected.get_or_insert(found.clone()), found, "{after_millis}");
        assert_eq!(fleet.begun(), named(&log, stream(1)), "{after_millis}");
    }
}

/// Whoever begins one while the engine goes down is told that it has begun only where that is durable.
#[tokio::test(start_paused = true)]
async fn a_shutdown_while_one_begins_is_told() {
    let mut ends = [0, 0];
    // At last, whoever asks is answered before: how many turns that takes is not said.
    for turns in (0..60).map(Some).chain([None]) {
        let (log, fleet) = (MemoryLog::new(), Fleet::default());
        let first = engine(&log).await;
        let (asking, hands) = (first.clone(), fleet.clone());
        let begun = tokio::spawn(async move { run(&asking, &hands).await });
        for _ in 0..turns.unwrap_or_default() {
            tokio::task::yield_now().await;
        }
        while turns.is_none() && !begun.is_finished() {
            tokio::task::yield_now().await;
        }
        within(first.shutdown()).await;
        match within(begun).await.unwrap() {
            Ok(running) => {
                assert_eq!(log.ids(), [running.id()], "after {turns:?} turns");
                ends[0] += 1;
            }
            Err(error) => {
                let is_clear =
                    matches!(error, MachineError::ShuttingDown { .. } | MachineError::Stopped { .. });
                assert!(is_clear, "after {turns:?} turns: {error}");
                ends[1] += 1;
            }
        }
    }
    assert!(ends.iter().all(|count| *count > 0), "{ends:?}");
}

/// Neither one nor a hundred keep an engine from ending.
#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_silent_hands() {
    let (log, fleet) = (MemoryLog::new(), Fleet::default());
    let first = engine(&log).await;
    fleet.is_silent(true);
    let running = run(&first, &fleet).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let began = Instant::now();
    within(running.stop()).await;
    assert!(began.elapsed() <= Duration::from_secs(6), "{:?}", began.elapsed());
    for number in 2..100 {
        let hands = fleet.clone();
        first.run_machine(stream(number), begin(), move || Rolling::of(&hands)).await.unwrap();
    }
    let began = Instant::now();
    within(first.shutdown()).await;
    assert!(began.elapsed() <= Duration::from_secs(6), "{:?}", began.elapsed());
    fleet.is_silent(false);
    let running = run(&engine(&log.reopen()).await, &fleet).await.unwrap();
    within(running.over()).await;
    assert_eq!(outcome(&running.state().await.unwrap()).unwrap().end, End::Completed);
}

#[tokio::test(start_paused = true)]
async fn one_that_was_stopped_is_gone_on_with_in_the_same_engine() {
    let (log, fleet) = (MemoryLog::new(), Fleet::default());
    let engine = engine(&log).await;
    for _ in 0..5 {
        let running = run(&engine, &fleet).await.unwrap();
        tokio::time::sleep(Duration::from_secs(3)).await;
        within(running.stop()).await;
        assert_eq!(outcome(&running.state().await.unwrap()), None);
    }
    let running = run(&engine, &fleet).await.unwrap();
    within(running.over()).await;
    assert_eq!(outcome(&running.state().await.unwrap()).unwrap().end, End::Completed);
    assert_eq!(fleet.deeds(), ["sync a", "sync b", "sync p", "sync q"]);
}

#[tokio::test(start_paused = true)]
async fn there_is_one_of_each_id() {
    let (log, fleet, unused) = (MemoryLog::new(), Fleet::default(), Fleet::default());
    let engine = engine(&log).await;
    let (one, other) = tokio::join!(run(&engine, &fleet), run(&engine, &unused));
    let (one, other) = (one.unwrap(), other.unwrap());
    one.wish(wish(Wish::Pause)).await.unwrap();
    let refused = other.wish(wish(Wish::Pause)).await.unwrap_err();
    assert!(refused.to_string().contains("already paused by ann"), "{refused}");
    let third = run(&engine, &unused).await.unwrap();
    third.wish(wish(Wish::Resume)).await.unwrap();
    let hands = fleet.clone();
    let wrong = engine.run_machine(stream(1), None, move || Tearing::of(&hands)).await.err().unwrap();
    assert!(matches!(wrong, MachineError::OtherMachine { .. }), "{wrong}");
    for running in [&one, &other, &third] {
        within(running.over()).await;
    }
    assert_eq!(unused.calls(), 0, "the hands of the first are the hands");
    // By now it is over, and is returned as that.
    let over = run(&engine, &unused).await.unwrap();
    within(over.over()).await;
    assert_eq!(over.state().await.unwrap(), one.state().await.unwrap());
    let hands = fleet.clone();
    let wrong = engine.run_machine(stream(1), None, move || Tearing::of(&hands)).await.err().unwrap();
    assert!(wrong.to_string().contains("rollout"), "{wrong}");
    assert_eq!(unused.calls(), 0);
}
