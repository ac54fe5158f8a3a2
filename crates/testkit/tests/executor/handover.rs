//! Several engines with the same log, which hand over their applications.

use std::collections::BTreeSet;
use std::time::Duration;

use tidegate_cluster::sim::SimConfig;
use tidegate_executor::EngineError;
use tidegate_model::{ClaimConflictPolicy, OperationPhase};
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

/// The first engine hands over one of its two applications at different times. The other engine continues the operation
/// exactly where it was, and the first engine isn't disturbed in its other operation.
#[tokio::test(start_paused = true)]
async fn another_engine_continues_the_operations_of_an_application() {
    for after_millis in [0, 1, 30, 100, 250, 300, 350, 400, 500] {
        let latency = Duration::from_millis(20);
        let cluster =
            FaultyCluster::new(SimConfig { latency, ..SimConfig::default() }, |_, _| CallOutcome::Answer);
        let log = Log::new();
        let first = builder(&cluster, &log).start().await.unwrap();
        let second = builder(&cluster, &log).start().await.unwrap();
        let (moving, staying) = (sync_of("moving"), sync_of("staying"));
        let moved = submit(&first, &moving).await;
        let stayed = submit(&first, &staying).await;
        let waiter = tokio::spawn({
            let first = first.clone();
            async move { first.wait(moved).await }
        });
        tokio::time::sleep(Duration::from_millis(after_millis)).await;
        with_time_limit(first.hand_over(BTreeSet::from(["moving".to_owned()]))).await.unwrap();
        let error = with_time_limit(waiter).await.unwrap().unwrap_err();
        assert!(
            matches!(&error, EngineError::HandedOver { application, .. } if application == "moving"),
            "{error}"
        );
        let written = cluster.sim.audit().len();
        second.resume(moved).await.unwrap();
        let view = wait_for_end(&second, moved).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{after_millis}: {}", view.message);
        assert!(cluster.sim.audit().len() >= written);
        assert_eq!(wait_for_end(&first, stayed).await.phase, OperationPhase::Succeeded, "{after_millis}");
        for name in ["moving-before", "moving-last", "staying-before", "staying-last"] {
            assert_eq!(cluster.creations_of(name), 1, "{after_millis}: {name}");
        }
        let events = format!("{:?}", log.recorded_events(moved).unwrap());
        for word in ["CallFailed", "TaskFailed", "AttemptFailed"] {
            assert!(!events.contains(&format!("{word} {{")), "{after_millis}: {word} was recorded");
        }
    }
}

/// After a handover, the new owner has started an operation. The former owner gets the application back, and must know
/// the open operation.
#[tokio::test(start_paused = true)]
async fn an_engine_knows_the_operations_that_others_have_started() {
    let cluster = FaultyCluster::reliable();
    let log = Log::new();
    let first = builder(&cluster, &log).start().await.unwrap();
    let second = builder(&cluster, &log).start().await.unwrap();
    let sync = sync_of("shop");
    let done = submit(&first, &sync).await;
    wait_for_end(&first, done).await;
    let shop = || BTreeSet::from(["shop".to_owned()]);
    first.hand_over(shop()).await.unwrap();
    second.hand_over(BTreeSet::new()).await.unwrap();
    let open = submit(&second, &sync).await;
    second.hand_over(shop()).await.unwrap();
    first.hand_over(BTreeSet::new()).await.unwrap();
    let busy = first
        .submit_with_policy(sync.request.clone(), sync.targets(), ClaimConflictPolicy::Refuse)
        .await
        .unwrap_err();
    assert!(matches!(&busy, EngineError::Busy { open: found, .. } if *found == open), "{busy}");
    first.resume(open).await.unwrap();
    assert_eq!(wait_for_end(&first, open).await.phase, OperationPhase::Succeeded);
    assert_eq!(first.entries_in_memory().await.unwrap(), second.entries_in_memory().await.unwrap());
}
