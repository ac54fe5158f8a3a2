//! Prunes that meet something else than an object that goes at once.

use std::sync::{Arc, OnceLock};

use futures_util::FutureExt as _;
use tidegate_cluster::sim::{AuditEntry, SimCluster, SimConfig, Verb};
use tidegate_cluster::{Cluster as _, DeleteRequest, ErrorKind};
use tidegate_lifecycle::operation::OperationView;
use tidegate_model::{Object, OperationPhase, ResultCode};
use tidegate_testkit::scenario::Sync;

use crate::support::{Fate, Log, Moody, builder, config, end, server, submit, until, write};

/// Somebody else was faster, or took the kind away.
#[tokio::test(start_paused = true)]
async fn what_is_to_be_pruned_may_be_gone_already() {
    for kind in [ErrorKind::NotFound, ErrorKind::UnknownKind] {
        let cluster = Moody::new(SimConfig::default(), move |verb, name| match (verb, name) {
            ("delete", "old") => Fate::Refuse(kind),
            _ => Fate::Answer,
        });
        let log = Log::new();
        let engine = builder(&cluster, &log).start().await.unwrap();
        let both = Sync::of(&[config("a", 0, &[]), config("old", 0, &[])].concat());
        let first = submit(&engine, &both).await;
        assert_eq!(end(&engine, first).await.phase, OperationPhase::Succeeded);
        let one = Sync::of(&config("a", 0, &[])).with(|request| request.options.prune = true);
        let second = submit(&engine, &one).await;
        let view = end(&engine, second).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{kind}: {}", view.message);
        let pruned = view.resources.iter().find(|result| result.name == "old").unwrap();
        assert_eq!(pruned.status, Some(ResultCode::Pruned), "{kind}: {pruned:?}");
    }
}

/// It says so for as long as it takes, and ends when the finalizer is off.
#[tokio::test(start_paused = true)]
async fn an_operation_ends_when_what_it_prunes_is_gone_and_names_what_keeps_it() {
    let cluster = Moody::calm();
    let log = Log::new();
    let engine = builder(&cluster, &log).start().await.unwrap();
    let stuck = config("old", 0, &[("sim.tidegate.dev/outcome", "stuck-deleting")]);
    let first = submit(&engine, &Sync::of(&stuck)).await;
    assert_eq!(end(&engine, first).await.phase, OperationPhase::Succeeded);
    let sync = Sync::of(&config("new", 0, &[])).with(|request| request.options.prune = true);
    let second = submit(&engine, &sync).await;
    let kept = "deletion requested; waits for finalizer sim.tidegate.dev/stuck-deleting";
    let seen = |view: &OperationView| {
        view.resources
            .iter()
            .find(|result| result.name == "old")
            .map(|result| (result.status, result.reason.clone()))
    };
    // The garbage collector has its own finalizer on it for a moment.
    let stays = Some((None, "waits for finalizer sim.tidegate.dev/stuck-deleting".to_owned()));
    until(&engine, second, |view, why| seen(view) == stays && why.contains(kept)).await;
    // The last wave applies what it has to at once.
    assert_eq!(cluster.created("new"), 1);
    // A process that comes after this one knows it too.
    engine.shutdown().await;
    let engine = builder(&cluster, &log.reopen()).start().await.unwrap();
    engine.resume(second).await.unwrap();
    until(&engine, second, |_, why| why.contains(kept)).await;
    let old = cluster.sim.objects().into_iter().find(|object| object.name() == "old").unwrap();
    cluster
        .sim
        .remove_finalizer(&old.key(), &old.gvk(), old.uid(), "sim.tidegate.dev/stuck-deleting", None)
        .await
        .unwrap();
    let view = end(&engine, second).await;
    assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
    assert_eq!(seen(&view), Some((Some(ResultCode::Pruned), String::new())));
}

/// A wave that others follow applies when what it prunes is gone, and not while that still ends.
#[tokio::test(start_paused = true)]
async fn a_wave_applies_when_what_it_prunes_is_gone() {
    let (sim, seen) = (Arc::new(OnceLock::<SimCluster>::new()), Arc::new(OnceLock::new()));
    let cluster = Moody::new(SimConfig::default(), {
        let (sim, seen) = (Arc::clone(&sim), Arc::clone(&seen));
        move |verb, name| {
            if (verb, name) == ("apply", "new") {
                let objects = sim.get().unwrap().objects();
                let left = objects.iter().filter(|object| object.name().starts_with("old"));
                seen.set(left.map(|object| object.key().to_string()).collect::<Vec<_>>()).unwrap();
            }
            Fate::Answer
        }
    });
    sim.set(cluster.sim.clone()).unwrap();
    let log = Log::new();
    let engine = builder(&cluster, &log).start().await.unwrap();
    let first = submit(&engine, &Sync::of(&server("old", 0, &[]))).await;
    assert_eq!(end(&engine, first).await.phase, OperationPhase::Succeeded);
    let next = [config("new", 0, &[]), config("later", 1, &[])].concat();
    let second = submit(&engine, &Sync::of(&next).with(|request| request.options.prune = true)).await;
    assert_eq!(end(&engine, second).await.phase, OperationPhase::Succeeded);
    assert_eq!(cluster.writes().iter().filter(|entry| entry.name == "old" && entry.code == 200).count(), 1);
    assert_eq!(seen.get(), Some(&Vec::new()), "the Deployment and what belongs to it");
}

/// What happens to the object `old` whenever somebody is about to delete it for the engine, and what is then in the
/// cluster's audit of deletions.
async fn prune_while(
    happens: impl Fn(&SimCluster, Object) + Send + std::marker::Sync + 'static,
) -> Vec<AuditEntry> {
    let sim = Arc::new(OnceLock::<SimCluster>::new());
    let cluster = Moody::new(SimConfig::default(), {
        let sim = Arc::clone(&sim);
        move |verb, name| {
            if let (("delete", "old"), Some(sim)) = ((verb, name), sim.get()) {
                let found = sim.objects().into_iter().find(|object| object.name() == "old").unwrap();
                happens(sim, found);
            }
            Fate::Answer
        }
    });
    let log = Log::new();
    let engine = builder(&cluster, &log).start().await.unwrap();
    let held = config("old", 0, &[]).replace("name: old", "name: old\n  finalizers: [example.com/hold]");
    let first = submit(&engine, &Sync::of(&[config("a", 0, &[]), held].concat())).await;
    assert_eq!(end(&engine, first).await.phase, OperationPhase::Succeeded);
    sim.set(cluster.sim.clone()).unwrap();
    let one = Sync::of(&config("a", 0, &[])).with(|request| request.options.prune = true);
    let second = submit(&engine, &one).await;
    let find = || cluster.sim.objects().into_iter().find(|object| object.name() == "old");
    until(&engine, second, |_, _| find().is_some_and(|old| old.is_deleting())).await;
    let old = find().unwrap();
    let released =
        cluster.sim.remove_finalizer(&old.key(), &old.gvk(), old.uid(), "example.com/hold", None).await;
    released.unwrap();
    let view = end(&engine, second).await;
    assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
    let pruned = view.resources.iter().find(|result| result.name == "old").unwrap();
    assert_eq!(pruned.status, Some(ResultCode::Pruned), "{pruned:?}");
    let deletions = |entry: &AuditEntry| entry.verb == Verb::Delete && entry.name == "old";
    cluster.sim.audit().into_iter().filter(deletions).collect()
}

fn label(sim: &SimCluster, found: &Object, value: usize) {
    let manifest = serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "old", "namespace": found.namespace(), "labels": {"written": value.to_string()}},
    });
    let written = sim.apply_as("somebody", write(Object::try_from(manifest).unwrap())).now_or_never();
    written.expect("the simulated cluster answers at once").unwrap();
}

/// Whoever was faster after the plan was made has sent the only deletion.
#[tokio::test(start_paused = true)]
async fn what_somebody_else_deletes_meanwhile_is_not_deleted_again() {
    let deletions = prune_while(|sim, found| {
        let delete = DeleteRequest::of(&found);
        sim.delete(delete).now_or_never().expect("the simulated cluster answers at once").unwrap();
    });
    let deletions = deletions.await;
    let [theirs, ours] = deletions.as_slice() else { panic!("{deletions:#?}") };
    assert_eq!((theirs.operation_id, theirs.code), (None, 200));
    assert_eq!(ours.code, 409, "it is bound to the object as the plan saw it");
}

/// What was only written to is pruned all the same, however often that happens.
#[tokio::test(start_paused = true)]
async fn what_somebody_else_writes_meanwhile_is_pruned() {
    for writes in [1, usize::MAX] {
        let seen = std::sync::atomic::AtomicUsize::new(0);
        let deletions = prune_while(move |sim, found| {
            let count = seen.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            if count < writes {
                label(sim, &found, count);
            }
        });
        let deletions = deletions.await;
        let done: Vec<u16> = deletions.iter().map(|entry| entry.code).collect();
        let expected: &[u16] = if writes == 1 { &[409, 200] } else { &[409, 409, 409, 200] };
        assert_eq!(done, expected);
    }
}

/// What went to another application after the plan was made, or is to stay since then, is left alone.
#[tokio::test(start_paused = true)]
async fn what_is_somebody_elses_or_to_stay_by_now_is_not_pruned() {
    for (annotation, value, reason) in [
        (
            "argocd.argoproj.io/tracking-id",
            "other:/ConfigMap:default/old",
            "ignored (belongs to another application or object now)",
        ),
        ("argocd.argoproj.io/sync-options", "Prune=false", "ignored (no prune)"),
    ] {
        let sim = Arc::new(OnceLock::<SimCluster>::new());
        let cluster = Moody::new(SimConfig::default(), {
            let sim = Arc::clone(&sim);
            move |verb, name| {
                if let (("delete", "old"), Some(sim)) = ((verb, name), sim.get()) {
                    let manifest = serde_json::json!({
                        "apiVersion": "v1", "kind": "ConfigMap",
                        "metadata": {"name": "old", "namespace": "default", "annotations": {annotation: value}},
                    });
                    let written = sim.apply_as("somebody", write(Object::try_from(manifest).unwrap()));
                    written.now_or_never().expect("the simulated cluster answers at once").unwrap();
                }
                Fate::Answer
            }
        });
        let log = Log::new();
        let engine = builder(&cluster, &log).start().await.unwrap();
        let first = submit(&engine, &Sync::of(&[config("a", 0, &[]), config("old", 0, &[])].concat())).await;
        assert_eq!(end(&engine, first).await.phase, OperationPhase::Succeeded);
        sim.set(cluster.sim.clone()).unwrap();
        let one = Sync::of(&config("a", 0, &[])).with(|request| request.options.prune = true);
        let second = submit(&engine, &one).await;
        let view = end(&engine, second).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
        let kept = view.resources.iter().find(|result| result.name == "old").unwrap();
        assert_eq!((kept.status, kept.message.as_str()), (Some(ResultCode::PruneSkipped), reason));
        let old = cluster.sim.objects().into_iter().find(|object| object.name() == "old");
        assert!(old.is_some_and(|old| !old.is_deleting()), "{annotation}");
    }
}
