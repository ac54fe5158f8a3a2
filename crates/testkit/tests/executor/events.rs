//! Events by number: from the log and live, each once, whatever was missed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_cluster::Cluster;
use tidegate_cluster::sim::SimConfig;
use tidegate_executor::{
    Engine, EngineBuilder, EngineError, Event, EventKind, Events, Missed, RuntimeClock, Seen, record, replay,
};
use tidegate_lifecycle::operation::{Input, Stage, WaveStep};
use tidegate_model::{Destination, OperationId, OperationPhase};
use tidegate_oplog::{OperationLog as _, Retention};
use tidegate_testkit::crash::{CrashLog, Points};
use tidegate_testkit::process::START;
use tidegate_testkit::scenario::Sync;

use crate::support::{
    Log, Moody, MoodyClock, actor, builder, config, end, hook, server, submit, until, within,
};

fn shop() -> Sync {
    Sync::of(&[hook("before", "PreSync", &[]), server("server", 0, &[]), config("config", 1, &[])].concat())
}

/// A wave that stays held, after so many others.
fn held_after(waves: i64) -> Sync {
    let gate = [("tidegate.dev/gate", "nobody")];
    let before: String = (0..waves).map(|wave| config(&format!("c{wave}"), wave, &[])).collect();
    Sync::of(&format!("{before}{}", config("last", waves, &gate)))
}

async fn held(engine: &Engine, id: OperationId) {
    until(engine, id, |_, why| why.contains("no gate named nobody")).await;
}

fn recorded(log: &Log, id: OperationId) -> Vec<Event> {
    replay(log, id, 0).unwrap().unwrap().events
}

/// Everything up to the end of a stream.
async fn all(mut events: Events) -> Vec<Event> {
    let mut all = Vec::new();
    while let Some(event) = within(events.next()).await {
        all.push(event.unwrap());
    }
    all
}

#[tokio::test(start_paused = true)]
async fn whoever_names_a_number_gets_the_rest_while_it_happens_and_after() {
    let (cluster, log) = (Moody::calm(), Log::new());
    let engine = builder(&cluster, &log).start().await.unwrap();
    let id = submit(&engine, &shop()).await;
    // It need not be in the log yet.
    let live = all(engine.events(id, 0).await.unwrap()).await;
    assert_eq!(live, recorded(&log, id));
    let numbers: Vec<u64> = live.iter().map(|event| event.sequence).collect();
    assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
    assert_eq!(live[0].what, EventKind::Accepted);
    assert!(matches!(live.last().unwrap().what, EventKind::Finished { .. }));
    let is_applying = |event: &Event| {
        matches!(event.what, EventKind::Moved { to: Stage::Wave { index: 1, step: WaveStep::Applying }, .. })
    };
    assert!(live.iter().any(is_applying), "{live:#?}");
    for after in [0, 1, numbers[2], numbers[2] + 1, *numbers.last().unwrap()] {
        let rest: Vec<Event> = live.iter().filter(|event| event.sequence > after).cloned().collect();
        assert_eq!(all(engine.events(id, after).await.unwrap()).await, rest, "after {after}");
    }
    // There are not so many: another log, or one that lost its end.
    let mut ahead = engine.events(id, 1000).await.unwrap();
    let told = within(ahead.next()).await;
    assert!(matches!(told, Some(Err(Missed::Ahead { after: 1000, .. }))), "{told:?}");
    assert!(within(ahead.next()).await.is_none());
    let nobody = "019f0000-0000-7000-8000-000000000000".parse().unwrap();
    assert!(matches!(engine.events(nobody, 0).await, Err(EngineError::Unknown { .. })));
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_listener_loses_nothing_and_holds_up_nobody() {
    let (cluster, log) = (Moody::calm(), Log::new());
    let engine = builder(&cluster, &log).start().await.unwrap();
    let mut of_all = engine.events_from_now().await.unwrap();
    let id = submit(&engine, &held_after(150)).await;
    let mut of_one = engine.events(id, 0).await.unwrap();
    let first = within(of_one.next()).await.unwrap().unwrap();
    held(&engine, id).await;
    // Far more has been told than is kept for whoever is slow.
    engine.terminate(id, "ann").await.unwrap();
    assert_eq!(end(&engine, id).await.phase, OperationPhase::Failed);
    let recorded = recorded(&log, id);
    assert!(recorded.len() > 450, "{}", recorded.len());
    let mut heard = vec![first];
    heard.extend(all(of_one).await);
    assert_eq!(heard, recorded);
    let mut heard = Vec::new();
    while heard.len() < recorded.len() {
        heard.push(within(of_all.next()).await.unwrap().unwrap());
    }
    assert_eq!(heard, recorded);
    engine.shutdown().await;
    assert!(within(of_all.next()).await.is_none(), "the engine has stopped");
}

/// What a notifier was told, and how far it has seen.
type Told = Arc<Mutex<(Seen, Vec<Event>)>>;

fn through(builder: EngineBuilder, told: &Told) -> impl Future<Output = EngineBuilder> + use<> {
    let (told, seen) = (Arc::clone(told), told.lock().unwrap().0.clone());
    async move {
        let notifier = actor(move |event: Event| {
            let mut told = told.lock().unwrap();
            told.0.note(&event);
            told.1.push(event);
        });
        builder.notifier_after(notifier.await, seen)
    }
}

fn is_told_its_end(told: &Told) -> bool {
    matches!(told.lock().unwrap().1.last(), Some(Event { what: EventKind::Finished { .. }, .. }))
}

/// A process dies at each point around its log in turn. What was durable then and not told, the next one tells: a
/// notifier that keeps how far it has seen is told each event once.
#[tokio::test(start_paused = true)]
async fn what_a_dead_process_has_not_told_the_next_one_tells() {
    let (mut untold, mut ends) = (0, 0);
    for point in 1.. {
        let (cluster, log, told) = (Moody::calm(), Log::new(), Told::default());
        let points = Points::dying_at(point);
        let dying = CrashLog { inner: log.clone(), points: Arc::clone(&points) };
        let dying = Engine::builder(Arc::new(dying))
            .cluster(Destination::Simulated, Arc::clone(&cluster) as Arc<dyn Cluster>)
            .clock(Arc::new(RuntimeClock::starting_at(START)));
        let engine = through(dying, &told).await.start().await.unwrap();
        let sync = shop();
        let id = engine.submit(sync.request.clone(), sync.targets()).await;
        let ended = async { within(engine.wait(*id.as_ref().unwrap())).await };
        if id.is_err() || ended.await.is_err() {
            assert!(points.is_dead(), "point {point}");
        }
        engine.shutdown().await;
        let Ok(id) = id else { continue };
        let Some(left) = replay(&log, id, 0).unwrap() else { continue };
        // Its mailbox is emptied.
        tokio::time::sleep(Duration::from_millis(10)).await;
        let before = told.lock().unwrap().1.len();
        assert!(left.events.len() >= before, "nothing is told that is not durable");
        untold += usize::from(left.events.len() > before);
        ends += usize::from(left.is_over && !is_told_its_end(&told));
        let engine = through(builder(&cluster, &log), &told).await.start().await.unwrap();
        if !left.is_over {
            engine.resume(id).await.unwrap();
            end(&engine, id).await;
        }
        engine.shutdown().await;
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert_eq!(told.lock().unwrap().1, recorded(&log, id), "point {point}");
        if !points.is_dead() {
            break;
        }
    }
    assert!(untold > 10, "only {untold} processes died with something to tell");
    assert!(ends > 0, "none died when its operation was over and that was not told");
}

#[tokio::test(start_paused = true)]
async fn an_actor_that_panics_makes_no_gap() {
    let mut panicked = 0;
    for read in (3..150).step_by(7) {
        let (cluster, log) = (Moody::calm(), Log::new());
        let clock = MoodyClock::new(move |count| count == read);
        let engine = builder(&cluster, &log).clock(clock).start().await.unwrap();
        let mut listener = engine.events_from_now().await.unwrap();
        let asking = engine.clone();
        let sync = shop();
        let submitted =
            tokio::spawn(async move { asking.submit(sync.request.clone(), sync.targets()).await });
        let Ok(Ok(id)) = within(submitted).await else { continue };
        if within(engine.wait(id)).await.is_err() {
            continue;
        }
        panicked += 1;
        let recorded = recorded(&log, id);
        let mut heard = Vec::new();
        while heard.len() < recorded.len() {
            heard.push(within(listener.next()).await.unwrap().unwrap());
        }
        assert_eq!(heard, recorded, "read {read}");
        engine.shutdown().await;
    }
    assert!(panicked > 10, "{panicked}");
}

/// Wishes for an operation that nobody works on are recorded beside the engine, which tells them when it goes on.
#[tokio::test(start_paused = true)]
async fn what_was_recorded_while_nobody_worked_is_told() {
    let (cluster, log) = (Moody::calm(), Log::new());
    let engine = builder(&cluster, &log).start().await.unwrap();
    let id = submit(&engine, &held_after(1)).await;
    held(&engine, id).await;
    engine.shutdown().await;
    let engine = builder(&cluster, &log).start().await.unwrap();
    let mut listener = engine.events_from_now().await.unwrap();
    let after = recorded(&log, id).last().unwrap().sequence;
    let kept: tidegate_oplog::Log = Arc::new(log.clone());
    let wish = Input::Terminate { by: "ann".to_owned() };
    record(&kept, id, wish, START).await.unwrap();
    engine.resume(id).await.unwrap();
    end(&engine, id).await;
    let heard = all(engine.events(id, after).await.unwrap()).await;
    assert_eq!(heard[0].what, EventKind::TerminateRequested { by: "ann".to_owned() });
    assert!(matches!(heard.last().unwrap().what, EventKind::Finished { .. }));
    for event in &heard {
        assert_eq!(within(listener.next()).await.unwrap().unwrap(), *event);
    }
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_compacted_is_named_with_the_first_that_is_still_there() {
    let (cluster, log) = (Moody::new(SimConfig::default(), |_, _| crate::support::Fate::Answer), Log::new());
    let engine = builder(&cluster, &log).start().await.unwrap();
    let id = submit(&engine, &held_after(150)).await;
    held(&engine, id).await;
    let before = recorded(&log, id);
    engine.compact(Retention { open_facts: 10, ..Retention::default() }).await.unwrap();
    let first = log.facts(id.into()).unwrap().first_sequence;
    assert!(first > 100, "{first}");
    let mut events = engine.events(id, 5).await.unwrap();
    match within(events.next()).await {
        Some(Err(Missed::Compacted { operation, after: 5, first: told })) => {
            assert_eq!((operation, told), (id, first));
        }
        other => panic!("{other:?}"),
    }
    for event in before.iter().filter(|event| event.sequence >= first) {
        assert_eq!(within(events.next()).await.unwrap().unwrap(), *event);
    }
    engine.terminate(id, "ann").await.unwrap();
    end(&engine, id).await;
    assert!(matches!(all(events).await.last().unwrap().what, EventKind::Finished { .. }));

    // Over, and only its summary is kept.
    engine.compact(Retention::of_history(0)).await.unwrap();
    let mut events = engine.events(id, 5).await.unwrap();
    let told = within(events.next()).await;
    assert!(matches!(told, Some(Err(Missed::Forgotten { after: 5, .. }))), "{told:?}");
    assert!(within(events.next()).await.is_none());
    let mut of_all = engine.all_events(Seen::default());
    assert!(matches!(within(of_all.next()).await, Some(Err(Missed::Forgotten { .. }))));
    engine.shutdown().await;
    assert!(within(of_all.next()).await.is_none());
}
