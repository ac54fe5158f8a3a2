//! A new operation whose application has one that is not over: refused, queued, or the other one is ended first.

use std::time::Duration;

use tidegate_executor::{Engine, EngineError};
use tidegate_model::{IfTaken, OperationId, OperationPhase};
use tidegate_testkit::scenario::Sync;
use uuid::Uuid;

use crate::support::{Log, Moody, builder, config, end, submit, until, within};

/// An operation that is at work for a minute.
fn slow() -> Sync {
    named("slow", &[("sim.tidegate.dev/ready-after", "60s")])
}

fn named(name: &str, annotations: &[(&str, &str)]) -> Sync {
    Sync::of(&format!(
        "{}{}",
        crate::support::server(name, 0, annotations),
        config(&format!("{name}-last"), 1, &[])
    ))
}

async fn submit_when(engine: &Engine, sync: Sync, if_open: IfTaken) -> Result<OperationId, EngineError> {
    within(engine.submit_when(sync.request.clone(), sync.targets(), if_open)).await
}

/// Begins to ask, and comes back when the question is with the engine.
async fn ask(
    engine: &Engine,
    sync: Sync,
    if_open: IfTaken,
) -> tokio::task::JoinHandle<Result<OperationId, EngineError>> {
    let engine = engine.clone();
    let asked = tokio::spawn(async move { submit_when(&engine, sync, if_open).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    asked
}

#[tokio::test(start_paused = true)]
async fn queued_operations_begin_one_after_the_other_in_order() {
    let cluster = Moody::calm();
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let first = submit(&engine, &slow()).await;
    let second = ask(&engine, named("second", &[]), IfTaken::Queue).await;
    let third = ask(&engine, named("third", &[]), IfTaken::Queue).await;
    let refused = submit_when(&engine, named("fourth", &[]), IfTaken::Refuse).await.unwrap_err();
    assert!(matches!(refused, EngineError::Busy { open, .. } if open == first), "{refused}");
    assert!(!second.is_finished() && !third.is_finished());
    assert_eq!(engine.list().await.unwrap().len(), 1, "nothing of a queued operation is recorded");
    assert_eq!(end(&engine, first).await.phase, OperationPhase::Succeeded);
    let second = within(second).await.unwrap().unwrap();
    assert!(engine.find(tidegate_oplog::Lookup::open()).await.unwrap().len() <= 1);
    assert_eq!(end(&engine, second).await.phase, OperationPhase::Succeeded);
    let third = within(third).await.unwrap().unwrap();
    assert_eq!(end(&engine, third).await.phase, OperationPhase::Succeeded);
    let order: Vec<_> = ["slow-last", "second-last", "third-last"]
        .map(|name| cluster.writes().iter().position(|entry| entry.name == name).unwrap())
        .into();
    assert!(order.is_sorted(), "{order:?}");
}

#[tokio::test(start_paused = true)]
async fn a_superseded_operation_ends_first_and_says_for_whom() {
    let (cluster, log) = (Moody::calm(), Log::new());
    let engine = builder(&cluster, &log).start().await.unwrap();
    let first = submit(&engine, &slow()).await;
    until(&engine, first, |_, why| why.contains("wave 0")).await;
    let queued = ask(&engine, named("queued", &[]), IfTaken::Queue).await;
    let id = OperationId(Uuid::from_u128(9));
    let sync = named("fix", &[]);
    let began = tokio::time::Instant::now();
    // Asked for twice, as whoever records the id first does after a restart.
    for _ in 0..2 {
        let ensured = engine.ensure_when(id, sync.request.clone(), sync.targets(), IfTaken::Supersede);
        within(ensured).await.unwrap();
    }
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    let view = end(&engine, first).await;
    assert_eq!(view.phase, OperationPhase::Failed);
    assert_eq!(cluster.created("slow-last"), 0);
    let said =
        format!("Operation terminated, superseded by operation {id} of test (revision 0123456789abcdef)");
    assert_eq!(view.message, said);
    assert_eq!(end(&engine, id).await.phase, OperationPhase::Succeeded);
    let queued = within(queued).await.unwrap().unwrap();
    assert_eq!(end(&engine, queued).await.phase, OperationPhase::Succeeded);
    let at = |name: &str| cluster.writes().iter().position(|entry| entry.name == name).unwrap();
    assert!(at("fix-last") < at("queued-last"), "the queued one comes after the one that supersedes");
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_lies_in_the_log_is_gone_on_with_first() {
    for (if_open, phase) in
        [(IfTaken::Queue, OperationPhase::Succeeded), (IfTaken::Supersede, OperationPhase::Failed)]
    {
        let (cluster, log) = (Moody::calm(), Log::new());
        let engine = builder(&cluster, &log).start().await.unwrap();
        let first = submit(&engine, &slow()).await;
        until(&engine, first, |_, why| why.contains("wave 0")).await;
        engine.shutdown().await;
        let engine = builder(&cluster, &log.reopen()).start().await.unwrap();
        let second = submit_when(&engine, named("second", &[]), if_open).await.unwrap();
        assert_eq!(engine.inspect(first).await.unwrap().0.phase, phase);
        assert_eq!(end(&engine, second).await.phase, OperationPhase::Succeeded);
    }
}

/// Without a way to its cluster the open operation cannot be gone on with, and it must not fail for that.
#[tokio::test(start_paused = true)]
async fn nobody_waits_for_an_operation_that_cannot_go_on() {
    let (cluster, log) = (Moody::calm(), Log::new());
    let engine = builder(&cluster, &log).start().await.unwrap();
    let first = submit(&engine, &slow()).await;
    until(&engine, first, |_, why| why.contains("wave 0")).await;
    engine.shutdown().await;
    let engine = Engine::builder(std::sync::Arc::new(log.reopen())).start().await.unwrap();
    let refused = submit_when(&engine, slow(), IfTaken::Supersede).await.unwrap_err();
    assert!(matches!(refused, EngineError::Busy { open, .. } if open == first), "{refused}");
    let (view, _) = engine.inspect(first).await.unwrap();
    assert_eq!(view.finished_at, None, "{}", view.message);
}

#[tokio::test(start_paused = true)]
async fn whoever_stops_asking_leaves_the_queue_and_a_shutdown_empties_it() {
    let cluster = Moody::calm();
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let first = submit(&engine, &slow()).await;
    let left = ask(&engine, named("left", &[]), IfTaken::Queue).await;
    left.abort();
    let stays =
        ask(&engine, named("stays", &[("sim.tidegate.dev/ready-after", "60s")]), IfTaken::Queue).await;
    end(&engine, first).await;
    let stays = within(stays).await.unwrap().unwrap();
    assert_eq!(cluster.created("left"), 0);
    let waits = ask(&engine, named("waits", &[]), IfTaken::Queue).await;
    engine.shutdown().await;
    assert!(matches!(within(waits).await.unwrap(), Err(EngineError::ShuttingDown)));
    assert_eq!((cluster.created("stays"), cluster.created("left"), cluster.created("waits")), (1, 0, 0));
    assert_eq!(engine.list().await.unwrap().len(), 2, "the first and {stays}");
}

/// The queue of one application is bounded.
#[tokio::test(start_paused = true)]
async fn a_long_queue_refuses() {
    let cluster = Moody::calm();
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let first = submit(&engine, &slow()).await;
    let mut queued = Vec::new();
    for _ in 0..16 {
        queued.push(ask(&engine, named("queued", &[]), IfTaken::Queue).await);
    }
    let refused = submit_when(&engine, slow(), IfTaken::Queue).await.unwrap_err();
    assert!(matches!(refused, EngineError::Busy { open, .. } if open == first), "{refused}");
    for queued in queued {
        let id = within(queued).await.unwrap().unwrap();
        assert_eq!(end(&engine, id).await.phase, OperationPhase::Succeeded);
    }
}
