//! The log beside machines that are no operations: it is made smaller, and whoever asks for operations meets none of them.

use std::sync::Arc;

use tidegate_executor::{EngineError, misstated, open_log};
use tidegate_lifecycle::rollout::{self, Progressive};
use tidegate_lifecycle::teardown::{self, End, Input, OrderedDeletion};
use tidegate_model::{OperationId, StreamId};
use tidegate_oplog::{Log, LogError, Lookup, MemoryLog, Retention, TypedLog as _};
use tidegate_testkit::scenario::Sync;

use super::fleet::{Fleet, Rolling, Tearing};
use super::play::{begin, clock, engine, engine_on, run};
use super::requests::{SET, stream, teardown};
use crate::support::{Moody, builder, config, end, submit, within};

/// Rollouts of the set that are over, and a teardown that is not, which has recorded enough for a snapshot.
async fn compacts(log: Log, reopen: impl AsyncFnOnce(Log) -> Log) {
    const EACH: usize = 200;
    let clock = clock();
    let first = engine_on(Arc::clone(&log), clock).await;
    for number in 1..=4 {
        let fleet = Fleet::default();
        let running = first.run_machine(stream(number), begin(), move || Rolling::of(&fleet)).await.unwrap();
        within(running.over()).await;
    }
    let fleet = Fleet::default();
    let hands = fleet.clone();
    let tear = Input::Begin(Box::new(teardown(EACH)));
    let running = first.run_machine(stream(5), Some(tear), move || Tearing::of(&hands)).await.unwrap();
    let is_half_way = |state: &teardown::State| {
        let members = &state.teardown().unwrap().members;
        members.values().filter(|member| member.progress == teardown::Progress::Gone).count() >= EACH
    };
    while !is_half_way(&running.state().await.unwrap()) {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    within(running.stop()).await;

    let keep = Retention { history: 1, summaries: 2, open_facts: 100, ..Retention::default() };
    let done = first.compact(keep).await.unwrap();
    assert_eq!((done.streams, done.forgotten), (3, 2), "three beyond the history, two beyond the summaries");
    let kept = |id: StreamId| log.facts(id).map(|history| history.first_sequence);
    assert_eq!(log.ids(), [stream(3), stream(4), stream(5)]);
    assert!(matches!(kept(stream(3)), Err(LogError::Compacted { .. })));
    assert_eq!(kept(stream(4)).unwrap(), 1, "the newest of its line keeps every fact");
    assert!(kept(stream(5)).unwrap() > 512, "an open one keeps what its snapshot does not cover");
    // What only has its summary is listed, and says so to whoever wants more.
    let listed = first.machines::<rollout::Fact>(Lookup::of_set(SET)).await.unwrap();
    assert_eq!(listed.iter().map(|entry| entry.stream).collect::<Vec<_>>(), [stream(3), stream(4)]);
    assert_eq!(listed[0].summary.details.end, Some(rollout::End::Completed));
    let state = first.machine_state::<Progressive>(stream(3)).await;
    assert!(matches!(state, Err(EngineError::Log(LogError::Compacted { .. }))), "{state:?}");
    first.shutdown().await;
    drop(first);

    let next = engine_on(reopen(log).await, clock).await;
    let open = next.machines::<teardown::Fact>(Lookup::of_set(SET).and_open()).await.unwrap();
    assert_eq!(open.iter().map(|entry| entry.stream).collect::<Vec<_>>(), [stream(5)]);
    let hands = fleet.clone();
    let running = next.run_machine(stream(5), None, move || Tearing::of(&hands)).await.unwrap();
    within(running.over()).await;
    let state = next.machine_state::<OrderedDeletion>(stream(5)).await.unwrap().unwrap();
    assert_eq!(state, running.state().await.unwrap());
    assert_eq!(state.teardown().unwrap().outcome.as_ref().unwrap().end, End::Completed);
    assert_eq!(fleet.deeds().len(), 2 * EACH, "each was deleted once");
    next.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_compaction_keeps_what_is_open_and_the_newest_of_each_line() {
    let log = MemoryLog::new();
    let reopened = log.clone();
    compacts(Arc::new(log), async move |_| Arc::new(reopened.reopen()) as Log).await;
}

#[tokio::test(start_paused = true)]
async fn the_same_on_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    let reopen = async |log: Log| {
        // The actors of the first engine let go of it.
        let held = Arc::downgrade(&log);
        drop(log);
        while held.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
        open_log(&path, None).unwrap()
    };
    compacts(open_log(&path, None).unwrap(), reopen).await;
}

/// Rollouts and teardowns are no operations: whoever asks for those is told of none, and resumes none.
#[tokio::test(start_paused = true)]
async fn operations_are_asked_for_without_meeting_machines() {
    let (cluster, log, fleet) = (Moody::calm(), MemoryLog::new(), Fleet::default());
    let engine = builder(&cluster, &log).start().await.unwrap();
    let mut events = engine.all_events(Default::default());
    let rolling = run(&engine, &fleet).await.unwrap();
    let first = submit(&engine, &Sync::of(&config("a", 0, &[]))).await;
    end(&engine, first).await;
    within(rolling.over()).await;
    let second = submit(&engine, &Sync::of(&config("b", 0, &[]))).await;
    end(&engine, second).await;
    let hands = fleet.clone();
    let tear = Some(Input::Begin(Box::new(teardown(1))));
    let open = engine.run_machine(stream(2), tear, move || Tearing::of(&hands)).await.unwrap();

    let listed: Vec<OperationId> = engine.list().await.unwrap().iter().map(|one| one.operation).collect();
    assert_eq!(listed, [first, second]);
    assert_eq!(engine.find(Lookup::open()).await.unwrap(), []);
    assert!(misstated(&(Arc::new(log.clone()) as Log)).unwrap().is_empty());
    let machine = OperationId::from(open.id());
    let answers = [
        engine.resume(machine).await.err().unwrap(),
        engine.events(machine, 0).await.err().unwrap(),
        engine.pause(machine, "ann", "").await.err().unwrap(),
    ];
    for error in answers {
        let is_clear = matches!(error, EngineError::Unknown { .. } | EngineError::NotRunning { .. });
        assert!(is_clear, "{error}");
    }
    let error = engine.inspect(machine).await.unwrap_err();
    assert!(error.to_string().contains("teardown"), "{error}");
    // Ids come after those of machines too.
    assert!(engine.next_id().await.unwrap() > machine);
    assert!(log.find_as::<teardown::Fact>(Lookup::all()).unwrap().iter().all(|one| one.stream == open.id()));
    engine.shutdown().await;
    while let Some(event) = within(events.next()).await {
        assert!([first, second].contains(&event.unwrap().operation));
    }
}

/// A machine whose line in the log is older than its facts, as a repair may leave it, is put right by whoever goes on.
#[tokio::test(start_paused = true)]
async fn one_that_is_over_by_its_facts_alone_is_closed() {
    let (log, fleet) = (MemoryLog::new(), Fleet::default());
    let first = engine(&log).await;
    let running = run(&first, &fleet).await.unwrap();
    let open = log.entry_as::<rollout::Fact>(stream(1)).unwrap().unwrap().summary;
    within(running.over()).await;
    let entry = log.entry_as::<rollout::Fact>(stream(1)).unwrap().unwrap();
    let older =
        tidegate_oplog::AppendOf::new(stream(1), entry.sequence + 1, Vec::<rollout::Fact>::new(), open);
    log.append_all(vec![older]).unwrap();
    assert_eq!(first.machines::<rollout::Fact>(Lookup::open()).await.unwrap().len(), 1);
    within(run(&first, &fleet).await.unwrap().over()).await;
    assert_eq!(first.machines::<rollout::Fact>(Lookup::open()).await.unwrap().len(), 0);
}
