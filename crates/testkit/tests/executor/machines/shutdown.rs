//! Clean shutdown and resumption of machines. At most one machine may run per ID.

use std::sync::Arc;
use std::time::Duration;

use tidegate_executor::MachineError;
use tidegate_lifecycle::rollout::{End, ProgressiveSync, UserRequest};
use tidegate_oplog::{MemoryLog, OperationLog as _};
use tokio::time::Instant;

use super::fleet::{FakeRolloutEffects, FakeTeardownEffects, Fleet};
use super::requests::{named_operations, recorded_events, stream_id};
use super::rollout_engine::{
    outcome, request_input, shared_clock, start_engine, start_engine_on, start_input, start_rollout,
};
use crate::support::with_time_limit;

#[tokio::test(start_paused = true)]
async fn a_shutdown_in_the_middle_can_be_resumed() {
    let mut expected = None;
    for after_millis in [3_600_000, 0, 1, 4_000, 5_000, 7_500, 10_500, 40_000, 71_000, 78_000, 90_000] {
        let (log, fleet) = (MemoryLog::new(), Fleet::default());
        let clock = shared_clock();
        let first = start_engine_on(Arc::new(log.clone()), clock).await;
        let running = start_rollout(&first, &fleet).await.unwrap();
        let waiter = tokio::spawn({
            let running = running.clone();
            async move { running.wait_until_over().await }
        });
        tokio::time::sleep(Duration::from_millis(after_millis)).await;
        with_time_limit(first.shutdown()).await;
        with_time_limit(waiter).await.unwrap();
        if outcome(&running.state().await.unwrap()).is_none() {
            let late = running.request(request_input(UserRequest::Pause)).await.unwrap_err();
            assert!(matches!(late, MachineError::NotRunning { .. }), "{after_millis}: {late}");
        }
        let error = start_rollout(&first, &fleet).await.err().unwrap();
        assert!(matches!(error, MachineError::Stopped { .. }), "{after_millis}: {error}");
        let calls = fleet.calls();
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(fleet.calls(), calls, "{after_millis}: the effects continue after the shutdown");

        let log = log.reopen();
        let hands = fleet.clone();
        let next = start_engine_on(Arc::new(log.clone()), clock).await;
        let running = next
            .run_machine(stream_id(1), None, move || FakeRolloutEffects::for_fleet(&hands))
            .await
            .unwrap();
        with_time_limit(running.wait_until_over()).await;
        assert_eq!(outcome(&running.state().await.unwrap()).unwrap().end, End::Completed);
        let found = (recorded_events::<ProgressiveSync>(&log, stream_id(1)), fleet.actions());
        assert_eq!(*expected.get_or_insert(found.clone()), found, "{after_millis}");
        assert_eq!(fleet.started_operations(), named_operations(&log, stream_id(1)), "{after_millis}");
    }
}

/// A caller that starts a machine during the shutdown must get a success only if the start is durable.
#[tokio::test(start_paused = true)]
async fn a_shutdown_during_a_start_is_reported() {
    let mut ends = [0, 0];
    // The number of steps until the result is unspecified. In the last round, the result arrives before the
    // shutdown.
    for turns in (0..60).map(Some).chain([None]) {
        let (log, fleet) = (MemoryLog::new(), Fleet::default());
        let first = start_engine(&log).await;
        let (requester, effects) = (first.clone(), fleet.clone());
        let started = tokio::spawn(async move { start_rollout(&requester, &effects).await });
        for _ in 0..turns.unwrap_or_default() {
            tokio::task::yield_now().await;
        }
        while turns.is_none() && !started.is_finished() {
            tokio::task::yield_now().await;
        }
        with_time_limit(first.shutdown()).await;
        match with_time_limit(started).await.unwrap() {
            Ok(running) => {
                assert_eq!(log.ids().unwrap(), [running.id()], "after {turns:?} steps");
                ends[0] += 1;
            }
            Err(error) => {
                let is_clear =
                    matches!(error, MachineError::ShuttingDown { .. } | MachineError::Stopped { .. });
                assert!(is_clear, "after {turns:?} steps: {error}");
                ends[1] += 1;
            }
        }
    }
    assert!(ends.iter().all(|count| *count > 0), "{ends:?}");
}

/// The engine must be able to stop, with one running machine or a hundred.
#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_wait_for_silent_effects() {
    let (log, fleet) = (MemoryLog::new(), Fleet::default());
    let first = start_engine(&log).await;
    fleet.set_silent(true);
    let running = start_rollout(&first, &fleet).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let began = Instant::now();
    with_time_limit(running.stop()).await;
    assert!(began.elapsed() <= Duration::from_secs(6), "{:?}", began.elapsed());
    for number in 2..100 {
        let effects = fleet.clone();
        first
            .run_machine(stream_id(number), start_input(), move || FakeRolloutEffects::for_fleet(&effects))
            .await
            .unwrap();
    }
    let began = Instant::now();
    with_time_limit(first.shutdown()).await;
    assert!(began.elapsed() <= Duration::from_secs(6), "{:?}", began.elapsed());
    fleet.set_silent(false);
    let running = start_rollout(&start_engine(&log.reopen()).await, &fleet).await.unwrap();
    with_time_limit(running.wait_until_over()).await;
    assert_eq!(outcome(&running.state().await.unwrap()).unwrap().end, End::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_machine_resumes_in_the_same_engine() {
    let (log, fleet) = (MemoryLog::new(), Fleet::default());
    let engine = start_engine(&log).await;
    for _ in 0..5 {
        let running = start_rollout(&engine, &fleet).await.unwrap();
        tokio::time::sleep(Duration::from_secs(3)).await;
        with_time_limit(running.stop()).await;
        assert_eq!(outcome(&running.state().await.unwrap()), None);
    }
    let running = start_rollout(&engine, &fleet).await.unwrap();
    with_time_limit(running.wait_until_over()).await;
    assert_eq!(outcome(&running.state().await.unwrap()).unwrap().end, End::Completed);
    assert_eq!(fleet.actions(), ["sync a", "sync b", "sync p", "sync q"]);
}

#[tokio::test(start_paused = true)]
async fn machines_are_unique_by_id() {
    let (log, fleet, unused) = (MemoryLog::new(), Fleet::default(), Fleet::default());
    let engine = start_engine(&log).await;
    let (one, other) = tokio::join!(start_rollout(&engine, &fleet), start_rollout(&engine, &unused));
    let (one, other) = (one.unwrap(), other.unwrap());
    one.request(request_input(UserRequest::Pause)).await.unwrap();
    let refused = other.request(request_input(UserRequest::Pause)).await.unwrap_err();
    assert!(refused.to_string().contains("already paused by ann"), "{refused}");
    let third = start_rollout(&engine, &unused).await.unwrap();
    third.request(request_input(UserRequest::Resume)).await.unwrap();
    let hands = fleet.clone();
    let wrong = engine
        .run_machine(stream_id(1), None, move || FakeTeardownEffects::for_fleet(&hands))
        .await
        .err()
        .unwrap();
    assert!(matches!(wrong, MachineError::IdInUse { .. }), "{wrong}");
    for running in [&one, &other, &third] {
        with_time_limit(running.wait_until_over()).await;
    }
    assert_eq!(unused.calls(), 0, "the effects of the first runner are used");
    // The rollout has finished in the meantime, so the second start returns it as finished.
    let over = start_rollout(&engine, &unused).await.unwrap();
    with_time_limit(over.wait_until_over()).await;
    assert_eq!(over.state().await.unwrap(), one.state().await.unwrap());
    let hands = fleet.clone();
    let wrong = engine
        .run_machine(stream_id(1), None, move || FakeTeardownEffects::for_fleet(&hands))
        .await
        .err()
        .unwrap();
    assert!(wrong.to_string().contains("rollout"), "{wrong}");
    assert_eq!(unused.calls(), 0);
}
