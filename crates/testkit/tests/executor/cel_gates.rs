//! Gates on an expression over objects in the cluster.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tidegate_cluster::sim::SimConfig;
use tidegate_cluster::{Cluster as _, ErrorKind};
use tidegate_executor::{CelGate, Engine, GateDefinitions, Targets};
use tidegate_model::{Object, OperationId, OperationPhase};
use tidegate_testkit::scenario::SyncSpec;

use crate::log_failures::sync_for_application;
use crate::support::{
    CallOutcome, FaultyCluster, Log, builder, config, external_write, wait_for_end, wait_until,
};

fn cel_gate(more: serde_json::Value) -> CelGate {
    let mut gate = json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default",
        "expression": "object.data.deploys == 'on'", "message": "'deploys are ' + object.data.deploys"});
    gate.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(gate).unwrap()
}

async fn submit(engine: &Engine, sync: &SyncSpec, gate: CelGate) -> OperationId {
    let cel = [("switch".to_owned(), gate)].into();
    let definitions = GateDefinitions { cel, ..GateDefinitions::default() };
    engine.submit(sync.request.clone(), Targets { definitions, ..sync.targets() }).await.unwrap()
}

fn gated_sync(number: usize) -> SyncSpec {
    let name = format!("c{number}");
    sync_for_application(&format!("app{number}"), &config(&name, 0, &[("tidegate.dev/gate", "cel:switch")]))
}

async fn set_switch(cluster: &FaultyCluster, name: &str, deploys: &str) {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"deploys": deploys},
        "metadata": {"name": name, "namespace": "default", "labels": {"role": "switch"}}});
    cluster.sim.apply(external_write(Object::try_from(object).unwrap())).await.unwrap();
}

/// Returns a cluster that records its reads, and refuses lists and watches on command.
fn recording_cluster() -> (Arc<FaultyCluster>, Arc<Mutex<Vec<String>>>, Arc<AtomicBool>) {
    let (reads, refuses) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
    let decide = {
        let (reads, refuses) = (Arc::clone(&reads), Arc::clone(&refuses));
        move |verb: &'static str, name: &str| {
            reads.lock().unwrap().push(format!("{verb} {name}"));
            match verb {
                "list" | "watch" if refuses.load(Ordering::SeqCst) => {
                    CallOutcome::Refuse(ErrorKind::Forbidden)
                }
                _ => CallOutcome::Answer,
            }
        }
    };
    (FaultyCluster::new(SimConfig::default(), decide), reads, refuses)
}

#[tokio::test(start_paused = true)]
async fn a_wave_waits_without_polling_until_an_object_changes() {
    let (cluster, reads, _) = recording_cluster();
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let mut operations = Vec::new();
    for number in 0..3 {
        operations.push(submit(&engine, &gated_sync(number), cel_gate(json!({"name": "switch"}))).await);
    }
    for id in &operations {
        wait_until(&engine, *id, |view, reason| {
            reason.contains("gate cel:switch")
                && reason.contains("there is no ConfigMap switch in default")
                && view.warnings.is_empty()
        })
        .await;
    }
    set_switch(&cluster, "switch", "off").await;
    for id in &operations {
        wait_until(&engine, *id, |_, reason| reason.contains("ConfigMap default/switch: deploys are off"))
            .await;
    }
    let watches = |reads: &Mutex<Vec<String>>| {
        let reads = reads.lock().unwrap();
        reads
            .iter()
            .filter(|read| {
                ["list", "watch"].iter().any(|verb| read.starts_with(verb)) || *read == "get switch"
            })
            .count()
    };
    tokio::time::sleep(Duration::from_secs(60)).await;
    let before = watches(&reads);
    tokio::time::sleep(Duration::from_secs(6 * 3600)).await;
    assert_eq!(watches(&reads), before, "{:?}", reads.lock().unwrap());
    assert_eq!((0..3).map(|number| cluster.creations_of(&format!("c{number}"))).sum::<usize>(), 0);
    let began = tokio::time::Instant::now();
    set_switch(&cluster, "switch", "on").await;
    for id in operations {
        assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Succeeded);
    }
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn all_objects_with_the_labels_count() {
    let cluster = FaultyCluster::reliable();
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let labelled = cel_gate(json!({"labels": {"role": "switch"}, "message": ""}));
    let id = submit(&engine, &gated_sync(0), labelled).await;
    wait_until(&engine, id, |_, reason| reason.contains("there is no ConfigMap in default with role=switch"))
        .await;
    set_switch(&cluster, "b", "off").await;
    wait_until(&engine, id, |_, reason| {
        reason.contains("default/b: the condition is false: object.data.deploys")
    })
    .await;
    set_switch(&cluster, "a", "off").await;
    set_switch(&cluster, "b", "on").await;
    wait_until(&engine, id, |_, reason| {
        reason.contains("default/a: the condition is false: object.data.deploys")
    })
    .await;
    set_switch(&cluster, "a", "on").await;
    assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Succeeded);
}

/// A gate with an unreadable object must stay closed, and must open once the object is readable.
#[tokio::test(start_paused = true)]
async fn an_unreadable_object_keeps_the_wave_closed() {
    let (cluster, _, refuses) = recording_cluster();
    set_switch(&cluster, "switch", "on").await;
    refuses.store(true, Ordering::SeqCst);
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let id = submit(&engine, &gated_sync(0), cel_gate(json!({"name": "switch"}))).await;
    wait_until(&engine, id, |_, reason| reason.contains("the objects cannot be read: ")).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(cluster.creations_of("c0"), 0);
    refuses.store(false, Ordering::SeqCst);
    assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Succeeded);
}

/// A crash during the wait must not leave a gate open.
#[tokio::test(start_paused = true)]
async fn an_expression_is_evaluated_again_after_a_kill() {
    let (cluster, log) = (FaultyCluster::reliable(), Log::new());
    let engine = builder(&cluster, &log).start().await.unwrap();
    let gates = ("tidegate.dev/gate", "cel:switch,approval");
    let sync = sync_for_application("app", &config("c", 0, &[gates]));
    set_switch(&cluster, "switch", "on").await;
    let id = submit(&engine, &sync, cel_gate(json!({"name": "switch"}))).await;
    wait_until(&engine, id, |_, reason| {
        reason.contains("gate approval") && !reason.contains("gate cel:switch")
    })
    .await;
    set_switch(&cluster, "switch", "off").await;
    wait_until(&engine, id, |_, reason| reason.contains("deploys are off")).await;
    set_switch(&cluster, "switch", "on").await;
    wait_until(&engine, id, |_, reason| !reason.contains("deploys are off")).await;
    let log = log.reopen();
    set_switch(&cluster, "switch", "off").await;
    let engine = builder(&cluster, &log).start().await.unwrap();
    engine.resume(id).await.unwrap();
    engine.approve(id, None, "ann", "").await.unwrap();
    wait_until(&engine, id, |_, reason| {
        reason.contains("deploys are off") && !reason.contains("gate approval")
    })
    .await;
    set_switch(&cluster, "switch", "on").await;
    assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Succeeded);
}
