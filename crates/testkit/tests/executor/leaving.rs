//! Objects of the manifests that somebody else deletes.

use std::sync::Arc;
use std::time::Duration;

use tidegate_cluster::{Cluster as _, DeleteRequest};
use tidegate_executor::Engine;
use tidegate_model::{Object, OperationPhase};
use tidegate_testkit::scenario::Sync;

use crate::support::{Log, Moody, builder, config, end, submit, until};

const HOLD: &str = "example.com/hold";

fn found(cluster: &Moody) -> Object {
    cluster.sim.objects().into_iter().find(|object| object.name() == "a").unwrap()
}

/// With `options` on the object. It is in the cluster, somebody deletes it, and a finalizer keeps it.
async fn on_its_way_out(options: &str) -> (Arc<Moody>, Engine, Sync) {
    let cluster = Moody::calm();
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let options = [("argocd.argoproj.io/sync-options", options)];
    let manifest = config("a", 0, if options[0].1.is_empty() { &[] } else { &options });
    let held = manifest.replace("name: a", &format!("name: a\n  finalizers: [{HOLD}]"));
    let first = submit(&engine, &Sync::of(&held)).await;
    assert_eq!(end(&engine, first).await.phase, OperationPhase::Succeeded);
    let found = found(&cluster);
    let delete = DeleteRequest::of(&found);
    cluster.sim.delete(delete).await.unwrap();
    // The server takes no new finalizer for an object that is being deleted, and ours keeps the one it has.
    (cluster, engine, Sync::of(&held))
}

#[tokio::test(start_paused = true)]
async fn what_somebody_deletes_is_made_anew_when_it_is_gone() {
    for (options, flag) in [
        ("", None),
        ("ServerSideApply=false", None),
        ("Replace=true", None),
        ("", Some("ApplyOutOfSyncOnly=true")),
    ] {
        let (cluster, engine, sync) = on_its_way_out(options).await;
        let sync = sync.with(|request| request.options.flags.extend(flag.map(str::to_owned)));
        let before = found(&cluster);
        let id = submit(&engine, &sync).await;
        until(&engine, id, |_, why| {
            why.contains("default/a") && why.contains(&format!("waits for finalizer {HOLD}"))
        })
        .await;
        let (view, _) = engine.inspect(id).await.unwrap();
        assert_eq!(view.message, "waiting for deletion of /ConfigMap/a", "{options} {flag:?}");
        // However long that takes.
        tokio::time::sleep(Duration::from_secs(600)).await;
        let released =
            cluster.sim.remove_finalizer(&before.key(), &before.gvk(), before.uid(), HOLD, None).await;
        released.unwrap();
        let view = end(&engine, id).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{options} {flag:?}: {}", view.message);
        let after = found(&cluster);
        assert!(!after.is_deleting() && after.uid() != before.uid(), "{options} {flag:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_never_goes_is_no_success() {
    let (cluster, engine, sync) = on_its_way_out("").await;
    let late = sync.with(|request| request.deadline = Some(Duration::from_secs(300)));
    let id = submit(&engine, &late).await;
    let view = end(&engine, id).await;
    assert_eq!(view.phase, OperationPhase::Failed, "{}", view.message);
    assert!(view.message.contains("waiting for deletion of"), "{}", view.message);
    let told = view.resources.iter().find(|result| result.name == "a").unwrap();
    assert!(told.message.contains(&format!("waits for finalizer {HOLD}")), "{}", told.message);
    assert!(found(&cluster).is_deleting());
}
