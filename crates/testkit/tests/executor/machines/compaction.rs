//! A log with machines other than operations. They are compacted, and queries for operations must not return
//! them.

use std::sync::Arc;

use tidegate_executor::{EngineError, find_wrong_summaries, open_log};
use tidegate_lifecycle::rollout::{self, ProgressiveSync};
use tidegate_lifecycle::teardown::{self, End, Input, OrderedDeletion};
use tidegate_model::{OperationId, StreamId};
use tidegate_oplog::{Log, LogError, Lookup, MemoryLog, Retention, TypedLog as _};
use tidegate_testkit::scenario::SyncSpec;

use super::fleet::{FakeRolloutEffects, FakeTeardownEffects, Fleet};
use super::requests::{APPSET, stream_id, teardown};
use super::rollout_engine::{shared_clock, start_engine, start_engine_on, start_input, start_rollout};
use crate::support::{FaultyCluster, builder, config, submit, wait_for_end, with_time_limit};

/// Compacts a log with finished rollouts of the ApplicationSet and an unfinished teardown. The teardown has
/// enough events for a snapshot.
async fn check_compaction(log: Log, reopen: impl AsyncFnOnce(Log) -> Log) {
    const EACH: usize = 200;
    let clock = shared_clock();
    let first = start_engine_on(Arc::clone(&log), clock).await;
    for number in 1..=4 {
        let fleet = Fleet::default();
        let running = first
            .run_machine(stream_id(number), start_input(), move || FakeRolloutEffects::for_fleet(&fleet))
            .await
            .unwrap();
        with_time_limit(running.wait_until_over()).await;
    }
    let fleet = Fleet::default();
    let effects = fleet.clone();
    let tear = Input::Begin(Box::new(teardown(EACH)));
    let running = first
        .run_machine(stream_id(5), Some(tear), move || FakeTeardownEffects::for_fleet(&effects))
        .await
        .unwrap();
    let is_half_way = |state: &teardown::State| {
        let members = &state.teardown().unwrap().members;
        members.values().filter(|member| member.progress == teardown::Progress::Gone).count() >= EACH
    };
    while !is_half_way(&running.state().await.unwrap()) {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    with_time_limit(running.stop()).await;

    let keep = Retention { history: 1, summaries: 2, open_events: 100, ..Retention::default() };
    let done = first.compact(keep).await.unwrap();
    assert_eq!((done.streams, done.forgotten), (3, 2), "three exceed the history, two exceed the summaries");
    let first_sequence = |id: StreamId| log.events(id).map(|history| history.first_sequence);
    assert_eq!(log.ids().unwrap(), [stream_id(3), stream_id(4), stream_id(5)]);
    assert!(matches!(first_sequence(stream_id(3)), Err(LogError::Compacted { .. })));
    assert_eq!(first_sequence(stream_id(4)).unwrap(), 1, "the newest of its line keeps all events");
    assert!(
        first_sequence(stream_id(5)).unwrap() > 512,
        "an unfinished operation keeps events after its snapshot"
    );
    // A machine with only a summary is listed. Any other read reports that only the summary is left.
    let listed = first.list_machines::<rollout::Event>(Lookup::of_appset(APPSET)).await.unwrap();
    assert_eq!(listed.iter().map(|entry| entry.stream).collect::<Vec<_>>(), [stream_id(3), stream_id(4)]);
    assert_eq!(listed[0].summary.details.end, Some(rollout::End::Completed));
    let state = first.machine_state::<ProgressiveSync>(stream_id(3)).await;
    assert!(matches!(state, Err(EngineError::Log(LogError::Compacted { .. }))), "{state:?}");
    first.shutdown().await;
    drop(first);

    let next = start_engine_on(reopen(log).await, clock).await;
    let open = next.list_machines::<teardown::Event>(Lookup::of_appset(APPSET).and_open()).await.unwrap();
    assert_eq!(open.iter().map(|entry| entry.stream).collect::<Vec<_>>(), [stream_id(5)]);
    let effects = fleet.clone();
    let running =
        next.run_machine(stream_id(5), None, move || FakeTeardownEffects::for_fleet(&effects)).await.unwrap();
    with_time_limit(running.wait_until_over()).await;
    let state = next.machine_state::<OrderedDeletion>(stream_id(5)).await.unwrap().unwrap();
    assert_eq!(state, running.state().await.unwrap());
    assert_eq!(state.teardown().unwrap().outcome.as_ref().unwrap().end, End::Completed);
    assert_eq!(fleet.actions().len(), 2 * EACH, "each was deleted once");
    next.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn compaction_keeps_open_machines_and_the_newest_finished_ones() {
    let log = MemoryLog::new();
    let reopened = log.clone();
    check_compaction(Arc::new(log), async move |_| Arc::new(reopened.reopen()) as Log).await;
}

#[tokio::test(start_paused = true)]
async fn compaction_works_the_same_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    let reopen = async |log: Log| {
        // The log is released once the first engine's actors have stopped.
        let held = Arc::downgrade(&log);
        drop(log);
        while held.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
        open_log(&path, None).unwrap()
    };
    check_compaction(open_log(&path, None).unwrap(), reopen).await;
}

/// Rollouts and teardowns are not operations: queries for operations must neither return nor resume them.
#[tokio::test(start_paused = true)]
async fn queries_of_operations_do_not_return_machines() {
    let (cluster, log, fleet) = (FaultyCluster::reliable(), MemoryLog::new(), Fleet::default());
    let engine = builder(&cluster, &log).start().await.unwrap();
    let mut events = engine.all_events(Default::default());
    let rolling = start_rollout(&engine, &fleet).await.unwrap();
    let first = submit(&engine, &SyncSpec::new(&config("a", 0, &[]))).await;
    wait_for_end(&engine, first).await;
    with_time_limit(rolling.wait_until_over()).await;
    let second = submit(&engine, &SyncSpec::new(&config("b", 0, &[]))).await;
    wait_for_end(&engine, second).await;
    let effects = fleet.clone();
    let tear = Some(Input::Begin(Box::new(teardown(1))));
    let open = engine
        .run_machine(stream_id(2), tear, move || FakeTeardownEffects::for_fleet(&effects))
        .await
        .unwrap();

    let listed: Vec<OperationId> = engine.list().await.unwrap().iter().map(|one| one.operation).collect();
    assert_eq!(listed, [first, second]);
    assert_eq!(engine.find(Lookup::open()).await.unwrap(), []);
    assert!(find_wrong_summaries(&(Arc::new(log.clone()) as Log)).unwrap().is_empty());
    let machine = OperationId::from(open.id());
    let answers = [
        engine.resume(machine).await.err().unwrap(),
        engine.events(machine, 0).await.err().unwrap(),
        engine.pause(machine, "ann", "").await.err().unwrap(),
    ];
    for error in answers {
        let is_clear = matches!(error, EngineError::UnknownOperation { .. } | EngineError::NotRunning { .. });
        assert!(is_clear, "{error}");
    }
    let error = engine.inspect(machine).await.unwrap_err();
    assert!(error.to_string().contains("teardown"), "{error}");
    // A new operation ID must also be greater than the IDs of machines.
    assert!(engine.next_id().await.unwrap() > machine);
    assert!(log.find_as::<teardown::Event>(Lookup::all()).unwrap().iter().all(|one| one.stream == open.id()));
    engine.shutdown().await;
    while let Some(event) = with_time_limit(events.next()).await {
        assert!([first, second].contains(&event.unwrap().operation));
    }
}

/// If a machine's summary is older than its events, for example after a repair, the next resume must correct
/// it.
#[tokio::test(start_paused = true)]
async fn a_machine_that_its_events_ended_is_closed() {
    let (log, fleet) = (MemoryLog::new(), Fleet::default());
    let first = start_engine(&log).await;
    let running = start_rollout(&first, &fleet).await.unwrap();
    let open = log.entry_as::<rollout::Event>(stream_id(1)).unwrap().unwrap().summary;
    with_time_limit(running.wait_until_over()).await;
    let entry = log.entry_as::<rollout::Event>(stream_id(1)).unwrap().unwrap();
    let older =
        tidegate_oplog::AppendOf::new(stream_id(1), entry.sequence + 1, Vec::<rollout::Event>::new(), open);
    log.append_all(vec![older]).unwrap();
    assert_eq!(first.list_machines::<rollout::Event>(Lookup::open()).await.unwrap().len(), 1);
    with_time_limit(start_rollout(&first, &fleet).await.unwrap().wait_until_over()).await;
    assert_eq!(first.list_machines::<rollout::Event>(Lookup::open()).await.unwrap().len(), 0);
}
