//! Lists, watches and searches.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::json;
use tidegate_cluster::{Detail, LiveQuery, Propagation, SearchScope, WatchEvent};
use tidegate_model::{Tracking, TrackingMethod, annotations};
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
    // The query doesn't include this object's kind.
    let id = format!("{application}:/Secret:{}/other", stage.namespace);
    let other = json!({"metadata": {"annotations": {annotations::TRACKING_ID: id}}});
    stage.apply(&stage.manifest("Secret", "other", other)).await;
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
    for (inventory, search_scope) in [
        (BTreeSet::new(), SearchScope::WholeCluster),
        (BTreeSet::new(), SearchScope::KnownKinds),
        (inventory, SearchScope::KnownObjects),
        ([place(stage, "Secret", "none")].into(), SearchScope::KnownKinds),
    ] {
        let application = application.clone();
        let query =
            LiveQuery { application, named: named.clone(), inventory, search_scope, ..LiveQuery::default() };
        let mut names: Vec<String> = stage
            .cluster
            .list_live(&query)
            .await
            .unwrap()
            .objects
            .iter()
            .map(|object| object.key().to_string())
            .collect();
        names.sort();
        stage.note(format!("live, reaching {search_scope:?}: {names:?}"));
    }
}

/// Owners of objects by each tracking method, for the objects in a query and for searches.
pub async fn tracking(stage: &mut Stage) {
    let application = stage.namespace.clone();
    let id = |name: &str| format!("{application}:/ConfigMap:{application}/{name}");
    let labels = json!({annotations::INSTANCE_LABEL: application});
    let by_id = json!({"annotations": {annotations::TRACKING_ID: id("by-id")}});
    let by_both = json!({"annotations": {annotations::TRACKING_ID: id("by-both")}, "labels": labels});
    let copied = json!({"annotations": {annotations::TRACKING_ID: id("by-id")}, "labels": labels});
    let foreign =
        json!({"annotations": {annotations::TRACKING_ID: format!("x{}", id("foreign"))}, "labels": labels});
    let elsewhere = json!({"annotations": {annotations::INSTALLATION_ID: "b"}, "labels": labels});
    let by_label = json!({"labels": labels});
    let by_other = json!({"labels": {"example.com/app": application}});
    for (name, metadata) in
        [("by-id", by_id), ("by-both", by_both), ("by-label", by_label.clone()), ("by-other", by_other)]
    {
        stage.apply(&stage.manifest("ConfigMap", name, json!({"metadata": metadata}))).await;
    }
    for (name, metadata) in
        [("copied", copied), ("foreign", foreign), ("elsewhere", elsewhere), ("by-helm", by_label)]
    {
        stage.apply_as("helm", &stage.manifest("ConfigMap", name, json!({"metadata": metadata}))).await;
    }
    let owner = stage.get("ConfigMap", "by-id").await.unwrap().unwrap();
    let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "by-id", "uid": owner.uid()}]);
    let child = stage.manifest(
        "ConfigMap",
        "child",
        json!({"metadata": {"labels": labels, "ownerReferences": owner}}),
    );
    stage.apply_as("helm", &child).await;
    let all =
        ["by-both", "by-helm", "by-id", "by-label", "by-other", "child", "copied", "elsewhere", "foreign"];
    let places = |names: &[&str]| -> BTreeSet<_> {
        let place = |name: &&str| (stage.gvk("ConfigMap"), application.clone(), (*name).to_owned());
        names.iter().map(place).collect()
    };
    let mut queries = Vec::new();
    for method in [TrackingMethod::Annotation, TrackingMethod::AnnotationAndLabel, TrackingMethod::Label] {
        let usual = Tracking { method, ..Tracking::default() };
        let other = Tracking { label: "example.com/app".to_owned(), ..usual.clone() };
        let installed = Tracking { installation: "b".to_owned(), ..usual.clone() };
        for tracking in [usual, other, installed] {
            for (named, inventory) in [
                (places(&["by-both"]), None),
                (places(&["by-id"]), None),
                (places(&[]), Some(places(&all))),
                (places(&["by-label"]), Some(places(&["by-id", "by-helm"]))),
            ] {
                let (application, tracking) = (application.clone(), tracking.clone());
                let search_scope =
                    if inventory.is_some() { SearchScope::KnownObjects } else { SearchScope::WholeCluster };
                let inventory = inventory.unwrap_or_default();
                let namespaces = BTreeSet::new();
                queries.push(LiveQuery { application, tracking, named, inventory, search_scope, namespaces });
            }
        }
    }
    for query in queries {
        let found = stage.cluster.list_live(&query).await.unwrap().objects;
        let mut names: Vec<&str> = found.iter().map(|object| object.key().name.as_str()).collect();
        names.sort_unstable();
        let (named, known) =
            (query.named.iter().map(|(_, _, name)| name).collect::<Vec<_>>(), query.inventory.len());
        let Tracking { method, label, installation } = query.tracking;
        let line = format!("{method:?} {label} {installation:?}, {named:?} and {known} places: {names:?}");
        stage.note(line);
    }
}
