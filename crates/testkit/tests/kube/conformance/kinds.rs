//! Creation and deletion of kinds.

use serde_json::{Value, json};
use tidegate_cluster::Propagation;
use tidegate_model::Object;

use super::stage::{CREATE, REPLACE, Stage};

fn definition(stage: &Stage) -> Object {
    defined(stage, json!({}))
}

/// Returns a definition with a single version that has these `subresources`.
fn defined(stage: &Stage, subresources: Value) -> Object {
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"size": {"type": "integer", "minimum": 1}}}, "status": any,
        },
    });
    let version = json!({
        "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
        "subresources": subresources,
    });
    let spec = json!({
        "group": stage.group(), "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
        "versions": [version],
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
        .wait_until("CustomResourceDefinition", &name, "is established", |found| {
            let conditions = found.and_then(|found| found.pointer("/status/conditions")?.as_array());
            conditions.is_some_and(|all| {
                all.iter().any(|one| one["type"] == "Established" && one["status"] == "True")
            })
        })
        .await;
    stage.wait_until_served("Widget").await;
    stage.note_fields("CustomResourceDefinition", &name, &["/status/storedVersions"]).await;
    stage.apply(&definition).await;
    stage.apply(&widget(stage, "one", 1)).await;
    stage.apply(&widget(stage, "one", 1)).await;
    stage.apply(&widget(stage, "one", 2)).await;
    stage.note_fields("Widget", "one", &["/metadata/generation", "/spec"]).await;
    stage.write(&widget(stage, "two", 2), REPLACE, |_| {}).await;
    stage.note_names("Widget").await;
    stage.learn_kinds().await;
    stage.delete("CustomResourceDefinition", &name, Propagation::Background).await;
    stage.wait_until_gone("CustomResourceDefinition", &name).await;
    stage.wait_until_unserved("Widget").await;
    stage.note_fields("Widget", "one", &[]).await;
}

pub async fn unknown_kinds(stage: &mut Stage) {
    stage.apply(&stage.manifest("Unserved", "a", json!({}))).await;
    stage.write(&stage.manifest("Unserved", "a", json!({})), REPLACE, |_| {}).await;
    stage.delete("Unserved", "a", Propagation::Background).await;
    stage.note_fields("Unserved", "a", &[]).await;
    let discovery = stage.cluster.discover().await.unwrap();
    for (kind, gvk) in [("Deployment", stage.gvk("Deployment")), ("Unserved", stage.gvk("Unserved"))] {
        stage.note(format!("{kind} is known: {}", discovery.get(&gvk.group_kind()).is_some()));
    }
}

/// If a kind has a status subresource, a status write changes only the status.
pub async fn statuses(stage: &mut Stage) {
    let definition = defined(stage, json!({"status": {}}));
    stage.apply(&definition).await;
    stage.wait_until_served("Widget").await;
    let widget = stage.manifest("Widget", "one", json!({"spec": {"size": 1}, "status": {"seen": 1}}));
    stage.write(&widget, CREATE, |_| {}).await;
    let first = stage.get("Widget", "one").await.unwrap().unwrap();
    stage.note(format!("not written with the rest: {:?}", first.pointer("/status")));
    let mut status = first.clone();
    status.section_mut("status").insert("seen".to_owned(), json!(2));
    status.section_mut("spec").insert("size".to_owned(), json!(2));
    stage.put_status(&status).await;
    // This write has an outdated resource version.
    status.section_mut("status").insert("seen".to_owned(), json!(3));
    stage.put_status(&status).await;
    let now = stage.get("Widget", "one").await.unwrap().unwrap();
    stage.note(format!("generations: {:?} {:?}", first.generation(), now.generation()));
    let mut other = now.clone();
    other.metadata_mut().insert("uid".to_owned(), json!("another"));
    stage.put_status(&other).await;
    let mut without = now.clone();
    without.fields_mut().remove("status");
    stage.put_status(&without).await;
    let mut none = now;
    none.set_name("none");
    // Remove the UID: with the UID of a missing object, Kubernetes 1.20 reports a conflict.
    none.metadata_mut().remove("uid");
    stage.put_status(&none).await;
    stage.note_fields("Widget", "one", &["/spec", "/status"]).await;
}
