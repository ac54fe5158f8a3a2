//! Kinds that come and go.

use serde_json::json;
use tidegate_cluster::Propagation;
use tidegate_model::Object;

use super::stage::{REPLACE, Stage};

fn definition(stage: &Stage) -> Object {
    let schema = json!({
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer", "minimum": 1}}}},
    });
    let spec = json!({
        "group": stage.group(), "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
    });
    stage.manifest("CustomResourceDefinition", &format!("widgets.{}", stage.group()), json!({ "spec": spec }))
}

pub async fn definitions(stage: &mut Stage) {
    let widget = |stage: &Stage, name: &str, size: i64| {
        stage.manifest("Widget", name, json!({"spec": {"size": size}}))
    };
    stage.apply(&widget(stage, "early", 1)).await;
    let definition = definition(stage);
    let name = definition.name().to_owned();
    stage.apply(&definition).await;
    stage
        .until("CustomResourceDefinition", &name, "is established", |found| {
            let conditions = found.and_then(|found| found.pointer("/status/conditions")?.as_array());
            conditions.is_some_and(|all| {
                all.iter().any(|one| one["type"] == "Established" && one["status"] == "True")
            })
        })
        .await;
    stage.until_served("Widget").await;
    stage.show("CustomResourceDefinition", &name, &["/status/storedVersions"]).await;
    stage.apply(&definition).await;
    stage.apply(&widget(stage, "one", 1)).await;
    stage.apply(&widget(stage, "one", 1)).await;
    stage.apply(&widget(stage, "one", 2)).await;
    stage.show("Widget", "one", &["/metadata/generation", "/spec"]).await;
    stage.write(&widget(stage, "two", 2), REPLACE, |_| {}).await;
    stage.names("Widget").await;
    stage.learn_kinds().await;
    stage.delete("CustomResourceDefinition", &name, Propagation::Background).await;
    stage.until_gone("CustomResourceDefinition", &name).await;
    stage.until_unserved("Widget").await;
    stage.show("Widget", "one", &[]).await;
}

pub async fn unknown_kinds(stage: &mut Stage) {
    stage.apply(&stage.manifest("Unserved", "a", json!({}))).await;
    stage.write(&stage.manifest("Unserved", "a", json!({})), REPLACE, |_| {}).await;
    stage.delete("Unserved", "a", Propagation::Background).await;
    stage.show("Unserved", "a", &[]).await;
    let discovery = stage.cluster.discover().await.unwrap();
    for (kind, gvk) in [("Deployment", stage.gvk("Deployment")), ("Unserved", stage.gvk("Unserved"))] {
        stage.note(format!("{kind} is known: {}", discovery.get(&gvk.group_kind()).is_some()));
    }
}
