//! Lists, watches and searches.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::json;
use tidegate_cluster::{Detail, LiveQuery, Propagation, WatchEvent};
use tidegate_model::annotations;
use tokio::time::timeout;

use super::stage::Stage;

pub async fn watching(stage: &mut Stage) {
    stage.apply(&stage.config("before", json!({}))).await;
    for detail in [Detail::Full, Detail::Metadata] {
        let scope = stage.scope("ConfigMap", true, detail);
        let listing = stage.cluster.list(&scope).await.unwrap();
        let mut changes = stage.cluster.watch(&scope, &listing.resource_version).await.unwrap();
        stage.apply(&stage.config("a", json!({"x": "1"}))).await;
        stage.apply(&stage.config("b", json!({"x": "1"}))).await;
        stage.apply(&stage.config("a", json!({"x": "2"}))).await;
        stage.apply(&stage.config("a", json!({"x": "2"}))).await;
        stage.delete("ConfigMap", "b", Propagation::Background).await;
        stage.delete("ConfigMap", "a", Propagation::Background).await;
        loop {
            let next =
                timeout(Duration::from_secs(30), changes.next()).await.expect("a change comes").unwrap();
            let (what, object) = match next.unwrap() {
                WatchEvent::Applied(object) => ("applied", object),
                WatchEvent::Deleted(object) => ("deleted", object),
                WatchEvent::Bookmark(_) => continue,
            };
            let data = object.pointer("/data").cloned();
            stage.note(format!("{what} {} {} {data:?}", object.kind(), object.name()));
            if what == "deleted" && object.name() == "a" {
                break;
            }
        }
    }
}

pub async fn listing(stage: &mut Stage) {
    stage.apply(&stage.config("a", json!({"x": "1"}))).await;
    stage.apply(&stage.config("b", json!({"x": "1"}))).await;
    for (namespaced, detail) in
        [(true, Detail::Full), (true, Detail::Metadata), (false, Detail::Full), (false, Detail::Metadata)]
    {
        let scope = stage.scope("ConfigMap", namespaced, detail);
        let listing = stage.cluster.list(&scope).await.unwrap();
        let own = listing.objects.iter().filter(|object| object.namespace() == stage.namespace);
        let mut lines: Vec<String> = own
            .map(|object| {
                let mut fields: Vec<&String> = object.as_value().as_object().unwrap().keys().collect();
                fields.sort();
                format!("{} {} {} {fields:?}", object.text("/apiVersion"), object.kind(), object.name())
            })
            .collect();
        lines.sort();
        stage.note(format!("{scope:?}: {lines:?}"));
    }
    let unserved = stage.cluster.list(&stage.scope("Unserved", true, Detail::Full)).await.unwrap_err();
    stage.note(format!("{:?}: {}", unserved.kind, unserved.message));
}

pub async fn living(stage: &mut Stage) {
    let application = stage.namespace.clone();
    let tracked = |stage: &Stage, name: &str, application: &str| {
        let id = format!("{application}:/ConfigMap:{}/{name}", stage.namespace);
        stage.manifest(
            "ConfigMap",
            name,
            json!({"metadata": {"annotations": {annotations::TRACKING_ID: id}}}),
        )
    };
    stage.apply(&tracked(stage, "ours", &application)).await;
    stage.apply(&tracked(stage, "theirs", "another")).await;
    stage.apply(&stage.config("free", json!({}))).await;
    let place =
        |stage: &Stage, kind: &str, name: &str| (stage.gvk(kind), stage.namespace.clone(), name.to_owned());
    let named: BTreeSet<_> = [
        place(stage, "ConfigMap", "free"),
        place(stage, "ConfigMap", "none"),
        place(stage, "Unserved", "none"),
    ]
    .into();
    let inventory: BTreeSet<_> =
        [place(stage, "ConfigMap", "ours"), place(stage, "ConfigMap", "theirs")].into();
    for inventory in [None, Some(inventory)] {
        let known = inventory.is_some();
        let query = LiveQuery { application: application.clone(), named: named.clone(), inventory };
        let mut names: Vec<String> =
            stage.cluster.live(&query).await.unwrap().iter().map(|object| object.key().to_string()).collect();
        names.sort();
        stage.note(format!("live, inventory {known}: {names:?}"));
    }
}
