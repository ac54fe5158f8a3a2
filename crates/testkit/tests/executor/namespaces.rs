//! What goes into a namespace that goes is lost, and what may not be seen is not in the way.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::FutureExt as _;
use tidegate_cluster::sim::{SimCluster, SimConfig};
use tidegate_cluster::{Cluster as _, ErrorKind};
use tidegate_model::{Gvk, Object, ObjectKey, OperationPhase};
use tidegate_testkit::scenario::{Sync, retries};
use tokio::time::Instant;

use crate::support::{
    Fate, Log, Moody, builder, config, delete_namespace, end, hook, server, submit, until, write,
};

fn team() -> Sync {
    Sync::of(&config("a", 0, &[])).with(|request| {
        request.namespace = "team".to_owned();
        request.options.flags.push("CreateNamespace=true".to_owned());
    })
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_begins_to_go_while_objects_go_into_it_fails_the_operation() {
    let armed: Arc<OnceLock<SimCluster>> = Arc::default();
    let trigger = Arc::clone(&armed);
    let cluster = Moody::new(SimConfig::default(), move |verb, name| {
        if let (Some(sim), "apply", "a") = (trigger.get(), verb, name) {
            delete_namespace(sim, "team");
        }
        Fate::Answer
    });
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let first = submit(&engine, &team()).await;
    assert_eq!(end(&engine, first).await.phase, OperationPhase::Succeeded);
    armed.set(cluster.sim.clone()).ok().unwrap();
    // The server goes on changing what is in such a namespace.
    let second = submit(&engine, &team()).await;
    let view = end(&engine, second).await;
    assert_eq!(view.phase, OperationPhase::Failed);
    assert!(view.message.contains("namespace team is being deleted"), "{}", view.message);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_into_a_namespace_that_is_going() {
    let cluster = Moody::calm();
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let first = submit(&engine, &team()).await;
    end(&engine, first).await;
    delete_namespace(&cluster.sim, "team");
    let second = submit(&engine, &team()).await;
    let view = end(&engine, second).await;
    assert_eq!(view.phase, OperationPhase::Failed);
    let codes: Vec<&str> = view.warnings.iter().map(|warning| warning.code.as_str()).collect();
    assert_eq!(codes, ["namespace-terminating"]);
    let of_second = cluster.sim.audit().into_iter().filter(|entry| entry.operation_id == Some(second));
    assert_eq!(of_second.count(), 0);
}

/// It goes after the last write, while the last hook still runs.
#[tokio::test(start_paused = true)]
async fn a_namespace_that_goes_before_the_operation_is_over_fails_it() {
    for forbidden in [false, true] {
        // Who may only read namespaces one by one is told as well.
        let cluster = Moody::new(SimConfig::default(), move |verb, name| {
            let is_namespaces = ["list", "watch"].contains(&verb) && name == "Namespace";
            if forbidden && is_namespaces { Fate::Refuse(ErrorKind::Forbidden) } else { Fate::Answer }
        });
        let engine = builder(&cluster, &Log::new()).start().await.unwrap();
        let slow = hook("smoke", "PostSync", &[("sim.tidegate.dev/ready-after", "10m")]);
        let sync = Sync::of(&format!("{}{slow}", config("a", 0, &[]))).with(|request| {
            request.namespace = "team".to_owned();
            request.options.flags.push("CreateNamespace=true".to_owned());
        });
        let id = submit(&engine, &sync).await;
        until(&engine, id, |view, _| view.message.contains("smoke")).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        let began = Instant::now();
        delete_namespace(&cluster.sim, "team");
        let view = end(&engine, id).await;
        assert_eq!(view.phase, OperationPhase::Failed);
        assert!(view.message.starts_with("namespace team is being deleted"), "{}", view.message);
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        let smoke = view.resources.iter().find(|result| result.name == "smoke").unwrap();
        assert!(smoke.hook_phase.is_some_and(OperationPhase::is_unsuccessful), "{smoke:?}");
    }
}

/// The operation is over before anybody would have told; the look at its end finds it.
#[tokio::test(start_paused = true)]
async fn a_namespace_that_goes_in_the_last_moment_fails_the_operation() {
    let armed: Arc<OnceLock<SimCluster>> = Arc::default();
    let trigger = Arc::clone(&armed);
    let cluster = Moody::new(SimConfig::default(), move |verb, name| {
        if let (Some(sim), "get", "team") = (trigger.get(), verb, name)
            && sim.objects().iter().any(|object| object.name() == "a")
        {
            delete_namespace(sim, "team");
        }
        Fate::Answer
    });
    armed.set(cluster.sim.clone()).ok().unwrap();
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let id = submit(&engine, &team()).await;
    let view = end(&engine, id).await;
    assert_eq!(view.phase, OperationPhase::Failed);
    assert!(view.message.starts_with("namespace team is being deleted"), "{}", view.message);
}

/// It went, with all that was in it, while nobody was there to see it: the engine was down.
#[tokio::test(start_paused = true)]
async fn a_namespace_that_went_while_nobody_looked_fails_the_operation() {
    let (cluster, log) = (Moody::calm(), Log::new());
    let engine = builder(&cluster, &log).start().await.unwrap();
    let slow = hook("smoke", "PostSync", &[("sim.tidegate.dev/ready-after", "10m")]);
    let far = slow.replace("name: smoke", "name: smoke\n  namespace: default");
    let sync = Sync::of(&format!("{}{far}", config("a", 0, &[]))).with(|request| {
        request.namespace = "team".to_owned();
        request.options.flags.push("CreateNamespace=true".to_owned());
    });
    let id = submit(&engine, &sync).await;
    until(&engine, id, |view, _| view.message.contains("smoke")).await;
    engine.shutdown().await;
    delete_namespace(&cluster.sim, "team");
    tokio::time::sleep(Duration::from_secs(60)).await;
    let there = cluster.sim.objects().into_iter().any(|object| object.name() == "team");
    assert!(!there, "it is gone before the engine is back");
    let engine = builder(&cluster, &log.reopen()).start().await.unwrap();
    engine.resume(id).await.unwrap();
    let view = end(&engine, id).await;
    assert_eq!(view.phase, OperationPhase::Failed, "{}", view.message);
    assert!(view.message.starts_with("namespace team was deleted, and with it"), "{}", view.message);
}

/// An operation that waits in the namespace `team`, whether it brings it or finds it there.
fn waits_in(team: bool) -> Sync {
    let slow = server("slow", 1, &[("sim.tidegate.dev/ready-after", "10m")]);
    let last = config("last", 2, &[]);
    Sync::of(&format!("{}{slow}{last}", config("a", 0, &[]))).with(|request| {
        request.namespace = "team".to_owned();
        if team {
            request.options.flags.push("CreateNamespace=true".to_owned());
        }
    })
}

fn make_namespace(sim: &SimCluster) {
    let team = serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    sim.apply(write(Object::try_from(team).unwrap())).now_or_never().unwrap().unwrap();
}

/// Somebody makes it again before the engine is back, so that one is there: it is another one, and what earlier waves put
/// into the first is not in it.
#[tokio::test(start_paused = true)]
async fn a_namespace_that_was_made_again_while_nobody_looked_fails_the_operation() {
    for brings in [true, false] {
        let (cluster, log) = (Moody::calm(), Log::new());
        if !brings {
            make_namespace(&cluster.sim);
        }
        let engine = builder(&cluster, &log).start().await.unwrap();
        let id = submit(&engine, &waits_in(brings)).await;
        until(&engine, id, |view, _| view.message.contains("slow")).await;
        engine.shutdown().await;
        delete_namespace(&cluster.sim, "team");
        tokio::time::sleep(Duration::from_secs(60)).await;
        make_namespace(&cluster.sim);
        let engine = builder(&cluster, &log.reopen()).start().await.unwrap();
        engine.resume(id).await.unwrap();
        let began = Instant::now();
        let view = end(&engine, id).await;
        assert_eq!(view.phase, OperationPhase::Failed, "{brings}: {}", view.message);
        let words = "namespace team was deleted and made again by somebody else";
        assert!(view.message.starts_with(words), "{brings}: {}", view.message);
        assert!(began.elapsed() < Duration::from_secs(5), "{brings}: {:?}", began.elapsed());
    }
}

/// The same while the engine does not see the cluster for long.
#[tokio::test(start_paused = true)]
async fn a_namespace_that_was_made_again_while_the_cluster_was_away_fails_the_operation() {
    let away: Arc<std::sync::atomic::AtomicBool> = Arc::default();
    let is_away = Arc::clone(&away);
    let cluster = Moody::new(SimConfig::default(), move |_, _| {
        let is_away = is_away.load(std::sync::atomic::Ordering::SeqCst);
        if is_away { Fate::Refuse(ErrorKind::Unavailable) } else { Fate::Answer }
    });
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    // What is awaited is elsewhere, so that only the namespace tells.
    let elsewhere = server("slow", 1, &[("sim.tidegate.dev/ready-after", "10m")]).replacen(
        "metadata:",
        "metadata:\n  namespace: default",
        1,
    );
    let sync = Sync::of(&format!("{}{elsewhere}{}", config("a", 0, &[]), config("last", 2, &[])));
    let id = submit(
        &engine,
        &sync.with(|request| {
            request.namespace = "team".to_owned();
            request.options.flags.push("CreateNamespace=true".to_owned());
        }),
    )
    .await;
    until(&engine, id, |view, _| view.message.contains("slow")).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    away.store(true, std::sync::atomic::Ordering::SeqCst);
    delete_namespace(&cluster.sim, "team");
    tokio::time::sleep(Duration::from_secs(60)).await;
    make_namespace(&cluster.sim);
    away.store(false, std::sync::atomic::Ordering::SeqCst);
    let view = end(&engine, id).await;
    assert_eq!(view.phase, OperationPhase::Failed, "{}", view.message);
}

/// The first attempt finds the namespace on its way out. When it is gone, it is made again, which the plan of that time
/// knows nothing of.
#[tokio::test(start_paused = true)]
async fn another_attempt_makes_a_namespace_that_was_going_before_the_first() {
    let cluster = Moody::calm();
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let first = submit(&engine, &team()).await;
    end(&engine, first).await;
    for by_hand in [false, true] {
        let held = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "held", "namespace": "team", "finalizers": ["x.io/y"]}});
        cluster.sim.apply(write(Object::try_from(held).unwrap())).await.unwrap();
        delete_namespace(&cluster.sim, "team");
        let sync = team().with(|request| {
            request.retry = retries(10);
            if by_hand {
                request.options.flags.clear();
            }
        });
        let id = submit(&engine, &sync).await;
        let words = "namespace team is being deleted";
        let is_awaited = |message: &str| message.starts_with(words) && message.contains("Retrying");
        until(&engine, id, |view, _| is_awaited(&view.message)).await;
        let key = ObjectKey::new("", "ConfigMap", "team", "held");
        cluster
            .sim
            .remove_finalizer(&key, &Gvk::new("", "v1", "ConfigMap"), "", "x.io/y", None)
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        if by_hand {
            make_namespace(&cluster.sim);
        }
        let view = end(&engine, id).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{by_hand}: {}", view.message);
        assert!(cluster.sim.objects().iter().any(|object| object.name() == "a"), "{by_hand}");
    }
}

/// An attempt after that which has lost the namespace fails for want of it, and says so.
#[tokio::test(start_paused = true)]
async fn every_attempt_names_the_namespace_that_is_not_there() {
    let cluster = Moody::calm();
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    make_namespace(&cluster.sim);
    let id = submit(&engine, &waits_in(false).with(|request| request.retry = retries(2))).await;
    until(&engine, id, |view, _| view.message.contains("slow")).await;
    delete_namespace(&cluster.sim, "team");
    let first = "namespace team is being deleted, and with it";
    until(&engine, id, |view, _| view.message.starts_with(first)).await;
    let later =
        "one or more objects failed to apply (dry run), reason: namespace team does not exist, and objects";
    until(&engine, id, |view, _| view.message.starts_with(later) && view.message.contains("Retrying")).await;
    let view = end(&engine, id).await;
    assert_eq!(view.phase, OperationPhase::Failed);
    assert!(view.message.starts_with(later), "{}", view.message);
    assert!(view.message.contains("CreateNamespace=true"), "{}", view.message);
    let far = |name: &str| config(name, 0, &[]).replacen("metadata:", "metadata:\n  namespace: far", 1);
    let two = submit(&engine, &Sync::of(&format!("{}{}", far("a"), config("b", 0, &[])))).await;
    let view = end(&engine, two).await;
    assert!(view.message.contains("reason: namespace far does not exist"), "{}", view.message);
}

/// Whoever may create a hook may not be allowed to read it; when there is none, that is in nobody's way.
#[tokio::test(start_paused = true)]
async fn where_nothing_is_to_be_deleted_nothing_needs_to_be_read() {
    let cluster = Moody::new(SimConfig::default(), |verb, name| match (verb, name) {
        ("get", "check") => Fate::Refuse(ErrorKind::Forbidden),
        _ => Fate::Answer,
    });
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let id = submit(&engine, &Sync::of(&hook("check", "PreSync", &[]))).await;
    let view = end(&engine, id).await;
    assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
    assert_eq!(cluster.created("check"), 1);
}

/// Everything that is missing is named before anything is tried.
#[tokio::test(start_paused = true)]
async fn missing_rights_keep_an_operation_from_writing() {
    let cluster = Moody::lacking(&["patch"]);
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let sync = Sync::of(&format!("{}{}", config("a", 0, &[]), hook("check", "PreSync", &[])));
    let id = submit(&engine, &sync).await;
    let view = end(&engine, id).await;
    assert_eq!(view.phase, OperationPhase::Failed);
    assert!(
        view.message.contains("patch ConfigMap in namespace default; patch Job in namespace default"),
        "{}",
        view.message
    );
    assert_eq!(cluster.sim.audit().len(), 0, "nothing was tried");
    // Without a trial some may come with the operation.
    let id = submit(&engine, &sync.with(|request| request.options.skip_dry_run = true)).await;
    let view = end(&engine, id).await;
    assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
    assert_eq!(view.warnings[0].code, "missing-rights");
}
