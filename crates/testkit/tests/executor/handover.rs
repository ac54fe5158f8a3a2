//! Several engines with the same log, which hand over their applications.

use std::sync::Arc;
use std::time::Duration;

use tidegate_cluster::sim::SimConfig;
use tidegate_executor::{Engine, EngineError};
use tidegate_model::{ClaimConflictPolicy, OperationPhase};
use tidegate_oplog::{OwnedShards, Shard};
use tidegate_testkit::operation_events::OperationEvents as _;
use tidegate_testkit::scenario::SyncSpec;

use crate::support::{
    CallOutcome, FaultyCluster, Log, builder, config, hook, server_deployment, submit, wait_for_end,
    with_time_limit,
};

fn sync_of(application: &str) -> SyncSpec {
    let servers: String =
        (0..10).map(|i| server_deployment(&format!("{application}-s{i}"), 0, &[])).collect();
    let before = hook(&format!("{application}-before"), "PreSync", &[]);
    let last = config(&format!("{application}-last"), 1, &[]);
    let mut sync = SyncSpec::new(&format!("{before}{servers}{last}"));
    sync.request.application = application.to_owned();
    sync
}

/// Returns all shards but that of one application.
fn others(application: &str) -> OwnedShards {
    OwnedShards::Only(Shard::all().filter(|shard| *shard != Shard::of_key(application)).collect())
}

/// Starts two engines with the same log and cluster.
async fn two_engines(cluster: &Arc<FaultyCluster>, log: &Log) -> (Engine, Engine) {
    (builder(cluster, log).start().await.unwrap(), builder(cluster, log).start().await.unwrap())
}

fn slow_cluster() -> Arc<FaultyCluster> {
    let latency = Duration::from_millis(20);
    FaultyCluster::new(SimConfig { latency, ..SimConfig::default() }, |_, _| CallOutcome::Answer)
}

/// Submits a sync that waits in the queue of its application.
async fn queue(engine: &Engine, sync: &SyncSpec) -> tokio::task::JoinHandle<Result<(), EngineError>> {
    let (engine, request, targets) = (engine.clone(), sync.request.clone(), sync.targets());
    let queued = tokio::spawn(async move {
        engine.submit_with_policy(request, targets, ClaimConflictPolicy::Queue).await.map(drop)
    });
    tokio::time::sleep(Duration::from_millis(1)).await;
    queued
}

/// The first engine hands over one of its two applications at different times. The other engine continues the operation
/// exactly where it was, and the first engine isn't disturbed in its other operation.
#[tokio::test(start_paused = true)]
async fn another_engine_continues_the_operations_of_an_application() {
    for after_millis in [0, 1, 30, 100, 250, 300, 350, 400, 500] {
        let (cluster, log) = (slow_cluster(), Log::new());
        let (first, second) = two_engines(&cluster, &log).await;
        let moved = submit(&first, &sync_of("moving")).await;
        let stayed = submit(&first, &sync_of("staying")).await;
        let waiter = tokio::spawn({
            let first = first.clone();
            async move { first.wait(moved).await }
        });
        tokio::time::sleep(Duration::from_millis(after_millis)).await;
        with_time_limit(first.set_owned_shards(others("moving"), |name| Shard::of_key(name))).await.unwrap();
        let error = with_time_limit(waiter).await.unwrap().unwrap_err();
        assert!(
            matches!(&error, EngineError::HandedOver { application } if application == "moving"),
            "{error}"
        );
        let of_moving =
            || cluster.sim.audit().iter().filter(|entry| entry.name.starts_with("moving")).count();
        let written = of_moving();
        assert_eq!(wait_for_end(&first, stayed).await.phase, OperationPhase::Succeeded, "{after_millis}");
        assert_eq!(of_moving(), written, "{after_millis}: written after the handover");
        second.resume(moved).await.unwrap();
        let view = wait_for_end(&second, moved).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{after_millis}: {}", view.message);
        for name in ["moving-before", "moving-last", "staying-before", "staying-last"] {
            assert_eq!(cluster.creations_of(name), 1, "{after_millis}: {name}");
        }
        let events = format!("{:?}", log.recorded_events(moved).unwrap());
        for word in ["CallFailed", "TaskFailed", "AttemptFailed"] {
            assert!(!events.contains(&format!("{word} {{")), "{after_millis}: {word} was recorded");
        }
    }
}

/// After a handover, the new owner starts an operation. The former owner gets the application back, and must know the
/// open operation.
#[tokio::test(start_paused = true)]
async fn an_engine_knows_the_operations_that_others_have_started() {
    let (cluster, log) = (FaultyCluster::reliable(), Log::new());
    let (first, second) = two_engines(&cluster, &log).await;
    let sync = sync_of("shop");
    let done = submit(&first, &sync).await;
    wait_for_end(&first, done).await;
    first.set_owned_shards(others("shop"), |name| Shard::of_key(name)).await.unwrap();
    second.set_owned_shards(OwnedShards::All, |name| Shard::of_key(name)).await.unwrap();
    let open = submit(&second, &sync).await;
    second.set_owned_shards(others("shop"), |name| Shard::of_key(name)).await.unwrap();
    first.set_owned_shards(OwnedShards::All, |name| Shard::of_key(name)).await.unwrap();
    let busy = first.submit(sync.request.clone(), sync.targets()).await.unwrap_err();
    assert!(matches!(&busy, EngineError::Busy { open: found, .. } if *found == open), "{busy}");
    first.resume(open).await.unwrap();
    assert_eq!(wait_for_end(&first, open).await.phase, OperationPhase::Succeeded);
}

/// Nothing starts after a handover: neither queued and new operations, nor a resumption that has already begun.
#[tokio::test(start_paused = true)]
async fn operations_of_a_handed_over_application_are_refused() {
    let (cluster, log) = (slow_cluster(), Log::new());
    let (first, second) = two_engines(&cluster, &log).await;
    let sync = sync_of("shop");
    let open = submit(&first, &sync).await;
    let queued = queue(&first, &sync).await;
    let (handed_over, new, resumed) = tokio::join!(
        first.set_owned_shards(others("shop"), |name| Shard::of_key(name)),
        first.submit(sync.request.clone(), sync.targets()),
        first.resume(open)
    );
    handed_over.unwrap();
    for refused in [queued.await.unwrap().unwrap_err(), new.unwrap_err()] {
        assert!(matches!(refused, EngineError::HandedOver { .. }), "{refused}");
    }
    // The operation was still running, or had already stopped.
    assert!(matches!(resumed, Ok(()) | Err(EngineError::HandedOver { .. })));
    assert!(matches!(first.resume(open).await, Err(EngineError::HandedOver { .. })));
    second.resume(open).await.unwrap();
    assert_eq!(wait_for_end(&second, open).await.phase, OperationPhase::Succeeded);
    assert_eq!(cluster.creations_of("shop-before"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_a_handover() {
    let (cluster, log) = (slow_cluster(), Log::new());
    let first = builder(&cluster, &log).start().await.unwrap();
    let open = submit(&first, &sync_of("shop")).await;
    let handing_over = {
        let first = first.clone();
        tokio::spawn(async move { first.set_owned_shards(others("shop"), |name| Shard::of_key(name)).await })
    };
    with_time_limit(first.shutdown()).await;
    drop(with_time_limit(handing_over).await.unwrap());
    let second = builder(&cluster, &log.reopen()).start().await.unwrap();
    second.resume(open).await.unwrap();
    assert_eq!(wait_for_end(&second, open).await.phase, OperationPhase::Succeeded);
}

/// Operations stay in the shard in which they were started, even if new operations of their application belong to another
/// one. The owner of the old shard ends them, and the owner of the new shard starts nothing before.
#[tokio::test(start_paused = true)]
async fn an_operation_ends_in_the_shard_in_which_it_was_started() {
    let (cluster, log) = (slow_cluster(), Log::new());
    let (first, second) = two_engines(&cluster, &log).await;
    let (old, new) = (Shard::of_key("old"), Shard::of_key("new"));
    let only = |shard| OwnedShards::Only([shard].into());
    first.set_owned_shards(only(old), move |_| old).await.unwrap();
    second.set_owned_shards(only(new), move |_| new).await.unwrap();
    let sync = sync_of("shop");
    let open = submit(&first, &sync).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    // The first engine learns of the move only now.
    first.set_owned_shards(only(old), move |_| new).await.unwrap();
    assert!(matches!(second.resume(open).await, Err(EngineError::HandedOver { .. })));
    let busy = second.submit(sync.request.clone(), sync.targets()).await.unwrap_err();
    assert!(matches!(&busy, EngineError::Busy { open: found, .. } if *found == open), "{busy}");
    let listed = async |engine: &Engine| {
        let all = engine.open_operations(Some("shop".to_owned())).await.unwrap();
        all.iter().map(|one| (one.summary.operation, one.is_owned)).collect::<Vec<_>>()
    };
    assert_eq!(listed(&first).await, [(open, true)]);
    assert_eq!(listed(&second).await, [(open, false)]);
    assert_eq!(wait_for_end(&first, open).await.phase, OperationPhase::Succeeded);
    assert!(matches!(
        first.submit(sync.request.clone(), sync.targets()).await,
        Err(EngineError::HandedOver { .. })
    ));
    let next = submit(&second, &sync).await;
    assert_eq!(wait_for_end(&second, next).await.phase, OperationPhase::Succeeded);
}
