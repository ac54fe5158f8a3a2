//! Terminating namespaces must make operations fail, and unreadable namespaces must not.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::FutureExt as _;
use tidegate_cluster::sim::{SimCluster, SimConfig};
use tidegate_cluster::{Cluster as _, ErrorKind, FinalizerRemoval};
use tidegate_model::{Gvk, Object, OperationPhase};
use tidegate_testkit::scenario::{SyncSpec, retry_policy};
use tokio::time::Instant;

use crate::support::{
    CallOutcome, FaultyCluster, Log, builder, config, delete_namespace, external_write, hook,
    server_deployment, submit, wait_for_end, wait_until,
};

fn team_sync() -> SyncSpec {
    SyncSpec::new(&config("a", 0, &[])).with_request(|request| {
        request.namespace = "team".to_owned();
        request.options.flags.push("CreateNamespace=true".to_owned());
    })
}

#[tokio::test(start_paused = true)]
async fn a_namespace_deleted_during_its_writes_fails_the_operation() {
    let armed: Arc<OnceLock<SimCluster>> = Arc::default();
    let trigger = Arc::clone(&armed);
    let cluster = FaultyCluster::new(SimConfig::default(), move |verb, name| {
        if let (Some(sim), "apply", "a") = (trigger.get(), verb, name) {
            delete_namespace(sim, "team");
        }
        CallOutcome::Answer
    });
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let first = submit(&engine, &team_sync()).await;
    assert_eq!(wait_for_end(&engine, first).await.phase, OperationPhase::Succeeded);
    armed.set(cluster.sim.clone()).ok().unwrap();
    // The server still accepts updates of existing objects in a terminating namespace.
    let second = submit(&engine, &team_sync()).await;
    let view = wait_for_end(&engine, second).await;
    assert_eq!(view.phase, OperationPhase::Failed);
    assert!(view.message.contains("namespace team is being deleted"), "{}", view.message);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_into_a_terminating_namespace() {
    let cluster = FaultyCluster::reliable();
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let first = submit(&engine, &team_sync()).await;
    wait_for_end(&engine, first).await;
    delete_namespace(&cluster.sim, "team");
    let second = submit(&engine, &team_sync()).await;
    let view = wait_for_end(&engine, second).await;
    assert_eq!(view.phase, OperationPhase::Failed);
    let codes: Vec<&str> = view.warnings.iter().map(|warning| warning.code.as_str()).collect();
    assert_eq!(codes, ["namespace-terminating"]);
    let of_second = cluster.sim.audit().into_iter().filter(|entry| entry.operation_id == Some(second));
    assert_eq!(of_second.count(), 0);
}

/// The namespace is deleted after the last write, while the last hook is still running.
#[tokio::test(start_paused = true)]
async fn a_namespace_deleted_before_the_end_fails_the_operation() {
    for forbidden in [false, true] {
        // The deletion must be noticed even with permission to read only individual namespaces.
        let cluster = FaultyCluster::new(SimConfig::default(), move |verb, name| {
            let is_namespaces = ["list", "watch"].contains(&verb) && name == "Namespace";
            if forbidden && is_namespaces {
                CallOutcome::Refuse(ErrorKind::Forbidden)
            } else {
                CallOutcome::Answer
            }
        });
        let engine = builder(&cluster, &Log::new()).start().await.unwrap();
        let slow = hook("smoke", "PostSync", &[("sim.tidegate.dev/ready-after", "10m")]);
        let sync = SyncSpec::new(&format!("{}{slow}", config("a", 0, &[]))).with_request(|request| {
            request.namespace = "team".to_owned();
            request.options.flags.push("CreateNamespace=true".to_owned());
        });
        let id = submit(&engine, &sync).await;
        wait_until(&engine, id, |view, _| view.message.contains("smoke")).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        let began = Instant::now();
        delete_namespace(&cluster.sim, "team");
        let view = wait_for_end(&engine, id).await;
        assert_eq!(view.phase, OperationPhase::Failed);
        assert!(view.message.starts_with("namespace team is being deleted"), "{}", view.message);
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        let smoke = view.resources.iter().find(|result| result.name == "smoke").unwrap();
        assert!(smoke.hook_phase.is_some_and(OperationPhase::is_unsuccessful), "{smoke:?}");
    }
}

/// The operation finishes before the deletion is reported, so the final check must find it.
#[tokio::test(start_paused = true)]
async fn a_namespace_deleted_at_the_last_moment_fails_the_operation() {
    let armed: Arc<OnceLock<SimCluster>> = Arc::default();
    let trigger = Arc::clone(&armed);
    let cluster = FaultyCluster::new(SimConfig::default(), move |verb, name| {
        if let (Some(sim), "get", "team") = (trigger.get(), verb, name)
            && sim.objects().iter().any(|object| object.name() == "a")
        {
            delete_namespace(sim, "team");
        }
        CallOutcome::Answer
    });
    armed.set(cluster.sim.clone()).ok().unwrap();
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let id = submit(&engine, &team_sync()).await;
    let view = wait_for_end(&engine, id).await;
    assert_eq!(view.phase, OperationPhase::Failed);
    assert!(view.message.starts_with("namespace team is being deleted"), "{}", view.message);
}

/// The namespace was deleted with its content while the engine was down.
#[tokio::test(start_paused = true)]
async fn a_namespace_deleted_during_downtime_fails_the_operation() {
    let (cluster, log) = (FaultyCluster::reliable(), Log::new());
    let engine = builder(&cluster, &log).start().await.unwrap();
    let slow = hook("smoke", "PostSync", &[("sim.tidegate.dev/ready-after", "10m")]);
    let far = slow.replace("name: smoke", "name: smoke\n  namespace: default");
    let sync = SyncSpec::new(&format!("{}{far}", config("a", 0, &[]))).with_request(|request| {
        request.namespace = "team".to_owned();
        request.options.flags.push("CreateNamespace=true".to_owned());
    });
    let id = submit(&engine, &sync).await;
    wait_until(&engine, id, |view, _| view.message.contains("smoke")).await;
    engine.shutdown().await;
    delete_namespace(&cluster.sim, "team");
    tokio::time::sleep(Duration::from_secs(60)).await;
    let there = cluster.sim.objects().into_iter().any(|object| object.name() == "team");
    assert!(!there, "it was deleted before the engine restarted");
    let engine = builder(&cluster, &log.reopen()).start().await.unwrap();
    engine.resume(id).await.unwrap();
    let view = wait_for_end(&engine, id).await;
    assert_eq!(view.phase, OperationPhase::Failed, "{}", view.message);
    assert!(
        view.message.starts_with(
            "namespace team was deleted, together with everything that this operation wrote there"
        ),
        "{}",
        view.message
    );
}

/// Returns an operation that waits in the namespace `team`, which it either creates or finds.
fn sync_waiting_in(team: bool) -> SyncSpec {
    let slow = server_deployment("slow", 1, &[("sim.tidegate.dev/ready-after", "10m")]);
    let last = config("last", 2, &[]);
    SyncSpec::new(&format!("{}{slow}{last}", config("a", 0, &[]))).with_request(|request| {
        request.namespace = "team".to_owned();
        if team {
            request.options.flags.push("CreateNamespace=true".to_owned());
        }
    })
}

fn create_namespace(sim: &SimCluster) {
    let team = serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    sim.apply(external_write(Object::try_from(team).unwrap())).now_or_never().unwrap().unwrap();
}

/// The namespace was recreated before the engine restarted, without the objects of earlier waves.
#[tokio::test(start_paused = true)]
async fn a_namespace_recreated_during_downtime_fails_the_operation() {
    for brings in [true, false] {
        let (cluster, log) = (FaultyCluster::reliable(), Log::new());
        if !brings {
            create_namespace(&cluster.sim);
        }
        let engine = builder(&cluster, &log).start().await.unwrap();
        let id = submit(&engine, &sync_waiting_in(brings)).await;
        wait_until(&engine, id, |view, _| view.message.contains("slow")).await;
        engine.shutdown().await;
        delete_namespace(&cluster.sim, "team");
        tokio::time::sleep(Duration::from_secs(60)).await;
        create_namespace(&cluster.sim);
        let engine = builder(&cluster, &log.reopen()).start().await.unwrap();
        engine.resume(id).await.unwrap();
        let began = Instant::now();
        let view = wait_for_end(&engine, id).await;
        assert_eq!(view.phase, OperationPhase::Failed, "{brings}: {}", view.message);
        let text = "namespace team was deleted and recreated by another client";
        assert!(view.message.starts_with(text), "{brings}: {}", view.message);
        assert!(began.elapsed() < Duration::from_secs(5), "{brings}: {:?}", began.elapsed());
    }
}

/// The namespace is recreated while the engine can't reach the cluster for a long time.
#[tokio::test(start_paused = true)]
async fn a_namespace_recreated_during_an_outage_fails_the_operation() {
    let away: Arc<std::sync::atomic::AtomicBool> = Arc::default();
    let is_away = Arc::clone(&away);
    let cluster = FaultyCluster::new(SimConfig::default(), move |_, _| {
        let is_away = is_away.load(std::sync::atomic::Ordering::SeqCst);
        if is_away { CallOutcome::Refuse(ErrorKind::Unavailable) } else { CallOutcome::Answer }
    });
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    // The awaited object is in another namespace, so the loss shows only in the namespace itself.
    let elsewhere = server_deployment("slow", 1, &[("sim.tidegate.dev/ready-after", "10m")]).replacen(
        "metadata:",
        "metadata:\n  namespace: default",
        1,
    );
    let sync = SyncSpec::new(&format!("{}{elsewhere}{}", config("a", 0, &[]), config("last", 2, &[])));
    let id = submit(
        &engine,
        &sync.with_request(|request| {
            request.namespace = "team".to_owned();
            request.options.flags.push("CreateNamespace=true".to_owned());
        }),
    )
    .await;
    wait_until(&engine, id, |view, _| view.message.contains("slow")).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    away.store(true, std::sync::atomic::Ordering::SeqCst);
    delete_namespace(&cluster.sim, "team");
    tokio::time::sleep(Duration::from_secs(60)).await;
    create_namespace(&cluster.sim);
    away.store(false, std::sync::atomic::Ordering::SeqCst);
    let view = wait_for_end(&engine, id).await;
    assert_eq!(view.phase, OperationPhase::Failed, "{}", view.message);
}

/// The first attempt fails because the namespace is terminating. After the deletion of the namespace, the
/// retry must recreate it, although it isn't in the original plan.
#[tokio::test(start_paused = true)]
async fn a_later_attempt_recreates_a_namespace_that_was_terminating() {
    let cluster = FaultyCluster::reliable();
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let first = submit(&engine, &team_sync()).await;
    wait_for_end(&engine, first).await;
    for by_hand in [false, true] {
        let held = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "held", "namespace": "team", "finalizers": ["x.io/y"]}});
        cluster.sim.apply(external_write(Object::try_from(held).unwrap())).await.unwrap();
        delete_namespace(&cluster.sim, "team");
        let sync = team_sync().with_request(|request| {
            request.retry = retry_policy(10);
            if by_hand {
                request.options.flags.clear();
            }
        });
        let id = submit(&engine, &sync).await;
        let text = "namespace team is being deleted";
        let is_awaited = |message: &str| message.starts_with(text) && message.contains("Retrying");
        wait_until(&engine, id, |view, _| is_awaited(&view.message)).await;
        let removal = FinalizerRemoval {
            gvk: Gvk::new("", "v1", "ConfigMap"),
            namespace: "team".into(),
            name: "held".into(),
            uid: String::new(),
            finalizer: "x.io/y".into(),
            operation: None,
        };
        cluster.sim.remove_finalizer(removal).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        if by_hand {
            create_namespace(&cluster.sim);
        }
        let view = wait_for_end(&engine, id).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{by_hand}: {}", view.message);
        assert!(cluster.sim.objects().iter().any(|object| object.name() == "a"), "{by_hand}");
    }
}

/// An attempt after the loss of the namespace must fail because of it and report it.
#[tokio::test(start_paused = true)]
async fn every_attempt_names_the_missing_namespace() {
    let cluster = FaultyCluster::reliable();
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    create_namespace(&cluster.sim);
    let id = submit(&engine, &sync_waiting_in(false).with_request(|request| request.retry = retry_policy(2)))
        .await;
    wait_until(&engine, id, |view, _| view.message.contains("slow")).await;
    delete_namespace(&cluster.sim, "team");
    let first = "namespace team is being deleted, together with";
    wait_until(&engine, id, |view, _| view.message.starts_with(first)).await;
    let later = "one or more objects failed to apply (dry run), reason: namespace team does not exist, but this operation";
    wait_until(&engine, id, |view, _| view.message.starts_with(later) && view.message.contains("Retrying"))
        .await;
    let view = wait_for_end(&engine, id).await;
    assert_eq!(view.phase, OperationPhase::Failed);
    assert!(view.message.starts_with(later), "{}", view.message);
    assert!(view.message.contains("CreateNamespace=true"), "{}", view.message);
    let far = |name: &str| config(name, 0, &[]).replacen("metadata:", "metadata:\n  namespace: far", 1);
    let two = submit(&engine, &SyncSpec::new(&format!("{}{}", far("a"), config("b", 0, &[])))).await;
    let view = wait_for_end(&engine, two).await;
    assert!(view.message.contains("reason: namespace far does not exist"), "{}", view.message);
}

/// A user with permission to create a hook but not to read it must be able to sync if the hook doesn't exist.
#[tokio::test(start_paused = true)]
async fn without_deletions_no_read_permission_is_needed() {
    let cluster = FaultyCluster::new(SimConfig::default(), |verb, name| match (verb, name) {
        ("get", "check") => CallOutcome::Refuse(ErrorKind::Forbidden),
        _ => CallOutcome::Answer,
    });
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let id = submit(&engine, &SyncSpec::new(&hook("check", "PreSync", &[]))).await;
    let view = wait_for_end(&engine, id).await;
    assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
    assert_eq!(cluster.creations_of("check"), 1);
}

/// All missing permissions must be reported before anything is written.
#[tokio::test(start_paused = true)]
async fn missing_rights_prevent_all_writes() {
    let cluster = FaultyCluster::new_without_rights(&["patch"]);
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let sync = SyncSpec::new(&format!("{}{}", config("a", 0, &[]), hook("check", "PreSync", &[])));
    let id = submit(&engine, &sync).await;
    let view = wait_for_end(&engine, id).await;
    assert_eq!(view.phase, OperationPhase::Failed);
    assert!(
        view.message.contains("patch ConfigMap in namespace default; patch Job in namespace default"),
        "{}",
        view.message
    );
    assert_eq!(cluster.sim.audit().len(), 0, "there was no attempt");
    // Without a dry run, missing permissions are only a warning, because they may be granted during the
    // operation.
    let id = submit(&engine, &sync.with_request(|request| request.options.skip_dry_run = true)).await;
    let view = wait_for_end(&engine, id).await;
    assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
    assert_eq!(view.warnings[0].code, "missing-rights");
}

/// The server can't check an object in a nonexistent namespace. All other objects must be checked before the
/// namespace is created.
#[tokio::test(start_paused = true)]
async fn a_refused_object_prevents_a_new_namespace_unless_it_is_in_it() {
    let refused = server_deployment("bad", 0, &[]).replace("labels: {app: bad}", "labels: {app: other}");
    let elsewhere = refused.replace("  name: bad\n", "  name: bad\n  namespace: default\n");
    for (bad, written) in [(elsewhere, &[][..]), (refused, &["team"])] {
        let cluster = FaultyCluster::reliable();
        let engine = builder(&cluster, &Log::new()).start().await.unwrap();
        let sync = SyncSpec { manifests: format!("{}{bad}", config("a", 0, &[])), ..team_sync() };
        let id = submit(&engine, &sync).await;
        let view = wait_for_end(&engine, id).await;
        assert_eq!(view.phase, OperationPhase::Failed, "{bad}");
        assert!(view.message.contains("(dry run)") && view.message.contains("bad"), "{}", view.message);
        let names: Vec<String> = cluster.writes().into_iter().map(|entry| entry.name).collect();
        assert_eq!(names, written, "{bad}");
        engine.shutdown().await;
    }
}
