//! Two operations of one application with a log each, as two runners with empty state directories have: what one runs
//! is never deleted or taken over by the other.

use std::sync::Arc;
use std::time::Duration;

use tidegate_cluster::Cluster;
use tidegate_cluster::sim::{AuditEntry, Verb};
use tidegate_executor::{Engine, RuntimeClock};
use tidegate_model::{Destination, OperationId, OperationPhase, annotations};
use tidegate_testkit::meanwhile::Meanwhile;
use tidegate_testkit::process::START;
use tidegate_testkit::scenario::Sync;
use tokio::sync::oneshot;

use crate::support::{Log, Moody, builder, config, end, hook, submit, until, write};

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

/// An engine with a log of its own, before whose first write to the hook something happens.
async fn engine_with(cluster: &Arc<Moody>, event: impl Future<Output = ()> + Send + 'static) -> Engine {
    let cluster = Meanwhile::before(Arc::clone(cluster) as Arc<dyn Cluster>, "migrate", event);
    let builder = Engine::builder(Arc::new(Log::new())).cluster(Destination::Simulated, cluster);
    builder.clock(Arc::new(RuntimeClock::starting_at(START))).start().await.unwrap()
}

/// The hook of another operation comes between our look at its place and our creation, and no claim keeps it away.
#[tokio::test(start_paused = true)]
async fn a_hook_that_comes_at_the_last_moment_is_left_alone() {
    for (policy, option) in [
        ("BeforeHookCreation", ""),
        ("BeforeHookCreation", "ServerSideApply=false"),
        ("BeforeHookCreation", "Replace=true"),
        // What a policy keeps is written over, but not while it runs.
        ("HookFailed", ""),
        ("HookFailed", "ServerSideApply=false"),
        ("HookFailed", "Replace=true"),
        ("HookFailed", "Force=true"),
        // The first operation deletes it in the end, just when the second would write over it.
        ("HookSucceeded", ""),
    ] {
        let case = format!("{policy} {option}");
        let policy = [("argocd.argoproj.io/hook-delete-policy", policy)];
        let more: Vec<_> = policy.into_iter().chain([("argocd.argoproj.io/sync-options", option)]).collect();
        let cluster = Moody::calm();
        let (begin, begun) = oneshot::channel();
        let rival = {
            let (cluster, first) = (Arc::clone(&cluster), migration("2", "60s", &more));
            async move { begin.send(running(&cluster, &first).await).ok().unwrap() }
        };
        let second = engine_with(&cluster, rival).await;
        let version = if policy[0].1 == "BeforeHookCreation" { "1" } else { "2" };
        let two = submit(&second, &migration(version, "60s", &more)).await;
        let (first, one) = begun.await.unwrap();
        let waits = format!("waiting for completion of hook batch/Job/migrate of operation {one}");
        until(&second, two, |view, why| view.message == waits && why.contains("left alone")).await;
        // Nearly as long as it runs.
        tokio::time::sleep(Duration::from_secs(55)).await;
        assert!(!touches_the_hook(&of(&cluster, two)), "{case}");
        let view = end(&first, one).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{case}: {}", view.message);
        let view = end(&second, two).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{case}: {}", view.message);
    }
}

/// What stands in the place of a hook by then may be nobody's at all.
#[tokio::test(start_paused = true)]
async fn an_object_that_comes_at_the_last_moment_is_not_written_over() {
    for (policy, words) in [
        ("BeforeHookCreation", "belongs to no application and has the name of a hook of shop"),
        ("HookSucceeded", "belongs to no application and has the name of a hook of shop"),
    ] {
        let policy = [("argocd.argoproj.io/hook-delete-policy", policy)];
        let cluster = Moody::calm();
        let foreign = {
            let sim = cluster.sim.clone();
            let mut object = Sync::of(&hook("migrate", "PreSync", &[])).targets().targets.remove(0).object;
            object.remove_annotation(annotations::HOOK);
            object.set_namespace("default");
            async move { drop(sim.apply_as("somebody", write(object)).await.unwrap()) }
        };
        let engine = engine_with(&cluster, foreign).await;
        let id = submit(&engine, &migration("1", "5s", &policy)).await;
        let view = end(&engine, id).await;
        assert_eq!(view.phase, OperationPhase::Failed, "{policy:?}");
        assert!(view.resources.iter().any(|result| result.message.contains(words)), "{:#?}", view.resources);
        assert!(!touches_the_hook(&of(&cluster, id)), "{policy:?}");
    }
}

/// Another application takes an object after the plan was made. With the option it keeps it.
#[tokio::test(start_paused = true)]
async fn what_has_become_another_applications_since_the_plan_is_not_written_over() {
    for (options, expected) in [
        (vec!["FailOnSharedResource=true".to_owned()], OperationPhase::Failed),
        (vec![], OperationPhase::Succeeded),
    ] {
        let cluster = Moody::calm();
        let option = options.join(",");
        let sync = migration("1", "60s", &[]).with(|request| request.options.flags = options);
        let (first, one) = running(&cluster, &sync).await;
        let other =
            Sync::of(&config("settings", 0, &[])).with(|request| request.application = "other".into());
        let second = builder(&cluster, &Log::new()).start().await.unwrap();
        let two = submit(&second, &other).await;
        assert_eq!(end(&second, two).await.phase, OperationPhase::Succeeded);
        let view = end(&first, one).await;
        assert_eq!(view.phase, expected, "{option}: {}", view.message);
        let settings = |entry: &&AuditEntry| entry.name == "settings" && entry.code < 300;
        let written: Vec<_> = of(&cluster, one).into_iter().filter(|entry| settings(&entry)).collect();
        assert_eq!(written.is_empty(), expected == OperationPhase::Failed, "{option}: {written:?}");
        let told = view.resources.iter().any(|one| {
            one.message
                == format!(
                    "Shared resource found: ConfigMap/settings is part of applications {} and other",
                    sync.request.application
                )
        });
        assert_eq!(told, expected == OperationPhase::Failed, "{:?}", view.resources);
    }
}
