//! Predictions about kinds that the cluster doesn't serve yet.

use serde_json::Value;
use tidegate_cluster::{Cluster, Scope};
use tidegate_model::{Gvk, Object};

use super::subject::Subject;

const GROUP: &str = "apiextensions.k8s.io";
const KIND: &str = "CustomResourceDefinition";

/// Explains from a kind's definition why it is pointless to wait for the kind. Returns `None` if the
/// operation should wait, because the definition is part of the operation, or is in the cluster and will soon
/// be established.
pub(super) async fn explain_unserved_kind(cluster: &dyn Cluster, subject: &Subject<'_>) -> Option<String> {
    let awaits_kind = subject.task.options.awaits_kind;
    let definitions = Scope::complete_objects(Gvk::new(GROUP, "v1", KIND));
    match cluster.list(&definitions).await {
        Ok(listing) => explain_by_definitions(&listing.objects, &subject.task.gvk, awaits_kind),
        // Without permission to read the definition, don't wait for a kind that the operation doesn't define.
        // After a transient error, wait and retry.
        Err(error) => (!awaits_kind && !error.kind.is_transient()).then(String::new),
    }
}

fn explain_by_definitions(definitions: &[Object], gvk: &Gvk, awaits_kind: bool) -> Option<String> {
    let defines = |definition: &&Object| {
        let names = (definition.text("/spec/group"), definition.text("/spec/names/kind"));
        names == (gvk.group.as_str(), gvk.kind.as_str())
    };
    // Ignore a definition being deleted: only a new one could serve the kind.
    let is_there = |definition: &&Object| !definition.is_deleting();
    let mut reasons = Vec::new();
    for definition in definitions.iter().filter(defines).filter(is_there) {
        reasons.push(explain_unserved_version(definition, gvk)?);
    }
    (!(awaits_kind && reasons.is_empty())).then(|| reasons.join("; "))
}

/// Explains why a definition doesn't serve the requested version of its kind.
fn explain_unserved_version(definition: &Object, gvk: &Gvk) -> Option<String> {
    if let Some(refused) = name_conflict_message(definition) {
        return Some(refused);
    }
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
    let is_served = |version: &&Value| version.get("served").and_then(Value::as_bool).unwrap_or(false);
    let served = versions.into_iter().flatten().filter(is_served);
    let names: Vec<&str> = served.filter_map(|version| version.get("name").and_then(Value::as_str)).collect();
    let is_wanted = names.contains(&gvk.version.as_str());
    (!is_wanted).then(|| {
        let (name, version) = (definition.name(), &gvk.version);
        let others = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        format!("CustomResourceDefinition {name} does not serve {version}; served versions: {others}")
    })
}

/// Explains why a newly written definition will never be established. A definition established earlier
/// continues to serve its kind.
pub(super) fn explain_unestablished(written: &Object) -> Option<String> {
    let is_definition = (written.group(), written.kind()) == (GROUP, KIND);
    let is_established = || find_condition(written, "Established", "True").is_some();
    if is_definition && !is_established() { name_conflict_message(written) } else { None }
}

/// Returns the message for a definition with names that conflict with another definition's.
fn name_conflict_message(definition: &Object) -> Option<String> {
    let refused = find_condition(definition, "NamesAccepted", "False")?;
    let message = refused.get("message").and_then(Value::as_str).unwrap_or_default();
    Some(format!("the names in CustomResourceDefinition {} are not accepted: {message}", definition.name()))
}

fn find_condition<'o>(definition: &'o Object, kind: &str, status: &str) -> Option<&'o Value> {
    let conditions = definition.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().find(|condition| {
        let text = |field| condition.get(field).and_then(Value::as_str);
        text("type") == Some(kind) && text("status") == Some(status)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn waiting_requires_a_definition_of_the_kind_and_version() {
        let accepted = json!([{"type": "NamesAccepted", "status": "True"}]);
        let refused =
            json!([{"type": "NamesAccepted", "status": "False", "message": "\"Widget\" is already in use"}]);
        let (nothing, taken) = (
            Some(""),
            Some("the names in CustomResourceDefinition x are not accepted: \"Widget\" is already in use"),
        );
        let (not_served, other) = (
            Some("CustomResourceDefinition x does not serve v1; served versions: none"),
            Some("CustomResourceDefinition x does not serve v1; served versions: v2"),
        );
        // The last two columns are the expected reasons, first without and then with the kind's definition in
        // the operation.
        for (group, kind, version, served, conditions, strange, brought) in [
            ("example.com", "Widget", "v1", true, &accepted, None, None),
            ("example.com", "Widget", "v1", true, &json!([]), None, None),
            ("example.com", "Widget", "v1", true, &refused, taken, taken),
            ("example.com", "Widget", "v1", false, &accepted, not_served, not_served),
            ("example.com", "Widget", "v2", true, &accepted, other, other),
            ("example.com", "Gadget", "v1", true, &accepted, nothing, None),
            ("example.org", "Widget", "v1", true, &accepted, nothing, None),
        ] {
            let mut definition = json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": "x"}, "status": {"conditions": conditions},
                "spec": {"group": group, "names": {"kind": kind}, "versions": [{"name": version, "served": served}]},
            });
            let wanted = Gvk::new("example.com", "v1", "Widget");
            let reason = |definition: &Value, awaits_kind| {
                explain_by_definitions(&[Object::try_from(definition.clone()).unwrap()], &wanted, awaits_kind)
            };
            assert_eq!(reason(&definition, false).as_deref(), strange, "{definition}");
            assert_eq!(reason(&definition, true).as_deref(), brought, "{definition}");
            definition["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            assert_eq!(reason(&definition, false).as_deref(), nothing, "{definition}");
            assert_eq!(reason(&definition, true), None, "{definition}");
        }
    }
}
