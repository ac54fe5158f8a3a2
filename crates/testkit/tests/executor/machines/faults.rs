//! Hands that panic, inputs that are refused, and a log that takes nothing: nothing is lost, and whoever asks is told.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidegate_executor::{EngineError, MachineError};
use tidegate_lifecycle::rollout::{self, End, Input, Progress, Progressive, State, Wish};
use tidegate_oplog::{Fault, Lookup, MemoryLog, OperationLog as _};

use super::fleet::{Fleet, Rolling};
use super::play::{begin, clock, engine, engine_on, outcome, retry, run, wish};
use super::requests::{named, recorded, rollout, stream};
use crate::support::within;

#[tokio::test(start_paused = true)]
async fn hands_that_panic_anywhere_go_on_from_the_log() {
    let mut expected = None;
    for call in 0.. {
        let (log, fleet) = (MemoryLog::new(), Fleet::where_fails(&["b"]));
        fleet.panics_at(call);
        let running = run(&engine(&log).await, &fleet).await.unwrap();
        within(retry(&running)).await.unwrap();
        within(running.over()).await;
        let end = outcome(&running.state().await.unwrap()).unwrap();
        assert_eq!(end.end, End::Completed, "call {call}: {}", end.message);
        assert!(fleet.is_told_the_end(), "call {call}");
        let found = (recorded::<Progressive>(&log, stream(1)), fleet.deeds());
        assert_eq!(*expected.get_or_insert(found.clone()), found, "call {call}");
        assert_eq!(fleet.begun(), named(&log, stream(1)), "call {call}");
        if call > fleet.calls() {
            assert!(call > 50, "only {call} calls");
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn after_three_restarts_the_machine_ends_in_error() {
    let (log, fleet) = (MemoryLog::new(), Fleet::default());
    let engine = engine(&log).await;
    fleet.always_panics("carry_out");
    let running = run(&engine, &fleet).await.unwrap();
    within(running.over()).await;
    let end = outcome(&running.state().await.unwrap()).unwrap();
    assert_eq!(end.end, End::Error);
    for part in ["gave up after 3 restarts of this rollout", "injected into call", "carry_out"] {
        assert!(end.message.contains(part), "{}", end.message);
    }
    assert_eq!(engine.machines::<rollout::Fact>(Lookup::open()).await.unwrap(), []);
    // A panic beside the actor is one too.
    fleet.always_panics("answer");
    let hands = fleet.clone();
    let other = engine.run_machine(stream(2), begin(), move || Rolling::of(&hands)).await.unwrap();
    within(other.over()).await;
    assert_eq!(outcome(&other.state().await.unwrap()).unwrap().end, End::Error);
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_cannot_even_give_up_leaves_nobody_waiting() {
    let (log, fleet) = (MemoryLog::new(), Fleet::default());
    let engine = engine(&log).await;
    fleet.always_panics("announce");
    let running = run(&engine, &fleet).await.unwrap();
    within(running.over()).await;
    let refused = running.wish(wish(Wish::Pause)).await.unwrap_err();
    for error in [refused, running.state().await.unwrap_err()] {
        assert!(matches!(error, MachineError::GivenUp { .. }), "{error}");
        assert!(error.to_string().contains("injected into call"), "{error}");
    }
    // The log has it to its end, and says so to the next who asks.
    let again = run(&engine, &fleet).await.unwrap();
    assert_eq!(outcome(&again.state().await.unwrap()).unwrap().end, End::Error);
}

/// News that comes while an actor has failed, and the next has not begun, waits for that one.
#[tokio::test(start_paused = true)]
async fn news_waits_for_the_next_actor() {
    let (log, fleet) = (MemoryLog::new(), Fleet::default());
    let running = run(&engine(&log).await, &fleet).await.unwrap();
    // Two operations are at work, and everything is recorded: the next to be announced is the pause.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    fleet.panics_at(fleet.calls() + 1);
    let lost = running.wish(wish(Wish::Pause)).await.unwrap_err();
    assert!(matches!(lost, MachineError::Restarted { .. }), "{lost}");
    running.tell(Input::Gone { member: "q".into() });
    running.wish(wish(Wish::Resume)).await.unwrap();
    let state = running.state().await.unwrap();
    assert_eq!(state.rollout().unwrap().members["q"].progress, Progress::Gone);
    within(running.over()).await;
    assert_eq!(fleet.deeds(), ["sync a", "sync b", "sync p"]);
}

#[tokio::test(start_paused = true)]
async fn hands_that_cannot_be_made_are_made_again() {
    let (log, fleet, made) = (MemoryLog::new(), Fleet::default(), Arc::new(AtomicUsize::new(0)));
    let engine = engine(&log).await;
    let work = |fails: usize| {
        let (fleet, made) = (fleet.clone(), Arc::clone(&made));
        move || {
            let made = made.fetch_add(1, Ordering::SeqCst);
            assert!(made >= fails, "there are no hands");
            Rolling::of(&fleet)
        }
    };
    let error = engine.run_machine(stream(1), begin(), work(1)).await.err().unwrap();
    assert!(error.to_string().contains("nothing of it was in the log yet, begin it again"), "{error}");
    engine.run_machine(stream(1), begin(), work(1)).await.unwrap().stop().await;
    // Of one that the log has.
    made.store(0, Ordering::SeqCst);
    let running = engine.run_machine(stream(1), None, work(3)).await.unwrap();
    within(running.over()).await;
    assert_eq!(outcome(&running.state().await.unwrap()).unwrap().end, End::Completed);
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_is_refused_in_words() {
    let (log, fleet) = (MemoryLog::new(), Fleet::default());
    let engine = engine(&log).await;
    let hands = || {
        let fleet = fleet.clone();
        move || Rolling::of(&fleet)
    };
    let unknown = engine.run_machine(stream(1), None, hands()).await.err().unwrap();
    assert!(matches!(unknown, MachineError::Unknown { .. }), "{unknown}");
    let mut twice = rollout();
    twice.members.push(twice.members[0].clone());
    let begin = Input::Begin(Box::new(twice));
    let refused = engine.run_machine(stream(1), Some(begin), hands()).await.err().unwrap();
    assert!(matches!(refused, MachineError::Refused { .. }), "{refused}");
    assert!(refused.to_string().contains("has two Applications named a"), "{refused}");
    assert_eq!(log.ids(), []);
    // The id is as free as before.
    let running = run(&engine, &fleet).await.unwrap();
    let refused = running.wish(wish(Wish::Resume)).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        format!("rollout {}: rollout is not paused; nothing to resume", stream(1))
    );
    running.wish(wish(Wish::Pause)).await.unwrap();
    // News that is not wanted harms nobody.
    running.tell(wish(Wish::Pause));
    running.wish(wish(Wish::Terminate)).await.unwrap();
    within(running.over()).await;
    let late = running.wish(wish(Wish::Pause)).await.unwrap_err();
    assert!(late.to_string().contains("rollout is already over: terminated by ann"), "{late}");
}

#[tokio::test(start_paused = true)]
async fn a_log_that_takes_nothing_is_told_to_everybody() {
    let undisturbed = {
        let (log, fleet) = (MemoryLog::new(), Fleet::default());
        within(run(&engine(&log).await, &fleet).await.unwrap().over()).await;
        recorded::<Progressive>(&log, stream(1))
    };
    for (appends, fault) in (0..12).flat_map(|appends| [(appends, Fault::Before), (appends, Fault::After)]) {
        let (log, fleet) = (MemoryLog::new(), Fleet::default());
        log.fail_append(appends, fault);
        let clock = clock();
        let first = engine_on(Arc::new(log.clone()), clock).await;
        match run(&first, &fleet).await {
            // It never began, or the log has failed before anybody could be told that it had.
            Err(error) => {
                assert!(matches!(error, MachineError::LogFailed { .. }), "after {appends}: {error}")
            }
            Ok(running) => {
                within(running.over()).await;
                let errors = [
                    running.state().await.unwrap_err(),
                    running.wish(wish(Wish::Pause)).await.unwrap_err(),
                    run(&first, &fleet).await.err().unwrap(),
                ];
                for error in errors {
                    assert!(matches!(error, MachineError::LogFailed { .. }), "after {appends}: {error}");
                }
            }
        }
        // Also without an operation that could have told it.
        assert!(matches!(first.failure(), Some(EngineError::LogFailed { .. })), "after {appends}");
        let log = log.reopen();
        let next = engine_on(Arc::new(log.clone()), clock).await;
        let running = run(&next, &fleet).await.unwrap();
        within(running.over()).await;
        assert_eq!(recorded::<Progressive>(&log, stream(1)), undisturbed, "after {appends}, {fault:?}");
        assert_eq!(fleet.deeds().len(), 4, "after {appends}, {fault:?}: {:?}", fleet.deeds());
    }
}

#[tokio::test(start_paused = true)]
async fn a_log_that_refuses_one_machine_goes_on_with_others() {
    let (log, fleet) = (MemoryLog::new(), Fleet::default());
    let engine = engine(&log).await;
    let mut long = rollout();
    long.set = "x".repeat(5_000);
    let hands = fleet.clone();
    let begin = Some(Input::Begin(Box::new(long)));
    let error = engine.run_machine(stream(2), begin, move || Rolling::of(&hands)).await.err().unwrap();
    assert!(matches!(error, MachineError::GivenUp { .. }), "{error}");
    assert!(error.to_string().contains("set name"), "{error}");
    let running = run(&engine, &fleet).await.unwrap();
    within(running.over()).await;
    let state: State = engine.machine_state::<Progressive>(stream(1)).await.unwrap().unwrap();
    assert_eq!(outcome(&state).unwrap().end, End::Completed);
    assert_eq!(engine.machine_state::<Progressive>(stream(2)).await.unwrap(), None);
}
