//! New operations for an application with an unfinished one. They are refused, are queued, or supersede it.

use std::time::Duration;

use tidegate_executor::{Engine, EngineError};
use tidegate_model::{ClaimConflictPolicy, OperationId, OperationPhase};
use tidegate_testkit::scenario::SyncSpec;
use uuid::Uuid;

use crate::support::{
    FaultyCluster, Log, builder, config, submit, wait_for_end, wait_until, with_time_limit,
};

/// Returns an operation that takes a minute.
fn slow_sync() -> SyncSpec {
    named_sync("slow", &[("sim.tidegate.dev/ready-after", "60s")])
}

fn named_sync(name: &str, annotations: &[(&str, &str)]) -> SyncSpec {
    SyncSpec::new(&format!(
        "{}{}",
        crate::support::server_deployment(name, 0, annotations),
        config(&format!("{name}-last"), 1, &[])
    ))
}

async fn submit_with_policy(
    engine: &Engine,
    sync: SyncSpec,
    if_open: ClaimConflictPolicy,
) -> Result<OperationId, EngineError> {
    with_time_limit(engine.submit_with_policy(sync.request.clone(), sync.targets(), if_open)).await
}

/// Starts a request. Returns once the engine has received it.
async fn start_request(
    engine: &Engine,
    sync: SyncSpec,
    if_open: ClaimConflictPolicy,
) -> tokio::task::JoinHandle<Result<OperationId, EngineError>> {
    let engine = engine.clone();
    let request_task = tokio::spawn(async move { submit_with_policy(&engine, sync, if_open).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    request_task
}

#[tokio::test(start_paused = true)]
async fn queued_operations_start_in_order() {
    let cluster = FaultyCluster::reliable();
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let first = submit(&engine, &slow_sync()).await;
    let second = start_request(&engine, named_sync("second", &[]), ClaimConflictPolicy::Queue).await;
    let third = start_request(&engine, named_sync("third", &[]), ClaimConflictPolicy::Queue).await;
    let refused = submit_with_policy(&engine, named_sync("fourth", &[]), ClaimConflictPolicy::Refuse)
        .await
        .unwrap_err();
    assert!(matches!(refused, EngineError::Busy { open, .. } if open == first), "{refused}");
    assert!(!second.is_finished() && !third.is_finished());
    assert_eq!(engine.list().await.unwrap().len(), 1, "queued operations record nothing");
    assert_eq!(wait_for_end(&engine, first).await.phase, OperationPhase::Succeeded);
    let second = with_time_limit(second).await.unwrap().unwrap();
    assert!(engine.find(tidegate_oplog::Lookup::open()).await.unwrap().len() <= 1);
    assert_eq!(wait_for_end(&engine, second).await.phase, OperationPhase::Succeeded);
    let third = with_time_limit(third).await.unwrap().unwrap();
    assert_eq!(wait_for_end(&engine, third).await.phase, OperationPhase::Succeeded);
    let order: Vec<_> = ["slow-last", "second-last", "third-last"]
        .map(|name| cluster.writes().iter().position(|entry| entry.name == name).unwrap())
        .into();
    assert!(order.is_sorted(), "{order:?}");
}

#[tokio::test(start_paused = true)]
async fn a_superseded_operation_ends_first_and_names_its_successor() {
    let (cluster, log) = (FaultyCluster::reliable(), Log::new());
    let engine = builder(&cluster, &log).start().await.unwrap();
    let first = submit(&engine, &slow_sync()).await;
    wait_until(&engine, first, |_, reason| reason.contains("wave 0")).await;
    let queued = start_request(&engine, named_sync("queued", &[]), ClaimConflictPolicy::Queue).await;
    let id = OperationId(Uuid::from_u128(9));
    let sync = named_sync("fix", &[]);
    let began = tokio::time::Instant::now();
    // Send the request twice, like a caller that records the ID first and then restarts.
    for _ in 0..2 {
        let ensured = engine.ensure_with_policy(
            id,
            sync.request.clone(),
            sync.targets(),
            ClaimConflictPolicy::Supersede,
        );
        with_time_limit(ensured).await.unwrap();
    }
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    let view = wait_for_end(&engine, first).await;
    assert_eq!(view.phase, OperationPhase::Failed);
    assert_eq!(cluster.creations_of("slow-last"), 0);
    let text =
        format!("Operation terminated, superseded by operation {id} of test (revision 0123456789abcdef)");
    assert_eq!(view.message, text);
    assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Succeeded);
    let queued = with_time_limit(queued).await.unwrap().unwrap();
    assert_eq!(wait_for_end(&engine, queued).await.phase, OperationPhase::Succeeded);
    let at = |name: &str| cluster.writes().iter().position(|entry| entry.name == name).unwrap();
    assert!(at("fix-last") < at("queued-last"), "the queued one comes after the one that supersedes");
}

#[tokio::test(start_paused = true)]
async fn an_open_operation_in_the_log_is_resumed_first() {
    for (if_open, phase) in [
        (ClaimConflictPolicy::Queue, OperationPhase::Succeeded),
        (ClaimConflictPolicy::Supersede, OperationPhase::Failed),
    ] {
        let (cluster, log) = (FaultyCluster::reliable(), Log::new());
        let engine = builder(&cluster, &log).start().await.unwrap();
        let first = submit(&engine, &slow_sync()).await;
        wait_until(&engine, first, |_, reason| reason.contains("wave 0")).await;
        engine.shutdown().await;
        let engine = builder(&cluster, &log.reopen()).start().await.unwrap();
        let second = submit_with_policy(&engine, named_sync("second", &[]), if_open).await.unwrap();
        assert_eq!(engine.inspect(first).await.unwrap().0.phase, phase);
        assert_eq!(wait_for_end(&engine, second).await.phase, OperationPhase::Succeeded);
    }
}

/// The open operation can't continue without a connection to its cluster, but that must not fail it.
#[tokio::test(start_paused = true)]
async fn requests_do_not_wait_for_an_operation_that_cannot_continue() {
    let (cluster, log) = (FaultyCluster::reliable(), Log::new());
    let engine = builder(&cluster, &log).start().await.unwrap();
    let first = submit(&engine, &slow_sync()).await;
    wait_until(&engine, first, |_, reason| reason.contains("wave 0")).await;
    engine.shutdown().await;
    let engine = Engine::builder(std::sync::Arc::new(log.reopen())).start().await.unwrap();
    let refused = submit_with_policy(&engine, slow_sync(), ClaimConflictPolicy::Supersede).await.unwrap_err();
    assert!(matches!(refused, EngineError::Busy { open, .. } if open == first), "{refused}");
    let (view, _) = engine.inspect(first).await.unwrap();
    assert_eq!(view.finished_at, None, "{}", view.message);
}

#[tokio::test(start_paused = true)]
async fn canceled_requests_leave_the_queue_and_shutdown_empties_it() {
    let cluster = FaultyCluster::reliable();
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let first = submit(&engine, &slow_sync()).await;
    let left = start_request(&engine, named_sync("left", &[]), ClaimConflictPolicy::Queue).await;
    left.abort();
    let stays = start_request(
        &engine,
        named_sync("stays", &[("sim.tidegate.dev/ready-after", "60s")]),
        ClaimConflictPolicy::Queue,
    )
    .await;
    wait_for_end(&engine, first).await;
    let stays = with_time_limit(stays).await.unwrap().unwrap();
    assert_eq!(cluster.creations_of("left"), 0);
    let waits = start_request(&engine, named_sync("waits", &[]), ClaimConflictPolicy::Queue).await;
    engine.shutdown().await;
    assert!(matches!(with_time_limit(waits).await.unwrap(), Err(EngineError::ShuttingDown)));
    assert_eq!(
        (cluster.creations_of("stays"), cluster.creations_of("left"), cluster.creations_of("waits")),
        (1, 0, 0)
    );
    assert_eq!(engine.list().await.unwrap().len(), 2, "the first and {stays}");
}

/// An application's queue is limited.
#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses_requests() {
    let cluster = FaultyCluster::reliable();
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let first = submit(&engine, &slow_sync()).await;
    let mut queued = Vec::new();
    for _ in 0..16 {
        queued.push(start_request(&engine, named_sync("queued", &[]), ClaimConflictPolicy::Queue).await);
    }
    let refused = submit_with_policy(&engine, slow_sync(), ClaimConflictPolicy::Queue).await.unwrap_err();
    assert!(matches!(refused, EngineError::Busy { open, .. } if open == first), "{refused}");
    for queued in queued {
        let id = with_time_limit(queued).await.unwrap().unwrap();
        assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Succeeded);
    }
}
