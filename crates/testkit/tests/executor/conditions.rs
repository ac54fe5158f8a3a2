//! Gates that an expression over objects of the cluster opens.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tidegate_cluster::sim::SimConfig;
use tidegate_cluster::{Cluster as _, ErrorKind};
use tidegate_executor::{CelGate, Engine, GateDefinitions, Targets};
use tidegate_model::{Object, OperationId, OperationPhase};
use tidegate_testkit::scenario::Sync;

use crate::logs::for_application;
use crate::support::{Fate, Log, Moody, builder, config, end, until, write};

fn gate(more: serde_json::Value) -> CelGate {
    let mut gate = json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default",
        "expression": "object.data.deploys == 'on'", "message": "'deploys are ' + object.data.deploys"});
    gate.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(gate).unwrap()
}

async fn submit(engine: &Engine, sync: &Sync, gate: CelGate) -> OperationId {
    let cel = [("switch".to_owned(), gate)].into();
    let definitions = GateDefinitions { cel, ..GateDefinitions::default() };
    engine.submit(sync.request.clone(), Targets { definitions, ..sync.targets() }).await.unwrap()
}

fn gated(number: usize) -> Sync {
    let name = format!("c{number}");
    for_application(&format!("app{number}"), &config(&name, 0, &[("tidegate.dev/gate", "cel:switch")]))
}

async fn switch(cluster: &Moody, name: &str, deploys: &str) {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"deploys": deploys},
        "metadata": {"name": name, "namespace": "default", "labels": {"role": "switch"}}});
    cluster.sim.apply(write(Object::try_from(object).unwrap())).await.unwrap();
}

/// A cluster that writes down its reads, and refuses lists and watches while it is asked to.
fn reading() -> (Arc<Moody>, Arc<Mutex<Vec<String>>>, Arc<AtomicBool>) {
    let (reads, refuses) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
    let decide = {
        let (reads, refuses) = (Arc::clone(&reads), Arc::clone(&refuses));
        move |verb: &'static str, name: &str| {
            reads.lock().unwrap().push(format!("{verb} {name}"));
            match verb {
                "list" | "watch" if refuses.load(Ordering::SeqCst) => Fate::Refuse(ErrorKind::Forbidden),
                _ => Fate::Answer,
            }
        }
    };
    (Moody::new(SimConfig::default(), decide), reads, refuses)
}

#[tokio::test(start_paused = true)]
async fn a_wave_waits_until_an_object_changes_and_nobody_asks_meanwhile() {
    let (cluster, reads, _) = reading();
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let mut operations = Vec::new();
    for number in 0..3 {
        operations.push(submit(&engine, &gated(number), gate(json!({"name": "switch"}))).await);
    }
    for id in &operations {
        until(&engine, *id, |view, why| {
            why.contains("gate cel:switch")
                && why.contains("there is no ConfigMap switch in default")
                && view.warnings.is_empty()
        })
        .await;
    }
    switch(&cluster, "switch", "off").await;
    for id in &operations {
        until(&engine, *id, |_, why| why.contains("ConfigMap default/switch: deploys are off")).await;
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
    assert_eq!((0..3).map(|number| cluster.created(&format!("c{number}"))).sum::<usize>(), 0);
    let began = tokio::time::Instant::now();
    switch(&cluster, "switch", "on").await;
    for id in operations {
        assert_eq!(end(&engine, id).await.phase, OperationPhase::Succeeded);
    }
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn all_objects_with_the_labels_count() {
    let cluster = Moody::calm();
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let labelled = gate(json!({"labels": {"role": "switch"}, "message": ""}));
    let id = submit(&engine, &gated(0), labelled).await;
    until(&engine, id, |_, why| why.contains("there is no ConfigMap in default with role=switch")).await;
    switch(&cluster, "b", "off").await;
    until(&engine, id, |_, why| why.contains("default/b: not true: object.data.deploys")).await;
    switch(&cluster, "a", "off").await;
    switch(&cluster, "b", "on").await;
    until(&engine, id, |_, why| why.contains("default/a: not true: object.data.deploys")).await;
    switch(&cluster, "a", "on").await;
    assert_eq!(end(&engine, id).await.phase, OperationPhase::Succeeded);
}

/// What cannot be seen opens nothing, and is seen when it can be.
#[tokio::test(start_paused = true)]
async fn a_cluster_that_does_not_show_the_object_keeps_the_wave_closed() {
    let (cluster, _, refuses) = reading();
    switch(&cluster, "switch", "on").await;
    refuses.store(true, Ordering::SeqCst);
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let id = submit(&engine, &gated(0), gate(json!({"name": "switch"}))).await;
    until(&engine, id, |_, why| why.contains("the cluster does not show it: ")).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(cluster.created("c0"), 0);
    refuses.store(false, Ordering::SeqCst);
    assert_eq!(end(&engine, id).await.phase, OperationPhase::Succeeded);
}

/// A process that is killed while the wave waits leaves nothing open.
#[tokio::test(start_paused = true)]
async fn an_expression_is_asked_anew_after_a_kill() {
    let (cluster, log) = (Moody::calm(), Log::new());
    let engine = builder(&cluster, &log).start().await.unwrap();
    let gates = ("tidegate.dev/gate", "cel:switch,approval");
    let sync = for_application("app", &config("c", 0, &[gates]));
    switch(&cluster, "switch", "on").await;
    let id = submit(&engine, &sync, gate(json!({"name": "switch"}))).await;
    until(&engine, id, |_, why| why.contains("gate approval") && !why.contains("gate cel:switch")).await;
    switch(&cluster, "switch", "off").await;
    until(&engine, id, |_, why| why.contains("deploys are off")).await;
    switch(&cluster, "switch", "on").await;
    until(&engine, id, |_, why| !why.contains("deploys are off")).await;
    let log = log.reopen();
    switch(&cluster, "switch", "off").await;
    let engine = builder(&cluster, &log).start().await.unwrap();
    engine.resume(id).await.unwrap();
    engine.approve(id, None, "ann", "").await.unwrap();
    until(&engine, id, |_, why| why.contains("deploys are off") && !why.contains("gate approval")).await;
    switch(&cluster, "switch", "on").await;
    assert_eq!(end(&engine, id).await.phase, OperationPhase::Succeeded);
}
