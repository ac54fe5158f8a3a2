//! Many operations at once.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use tidegate_cluster::sim::SimConfig;
use tidegate_executor::{EngineError, IN_FLIGHT};
use tidegate_model::OperationPhase;
use tidegate_testkit::scenario::Sync;

use crate::support::{Fate, Log, Moody, builder, config, end, hook, server, submit, until, within};

fn application(name: &str) -> Sync {
    let manifests = format!(
        "{}{}{}",
        hook(&format!("{name}-before"), "PreSync", &[]),
        server(&format!("{name}-server"), 0, &[]),
        config(&format!("{name}-config"), 1, &[])
    );
    Sync::of(&manifests).with(|request| request.application = name.into())
}

#[tokio::test(start_paused = true)]
async fn two_syncs_of_one_application_do_not_run_at_once() {
    let (cluster, log) = (Moody::calm(), Log::new());
    let engine = builder(&cluster, &log).start().await.unwrap();
    let first = submit(&engine, &application("shop")).await;
    for _ in 0..2 {
        let again = application("shop");
        let error = engine.submit(again.request.clone(), again.targets()).await.unwrap_err();
        assert!(matches!(error, EngineError::Busy { open, .. } if open == first), "{error}");
    }
    let beside = submit(&engine, &application("bank")).await;
    assert_eq!(end(&engine, first).await.phase, OperationPhase::Succeeded);
    assert_eq!(end(&engine, beside).await.phase, OperationPhase::Succeeded);
    let next = submit(&engine, &application("shop")).await;
    assert_eq!(end(&engine, next).await.phase, OperationPhase::Succeeded);
    // One that is over is answered from the log.
    assert_eq!(end(&engine, first).await.phase, OperationPhase::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn an_open_operation_of_an_earlier_process_is_in_the_way() {
    let (cluster, log) = (Moody::calm(), Log::new());
    let engine = builder(&cluster, &log).start().await.unwrap();
    let first = submit(&engine, &application("shop")).await;
    until(&engine, first, |view, _| !view.waves.is_empty()).await;
    let log = log.reopen();
    let engine = builder(&cluster, &log).start().await.unwrap();
    let again = application("shop");
    let error = engine.submit(again.request.clone(), again.targets()).await.unwrap_err();
    assert!(matches!(error, EngineError::Busy { open, .. } if open == first), "{error}");
    engine.resume(first).await.unwrap();
    end(&engine, first).await;
    end(&engine, submit(&engine, &again).await).await;
}

#[tokio::test(start_paused = true)]
async fn two_hundred_operations_finish_and_calls_are_bounded() {
    let latency = Duration::from_millis(20);
    let cluster = Moody::new(SimConfig { latency, ..SimConfig::default() }, |_, _| Fate::Answer);
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let names: Vec<String> = (0..200).map(|i| format!("app{i}")).collect();
    let ids = join_all(names.iter().map(async |name| submit(&engine, &application(name)).await)).await;
    for (name, id) in names.iter().zip(ids) {
        let view = end(&engine, id).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{name}: {}", view.message);
        assert_eq!(cluster.created(&format!("{name}-before")), 1, "{name}");
    }
    assert_eq!(cluster.most.load(Ordering::SeqCst), IN_FLIGHT, "calls in flight at most");
}

#[tokio::test(start_paused = true)]
async fn the_bound_can_be_chosen() {
    let latency = Duration::from_millis(20);
    let cluster = Moody::new(SimConfig { latency, ..SimConfig::default() }, |_, _| Fate::Answer);
    let engine = builder(&cluster, &Log::new()).in_flight(3).start().await.unwrap();
    let manifests: String = (0..40).map(|i| server(&format!("s{i}"), 0, &[])).collect();
    let view = end(&engine, submit(&engine, &Sync::of(&manifests)).await).await;
    assert_eq!((view.phase, cluster.most.load(Ordering::SeqCst)), (OperationPhase::Succeeded, 3));
}

#[tokio::test(start_paused = true)]
async fn a_wide_wave_finishes() {
    let cluster = Moody::calm();
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let manifests: String =
        (0..300).map(|i| server(&format!("s{i}"), 0, &[])).chain([config("last", 1, &[])]).collect();
    let view = within(async { end(&engine, submit(&engine, &Sync::of(&manifests)).await).await }).await;
    assert_eq!((view.phase, cluster.created("last")), (OperationPhase::Succeeded, 1));
}
