//! Two operations of the same application with separate logs, as on two CI runners with empty state
//! directories. Neither may delete or take over the other's running objects.

use std::sync::Arc;
use std::time::Duration;

use tidegate_cluster::Cluster;
use tidegate_cluster::sim::{AuditEntry, Verb};
use tidegate_executor::{Engine, RuntimeClock};
use tidegate_model::{Destination, OperationId, OperationPhase, annotations};
use tidegate_testkit::concurrent_change::ConcurrentChange;
use tidegate_testkit::process::START;
use tidegate_testkit::scenario::SyncSpec;
use tokio::sync::oneshot;

use crate::support::{
    FaultyCluster, Log, builder, config, external_write, hook, submit, wait_for_end, wait_until,
};

/// Returns a sync with a slow hook, followed by a resource.
fn migration(version: &str, takes: &str, more: &[(&str, &str)]) -> SyncSpec {
    let mut annotations = vec![("sim.tidegate.dev/ready-after", takes)];
    annotations.extend_from_slice(more);
    let job = hook("migrate", "Sync", &annotations).replace("busybox", &format!("migrate:{version}"));
    SyncSpec::new(&format!("{job}{}", config("settings", 1, &[])))
}

/// Starts an operation with a separate log, and waits until its hook is running.
async fn start_until_hook_runs(cluster: &Arc<FaultyCluster>, sync: &SyncSpec) -> (Engine, OperationId) {
    let engine = builder(cluster, &Log::new()).start().await.unwrap();
    let id = submit(&engine, sync).await;
    wait_until(&engine, id, |view, _| view.message == "waiting for completion of hook batch/Job/migrate")
        .await;
    (engine, id)
}

fn writes_of(cluster: &FaultyCluster, operation: OperationId) -> Vec<AuditEntry> {
    cluster.writes().into_iter().filter(|entry| entry.operation_id == Some(operation)).collect()
}

fn has_hook_write(entries: &[AuditEntry]) -> bool {
    entries.iter().any(|entry| entry.name == "migrate")
}

#[tokio::test(start_paused = true)]
async fn the_running_hook_of_another_operation_is_awaited_and_named() {
    // A hook kept by its policy is overwritten, and its version can't be changed.
    for (policy, version) in [("BeforeHookCreation", "1"), ("HookSucceeded", "2"), ("HookFailed", "2")] {
        let policy = [("argocd.argoproj.io/hook-delete-policy", policy)];
        let cluster = FaultyCluster::reliable();
        let (first, one) = start_until_hook_runs(&cluster, &migration("2", "60s", &policy)).await;
        let second = builder(&cluster, &Log::new()).start().await.unwrap();
        let takes = if version == "1" { "5s" } else { "60s" };
        let two = submit(&second, &migration(version, takes, &policy)).await;
        let waits = format!("waiting for completion of hook batch/Job/migrate of operation {one}");
        let reason = format!("operation {one} is still running the same hook");
        wait_until(&second, two, |view, explained| view.message == waits && explained.contains(&reason))
            .await;
        assert!(!has_hook_write(&writes_of(&cluster, two)), "{policy:?}");
        assert_eq!(wait_for_end(&first, one).await.phase, OperationPhase::Succeeded, "{policy:?}");
        let view = wait_for_end(&second, two).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{policy:?}: {}", view.message);
    }
}

/// The first operation isn't resumed. The second one must wait until the first one's hook has finished, and
/// then replace it.
#[tokio::test(start_paused = true)]
async fn the_hook_of_a_dead_operation_blocks_until_it_ends() {
    let cluster = FaultyCluster::reliable();
    let (first, one) = start_until_hook_runs(&cluster, &migration("2", "60s", &[])).await;
    first.shutdown().await;
    let began = tokio::time::Instant::now();
    let second = builder(&cluster, &Log::new()).start().await.unwrap();
    let two = submit(&second, &migration("1", "5s", &[])).await;
    assert_eq!(wait_for_end(&second, two).await.phase, OperationPhase::Succeeded);
    assert!(began.elapsed().as_secs() >= 50, "it waited: {:?}", began.elapsed());
    let own: Vec<_> = writes_of(&cluster, two).into_iter().filter(|entry| entry.name == "migrate").collect();
    let created = own.iter().filter(|entry| entry.code == 201).count();
    assert_eq!(created, 1, "{own:?}");
    assert_eq!(writes_of(&cluster, one).iter().filter(|entry| entry.verb == Verb::Delete).count(), 0);
}

/// Neither a deadline nor a cleanup policy may delete another operation's object.
#[tokio::test(start_paused = true)]
async fn deadlines_count_while_another_operation_runs_the_hook() {
    let cluster = FaultyCluster::reliable();
    let policy = ("argocd.argoproj.io/hook-delete-policy", "BeforeHookCreation,HookFailed");
    let (first, one) = start_until_hook_runs(&cluster, &migration("2", "1h", &[policy])).await;
    first.shutdown().await;
    let second = builder(&cluster, &Log::new()).start().await.unwrap();
    let late = migration("1", "5s", &[policy, ("tidegate.dev/wave-timeout", "2m")]);
    let two = submit(&second, &late).await;
    let view = wait_for_end(&second, two).await;
    let text = format!(
        "wave 0 of Sync did not complete within 2 min: waiting for completion of hook batch/Job/migrate of operation {one}"
    );
    assert_eq!((view.phase, view.message), (OperationPhase::Failed, text));
    assert!(!has_hook_write(&writes_of(&cluster, two)));
    let is_there = cluster.sim.objects().into_iter().any(|object| object.name() == "migrate");
    assert!(is_there, "the other operation's hook still runs");
}

/// Returns an engine with its own log that runs an action before its first write of the hook.
async fn engine_with_action(
    cluster: &Arc<FaultyCluster>,
    event: impl Future<Output = ()> + Send + 'static,
) -> Engine {
    let cluster = ConcurrentChange::before_write(Arc::clone(cluster) as Arc<dyn Cluster>, "migrate", event);
    let builder = Engine::builder(Arc::new(Log::new())).cluster(Destination::Simulated, cluster);
    builder.clock(Arc::new(RuntimeClock::starting_at(START))).start().await.unwrap()
}

/// Another operation creates its hook between this operation's read and creation. No claim prevents this.
#[tokio::test(start_paused = true)]
async fn a_hook_created_at_the_last_moment_is_left_alone() {
    for (policy, option) in [
        ("BeforeHookCreation", ""),
        ("BeforeHookCreation", "ServerSideApply=false"),
        ("BeforeHookCreation", "Replace=true"),
        // A hook kept by its policy is overwritten, but not while it is running.
        ("HookFailed", ""),
        ("HookFailed", "ServerSideApply=false"),
        ("HookFailed", "Replace=true"),
        ("HookFailed", "Force=true"),
        // The first operation deletes the hook just before the second one would overwrite it.
        ("HookSucceeded", ""),
    ] {
        let case = format!("{policy} {option}");
        let policy = [("argocd.argoproj.io/hook-delete-policy", policy)];
        let more: Vec<_> = policy.into_iter().chain([("argocd.argoproj.io/sync-options", option)]).collect();
        let cluster = FaultyCluster::reliable();
        let (begin, started) = oneshot::channel();
        let rival = {
            let (cluster, first) = (Arc::clone(&cluster), migration("2", "60s", &more));
            async move { begin.send(start_until_hook_runs(&cluster, &first).await).ok().unwrap() }
        };
        let second = engine_with_action(&cluster, rival).await;
        let version = if policy[0].1 == "BeforeHookCreation" { "1" } else { "2" };
        let two = submit(&second, &migration(version, "60s", &more)).await;
        let (first, one) = started.await.unwrap();
        let waits = format!("waiting for completion of hook batch/Job/migrate of operation {one}");
        wait_until(&second, two, |view, reason| {
            view.message == waits && reason.contains("is still running the same hook")
        })
        .await;
        // Wait almost until the hook has finished.
        tokio::time::sleep(Duration::from_secs(55)).await;
        assert!(!has_hook_write(&writes_of(&cluster, two)), "{case}");
        let view = wait_for_end(&first, one).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{case}: {}", view.message);
        let view = wait_for_end(&second, two).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{case}: {}", view.message);
    }
}

/// The existing object may not even belong to an operation.
#[tokio::test(start_paused = true)]
async fn an_object_created_at_the_last_moment_is_not_overwritten() {
    for (policy, text) in [
        (
            "BeforeHookCreation",
            "has the name of a hook of application shop but does not belong to an application",
        ),
        ("HookSucceeded", "has the name of a hook of application shop but does not belong to an application"),
    ] {
        let policy = [("argocd.argoproj.io/hook-delete-policy", policy)];
        let cluster = FaultyCluster::reliable();
        let foreign = {
            let sim = cluster.sim.clone();
            let mut object =
                SyncSpec::new(&hook("migrate", "PreSync", &[])).targets().targets.remove(0).object;
            object.remove_annotation(annotations::HOOK);
            object.set_namespace("default");
            async move { drop(sim.apply_as("somebody", external_write(object)).await.unwrap()) }
        };
        let engine = engine_with_action(&cluster, foreign).await;
        let id = submit(&engine, &migration("1", "5s", &policy)).await;
        let view = wait_for_end(&engine, id).await;
        assert_eq!(view.phase, OperationPhase::Failed, "{policy:?}");
        assert!(view.resources.iter().any(|result| result.message.contains(text)), "{:#?}", view.resources);
        assert!(!has_hook_write(&writes_of(&cluster, id)), "{policy:?}");
    }
}

/// Another application adopts an object after planning. With the option, it keeps the object.
#[tokio::test(start_paused = true)]
async fn an_object_adopted_after_the_plan_is_not_overwritten() {
    for (options, expected) in [
        (vec!["FailOnSharedResource=true".to_owned()], OperationPhase::Failed),
        (vec![], OperationPhase::Succeeded),
    ] {
        let cluster = FaultyCluster::reliable();
        let option = options.join(",");
        let sync = migration("1", "60s", &[]).with_request(|request| request.options.flags = options);
        let (first, one) = start_until_hook_runs(&cluster, &sync).await;
        let other = SyncSpec::new(&config("settings", 0, &[]))
            .with_request(|request| request.application = "other".into());
        let second = builder(&cluster, &Log::new()).start().await.unwrap();
        let two = submit(&second, &other).await;
        assert_eq!(wait_for_end(&second, two).await.phase, OperationPhase::Succeeded);
        let view = wait_for_end(&first, one).await;
        assert_eq!(view.phase, expected, "{option}: {}", view.message);
        let settings = |entry: &&AuditEntry| entry.name == "settings" && entry.code < 300;
        let written: Vec<_> = writes_of(&cluster, one).into_iter().filter(|entry| settings(&entry)).collect();
        assert_eq!(written.is_empty(), expected == OperationPhase::Failed, "{option}: {written:?}");
        let is_reported = view.resources.iter().any(|one| {
            one.message
                == format!(
                    "Shared resource found: ConfigMap/settings is part of applications {} and other",
                    sync.request.application
                )
        });
        assert_eq!(is_reported, expected == OperationPhase::Failed, "{:?}", view.resources);
    }
}
