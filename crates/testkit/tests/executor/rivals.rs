//! Two operations of one application with a log each, as two runners with empty state directories have: what one runs
//! is never deleted or taken over by the other.

use std::sync::Arc;

use tidegate_cluster::sim::{AuditEntry, Verb};
use tidegate_executor::Engine;
use tidegate_model::{OperationId, OperationPhase};
use tidegate_testkit::scenario::Sync;

use crate::support::{Log, Moody, builder, config, end, hook, submit, until};

/// A hook that takes some time, and a resource after it.
fn migration(version: &str, takes: &str, more: &[(&str, &str)]) -> Sync {
    let mut annotations = vec![("sim.tidegate.dev/ready-after", takes)];
    annotations.extend_from_slice(more);
    let job = hook("migrate", "Sync", &annotations).replace("busybox", &format!("migrate:{version}"));
    Sync::of(&format!("{job}{}", config("settings", 1, &[])))
}

/// Begins an operation with a log of its own, whose hook then runs.
async fn running(cluster: &Arc<Moody>, sync: &Sync) -> (Engine, OperationId) {
    let engine = builder(cluster, &Log::new()).start().await.unwrap();
    let id = submit(&engine, sync).await;
    until(&engine, id, |view, _| view.message == "waiting for completion of hook batch/Job/migrate").await;
    (engine, id)
}

fn of(cluster: &Moody, operation: OperationId) -> Vec<AuditEntry> {
    cluster.writes().into_iter().filter(|entry| entry.operation_id == Some(operation)).collect()
}

fn touches_the_hook(entries: &[AuditEntry]) -> bool {
    entries.iter().any(|entry| entry.name == "migrate")
}

#[tokio::test(start_paused = true)]
async fn the_running_hook_of_another_operation_is_awaited_and_named() {
    // What a policy keeps is written over, and cannot become another version.
    for (policy, version) in [("BeforeHookCreation", "1"), ("HookSucceeded", "2"), ("HookFailed", "2")] {
        let policy = [("argocd.argoproj.io/hook-delete-policy", policy)];
        let cluster = Moody::calm();
        let (first, one) = running(&cluster, &migration("2", "60s", &policy)).await;
        let second = builder(&cluster, &Log::new()).start().await.unwrap();
        let takes = if version == "1" { "5s" } else { "60s" };
        let two = submit(&second, &migration(version, takes, &policy)).await;
        let waits = format!("waiting for completion of hook batch/Job/migrate of operation {one}");
        let why = format!("operation {one} runs it; it is left alone until it has ended");
        until(&second, two, |view, explained| view.message == waits && explained.contains(&why)).await;
        assert!(!touches_the_hook(&of(&cluster, two)), "{policy:?}");
        assert_eq!(end(&first, one).await.phase, OperationPhase::Succeeded, "{policy:?}");
        let view = end(&second, two).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{policy:?}: {}", view.message);
    }
}

/// Nobody goes on with the first operation: its hook runs until it ends, and then makes room.
#[tokio::test(start_paused = true)]
async fn the_hook_of_a_dead_operation_blocks_until_it_ends() {
    let cluster = Moody::calm();
    let (first, one) = running(&cluster, &migration("2", "60s", &[])).await;
    first.shutdown().await;
    let began = tokio::time::Instant::now();
    let second = builder(&cluster, &Log::new()).start().await.unwrap();
    let two = submit(&second, &migration("1", "5s", &[])).await;
    assert_eq!(end(&second, two).await.phase, OperationPhase::Succeeded);
    assert!(began.elapsed().as_secs() >= 50, "it waited: {:?}", began.elapsed());
    let own: Vec<_> = of(&cluster, two).into_iter().filter(|entry| entry.name == "migrate").collect();
    let created = own.iter().filter(|entry| entry.code == 201).count();
    assert_eq!(created, 1, "{own:?}");
    assert_eq!(of(&cluster, one).iter().filter(|entry| entry.verb == Verb::Delete).count(), 0);
}

/// Neither a deadline nor the policy that cleans up after a failure ends what is another's.
#[tokio::test(start_paused = true)]
async fn deadlines_count_while_another_operation_keeps_the_place() {
    let cluster = Moody::calm();
    let policy = ("argocd.argoproj.io/hook-delete-policy", "BeforeHookCreation,HookFailed");
    let (first, one) = running(&cluster, &migration("2", "1h", &[policy])).await;
    first.shutdown().await;
    let second = builder(&cluster, &Log::new()).start().await.unwrap();
    let late = migration("1", "5s", &[policy, ("tidegate.dev/wave-timeout", "2m")]);
    let two = submit(&second, &late).await;
    let view = end(&second, two).await;
    let words = format!(
        "wave 0 of Sync did not pass within 2 min: waiting for completion of hook batch/Job/migrate of operation {one}"
    );
    assert_eq!((view.phase, view.message), (OperationPhase::Failed, words));
    assert!(!touches_the_hook(&of(&cluster, two)));
    let is_there = cluster.sim.objects().into_iter().any(|object| object.name() == "migrate");
    assert!(is_there, "the other operation's hook still runs");
}
