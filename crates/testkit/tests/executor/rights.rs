//! The first report of missing permissions is complete, so granting them is enough.

use std::sync::Arc;

use tidegate_cluster::ErrorKind;
use tidegate_cluster::sim::SimConfig;
use tidegate_model::OperationPhase;
use tidegate_testkit::scenario::SyncSpec;

use crate::support::{CallOutcome, FaultyCluster, Log, builder, config, hook, submit, wait_for_end};

const ALL: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];

/// Returns the missing permissions reported by an operation that has none. It must not have written to the
/// cluster.
async fn missing_rights(cluster: &Arc<FaultyCluster>, sync: &SyncSpec) -> String {
    let engine = builder(cluster, &Log::new()).start().await.unwrap();
    let before = cluster.sim.audit().len();
    let id = submit(&engine, sync).await;
    let view = wait_for_end(&engine, id).await;
    assert!(matches!(view.phase, OperationPhase::Failed | OperationPhase::Error), "{}", view.message);
    assert_eq!(cluster.sim.audit().len(), before, "there was no attempt");
    view.message
}

#[tokio::test(start_paused = true)]
async fn every_right_a_task_needs_is_reported_at_once() {
    let sees = "get, list";
    for (what, manifest, expected) in [
        ("a new object", config("a", 0, &[]), format!("create, {sees}, patch, watch ConfigMap")),
        (
            "a hook",
            hook("check", "PreSync", &[]),
            format!("create, delete, {sees}, patch, watch Job in namespace default"),
        ),
        (
            "a hook that its policy deletes only when it fails",
            hook("check", "PreSync", &[("argocd.argoproj.io/hook-delete-policy", "HookFailed")]),
            format!("create, delete, {sees}, patch, watch Job in namespace default"),
        ),
        (
            "a new object that would be replaced",
            config("a", 0, &[("argocd.argoproj.io/sync-options", "Replace=true")]),
            format!("permissions: create, {sees}, watch ConfigMap"),
        ),
        (
            "a new object that would be deleted to be replaced, were it there",
            config("a", 0, &[("argocd.argoproj.io/sync-options", "Replace=true,Force=true")]),
            format!("permissions: create, {sees}, watch ConfigMap"),
        ),
    ] {
        let warnings =
            missing_rights(&FaultyCluster::new_without_rights(ALL), &SyncSpec::new(&manifest)).await;
        assert!(warnings.contains(&expected), "{what}: {warnings}");
    }
}

#[tokio::test(start_paused = true)]
async fn existing_objects_need_other_rights() {
    for (option, expected) in [
        ("", "permissions: get, list, patch, watch ConfigMap"),
        ("Replace=true", "permissions: get, list, update, watch ConfigMap"),
        ("Replace=true,Force=true", "permissions: create, delete, get, list, watch ConfigMap"),
        ("Force=true", "permissions: create, delete, get, list, patch, watch ConfigMap"),
        ("ServerSideApply=false", "permissions: get, list, patch, watch ConfigMap"),
    ] {
        let calm = FaultyCluster::reliable();
        let engine = builder(&calm, &Log::new()).start().await.unwrap();
        let first = submit(&engine, &SyncSpec::new(&config("a", 0, &[]))).await;
        assert_eq!(wait_for_end(&engine, first).await.phase, OperationPhase::Succeeded);
        let options = [("argocd.argoproj.io/sync-options", option)];
        let manifest = config("a", 0, if option.is_empty() { &[] } else { &options });
        let poor = FaultyCluster::connect(calm.sim.clone(), |_, _| CallOutcome::Answer).without_rights(ALL);
        let warnings = missing_rights(&poor, &SyncSpec::new(&manifest)).await;
        assert!(warnings.contains(expected), "{option}: {warnings}");
    }
}

/// If a user may not read an object for the plan, the message must also contain the permissions for later
/// steps.
#[tokio::test(start_paused = true)]
async fn a_refused_read_names_the_rights_of_later_steps() {
    let cluster = FaultyCluster::new(SimConfig::default(), |verb, _| match verb {
        "live" => CallOutcome::Refuse(ErrorKind::Forbidden),
        _ => CallOutcome::Answer,
    });
    let manifests = format!("{}{}", config("a", 0, &[]), hook("check", "PreSync", &[]));
    let warnings = missing_rights(&cluster.without_rights(ALL), &SyncSpec::new(&manifests)).await;
    for text in [
        "create, get, list, patch, watch ConfigMap in namespace default",
        "create, delete, get, list, patch, watch Job in namespace default",
    ] {
        assert!(warnings.contains(text), "{text}: {warnings}");
    }
}

/// Without permission to watch, periodic reads replace the watch.
#[tokio::test(start_paused = true)]
async fn a_missing_watch_right_does_not_prevent_writes() {
    let cluster = FaultyCluster::new_without_rights(&["list", "watch"]);
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let manifests = format!("{}{}", config("a", 0, &[]), hook("check", "PreSync", &[]));
    let id = submit(&engine, &SyncSpec::new(&manifests)).await;
    let view = wait_for_end(&engine, id).await;
    assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
    assert_eq!(view.warnings, []);
}
