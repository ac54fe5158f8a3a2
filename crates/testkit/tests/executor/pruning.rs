//! Slow prunes.

use std::sync::{Arc, OnceLock};

use futures_util::FutureExt as _;
use tidegate_cluster::sim::{AuditEntry, SimCluster, SimConfig, Verb};
use tidegate_cluster::{Cluster as _, DeleteRequest, ErrorKind, FinalizerRemoval};
use tidegate_lifecycle::operation::OperationView;
use tidegate_model::{Object, OperationPhase, ResultCode};
use tidegate_testkit::scenario::SyncSpec;

use crate::support::{
    CallOutcome, FaultyCluster, Log, builder, config, external_write, server_deployment, submit,
    wait_for_end, wait_until,
};

/// Another user has already deleted the object or removed its kind.
#[tokio::test(start_paused = true)]
async fn pruned_objects_may_be_gone_already() {
    for kind in [ErrorKind::NotFound, ErrorKind::UnknownKind] {
        let cluster = FaultyCluster::new(SimConfig::default(), move |verb, name| match (verb, name) {
            ("delete", "old") => CallOutcome::Refuse(kind),
            _ => CallOutcome::Answer,
        });
        let log = Log::new();
        let engine = builder(&cluster, &log).start().await.unwrap();
        let both = SyncSpec::new(&[config("a", 0, &[]), config("old", 0, &[])].concat());
        let first = submit(&engine, &both).await;
        assert_eq!(wait_for_end(&engine, first).await.phase, OperationPhase::Succeeded);
        let one = SyncSpec::new(&config("a", 0, &[])).with_request(|request| request.options.prune = true);
        let second = submit(&engine, &one).await;
        let view = wait_for_end(&engine, second).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{kind}: {}", view.message);
        let pruned = view.resources.iter().find(|result| result.name == "old").unwrap();
        assert_eq!(pruned.status, Some(ResultCode::Pruned), "{kind}: {pruned:?}");
    }
}

/// The operation must report the finalizer while it exists, and finish after its removal.
#[tokio::test(start_paused = true)]
async fn an_operation_waits_for_pruned_objects_and_names_their_finalizers() {
    let cluster = FaultyCluster::reliable();
    let log = Log::new();
    let engine = builder(&cluster, &log).start().await.unwrap();
    let stuck = config("old", 0, &[("sim.tidegate.dev/outcome", "stuck-deleting")]);
    let first = submit(&engine, &SyncSpec::new(&stuck)).await;
    assert_eq!(wait_for_end(&engine, first).await.phase, OperationPhase::Succeeded);
    let sync = SyncSpec::new(&config("new", 0, &[])).with_request(|request| request.options.prune = true);
    let second = submit(&engine, &sync).await;
    let message = "deletion requested; waits for finalizer sim.tidegate.dev/stuck-deleting";
    let seen = |view: &OperationView| {
        view.resources
            .iter()
            .find(|result| result.name == "old")
            .map(|result| (result.status, result.reason.clone()))
    };
    // The garbage collector's own finalizer is briefly present.
    let stays = Some((None, "waits for finalizer sim.tidegate.dev/stuck-deleting".to_owned()));
    wait_until(&engine, second, |view, reason| seen(view) == stays && reason.contains(message)).await;
    // The last wave applies its objects immediately.
    assert_eq!(cluster.creations_of("new"), 1);
    // A later process reports the finalizer too.
    engine.shutdown().await;
    let engine = builder(&cluster, &log.reopen()).start().await.unwrap();
    engine.resume(second).await.unwrap();
    wait_until(&engine, second, |_, reason| reason.contains(message)).await;
    let old = cluster.sim.objects().into_iter().find(|object| object.name() == "old").unwrap();
    let removal = FinalizerRemoval::for_object(&old, "sim.tidegate.dev/stuck-deleting");
    cluster.sim.remove_finalizer(removal).await.unwrap();
    let view = wait_for_end(&engine, second).await;
    assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
    assert_eq!(seen(&view), Some((Some(ResultCode::Pruned), String::new())));
}

/// A wave that isn't the last must apply its objects only after its pruned objects are completely gone.
#[tokio::test(start_paused = true)]
async fn a_wave_applies_when_its_pruned_objects_are_gone() {
    let (sim, seen) = (Arc::new(OnceLock::<SimCluster>::new()), Arc::new(OnceLock::new()));
    let cluster = FaultyCluster::new(SimConfig::default(), {
        let (sim, seen) = (Arc::clone(&sim), Arc::clone(&seen));
        move |verb, name| {
            if (verb, name) == ("apply", "new") {
                let objects = sim.get().unwrap().objects();
                let left = objects.iter().filter(|object| object.name().starts_with("old"));
                seen.set(left.map(|object| object.key().to_string()).collect::<Vec<_>>()).unwrap();
            }
            CallOutcome::Answer
        }
    });
    sim.set(cluster.sim.clone()).unwrap();
    let log = Log::new();
    let engine = builder(&cluster, &log).start().await.unwrap();
    let first = submit(&engine, &SyncSpec::new(&server_deployment("old", 0, &[]))).await;
    assert_eq!(wait_for_end(&engine, first).await.phase, OperationPhase::Succeeded);
    let next = [config("new", 0, &[]), config("later", 1, &[])].concat();
    let second =
        submit(&engine, &SyncSpec::new(&next).with_request(|request| request.options.prune = true)).await;
    assert_eq!(wait_for_end(&engine, second).await.phase, OperationPhase::Succeeded);
    assert_eq!(cluster.writes().iter().filter(|entry| entry.name == "old" && entry.code == 200).count(), 1);
    assert_eq!(seen.get(), Some(&Vec::new()), "the Deployment and what belongs to it");
}

/// Prunes the object `old`, with a concurrent action before each deletion by the engine. Returns the
/// deletions in the cluster's audit log.
async fn prune_while(
    happens: impl Fn(&SimCluster, Object) + Send + std::marker::Sync + 'static,
) -> Vec<AuditEntry> {
    let sim = Arc::new(OnceLock::<SimCluster>::new());
    let cluster = FaultyCluster::new(SimConfig::default(), {
        let sim = Arc::clone(&sim);
        move |verb, name| {
            if let (("delete", "old"), Some(sim)) = ((verb, name), sim.get()) {
                let found = sim.objects().into_iter().find(|object| object.name() == "old").unwrap();
                happens(sim, found);
            }
            CallOutcome::Answer
        }
    });
    let log = Log::new();
    let engine = builder(&cluster, &log).start().await.unwrap();
    let held = config("old", 0, &[]).replace("name: old", "name: old\n  finalizers: [example.com/hold]");
    let first = submit(&engine, &SyncSpec::new(&[config("a", 0, &[]), held].concat())).await;
    assert_eq!(wait_for_end(&engine, first).await.phase, OperationPhase::Succeeded);
    sim.set(cluster.sim.clone()).unwrap();
    let one = SyncSpec::new(&config("a", 0, &[])).with_request(|request| request.options.prune = true);
    let second = submit(&engine, &one).await;
    let find = || cluster.sim.objects().into_iter().find(|object| object.name() == "old");
    wait_until(&engine, second, |_, _| find().is_some_and(|old| old.is_deleting())).await;
    let old = find().unwrap();
    cluster.sim.remove_finalizer(FinalizerRemoval::for_object(&old, "example.com/hold")).await.unwrap();
    let view = wait_for_end(&engine, second).await;
    assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
    let pruned = view.resources.iter().find(|result| result.name == "old").unwrap();
    assert_eq!(pruned.status, Some(ResultCode::Pruned), "{pruned:?}");
    let deletions = |entry: &AuditEntry| entry.verb == Verb::Delete && entry.name == "old";
    cluster.sim.audit().into_iter().filter(deletions).collect()
}

fn set_label(sim: &SimCluster, found: &Object, value: usize) {
    let manifest = serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "old", "namespace": found.namespace(), "labels": {"written": value.to_string()}},
    });
    let written =
        sim.apply_as("somebody", external_write(Object::try_from(manifest).unwrap())).now_or_never();
    written.expect("the simulated cluster responds immediately").unwrap();
}

/// If another client deletes the object after planning, the engine must not delete it again.
#[tokio::test(start_paused = true)]
async fn a_concurrently_deleted_object_is_not_deleted_again() {
    let deletions = prune_while(|sim, found| {
        let delete = DeleteRequest::for_object(&found);
        sim.delete(delete).now_or_never().expect("the simulated cluster responds immediately").unwrap();
    });
    let deletions = deletions.await;
    let [theirs, ours] = deletions.as_slice() else { panic!("{deletions:#?}") };
    assert_eq!((theirs.operation_id, theirs.code), (None, 200));
    assert_eq!(ours.code, 409, "it is bound to the planned version of the object");
}

/// A changed object must still be pruned, even if it keeps changing.
#[tokio::test(start_paused = true)]
async fn a_concurrently_changed_object_is_pruned() {
    for writes in [1, usize::MAX] {
        let seen = std::sync::atomic::AtomicUsize::new(0);
        let deletions = prune_while(move |sim, found| {
            let count = seen.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            if count < writes {
                set_label(sim, &found, count);
            }
        });
        let deletions = deletions.await;
        let done: Vec<u16> = deletions.iter().map(|entry| entry.code).collect();
        let expected: &[u16] = if writes == 1 { &[409, 200] } else { &[409, 409, 409, 200] };
        assert_eq!(done, expected);
    }
}

/// A move to another application or a protection after planning must keep the object.
#[tokio::test(start_paused = true)]
async fn an_object_that_became_foreign_or_protected_is_not_pruned() {
    for (annotation, value, reason) in [
        (
            "argocd.argoproj.io/tracking-id",
            "other:/ConfigMap:default/old",
            "ignored (now belongs to another application or object)",
        ),
        ("argocd.argoproj.io/sync-options", "Prune=false", "ignored (no prune)"),
    ] {
        let sim = Arc::new(OnceLock::<SimCluster>::new());
        let cluster = FaultyCluster::new(SimConfig::default(), {
            let sim = Arc::clone(&sim);
            move |verb, name| {
                if let (("delete", "old"), Some(sim)) = ((verb, name), sim.get()) {
                    let manifest = serde_json::json!({
                        "apiVersion": "v1", "kind": "ConfigMap",
                        "metadata": {"name": "old", "namespace": "default", "annotations": {annotation: value}},
                    });
                    let written =
                        sim.apply_as("somebody", external_write(Object::try_from(manifest).unwrap()));
                    written.now_or_never().expect("the simulated cluster responds immediately").unwrap();
                }
                CallOutcome::Answer
            }
        });
        let log = Log::new();
        let engine = builder(&cluster, &log).start().await.unwrap();
        let first =
            submit(&engine, &SyncSpec::new(&[config("a", 0, &[]), config("old", 0, &[])].concat())).await;
        assert_eq!(wait_for_end(&engine, first).await.phase, OperationPhase::Succeeded);
        sim.set(cluster.sim.clone()).unwrap();
        let one = SyncSpec::new(&config("a", 0, &[])).with_request(|request| request.options.prune = true);
        let second = submit(&engine, &one).await;
        let view = wait_for_end(&engine, second).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
        let resource_result = view.resources.iter().find(|result| result.name == "old").unwrap();
        assert_eq!(
            (resource_result.status, resource_result.message.as_str()),
            (Some(ResultCode::PruneSkipped), reason)
        );
        let old = cluster.sim.objects().into_iter().find(|object| object.name() == "old");
        assert!(old.is_some_and(|old| !old.is_deleting()), "{annotation}");
    }
}
