//! Health judges, good ones and bad ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidegate_executor::HealthQuestion;
use tidegate_model::{Health, HealthStatus, OperationPhase};
use tidegate_testkit::scenario::Sync;

use crate::support::{Log, Moody, actor, builder, config, end, server, submit, until};

fn judged() -> Sync {
    let first = server("first", 0, &[("tidegate.dev/health-judge", "doctor")]);
    Sync::of(&format!("{first}{}", config("second", 1, &[])))
}

#[tokio::test(start_paused = true)]
async fn a_judge_replaces_the_rule() {
    let (cluster, log) = (Moody::calm(), Log::new());
    let asked = Arc::new(AtomicUsize::new(0));
    let judge = actor({
        let asked = Arc::clone(&asked);
        move |question: HealthQuestion| {
            // The built-in rule is content long before the fifth look.
            let status = match asked.fetch_add(1, Ordering::SeqCst) {
                0..5 => HealthStatus::Progressing,
                _ => HealthStatus::Healthy,
            };
            let _ = question.reply.send(Health::new(status, "the doctor says so"));
        }
    });
    let engine = builder(&cluster, &log).health_judge("doctor", judge.await).start().await.unwrap();
    let id = submit(&engine, &judged()).await;
    until(&engine, id, |_, why| why.contains("the doctor says so")).await;
    assert_eq!(cluster.created("second"), 0);
    let view = end(&engine, id).await;
    assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
    assert!(asked.load(Ordering::SeqCst) >= 5);
}

#[tokio::test(start_paused = true)]
async fn a_judge_that_says_degraded_is_believed() {
    let (cluster, log) = (Moody::calm(), Log::new());
    let judge = |question: HealthQuestion| {
        drop(question.reply.send(Health::new(HealthStatus::Degraded, "it limps")));
    };
    let engine = builder(&cluster, &log).health_judge("doctor", actor(judge).await).start().await.unwrap();
    let id = submit(&engine, &judged()).await;
    let view = end(&engine, id).await;
    assert_eq!((view.phase, cluster.created("second")), (OperationPhase::Failed, 0), "{}", view.message);
}

/// The object may be of a kind without a rule.
#[tokio::test(start_paused = true)]
async fn a_judge_decides_about_a_kind_that_has_no_health() {
    for (status, phase) in
        [(HealthStatus::Degraded, OperationPhase::Failed), (HealthStatus::Healthy, OperationPhase::Succeeded)]
    {
        let (cluster, log) = (Moody::calm(), Log::new());
        let judge = actor(move |question: HealthQuestion| {
            drop(question.reply.send(Health::new(status, "so it is said")));
        });
        let engine = builder(&cluster, &log).health_judge("doctor", judge.await).start().await.unwrap();
        let first = config("first", 0, &[("tidegate.dev/health-judge", "doctor")]);
        let id = submit(&engine, &Sync::of(&format!("{first}{}", config("second", 1, &[])))).await;
        let view = end(&engine, id).await;
        let went_on = usize::from(phase == OperationPhase::Succeeded);
        assert_eq!((view.phase, cluster.created("second")), (phase, went_on), "{}", view.message);
    }
}

async fn progresses(reason: &str, judge: Option<fn(HealthQuestion)>) {
    let (cluster, log) = (Moody::calm(), Log::new());
    let mut builder = builder(&cluster, &log);
    if let Some(judge) = judge {
        builder = builder.health_judge("doctor", actor(judge).await);
    }
    let engine = builder.start().await.unwrap();
    let id = submit(&engine, &judged()).await;
    until(&engine, id, |_, why| why.contains(reason)).await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(cluster.created("second"), 0, "{reason}");
    engine.terminate(id, "test").await.unwrap();
    assert_eq!(end(&engine, id).await.phase, OperationPhase::Failed);
}

#[tokio::test(start_paused = true)]
async fn a_judge_that_panics_gives_progressing() {
    progresses("health judge doctor", Some(|_| panic!("injected"))).await;
}

#[tokio::test(start_paused = true)]
async fn a_judge_that_never_answers_gives_progressing() {
    progresses("health judge doctor did not answer within 10 s", Some(std::mem::forget)).await;
}

#[tokio::test(start_paused = true)]
async fn a_judge_that_nobody_registered_gives_progressing() {
    progresses("no health judge named doctor is registered", None).await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_judge_holds_up_nobody_else() {
    let (cluster, log) = (Moody::calm(), Log::new());
    let judge = actor(|question: HealthQuestion| std::mem::forget(question)).await;
    let engine = builder(&cluster, &log).health_judge("doctor", judge).start().await.unwrap();
    let stuck = submit(&engine, &judged()).await;
    until(&engine, stuck, |_, why| why.contains("Deployment")).await;
    let other = Sync::of(&format!("{}{}", server("other", 0, &[]), config("last", 1, &[])))
        .with(|request| request.application = "other".into());
    let began = tokio::time::Instant::now();
    let id = submit(&engine, &other).await;
    assert_eq!(end(&engine, id).await.phase, OperationPhase::Succeeded);
    let took = began.elapsed();
    assert!(took < Duration::from_secs(8), "it waited for the other's judge: {took:?}");
}
