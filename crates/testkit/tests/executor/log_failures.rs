//! Logs that fail, reject writes, or hang.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use tidegate_executor::{Engine, EngineError, GateRequest};
use tidegate_lifecycle::operation::Verdict;
use tidegate_model::{Destination, Digest, OperationId, OperationPhase, StreamId, Timestamp};
use tidegate_oplog::{
    ApplicationInventory, Blobs, CompactionResult, Damage, Fault, History, Inventories, InventoryUpdate,
    LogError, Lookup, OperationLog, RawAppend, RawEntry, RawLoadedStream, Record, Retention,
};
use tidegate_testkit::scenario::SyncSpec;

use crate::support::{
    FaultyCluster, Log, builder, callback_actor, config, server_deployment, submit, wait_for_end, wait_until,
    with_time_limit,
};

/// Log that inspects each group before appending it.
struct InspectedLog<F>(Log, F, Option<SlowLog>);

/// Log that reports each load of an operation and delays it until the test permits it.
struct SlowLog {
    started_loads: tokio::sync::mpsc::UnboundedSender<OperationId>,
    permits: Mutex<mpsc::Receiver<()>>,
}

impl<F> OperationLog for InspectedLog<F>
where
    F: Fn(&[RawAppend]) -> Result<(), LogError> + Send + std::marker::Sync + 'static,
{
    fn append(&self, group: Vec<RawAppend>) -> Result<(), LogError> {
        (self.1)(&group)?;
        self.0.append(group)
    }

    fn load(&self, stream: StreamId) -> Result<RawLoadedStream, LogError> {
        if let Some(SlowLog { started_loads, permits }) = &self.2 {
            started_loads.send(stream.into()).unwrap();
            permits.lock().unwrap().recv().unwrap();
        }
        self.0.load(stream)
    }

    fn events(&self, stream: StreamId) -> Result<History<Record>, LogError> {
        self.0.events(stream)
    }

    fn entry(&self, stream: StreamId) -> Result<Option<RawEntry>, LogError> {
        self.0.entry(stream)
    }

    fn find(&self, lookup: &Lookup) -> Result<Vec<RawEntry>, LogError> {
        self.0.find(lookup)
    }

    fn ids(&self) -> Result<Vec<StreamId>, LogError> {
        self.0.ids()
    }

    fn schedule_compaction(&self) {
        self.0.schedule_compaction();
    }

    fn compact_step(&self, keep: &Retention, now: Timestamp) -> Result<Option<CompactionResult>, LogError> {
        self.0.compact_step(keep, now)
    }

    fn is_compaction_due(&self) -> bool {
        self.0.is_compaction_due()
    }

    fn damage(&self) -> Vec<Damage> {
        self.0.damage()
    }
}

impl<F: Send + std::marker::Sync + 'static> Blobs for InspectedLog<F> {
    fn put_blob(&self, content: &[u8]) -> Result<Digest, LogError> {
        self.0.put_blob(content)
    }

    fn blob(&self, digest: Digest) -> Result<Vec<u8>, LogError> {
        self.0.blob(digest)
    }
}

impl<F: Send + std::marker::Sync + 'static> Inventories for InspectedLog<F> {
    fn inventory(&self, cluster: &str, application: &str) -> Result<Option<ApplicationInventory>, LogError> {
        self.0.inventory(cluster, application)
    }

    fn change_inventory(&self, update: &InventoryUpdate) -> Result<(), LogError> {
        self.0.change_inventory(update)
    }
}

pub fn sync_for_application(name: &str, manifests: &str) -> SyncSpec {
    SyncSpec::new(manifests).with_request(|request| request.application = name.into())
}

#[tokio::test(start_paused = true)]
async fn after_a_failed_append_nothing_reaches_the_cluster() {
    for fault in [Fault::Before, Fault::After] {
        for successes in 0..12 {
            let (cluster, log) = (FaultyCluster::reliable(), Log::new());
            log.fail_append(successes, fault);
            let engine = builder(&cluster, &log).start().await.unwrap();
            let manifests: String = (0..6).map(|i| config(&format!("c{i}"), i, &[])).collect();
            let shop = submit(&engine, &sync_for_application("shop", &manifests)).await;
            let Err(error) = with_time_limit(engine.wait(shop)).await else { continue };
            assert!(matches!(error, EngineError::LogFailed { .. }), "{successes}: {error}");
            assert!(matches!(engine.failure(), Some(EngineError::LogFailed { .. })), "{successes}");
            let written = cluster.sim.audit().len();
            let other = sync_for_application("other", &manifests);
            let refused = engine.submit(other.request.clone(), other.targets()).await.unwrap_err();
            assert!(matches!(refused, EngineError::LogFailed { .. }), "{refused}");
            tokio::time::sleep(Duration::from_secs(300)).await;
            assert_eq!(cluster.sim.audit().len(), written, "written after the log failed");
            // The next process finishes the operation.
            let engine = builder(&cluster, &log.reopen()).start().await.unwrap();
            if engine.list().await.unwrap().is_empty() {
                continue;
            }
            match engine.resume(shop).await {
                Ok(()) => {}
                // The last event was recorded but not acknowledged.
                Err(EngineError::AlreadyFinished { .. }) if fault == Fault::After => {}
                Err(error) => panic!("{error}"),
            }
            assert_eq!(wait_for_end(&engine, shop).await.phase, OperationPhase::Succeeded);
            assert!((0..6).all(|i| cluster.creations_of(&format!("c{i}")) == 1));
        }
    }
}

fn is_disk_full_error(error: &EngineError) -> bool {
    matches!(error, EngineError::LogFailed { reason } if reason.contains("the disk is full"))
}

/// There is no space for the submitted manifests or the plan. The engine must not record the operation, and
/// all callers must get the log failure. The next process must start or continue the operation with the same
/// ID.
#[tokio::test(start_paused = true)]
async fn manifests_on_a_full_disk_fail_the_engine_and_not_the_operation() {
    for room in 0..2 {
        let (cluster, log) = (FaultyCluster::reliable(), Log::new());
        log.set_free_blobs(Some(room));
        let engine = builder(&cluster, &log).start().await.unwrap();
        let sync = sync_for_application("shop", &config("a", 0, &[]));
        let id = engine.next_id().await.unwrap();
        let ending = async {
            engine.ensure(id, sync.request.clone(), sync.targets()).await?;
            engine.wait(id).await.map(drop)
        };
        let error = with_time_limit(ending).await.unwrap_err();
        assert!(is_disk_full_error(&error), "{room}: {error}");
        assert!(engine.failure().as_ref().is_some_and(is_disk_full_error), "{room}: {:?}", engine.failure());
        let other = sync_for_application("other", &config("b", 0, &[]));
        log.set_free_blobs(None);
        let refused =
            with_time_limit(engine.submit(other.request.clone(), other.targets())).await.unwrap_err();
        assert!(is_disk_full_error(&refused), "{room}: {refused}");
        tokio::time::sleep(Duration::from_secs(300)).await;
        assert_eq!(cluster.writes().len(), 0, "{room}: written after the log failed");
        let engine = builder(&cluster, &log.reopen()).start().await.unwrap();
        with_time_limit(engine.ensure(id, sync.request.clone(), sync.targets())).await.unwrap();
        assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Succeeded, "{room}");
        assert_eq!(cluster.creations_of("a"), 1, "{room}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_operation_does_not_affect_others() {
    let (cluster, log) = (FaultyCluster::reliable(), Log::new());
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
    let engine = Engine::builder(Arc::new(InspectedLog(log, refuses, None)))
        .cluster(Destination::Simulated, Arc::clone(&cluster) as _)
        .clock(Arc::new(tidegate_executor::RuntimeClock::starting_at(tidegate_testkit::process::START)))
        .start()
        .await
        .unwrap();
    let manifests: String = (0..6).map(|i| server_deployment(&format!("s{i}"), i, &[])).collect();
    let mut good = Vec::new();
    for i in 0..20 {
        good.push(submit(&engine, &sync_for_application(&format!("good{i}"), &manifests)).await);
    }
    let refused = submit(&engine, &sync_for_application("bad", &manifests)).await;
    let waiting = engine.wait(refused);
    wait_until(&engine, refused, |view, _| !view.waves.is_empty()).await;
    *bad.lock().unwrap() = Some(refused);
    let error = with_time_limit(waiting).await.unwrap_err();
    assert!(error.to_string().contains("injected"), "{error}");
    for id in good {
        assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Succeeded);
    }
}

/// Uses real threads, because the log hangs. Operations that don't need the log must still respond.
#[test]
fn a_hanging_append_blocks_no_other_operation() {
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
    let cluster = FaultyCluster::reliable();
    let (asks, mut append_requests) = tokio::sync::mpsc::unbounded_channel();
    let gate = callback_actor(move |question: GateRequest| {
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
    let engine = Engine::builder(Arc::new(InspectedLog(Log::new(), waits, None)))
        .cluster(Destination::Simulated, Arc::clone(&cluster) as _)
        .gate("shut", gate)
        .start()
        .await
        .unwrap();
    let waiting = config("a", 0, &[("tidegate.dev/gate", "shut")]);
    let idle = submit(&engine, &sync_for_application("idle", &waiting)).await;
    append_requests.recv().await.unwrap();
    let (release, receiver) = mpsc::channel();
    *hang.lock().unwrap() = Some(receiver);
    let other = submit(&engine, &sync_for_application("other", &config("b", 0, &[]))).await;
    hanging.recv().await.unwrap();
    let (view, _) = with_time_limit(engine.inspect(idle)).await.unwrap();
    assert_eq!(view.phase, OperationPhase::Running);
    drop(release);
    assert_eq!(wait_for_end(&engine, other).await.phase, OperationPhase::Succeeded);
}

/// An operation's log may be long. Only the caller that resumes the operation may have to wait for it.
#[tokio::test]
async fn loading_an_operation_does_not_block_others() {
    let (cluster, log) = (FaultyCluster::reliable(), Log::new());
    let engine = builder(&cluster, &log).start().await.unwrap();
    let gated = config("a", 0, &[("tidegate.dev/gate", "nobody")]);
    let slow = submit(&engine, &sync_for_application("slow", &gated)).await;
    wait_until(&engine, slow, |_, reason| reason.contains("no gate named nobody")).await;
    let (started_loads, mut loads) = tokio::sync::mpsc::unbounded_channel();
    let (let_go, go_on) = mpsc::channel();
    let log = InspectedLog(
        log.reopen(),
        |_: &[RawAppend]| Ok(()),
        Some(SlowLog { started_loads, permits: Mutex::new(go_on) }),
    );
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
    assert_eq!(with_time_limit(loads.recv()).await, Some(slow));
    let other = async {
        let id = submit(&engine, &sync_for_application("other", &config("b", 0, &[]))).await;
        (id, wait_for_end(&engine, id).await.phase)
    };
    let (id, phase) = with_time_limit(other).await;
    assert_eq!(phase, OperationPhase::Succeeded);
    // The end of the operation was emitted, so later reads don't need the log either.
    for _ in 0..2 {
        assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Succeeded);
        let (view, reason) = with_time_limit(engine.inspect(id)).await.unwrap();
        assert!(view.finished_at.is_some() && reason.position.starts_with("Succeeded"), "{reason}");
    }
    assert!(!resuming.is_finished());
    // Requests during the load wait until it has finished.
    let task = tokio::spawn({
        let engine = engine.clone();
        async move { engine.pause(slow, "ann", "").await }
    });
    let_go.send(()).unwrap();
    with_time_limit(resuming).await.unwrap().unwrap();
    with_time_limit(task).await.unwrap().unwrap();
}
