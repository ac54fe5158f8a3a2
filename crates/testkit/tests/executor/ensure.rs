//! Operations with an id of the caller's choosing.

use tidegate_model::{OperationId, OperationPhase};
use tidegate_testkit::scenario::Sync;
use uuid::Uuid;

use crate::support::{Log, Moody, builder, config, end};

#[tokio::test(start_paused = true)]
async fn an_operation_that_is_asked_for_many_times_exists_once() {
    let (cluster, log) = (Moody::calm(), Log::new());
    let engine = builder(&cluster, &log).start().await.unwrap();
    let id = OperationId(Uuid::from_u128(7));
    let sync = Sync::of(&config("a", 0, &[]));
    let ask = || engine.ensure(id, sync.request.clone(), sync.targets());
    let (one, two) = tokio::join!(ask(), ask());
    one.unwrap();
    two.unwrap();
    assert_eq!(end(&engine, id).await.phase, OperationPhase::Succeeded);
    ask().await.unwrap();
    engine.shutdown().await;
    let engine = builder(&cluster, &log.reopen()).start().await.unwrap();
    engine.ensure(id, sync.request.clone(), sync.targets()).await.unwrap();
    assert_eq!(cluster.created("a"), 1);
}

/// Some look for it while it is begun for others, and some when it has ended.
#[tokio::test(start_paused = true)]
async fn whoever_asks_while_an_operation_begins_finds_it() {
    for callers in 1..=24 {
        let (cluster, log) = (Moody::calm(), Log::new());
        let engine = builder(&cluster, &log).start().await.unwrap();
        let id = OperationId(Uuid::from_u128(7));
        let sync = Sync::of(&config("a", 0, &[]));
        let asked = (0..callers).map(|_| engine.ensure(id, sync.request.clone(), sync.targets()));
        for answer in futures_util::future::join_all(asked).await {
            answer.unwrap();
        }
        assert_eq!(end(&engine, id).await.phase, OperationPhase::Succeeded);
        assert_eq!(cluster.created("a"), 1);
    }
}
