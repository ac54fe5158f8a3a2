//! Applications that are deleted.

use std::time::Duration;

use serde_json::json;
use tidegate_cluster::sim::Verb;
use tidegate_cluster::{ApplyRequest, Cluster as _, WriteMode};
use tidegate_model::{Cascade, Object, OperationPhase, annotations};
use tidegate_testkit::scenario::Sync;

use crate::support::{Log, Moody, builder, config, end, submit, until};

fn deletion(manifests: &str) -> Sync {
    Sync::of(manifests).with(|request| {
        request.options.prune = true;
        request.deletion = Some(Cascade::Foreground);
    })
}

fn deleted(cluster: &Moody) -> Vec<String> {
    let audit = cluster.sim.audit();
    let done = audit.into_iter().filter(|entry| entry.verb == Verb::Delete && !entry.dry_run);
    done.map(|entry| entry.name).collect()
}

/// A process was killed while a hook ran, and nobody went on with its operation: the hook goes with its application, and the
/// finalizer that kept it visible does not keep it for ever.
#[tokio::test(start_paused = true)]
async fn what_an_interrupted_sync_left_goes_too() {
    let cluster = Moody::calm();
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let manifests = config("a", 0, &[]);
    let first = submit(&engine, &Sync::of(&manifests)).await;
    end(&engine, first).await;
    let left = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": "left", "namespace": "default", "finalizers": [annotations::HOOK_FINALIZER],
            "annotations": {
                annotations::HOOK: "PreSync",
                annotations::TRACKING_ID: "shop:/ConfigMap:default/left",
                annotations::OPERATION_ID: "0190aaaa-0000-7000-8000-000000000000",
            },
        },
    });
    let left = Object::try_from(left).unwrap();
    cluster.sim.apply(ApplyRequest::new(left, WriteMode::Apply { force: true })).await.unwrap();
    // It was there, and the log does not know it: it is found where the application deploys.
    let id = submit(&engine, &deletion(&manifests)).await;
    let view = end(&engine, id).await;
    assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
    let objects = cluster.sim.objects();
    assert!(objects.iter().all(|object| object.kind() != "ConfigMap"), "{objects:?}");
}

/// Where a sync has searched the cluster, nobody does it again; and no inventory has hooks.
#[tokio::test(start_paused = true)]
async fn a_hook_that_its_policy_has_kept_goes_too() {
    let cluster = Moody::calm();
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let hook = config("hook", 1, &[(annotations::HOOK, "Sync")]);
    let manifests = [config("a", 0, &[]), hook].concat();
    let first = submit(&engine, &Sync::of(&manifests).with(|request| request.options.prune = true)).await;
    assert_eq!(end(&engine, first).await.phase, OperationPhase::Succeeded);
    let there = |name: &str| cluster.sim.objects().iter().any(|object| object.name() == name);
    assert!(there("a") && there("hook"));
    let id = submit(&engine, &deletion(&manifests)).await;
    assert_eq!(end(&engine, id).await.phase, OperationPhase::Succeeded);
    assert_eq!(deleted(&cluster), ["hook", "a"]);
    assert!(!there("a") && !there("hook"));
}

#[tokio::test(start_paused = true)]
async fn nothing_goes_before_all_is_confirmed() {
    let cluster = Moody::calm();
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let asks = [("argocd.argoproj.io/sync-options", "Delete=confirm")];
    // The one that asks would go last.
    let manifests = [config("a", 0, &asks), config("b", 1, &[]), config("c", 2, &[])].concat();
    let first = submit(&engine, &Sync::of(&manifests)).await;
    end(&engine, first).await;
    let id = submit(&engine, &deletion(&manifests)).await;
    until(&engine, id, |view, _| view.message == "waiting for pruning confirmation of /ConfigMap/a").await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(deleted(&cluster), Vec::<String>::new());
    engine.confirm_prune(id, "ann").await.unwrap();
    assert_eq!(end(&engine, id).await.phase, OperationPhase::Succeeded);
    assert_eq!(deleted(&cluster), ["c", "b", "a"]);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_does_not_go_from_under_a_hook_that_comes_after_it() {
    let hook = |name: &str, phase: &str| {
        let inside = format!("name: {name}\n  namespace: store");
        config(name, 0, &[("argocd.argoproj.io/hook", phase)]).replace(&format!("name: {name}"), &inside)
    };
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: store}\n---\n";
    for (phase, outcome) in [("PreDelete", OperationPhase::Succeeded), ("PostDelete", OperationPhase::Failed)]
    {
        let cluster = Moody::calm();
        let engine = builder(&cluster, &Log::new()).start().await.unwrap();
        let manifests = [namespace.to_owned(), config("a", 0, &[]), hook("farewell", phase)].concat();
        let first = submit(&engine, &Sync::of(&manifests)).await;
        assert_eq!(end(&engine, first).await.phase, OperationPhase::Succeeded);
        let id = submit(&engine, &deletion(&manifests)).await;
        let view = end(&engine, id).await;
        assert_eq!(view.phase, outcome, "{phase}: {}", view.message);
        if outcome == OperationPhase::Failed {
            assert!(view.message.contains("keep it with the sync option Delete=false"), "{}", view.message);
            assert_eq!(deleted(&cluster), Vec::<String>::new());
        }
    }
}
