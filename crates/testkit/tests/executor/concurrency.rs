//! Many concurrent operations.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use tidegate_cluster::sim::SimConfig;
use tidegate_executor::{DEFAULT_IN_FLIGHT, EngineError};
use tidegate_model::OperationPhase;
use tidegate_testkit::scenario::SyncSpec;

use crate::support::{
    CallOutcome, FaultyCluster, Log, builder, config, hook, server_deployment, submit, wait_for_end,
    wait_until, with_time_limit,
};

fn application(name: &str) -> SyncSpec {
    let manifests = format!(
        "{}{}{}",
        hook(&format!("{name}-before"), "PreSync", &[]),
        server_deployment(&format!("{name}-server"), 0, &[]),
        config(&format!("{name}-config"), 1, &[])
    );
    SyncSpec::new(&manifests).with_request(|request| request.application = name.into())
}

#[tokio::test(start_paused = true)]
async fn two_syncs_of_one_application_do_not_run_at_once() {
    let (cluster, log) = (FaultyCluster::reliable(), Log::new());
    let engine = builder(&cluster, &log).start().await.unwrap();
    let first = submit(&engine, &application("shop")).await;
    for _ in 0..2 {
        let again = application("shop");
        let error = engine.submit(again.request.clone(), again.targets()).await.unwrap_err();
        assert!(matches!(error, EngineError::Busy { open, .. } if open == first), "{error}");
    }
    let beside = submit(&engine, &application("bank")).await;
    assert_eq!(wait_for_end(&engine, first).await.phase, OperationPhase::Succeeded);
    assert_eq!(wait_for_end(&engine, beside).await.phase, OperationPhase::Succeeded);
    let next = submit(&engine, &application("shop")).await;
    assert_eq!(wait_for_end(&engine, next).await.phase, OperationPhase::Succeeded);
    // A finished operation is read from the log.
    assert_eq!(wait_for_end(&engine, first).await.phase, OperationPhase::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn an_open_operation_of_an_earlier_process_blocks_new_ones() {
    let (cluster, log) = (FaultyCluster::reliable(), Log::new());
    let engine = builder(&cluster, &log).start().await.unwrap();
    let first = submit(&engine, &application("shop")).await;
    wait_until(&engine, first, |view, _| !view.waves.is_empty()).await;
    let log = log.reopen();
    let engine = builder(&cluster, &log).start().await.unwrap();
    let again = application("shop");
    let error = engine.submit(again.request.clone(), again.targets()).await.unwrap_err();
    assert!(matches!(error, EngineError::Busy { open, .. } if open == first), "{error}");
    engine.resume(first).await.unwrap();
    wait_for_end(&engine, first).await;
    wait_for_end(&engine, submit(&engine, &again).await).await;
}

#[tokio::test(start_paused = true)]
async fn two_hundred_operations_finish_and_calls_are_bounded() {
    let latency = Duration::from_millis(20);
    let cluster =
        FaultyCluster::new(SimConfig { latency, ..SimConfig::default() }, |_, _| CallOutcome::Answer);
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let names: Vec<String> = (0..200).map(|i| format!("app{i}")).collect();
    let ids = join_all(names.iter().map(async |name| submit(&engine, &application(name)).await)).await;
    for (name, id) in names.iter().zip(ids) {
        let view = wait_for_end(&engine, id).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{name}: {}", view.message);
        assert_eq!(cluster.creations_of(&format!("{name}-before")), 1, "{name}");
    }
    assert_eq!(cluster.max_active_calls.load(Ordering::SeqCst), DEFAULT_IN_FLIGHT, "calls in flight at most");
}

#[tokio::test(start_paused = true)]
async fn the_limit_of_concurrent_calls_is_configurable() {
    let latency = Duration::from_millis(20);
    let cluster =
        FaultyCluster::new(SimConfig { latency, ..SimConfig::default() }, |_, _| CallOutcome::Answer);
    let engine = builder(&cluster, &Log::new()).in_flight(3).start().await.unwrap();
    let manifests: String = (0..40).map(|i| server_deployment(&format!("s{i}"), 0, &[])).collect();
    let view = wait_for_end(&engine, submit(&engine, &SyncSpec::new(&manifests)).await).await;
    assert_eq!((view.phase, cluster.max_active_calls.load(Ordering::SeqCst)), (OperationPhase::Succeeded, 3));
}

#[tokio::test(start_paused = true)]
async fn a_wide_wave_finishes() {
    let cluster = FaultyCluster::reliable();
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let manifests: String = (0..300)
        .map(|i| server_deployment(&format!("s{i}"), 0, &[]))
        .chain([config("last", 1, &[])])
        .collect();
    let view = with_time_limit(async {
        wait_for_end(&engine, submit(&engine, &SyncSpec::new(&manifests)).await).await
    })
    .await;
    assert_eq!((view.phase, cluster.creations_of("last")), (OperationPhase::Succeeded, 1));
}
