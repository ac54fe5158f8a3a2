//! The first report of missing rights names all of them, so that who grants what it names is done.

use std::sync::Arc;

use tidegate_cluster::ErrorKind;
use tidegate_cluster::sim::SimConfig;
use tidegate_model::OperationPhase;
use tidegate_testkit::scenario::Sync;

use crate::support::{Fate, Log, Moody, builder, config, end, hook, submit};

const ALL: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];

/// What an operation says that it lacks where nothing is allowed; it has written nothing.
async fn lacking(cluster: &Arc<Moody>, sync: &Sync) -> String {
    let engine = builder(cluster, &Log::new()).start().await.unwrap();
    let before = cluster.sim.audit().len();
    let id = submit(&engine, sync).await;
    let view = end(&engine, id).await;
    assert!(matches!(view.phase, OperationPhase::Failed | OperationPhase::Error), "{}", view.message);
    assert_eq!(cluster.sim.audit().len(), before, "nothing was tried");
    view.message
}

#[tokio::test(start_paused = true)]
async fn every_right_a_task_needs_is_named_at_once() {
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
            format!("missing: create, {sees}, watch ConfigMap"),
        ),
        (
            "a new object that would be deleted to be replaced, were it there",
            config("a", 0, &[("argocd.argoproj.io/sync-options", "Replace=true,Force=true")]),
            format!("missing: create, {sees}, watch ConfigMap"),
        ),
    ] {
        let told = lacking(&Moody::lacking(ALL), &Sync::of(&manifest)).await;
        assert!(told.contains(&expected), "{what}: {told}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_there_needs_other_rights() {
    for (option, expected) in [
        ("", "missing: get, list, patch, watch ConfigMap"),
        ("Replace=true", "missing: get, list, update, watch ConfigMap"),
        ("Replace=true,Force=true", "missing: create, delete, get, list, watch ConfigMap"),
        ("Force=true", "missing: create, delete, get, list, patch, watch ConfigMap"),
        ("ServerSideApply=false", "missing: get, list, patch, watch ConfigMap"),
    ] {
        let calm = Moody::calm();
        let engine = builder(&calm, &Log::new()).start().await.unwrap();
        let first = submit(&engine, &Sync::of(&config("a", 0, &[]))).await;
        assert_eq!(end(&engine, first).await.phase, OperationPhase::Succeeded);
        let options = [("argocd.argoproj.io/sync-options", option)];
        let manifest = config("a", 0, if option.is_empty() { &[] } else { &options });
        let poor = Moody::on(calm.sim.clone(), |_, _| Fate::Answer).but_lacking(ALL);
        let told = lacking(&poor, &Sync::of(&manifest)).await;
        assert!(told.contains(expected), "{option}: {told}");
    }
}

/// Who may not even read for the plan learns of what comes after that as well.
#[tokio::test(start_paused = true)]
async fn a_refused_look_names_the_rights_of_what_would_come_after_it() {
    let cluster = Moody::new(SimConfig::default(), |verb, _| match verb {
        "live" => Fate::Refuse(ErrorKind::Forbidden),
        _ => Fate::Answer,
    });
    let manifests = format!("{}{}", config("a", 0, &[]), hook("check", "PreSync", &[]));
    let told = lacking(&cluster.but_lacking(ALL), &Sync::of(&manifests)).await;
    for words in [
        "create, get, list, patch, watch ConfigMap in namespace default",
        "create, delete, get, list, patch, watch Job in namespace default",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
}

/// What is awaited can be looked at instead.
#[tokio::test(start_paused = true)]
async fn nobody_is_kept_from_writing_for_want_of_a_watch() {
    let cluster = Moody::lacking(&["list", "watch"]);
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let manifests = format!("{}{}", config("a", 0, &[]), hook("check", "PreSync", &[]));
    let id = submit(&engine, &Sync::of(&manifests)).await;
    let view = end(&engine, id).await;
    assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
    assert_eq!(view.warnings, []);
}
