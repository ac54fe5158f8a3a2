//! Objects in the manifests deleted by other clients.

use std::sync::Arc;
use std::time::Duration;

use tidegate_cluster::{Cluster as _, DeleteRequest, FinalizerRemoval};
use tidegate_executor::Engine;
use tidegate_model::{Object, OperationPhase};
use tidegate_testkit::scenario::SyncSpec;

use crate::support::{FaultyCluster, Log, builder, config, submit, wait_for_end, wait_until};

const HOLD: &str = "example.com/hold";

fn current_object(cluster: &FaultyCluster) -> Object {
    cluster.sim.objects().into_iter().find(|object| object.name() == "a").unwrap()
}

/// Creates an object with `options` that is being deleted but kept by a finalizer.
async fn with_object_being_deleted(options: &str) -> (Arc<FaultyCluster>, Engine, SyncSpec) {
    let cluster = FaultyCluster::reliable();
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let options = [("argocd.argoproj.io/sync-options", options)];
    let manifest = config("a", 0, if options[0].1.is_empty() { &[] } else { &options });
    let held = manifest.replace("name: a", &format!("name: a\n  finalizers: [{HOLD}]"));
    let first = submit(&engine, &SyncSpec::new(&held)).await;
    assert_eq!(wait_for_end(&engine, first).await.phase, OperationPhase::Succeeded);
    let found = current_object(&cluster);
    let delete = DeleteRequest::for_object(&found);
    cluster.sim.delete(delete).await.unwrap();
    // The finalizer is in the manifest, because a server doesn't accept new finalizers for an object that is
    // being deleted.
    (cluster, engine, SyncSpec::new(&held))
}

#[tokio::test(start_paused = true)]
async fn an_externally_deleted_object_is_recreated_once_it_is_gone() {
    for (options, flag) in [
        ("", None),
        ("ServerSideApply=false", None),
        ("Replace=true", None),
        ("", Some("ApplyOutOfSyncOnly=true")),
    ] {
        let (cluster, engine, sync) = with_object_being_deleted(options).await;
        let sync = sync.with_request(|request| request.options.flags.extend(flag.map(str::to_owned)));
        let before = current_object(&cluster);
        let id = submit(&engine, &sync).await;
        wait_until(&engine, id, |_, reason| {
            reason.contains("default/a") && reason.contains(&format!("waits for finalizer {HOLD}"))
        })
        .await;
        let (view, _) = engine.inspect(id).await.unwrap();
        assert_eq!(view.message, "waiting for deletion of /ConfigMap/a", "{options} {flag:?}");
        // The operation keeps waiting, however long it takes.
        tokio::time::sleep(Duration::from_secs(600)).await;
        cluster.sim.remove_finalizer(FinalizerRemoval::for_object(&before, HOLD)).await.unwrap();
        let view = wait_for_end(&engine, id).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{options} {flag:?}: {}", view.message);
        let after = current_object(&cluster);
        assert!(!after.is_deleting() && after.uid() != before.uid(), "{options} {flag:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_never_disappears_prevents_success() {
    let (cluster, engine, sync) = with_object_being_deleted("").await;
    let late = sync.with_request(|request| request.deadline = Some(Duration::from_secs(300)));
    let id = submit(&engine, &late).await;
    let view = wait_for_end(&engine, id).await;
    assert_eq!(view.phase, OperationPhase::Failed, "{}", view.message);
    assert!(view.message.contains("waiting for deletion of"), "{}", view.message);
    let resource_result = view.resources.iter().find(|result| result.name == "a").unwrap();
    assert!(
        resource_result.message.contains(&format!("waits for finalizer {HOLD}")),
        "{}",
        resource_result.message
    );
    assert!(current_object(&cluster).is_deleting());
}
