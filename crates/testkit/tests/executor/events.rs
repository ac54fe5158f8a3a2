//! Numbered events, read from the log or received live. Each event arrives once, even with gaps in the
//! connection.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_cluster::Cluster;
use tidegate_cluster::sim::SimConfig;
use tidegate_executor::{
    Engine, EngineBuilder, EngineError, Event, EventCursor, EventGap, EventKind, EventStream, RuntimeClock,
    record_request, replay,
};
use tidegate_lifecycle::operation::{Input, Stage, WaveStep};
use tidegate_model::{Destination, OperationId, OperationPhase};
use tidegate_oplog::{OperationLog as _, Retention};
use tidegate_testkit::crash::{CrashLog, CrashPoints};
use tidegate_testkit::process::START;
use tidegate_testkit::scenario::SyncSpec;

use crate::support::{
    FaultyCluster, Log, PanickingClock, builder, callback_actor, config, hook, server_deployment, submit,
    wait_for_end, wait_until, with_time_limit,
};

fn shop() -> SyncSpec {
    SyncSpec::new(
        &[hook("before", "PreSync", &[]), server_deployment("server", 0, &[]), config("config", 1, &[])]
            .concat(),
    )
}

/// Returns a sync with several waves, followed by a wave that stays blocked.
fn paused_after(waves: i64) -> SyncSpec {
    let gate = [("tidegate.dev/gate", "nobody")];
    let before: String = (0..waves).map(|wave| config(&format!("c{wave}"), wave, &[])).collect();
    SyncSpec::new(&format!("{before}{}", config("last", waves, &gate)))
}

async fn wait_until_paused(engine: &Engine, id: OperationId) {
    wait_until(engine, id, |_, reason| reason.contains("no gate named nobody")).await;
}

fn recorded_events(log: &Log, id: OperationId) -> Vec<Event> {
    replay(log, id, 0).unwrap().unwrap().events
}

/// Returns all remaining events of a stream.
async fn collect_events(mut events: EventStream) -> Vec<Event> {
    let mut all = Vec::new();
    while let Some(event) = with_time_limit(events.next()).await {
        all.push(event.unwrap());
    }
    all
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_gets_all_events_after_its_number() {
    let (cluster, log) = (FaultyCluster::reliable(), Log::new());
    let engine = builder(&cluster, &log).start().await.unwrap();
    let id = submit(&engine, &shop()).await;
    // A live event may not be in the log yet.
    let live = collect_events(engine.events(id, 0).await.unwrap()).await;
    assert_eq!(live, recorded_events(&log, id));
    let numbers: Vec<u64> = live.iter().map(|event| event.sequence).collect();
    assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
    assert_eq!(live[0].what, EventKind::Accepted);
    assert!(matches!(live.last().unwrap().what, EventKind::Finished { .. }));
    let is_applying = |event: &Event| {
        matches!(
            event.what,
            EventKind::StageChanged { to: Stage::Wave { index: 1, step: WaveStep::Applying }, .. }
        )
    };
    assert!(live.iter().any(is_applying), "{live:#?}");
    for after in [0, 1, numbers[2], numbers[2] + 1, *numbers.last().unwrap()] {
        let rest: Vec<Event> = live.iter().filter(|event| event.sequence > after).cloned().collect();
        assert_eq!(collect_events(engine.events(id, after).await.unwrap()).await, rest, "after {after}");
    }
    // The number is beyond the last event, so this is a different log, or the log has lost its end.
    let mut ahead = engine.events(id, 1000).await.unwrap();
    let next_event = with_time_limit(ahead.next()).await;
    assert!(matches!(next_event, Some(Err(EventGap::Ahead { after: 1000, .. }))), "{next_event:?}");
    assert!(with_time_limit(ahead.next()).await.is_none());
    let nobody = "019f0000-0000-7000-8000-000000000000".parse().unwrap();
    assert!(matches!(engine.events(nobody, 0).await, Err(EngineError::UnknownOperation { .. })));
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_subscriber_loses_nothing_and_blocks_no_operation() {
    let (cluster, log) = (FaultyCluster::reliable(), Log::new());
    let engine = builder(&cluster, &log).start().await.unwrap();
    let mut of_all = engine.events_from_now().await.unwrap();
    let id = submit(&engine, &paused_after(150)).await;
    let mut of_one = engine.events(id, 0).await.unwrap();
    let first = with_time_limit(of_one.next()).await.unwrap().unwrap();
    wait_until_paused(&engine, id).await;
    // Emit more events than a slow reader's buffer holds.
    engine.terminate(id, "ann").await.unwrap();
    assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Failed);
    let recorded = recorded_events(&log, id);
    assert!(recorded.len() > 450, "{}", recorded.len());
    let mut received = vec![first];
    received.extend(collect_events(of_one).await);
    assert_eq!(received, recorded);
    let mut received = Vec::new();
    while received.len() < recorded.len() {
        received.push(with_time_limit(of_all.next()).await.unwrap().unwrap());
    }
    assert_eq!(received, recorded);
    engine.shutdown().await;
    assert!(with_time_limit(of_all.next()).await.is_none(), "the engine has stopped");
}

/// Events received by a notifier, and its position.
type ReceivedEvents = Arc<Mutex<(EventCursor, Vec<Event>)>>;

fn with_notifier(
    builder: EngineBuilder,
    received: &ReceivedEvents,
) -> impl Future<Output = EngineBuilder> + use<> {
    let (received, seen) = (Arc::clone(received), received.lock().unwrap().0.clone());
    async move {
        let notifier = callback_actor(move |event: Event| {
            let mut received = received.lock().unwrap();
            received.0.record(&event);
            received.1.push(event);
        });
        builder.notifier_after(notifier.await, seen)
    }
}

fn has_received_end(received: &ReceivedEvents) -> bool {
    matches!(received.lock().unwrap().1.last(), Some(Event { what: EventKind::Finished { .. }, .. }))
}

/// Processes crash at each point around the log's appends, one after another. The next process must emit the
/// durable events that weren't emitted. A notifier that stores its position must receive each event once.
#[tokio::test(start_paused = true)]
async fn events_not_emitted_before_a_crash_are_emitted_after_it() {
    let (mut untold, mut ends) = (0, 0);
    for point in 1.. {
        let (cluster, log, received) = (FaultyCluster::reliable(), Log::new(), ReceivedEvents::default());
        let points = CrashPoints::crash_at(point);
        let dying = CrashLog { inner: log.clone(), points: Arc::clone(&points) };
        let dying = Engine::builder(Arc::new(dying))
            .cluster(Destination::Simulated, Arc::clone(&cluster) as Arc<dyn Cluster>)
            .clock(Arc::new(RuntimeClock::starting_at(START)));
        let engine = with_notifier(dying, &received).await.start().await.unwrap();
        let sync = shop();
        let id = engine.submit(sync.request.clone(), sync.targets()).await;
        let ended = async { with_time_limit(engine.wait(*id.as_ref().unwrap())).await };
        if id.is_err() || ended.await.is_err() {
            assert!(points.has_crashed(), "point {point}");
        }
        engine.shutdown().await;
        let Ok(id) = id else { continue };
        let Some(left) = replay(&log, id, 0).unwrap() else { continue };
        // Let the notifier drain its mailbox.
        tokio::time::sleep(Duration::from_millis(10)).await;
        let before = received.lock().unwrap().1.len();
        assert!(left.events.len() >= before, "only durable events are emitted");
        untold += usize::from(left.events.len() > before);
        ends += usize::from(left.is_over && !has_received_end(&received));
        let engine = with_notifier(builder(&cluster, &log), &received).await.start().await.unwrap();
        if !left.is_over {
            engine.resume(id).await.unwrap();
            wait_for_end(&engine, id).await;
        }
        engine.shutdown().await;
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert_eq!(received.lock().unwrap().1, recorded_events(&log, id), "point {point}");
        if !points.has_crashed() {
            break;
        }
    }
    assert!(untold > 10, "only {untold} processes crashed with unreported events");
    assert!(ends > 0, "no crash hit an operation that was over but not reported");
}

#[tokio::test(start_paused = true)]
async fn a_panicking_actor_causes_no_gap() {
    let mut panicked = 0;
    for read in (3..150).step_by(7) {
        let (cluster, log) = (FaultyCluster::reliable(), Log::new());
        let clock = PanickingClock::new(move |count| count == read);
        let engine = builder(&cluster, &log).clock(clock).start().await.unwrap();
        let mut listener = engine.events_from_now().await.unwrap();
        let requester = engine.clone();
        let sync = shop();
        let submitted =
            tokio::spawn(async move { requester.submit(sync.request.clone(), sync.targets()).await });
        let Ok(Ok(id)) = with_time_limit(submitted).await else { continue };
        if with_time_limit(engine.wait(id)).await.is_err() {
            continue;
        }
        panicked += 1;
        let recorded = recorded_events(&log, id);
        let mut received = Vec::new();
        while received.len() < recorded.len() {
            received.push(with_time_limit(listener.next()).await.unwrap().unwrap());
        }
        assert_eq!(received, recorded, "read {read}");
        engine.shutdown().await;
    }
    assert!(panicked > 10, "{panicked}");
}

/// A request for an inactive operation is recorded without an engine. The engine that resumes the operation
/// must emit the recorded events.
#[tokio::test(start_paused = true)]
async fn events_recorded_without_an_engine_are_emitted_later() {
    let (cluster, log) = (FaultyCluster::reliable(), Log::new());
    let engine = builder(&cluster, &log).start().await.unwrap();
    let id = submit(&engine, &paused_after(1)).await;
    wait_until_paused(&engine, id).await;
    engine.shutdown().await;
    let engine = builder(&cluster, &log).start().await.unwrap();
    let mut listener = engine.events_from_now().await.unwrap();
    let after = recorded_events(&log, id).last().unwrap().sequence;
    let log_buffer: tidegate_oplog::Log = Arc::new(log.clone());
    let request = Input::Terminate { by: "ann".to_owned() };
    record_request(&log_buffer, id, request, START).await.unwrap();
    engine.resume(id).await.unwrap();
    wait_for_end(&engine, id).await;
    let received = collect_events(engine.events(id, after).await.unwrap()).await;
    assert_eq!(received[0].what, EventKind::TerminationRequested { by: "ann".to_owned() });
    assert!(matches!(received.last().unwrap().what, EventKind::Finished { .. }));
    for event in &received {
        assert_eq!(with_time_limit(listener.next()).await.unwrap().unwrap(), *event);
    }
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn compacted_events_are_reported_with_the_first_remaining_one() {
    let (cluster, log) =
        (FaultyCluster::new(SimConfig::default(), |_, _| crate::support::CallOutcome::Answer), Log::new());
    let engine = builder(&cluster, &log).start().await.unwrap();
    let id = submit(&engine, &paused_after(150)).await;
    wait_until_paused(&engine, id).await;
    let before = recorded_events(&log, id);
    engine.compact(Retention { open_events: 10, ..Retention::default() }).await.unwrap();
    let first = log.events(id.into()).unwrap().first_sequence;
    assert!(first > 100, "{first}");
    let mut events = engine.events(id, 5).await.unwrap();
    match with_time_limit(events.next()).await {
        Some(Err(EventGap::Compacted { operation, after: 5, first: next_event })) => {
            assert_eq!((operation, next_event), (id, first));
        }
        other => panic!("{other:?}"),
    }
    for event in before.iter().filter(|event| event.sequence >= first) {
        assert_eq!(with_time_limit(events.next()).await.unwrap().unwrap(), *event);
    }
    engine.terminate(id, "ann").await.unwrap();
    wait_for_end(&engine, id).await;
    assert!(matches!(collect_events(events).await.last().unwrap().what, EventKind::Finished { .. }));

    // The compaction keeps only the finished operation's summary.
    engine.compact(Retention::with_history(0)).await.unwrap();
    let mut events = engine.events(id, 5).await.unwrap();
    let next_event = with_time_limit(events.next()).await;
    assert!(matches!(next_event, Some(Err(EventGap::Removed { after: 5, .. }))), "{next_event:?}");
    assert!(with_time_limit(events.next()).await.is_none());
    let mut of_all = engine.all_events(EventCursor::default());
    assert!(matches!(with_time_limit(of_all.next()).await, Some(Err(EventGap::Removed { .. }))));
    engine.shutdown().await;
    assert!(with_time_limit(of_all.next()).await.is_none());
}
