//! Operations with an ID from the caller.

use tidegate_model::{OperationId, OperationPhase};
use tidegate_testkit::scenario::SyncSpec;
use uuid::Uuid;

use crate::support::{FaultyCluster, Log, builder, config, wait_for_end};

#[tokio::test(start_paused = true)]
async fn an_operation_requested_many_times_exists_once() {
    let (cluster, log) = (FaultyCluster::reliable(), Log::new());
    let engine = builder(&cluster, &log).start().await.unwrap();
    let id = OperationId(Uuid::from_u128(7));
    let sync = SyncSpec::new(&config("a", 0, &[]));
    let ask = || engine.ensure(id, sync.request.clone(), sync.targets());
    let (one, two) = tokio::join!(ask(), ask());
    one.unwrap();
    two.unwrap();
    assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Succeeded);
    ask().await.unwrap();
    engine.shutdown().await;
    let engine = builder(&cluster, &log.reopen()).start().await.unwrap();
    engine.ensure(id, sync.request.clone(), sync.targets()).await.unwrap();
    assert_eq!(cluster.creations_of("a"), 1);
}

/// Some callers request the operation while another one is starting it, and some after it has finished.
#[tokio::test(start_paused = true)]
async fn requests_during_the_start_of_an_operation_find_it() {
    for callers in 1..=24 {
        let (cluster, log) = (FaultyCluster::reliable(), Log::new());
        let engine = builder(&cluster, &log).start().await.unwrap();
        let id = OperationId(Uuid::from_u128(7));
        let sync = SyncSpec::new(&config("a", 0, &[]));
        let requests = (0..callers).map(|_| engine.ensure(id, sync.request.clone(), sync.targets()));
        for answer in futures_util::future::join_all(requests).await {
            answer.unwrap();
        }
        assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Succeeded);
        assert_eq!(cluster.creations_of("a"), 1);
    }
}
