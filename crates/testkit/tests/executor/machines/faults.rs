//! Panicking effects, rejected inputs, and a failing log. No event is lost, and callers receive the errors.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidegate_executor::{EngineError, MachineError};
use tidegate_lifecycle::rollout::{self, End, Input, Progress, ProgressiveSync, State, UserRequest};
use tidegate_oplog::{Fault, Lookup, MemoryLog, OperationLog as _};

use super::fleet::{FakeRolloutEffects, Fleet};
use super::requests::{named_operations, recorded_events, rollout, stream_id};
use super::rollout_engine::{
    outcome, request_input, retry_failures, shared_clock, start_engine, start_engine_on, start_input,
    start_rollout,
};
use crate::support::with_time_limit;

#[tokio::test(start_paused = true)]
async fn panicking_effects_continue_from_the_log() {
    let mut expected = None;
    for call in 0.. {
        let (log, fleet) = (MemoryLog::new(), Fleet::with_failing(&["b"]));
        fleet.panic_at_call(call);
        let running = start_rollout(&start_engine(&log).await, &fleet).await.unwrap();
        with_time_limit(retry_failures(&running)).await.unwrap();
        with_time_limit(running.wait_until_over()).await;
        let end = outcome(&running.state().await.unwrap()).unwrap();
        assert_eq!(end.end, End::Completed, "call {call}: {}", end.message);
        assert!(fleet.has_end_notification(), "call {call}");
        let found = (recorded_events::<ProgressiveSync>(&log, stream_id(1)), fleet.actions());
        assert_eq!(*expected.get_or_insert(found.clone()), found, "call {call}");
        assert_eq!(fleet.started_operations(), named_operations(&log, stream_id(1)), "call {call}");
        if call > fleet.calls() {
            assert!(call > 50, "only {call} calls");
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn after_three_restarts_the_machine_ends_in_error() {
    let (log, fleet) = (MemoryLog::new(), Fleet::default());
    let engine = start_engine(&log).await;
    fleet.panic_always_at("carry_out");
    let running = start_rollout(&engine, &fleet).await.unwrap();
    with_time_limit(running.wait_until_over()).await;
    let end = outcome(&running.state().await.unwrap()).unwrap();
    assert_eq!(end.end, End::Error);
    for part in ["gave up after 3 restarts of this rollout", "injected into call", "carry_out"] {
        assert!(end.message.contains(part), "{}", end.message);
    }
    assert_eq!(engine.list_machines::<rollout::Event>(Lookup::open()).await.unwrap(), []);
    // A panic outside the actor also counts as a failure.
    fleet.panic_always_at("answer");
    let effects = fleet.clone();
    let other = engine
        .run_machine(stream_id(2), start_input(), move || FakeRolloutEffects::for_fleet(&effects))
        .await
        .unwrap();
    with_time_limit(other.wait_until_over()).await;
    assert_eq!(outcome(&other.state().await.unwrap()).unwrap().end, End::Error);
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_cannot_record_its_failure_releases_all_waiters() {
    let (log, fleet) = (MemoryLog::new(), Fleet::default());
    let engine = start_engine(&log).await;
    fleet.panic_always_at("announce");
    let running = start_rollout(&engine, &fleet).await.unwrap();
    with_time_limit(running.wait_until_over()).await;
    let refused = running.request(request_input(UserRequest::Pause)).await.unwrap_err();
    for error in [refused, running.state().await.unwrap_err()] {
        assert!(matches!(error, MachineError::Aborted { .. }), "{error}");
        assert!(error.to_string().contains("injected into call"), "{error}");
    }
    // The log is complete, so the next caller gets the result.
    let again = start_rollout(&engine, &fleet).await.unwrap();
    assert_eq!(outcome(&again.state().await.unwrap()).unwrap().end, End::Error);
}

/// Inputs that arrive between a failed actor and its successor must wait for the successor.
#[tokio::test(start_paused = true)]
async fn inputs_wait_for_the_next_actor() {
    let (log, fleet) = (MemoryLog::new(), Fleet::default());
    let running = start_rollout(&start_engine(&log).await, &fleet).await.unwrap();
    // Two operations are running, and everything is recorded. The next event is the pause.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    fleet.panic_at_call(fleet.calls() + 1);
    let lost = running.request(request_input(UserRequest::Pause)).await.unwrap_err();
    assert!(matches!(lost, MachineError::Restarted { .. }), "{lost}");
    running.send_input(Input::Gone { member: "q".into() });
    running.request(request_input(UserRequest::Resume)).await.unwrap();
    let state = running.state().await.unwrap();
    assert_eq!(state.rollout().unwrap().members["q"].progress, Progress::Gone);
    with_time_limit(running.wait_until_over()).await;
    assert_eq!(fleet.actions(), ["sync a", "sync b", "sync p"]);
}

#[tokio::test(start_paused = true)]
async fn effects_that_cannot_be_created_are_created_again() {
    let (log, fleet, made) = (MemoryLog::new(), Fleet::default(), Arc::new(AtomicUsize::new(0)));
    let engine = start_engine(&log).await;
    let work = |fails: usize| {
        let (fleet, made) = (fleet.clone(), Arc::clone(&made));
        move || {
            let made = made.fetch_add(1, Ordering::SeqCst);
            assert!(made >= fails, "there are no effects");
            FakeRolloutEffects::for_fleet(&fleet)
        }
    };
    let error = engine.run_machine(stream_id(1), start_input(), work(1)).await.err().unwrap();
    assert!(
        error.to_string().contains("the log has no record of the machine yet, so start it again"),
        "{error}"
    );
    engine.run_machine(stream_id(1), start_input(), work(1)).await.unwrap().stop().await;
    // For a machine in the log, the engine repeatedly tries to create its effects.
    made.store(0, Ordering::SeqCst);
    let running = engine.run_machine(stream_id(1), None, work(3)).await.unwrap();
    with_time_limit(running.wait_until_over()).await;
    assert_eq!(outcome(&running.state().await.unwrap()).unwrap().end, End::Completed);
}

#[tokio::test(start_paused = true)]
async fn refused_inputs_get_a_readable_reason() {
    let (log, fleet) = (MemoryLog::new(), Fleet::default());
    let engine = start_engine(&log).await;
    let effects = || {
        let fleet = fleet.clone();
        move || FakeRolloutEffects::for_fleet(&fleet)
    };
    let unknown = engine.run_machine(stream_id(1), None, effects()).await.err().unwrap();
    assert!(matches!(unknown, MachineError::UnknownMachine { .. }), "{unknown}");
    let mut twice = rollout();
    twice.members.push(twice.members[0].clone());
    let begin = Input::Begin(Box::new(twice));
    let refused = engine.run_machine(stream_id(1), Some(begin), effects()).await.err().unwrap();
    assert!(matches!(refused, MachineError::Rejected { .. }), "{refused}");
    assert!(refused.to_string().contains("has two Applications named a"), "{refused}");
    assert_eq!(log.ids().unwrap(), []);
    // The rejected request didn't use the ID.
    let running = start_rollout(&engine, &fleet).await.unwrap();
    let refused = running.request(request_input(UserRequest::Resume)).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        format!("rollout {}: the rollout is not paused, so there is nothing to resume", stream_id(1))
    );
    running.request(request_input(UserRequest::Pause)).await.unwrap();
    // An unexpected input is ignored.
    running.send_input(request_input(UserRequest::Pause));
    running.request(request_input(UserRequest::Terminate)).await.unwrap();
    with_time_limit(running.wait_until_over()).await;
    let late = running.request(request_input(UserRequest::Pause)).await.unwrap_err();
    assert!(late.to_string().contains("the rollout has already finished: terminated by ann"), "{late}");
}

#[tokio::test(start_paused = true)]
async fn every_caller_learns_of_a_failing_log() {
    let undisturbed = {
        let (log, fleet) = (MemoryLog::new(), Fleet::default());
        with_time_limit(start_rollout(&start_engine(&log).await, &fleet).await.unwrap().wait_until_over())
            .await;
        recorded_events::<ProgressiveSync>(&log, stream_id(1))
    };
    for (appends, fault) in (0..12).flat_map(|appends| [(appends, Fault::Before), (appends, Fault::After)]) {
        let (log, fleet) = (MemoryLog::new(), Fleet::default());
        log.fail_append(appends, fault);
        let clock = shared_clock();
        let first = start_engine_on(Arc::new(log.clone()), clock).await;
        match start_rollout(&first, &fleet).await {
            // Either the rollout never started, or the log failed before acknowledging the start.
            Err(error) => {
                assert!(matches!(error, MachineError::LogFailed { .. }), "after {appends}: {error}")
            }
            Ok(running) => {
                with_time_limit(running.wait_until_over()).await;
                let errors = [
                    running.state().await.unwrap_err(),
                    running.request(request_input(UserRequest::Pause)).await.unwrap_err(),
                    start_rollout(&first, &fleet).await.err().unwrap(),
                ];
                for error in errors {
                    assert!(matches!(error, MachineError::LogFailed { .. }), "after {appends}: {error}");
                }
            }
        }
        // The engine itself also reports the failure.
        assert!(matches!(first.failure(), Some(EngineError::LogFailed { .. })), "after {appends}");
        let log = log.reopen();
        let next = start_engine_on(Arc::new(log.clone()), clock).await;
        let running = start_rollout(&next, &fleet).await.unwrap();
        with_time_limit(running.wait_until_over()).await;
        assert_eq!(
            recorded_events::<ProgressiveSync>(&log, stream_id(1)),
            undisturbed,
            "after {appends}, {fault:?}"
        );
        assert_eq!(fleet.actions().len(), 4, "after {appends}, {fault:?}: {:?}", fleet.actions());
    }
}

#[tokio::test(start_paused = true)]
async fn a_log_that_refuses_one_machine_continues_with_others() {
    let (log, fleet) = (MemoryLog::new(), Fleet::default());
    let engine = start_engine(&log).await;
    let mut long = rollout();
    long.set = "x".repeat(5_000);
    let effects = fleet.clone();
    let begin = Some(Input::Begin(Box::new(long)));
    let error = engine
        .run_machine(stream_id(2), begin, move || FakeRolloutEffects::for_fleet(&effects))
        .await
        .err()
        .unwrap();
    assert!(matches!(error, MachineError::Aborted { .. }), "{error}");
    assert!(error.to_string().contains("ApplicationSet name"), "{error}");
    let running = start_rollout(&engine, &fleet).await.unwrap();
    with_time_limit(running.wait_until_over()).await;
    let state: State = engine.machine_state::<ProgressiveSync>(stream_id(1)).await.unwrap().unwrap();
    assert_eq!(outcome(&state).unwrap().end, End::Completed);
    assert_eq!(engine.machine_state::<ProgressiveSync>(stream_id(2)).await.unwrap(), None);
}
