//! Logs that fail, refuse or hang.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use tidegate_executor::{Engine, EngineError, GateQuestion};
use tidegate_lifecycle::operation::Verdict;
use tidegate_model::{Destination, Digest, OperationId, OperationPhase, StreamId, Timestamp};
use tidegate_oplog::{
    Blobs, Compacted, Damage, Fault, History, Inventories, InventoryUpdate, Known, LogError, Lookup,
    OperationLog, RawAppend, RawEntry, RawLoaded, Record, Retention,
};
use tidegate_testkit::scenario::Sync;

use crate::support::{Log, Moody, actor, builder, config, end, server, submit, until, within};

/// A log that looks at each group before it is appended.
struct Watched<F>(Log, F, Option<SlowToLoad>);

/// Says which operation is being loaded, and does it when it is told to.
struct SlowToLoad {
    begun: tokio::sync::mpsc::UnboundedSender<OperationId>,
    go_on: Mutex<mpsc::Receiver<()>>,
}

impl<F> OperationLog for Watched<F>
where
    F: Fn(&[RawAppend]) -> Result<(), LogError> + Send + std::marker::Sync + 'static,
{
    fn append(&self, group: Vec<RawAppend>) -> Result<(), LogError> {
        (self.1)(&group)?;
        self.0.append(group)
    }

    fn load(&self, stream: StreamId) -> Result<RawLoaded, LogError> {
        if let Some(SlowToLoad { begun, go_on }) = &self.2 {
            begun.send(stream.into()).unwrap();
            go_on.lock().unwrap().recv().unwrap();
        }
        self.0.load(stream)
    }

    fn facts(&self, stream: StreamId) -> Result<History<Record>, LogError> {
        self.0.facts(stream)
    }

    fn entry(&self, stream: StreamId) -> Result<Option<RawEntry>, LogError> {
        self.0.entry(stream)
    }

    fn find(&self, lookup: &Lookup) -> Result<Vec<RawEntry>, LogError> {
        self.0.find(lookup)
    }

    fn ids(&self) -> Vec<StreamId> {
        self.0.ids()
    }

    fn compact(&self, keep: &Retention, now: Timestamp) -> Result<Compacted, LogError> {
        self.0.compact(keep, now)
    }

    fn damage(&self) -> Vec<Damage> {
        self.0.damage()
    }
}

impl<F: Send + std::marker::Sync + 'static> Blobs for Watched<F> {
    fn put_blob(&self, content: &[u8]) -> Result<Digest, LogError> {
        self.0.put_blob(content)
    }

    fn blob(&self, digest: Digest) -> Result<Vec<u8>, LogError> {
        self.0.blob(digest)
    }
}

impl<F: Send + std::marker::Sync + 'static> Inventories for Watched<F> {
    fn inventory(&self, cluster: &str, application: &str) -> Result<Option<Known>, LogError> {
        self.0.inventory(cluster, application)
    }

    fn change_inventory(&self, update: &InventoryUpdate) -> Result<(), LogError> {
        self.0.change_inventory(update)
    }
}

pub fn for_application(name: &str, manifests: &str) -> Sync {
    Sync::of(manifests).with(|request| request.application = name.into())
}

#[tokio::test(start_paused = true)]
async fn after_a_failed_append_nothing_reaches_the_cluster() {
    for fault in [Fault::Before, Fault::After] {
        for successes in 0..12 {
            let (cluster, log) = (Moody::calm(), Log::new());
            log.fail_append(successes, fault);
            let engine = builder(&cluster, &log).start().await.unwrap();
            let manifests: String = (0..6).map(|i| config(&format!("c{i}"), i, &[])).collect();
            let shop = submit(&engine, &for_application("shop", &manifests)).await;
            let Err(error) = within(engine.wait(shop)).await else { continue };
            assert!(matches!(error, EngineError::LogFailed { .. }), "{successes}: {error}");
            assert!(matches!(engine.failure(), Some(EngineError::LogFailed { .. })), "{successes}");
            let written = cluster.sim.audit().len();
            let other = for_application("other", &manifests);
            let refused = engine.submit(other.request.clone(), other.targets()).await.unwrap_err();
            assert!(matches!(refused, EngineError::LogFailed { .. }), "{refused}");
            tokio::time::sleep(Duration::from_secs(300)).await;
            assert_eq!(cluster.sim.audit().len(), written, "written after the log failed");
            // The next process finishes it.
            let engine = builder(&cluster, &log.reopen()).start().await.unwrap();
            if engine.list().await.unwrap().is_empty() {
                continue;
            }
            match engine.resume(shop).await {
                Ok(()) => {}
                // The very last fact was kept, and nobody was told.
                Err(EngineError::AlreadyFinished { .. }) if fault == Fault::After => {}
                Err(error) => panic!("{error}"),
            }
            assert_eq!(end(&engine, shop).await.phase, OperationPhase::Succeeded);
            assert!((0..6).all(|i| cluster.created(&format!("c{i}")) == 1));
        }
    }
}

fn is_of_full_disk(error: &EngineError) -> bool {
    matches!(error, EngineError::LogFailed { reason } if reason.contains("the disk is full"))
}

/// What is submitted finds no room, or what is planned of it: nothing of that is recorded, and everybody hears that the log has
/// failed. The next process begins it, or goes on with it, under the same id.
#[tokio::test(start_paused = true)]
async fn manifests_that_find_no_room_fail_the_engine_and_not_their_operation() {
    for room in 0..2 {
        let (cluster, log) = (Moody::calm(), Log::new());
        log.leave_room(Some(room));
        let engine = builder(&cluster, &log).start().await.unwrap();
        let sync = for_application("shop", &config("a", 0, &[]));
        let id = engine.next_id().await.unwrap();
        let ending = async {
            engine.ensure(id, sync.request.clone(), sync.targets()).await?;
            engine.wait(id).await.map(drop)
        };
        let error = within(ending).await.unwrap_err();
        assert!(is_of_full_disk(&error), "{room}: {error}");
        assert!(engine.failure().as_ref().is_some_and(is_of_full_disk), "{room}: {:?}", engine.failure());
        let other = for_application("other", &config("b", 0, &[]));
        log.leave_room(None);
        let refused = within(engine.submit(other.request.clone(), other.targets())).await.unwrap_err();
        assert!(is_of_full_disk(&refused), "{room}: {refused}");
        tokio::time::sleep(Duration::from_secs(300)).await;
        assert_eq!(cluster.writes().len(), 0, "{room}: written after the log failed");
        let engine = builder(&cluster, &log.reopen()).start().await.unwrap();
        within(engine.ensure(id, sync.request.clone(), sync.targets())).await.unwrap();
        assert_eq!(end(&engine, id).await.phase, OperationPhase::Succeeded, "{room}");
        assert_eq!(cluster.created("a"), 1, "{room}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_operation_takes_no_other_down() {
    let (cluster, log) = (Moody::calm(), Log::new());
    let bad = Arc::new(Mutex::new(None));
    let refuses = {
        let bad = Arc::clone(&bad);
        move |group: &[RawAppend]| {
            let refused = group.iter().find(|append| Some(append.stream.into()) == *bad.lock().unwrap());
            refused.map_or(Ok(()), |append| {
                Err(LogError::Damaged { stream: append.stream.into(), reason: "injected".into() })
            })
        }
    };
    let engine = Engine::builder(Arc::new(Watched(log, refuses, None)))
        .cluster(Destination::Simulated, Arc::clone(&cluster) as _)
        .clock(Arc::new(tidegate_executor::RuntimeClock::starting_at(tidegate_testkit::process::START)))
        .start()
        .await
        .unwrap();
    let manifests: String = (0..6).map(|i| server(&format!("s{i}"), i, &[])).collect();
    let mut good = Vec::new();
    for i in 0..20 {
        good.push(submit(&engine, &for_application(&format!("good{i}"), &manifests)).await);
    }
    let refused = submit(&engine, &for_application("bad", &manifests)).await;
    let waiting = engine.wait(refused);
    until(&engine, refused, |view, _| !view.waves.is_empty()).await;
    *bad.lock().unwrap() = Some(refused);
    let error = within(waiting).await.unwrap_err();
    assert!(error.to_string().contains("injected"), "{error}");
    for id in good {
        assert_eq!(end(&engine, id).await.phase, OperationPhase::Succeeded);
    }
}

/// On real threads: the log hangs, and an operation that needs nothing of it still answers.
#[test]
fn an_append_that_hangs_stops_nobody_else() {
    for workers in [1, 2] {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(workers)
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(hanging_append());
        runtime.shutdown_background();
    }
}

async fn hanging_append() {
    let cluster = Moody::calm();
    let (asks, mut asked) = tokio::sync::mpsc::unbounded_channel();
    let gate = actor(move |question: GateQuestion| {
        let verdict = Verdict::Closed { reason: "shut".into(), ask_again_after: Duration::from_secs(600) };
        let _ = question.reply.send(verdict);
        let _ = asks.send(());
    })
    .await;
    let hang = Arc::new(Mutex::new(None::<mpsc::Receiver<()>>));
    let (began, mut hanging) = tokio::sync::mpsc::unbounded_channel();
    let waits = {
        let hang = Arc::clone(&hang);
        move |_: &[RawAppend]| {
            let receiver = hang.lock().unwrap().take();
            if let Some(receiver) = receiver {
                let _ = began.send(());
                let _ = receiver.recv();
            }
            Ok(())
        }
    };
    let engine = Engine::builder(Arc::new(Watched(Log::new(), waits, None)))
        .cluster(Destination::Simulated, Arc::clone(&cluster) as _)
        .gate("shut", gate)
        .start()
        .await
        .unwrap();
    let waiting = config("a", 0, &[("tidegate.dev/gate", "shut")]);
    let idle = submit(&engine, &for_application("idle", &waiting)).await;
    asked.recv().await.unwrap();
    let (release, receiver) = mpsc::channel();
    *hang.lock().unwrap() = Some(receiver);
    let other = submit(&engine, &for_application("other", &config("b", 0, &[]))).await;
    hanging.recv().await.unwrap();
    let (view, _) = within(engine.inspect(idle)).await.unwrap();
    assert_eq!(view.phase, OperationPhase::Running);
    drop(release);
    assert_eq!(end(&engine, other).await.phase, OperationPhase::Succeeded);
}

/// The log of an operation may be long. Who waits for it is nobody but the one who resumes it.
#[tokio::test]
async fn an_operation_that_is_being_read_holds_no_other_up() {
    let (cluster, log) = (Moody::calm(), Log::new());
    let engine = builder(&cluster, &log).start().await.unwrap();
    let gated = config("a", 0, &[("tidegate.dev/gate", "nobody")]);
    let slow = submit(&engine, &for_application("slow", &gated)).await;
    until(&engine, slow, |_, why| why.contains("no gate named nobody")).await;
    let (begun, mut loads) = tokio::sync::mpsc::unbounded_channel();
    let (let_go, go_on) = mpsc::channel();
    let log =
        Watched(log.reopen(), |_: &[RawAppend]| Ok(()), Some(SlowToLoad { begun, go_on: Mutex::new(go_on) }));
    let engine = Engine::builder(Arc::new(log))
        .cluster(Destination::Simulated, Arc::clone(&cluster) as _)
        .clock(Arc::new(tidegate_executor::RuntimeClock::starting_at(tidegate_testkit::process::START)))
        .start()
        .await
        .unwrap();
    let resuming = tokio::spawn({
        let engine = engine.clone();
        async move { engine.resume(slow).await }
    });
    assert_eq!(within(loads.recv()).await, Some(slow));
    let other = async {
        let id = submit(&engine, &for_application("other", &config("b", 0, &[]))).await;
        (id, end(&engine, id).await.phase)
    };
    let (id, phase) = within(other).await;
    assert_eq!(phase, OperationPhase::Succeeded);
    // Its end was announced: who asks now, or again, needs nothing of the log either.
    for _ in 0..2 {
        assert_eq!(end(&engine, id).await.phase, OperationPhase::Succeeded);
        let (view, why) = within(engine.inspect(id)).await.unwrap();
        assert!(view.finished_at.is_some() && why.position.starts_with("Succeeded"), "{why}");
    }
    assert!(!resuming.is_finished());
    // What is asked of it meanwhile is answered when it is there.
    let asking = tokio::spawn({
        let engine = engine.clone();
        async move { engine.pause(slow, "ann", "").await }
    });
    let_go.send(()).unwrap();
    within(resuming).await.unwrap().unwrap();
    within(asking).await.unwrap().unwrap();
}
