//! Correct and faulty health judges.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidegate_executor::HealthRequest;
use tidegate_model::{Health, HealthStatus, OperationPhase};
use tidegate_testkit::scenario::SyncSpec;

use crate::support::{
    FaultyCluster, Log, builder, callback_actor, config, server_deployment, submit, wait_for_end, wait_until,
};

fn judged_sync() -> SyncSpec {
    let first = server_deployment("first", 0, &[("tidegate.dev/health-judge", "doctor")]);
    SyncSpec::new(&format!("{first}{}", config("second", 1, &[])))
}

#[tokio::test(start_paused = true)]
async fn a_judge_replaces_the_rule() {
    let (cluster, log) = (FaultyCluster::reliable(), Log::new());
    let call_count = Arc::new(AtomicUsize::new(0));
    let judge = callback_actor({
        let call_count = Arc::clone(&call_count);
        move |question: HealthRequest| {
            // By the built-in rule, the object is healthy long before the fifth read.
            let status = match call_count.fetch_add(1, Ordering::SeqCst) {
                0..5 => HealthStatus::Progressing,
                _ => HealthStatus::Healthy,
            };
            let _ = question.reply.send(Health::new(status, "the doctor says so"));
        }
    });
    let engine = builder(&cluster, &log).health_judge("doctor", judge.await).start().await.unwrap();
    let id = submit(&engine, &judged_sync()).await;
    wait_until(&engine, id, |_, reason| reason.contains("the doctor says so")).await;
    assert_eq!(cluster.creations_of("second"), 0);
    let view = wait_for_end(&engine, id).await;
    assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
    assert!(call_count.load(Ordering::SeqCst) >= 5);
}

#[tokio::test(start_paused = true)]
async fn a_judge_can_report_degraded() {
    let (cluster, log) = (FaultyCluster::reliable(), Log::new());
    let judge = |question: HealthRequest| {
        drop(question.reply.send(Health::new(HealthStatus::Degraded, "it limps")));
    };
    let engine =
        builder(&cluster, &log).health_judge("doctor", callback_actor(judge).await).start().await.unwrap();
    let id = submit(&engine, &judged_sync()).await;
    let view = wait_for_end(&engine, id).await;
    assert_eq!((view.phase, cluster.creations_of("second")), (OperationPhase::Failed, 0), "{}", view.message);
}

/// A judge may decide about objects of a kind without a rule.
#[tokio::test(start_paused = true)]
async fn a_judge_decides_for_a_kind_without_a_health_rule() {
    for (status, phase) in
        [(HealthStatus::Degraded, OperationPhase::Failed), (HealthStatus::Healthy, OperationPhase::Succeeded)]
    {
        let (cluster, log) = (FaultyCluster::reliable(), Log::new());
        let judge = callback_actor(move |question: HealthRequest| {
            drop(question.reply.send(Health::new(status, "so it is said")));
        });
        let engine = builder(&cluster, &log).health_judge("doctor", judge.await).start().await.unwrap();
        let first = config("first", 0, &[("tidegate.dev/health-judge", "doctor")]);
        let id = submit(&engine, &SyncSpec::new(&format!("{first}{}", config("second", 1, &[])))).await;
        let view = wait_for_end(&engine, id).await;
        let went_on = usize::from(phase == OperationPhase::Succeeded);
        assert_eq!((view.phase, cluster.creations_of("second")), (phase, went_on), "{}", view.message);
    }
}

async fn assert_progressing(reason: &str, judge: Option<fn(HealthRequest)>) {
    let (cluster, log) = (FaultyCluster::reliable(), Log::new());
    let mut builder = builder(&cluster, &log);
    if let Some(judge) = judge {
        builder = builder.health_judge("doctor", callback_actor(judge).await);
    }
    let engine = builder.start().await.unwrap();
    let id = submit(&engine, &judged_sync()).await;
    wait_until(&engine, id, |_, why| why.contains(reason)).await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(cluster.creations_of("second"), 0, "{reason}");
    engine.terminate(id, "test").await.unwrap();
    assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Failed);
}

#[tokio::test(start_paused = true)]
async fn a_panicking_judge_means_progressing() {
    assert_progressing("health judge doctor", Some(|_| panic!("injected"))).await;
}

#[tokio::test(start_paused = true)]
async fn a_judge_without_an_answer_means_progressing() {
    assert_progressing("health judge doctor did not respond within 10 s", Some(std::mem::forget)).await;
}

#[tokio::test(start_paused = true)]
async fn an_unregistered_judge_means_progressing() {
    assert_progressing("no health judge named doctor is registered", None).await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_judge_blocks_nothing_else() {
    let (cluster, log) = (FaultyCluster::reliable(), Log::new());
    let judge = callback_actor(|question: HealthRequest| std::mem::forget(question)).await;
    let engine = builder(&cluster, &log).health_judge("doctor", judge).start().await.unwrap();
    let stuck = submit(&engine, &judged_sync()).await;
    wait_until(&engine, stuck, |_, reason| reason.contains("Deployment")).await;
    let other = SyncSpec::new(&format!("{}{}", server_deployment("other", 0, &[]), config("last", 1, &[])))
        .with_request(|request| request.application = "other".into());
    let began = tokio::time::Instant::now();
    let id = submit(&engine, &other).await;
    assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Succeeded);
    let took = began.elapsed();
    assert!(took < Duration::from_secs(8), "it waited for the other's judge: {took:?}");
}
