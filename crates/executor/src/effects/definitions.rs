//! Will a kind be served that is not served yet?

use serde_json::Value;
use tidegate_cluster::{Cluster, Scope};
use tidegate_model::{Gvk, Object};

use super::subject::Subject;

const GROUP: &str = "apiextensions.k8s.io";
const KIND: &str = "CustomResourceDefinition";

/// Why the kind of a task is not worth waiting for, as far as its definition tells; `None` where it is: its definition is in
/// the cluster and about to be established, or will come with the operation.
pub(super) async fn why_never_served(cluster: &dyn Cluster, subject: &Subject<'_>) -> Option<String> {
    let awaits_kind = subject.task.options.awaits_kind;
    let definitions = Scope::all(Gvk::new(GROUP, "v1", KIND));
    match cluster.list(&definitions).await {
        Ok(listing) => judge(&listing.objects, &subject.task.gvk, awaits_kind),
        // Who may not look has no reason to wait; whose look failed looks again.
        Err(error) => (!awaits_kind && !error.kind.is_transient()).then(String::new),
    }
}

fn judge(definitions: &[Object], gvk: &Gvk, awaits_kind: bool) -> Option<String> {
    let defines = |definition: &&Object| {
        let names = (definition.text("/spec/group"), definition.text("/spec/names/kind"));
        names == (gvk.group.as_str(), gvk.kind.as_str())
    };
    // One that goes makes room for that of the operation.
    let is_there = |definition: &&Object| !definition.is_deleting();
    let mut reasons = Vec::new();
    for definition in definitions.iter().filter(defines).filter(is_there) {
        reasons.push(why_not(definition, gvk)?);
    }
    (!(awaits_kind && reasons.is_empty())).then(|| reasons.join("; "))
}

/// Why a definition will not serve a version of its kind.
fn why_not(definition: &Object, gvk: &Gvk) -> Option<String> {
    if let Some(refused) = names_refused(definition) {
        return Some(refused);
    }
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
    let is_served = |version: &&Value| version.get("served").and_then(Value::as_bool).unwrap_or(false);
    let served = versions.into_iter().flatten().filter(is_served);
    let names: Vec<&str> = served.filter_map(|version| version.get("name").and_then(Value::as_str)).collect();
    let is_wanted = names.contains(&gvk.version.as_str());
    (!is_wanted).then(|| {
        let (name, version) = (definition.name(), &gvk.version);
        let others = if names.is_empty() { "no version".to_owned() } else { names.join(", ") };
        format!("definition {name} serves {others} and not {version}")
    })
}

/// Why a definition that was written will never be established. One that was before serves its kind on.
pub(super) fn why_never_established(written: &Object) -> Option<String> {
    let is_definition = (written.group(), written.kind()) == (GROUP, KIND);
    let is_established = || condition(written, "Established", "True").is_some();
    if is_definition && !is_established() { names_refused(written) } else { None }
}

/// The words for a definition whose names another one has.
fn names_refused(definition: &Object) -> Option<String> {
    let refused = condition(definition, "NamesAccepted", "False")?;
    let message = refused.get("message").and_then(Value::as_str).unwrap_or_default();
    Some(format!("the names of definition {} are not accepted: {message}", definition.name()))
}

fn condition<'o>(definition: &'o Object, kind: &str, status: &str) -> Option<&'o Value> {
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
    fn only_a_definition_of_the_kind_and_version_makes_it_worth_waiting() {
        let accepted = json!([{"type": "NamesAccepted", "status": "True"}]);
        let refused =
            json!([{"type": "NamesAccepted", "status": "False", "message": "\"Widget\" is already in use"}]);
        let (nothing, taken) =
            (Some(""), Some("the names of definition x are not accepted: \"Widget\" is already in use"));
        let (not_served, other) =
            (Some("definition x serves no version and not v1"), Some("definition x serves v2 and not v1"));
        // The last two: for a kind that nobody brings, and for one whose definition is part of the operation.
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
            let why = |definition: &Value, awaits_kind| {
                judge(&[Object::try_from(definition.clone()).unwrap()], &wanted, awaits_kind)
            };
            assert_eq!(why(&definition, false).as_deref(), strange, "{definition}");
            assert_eq!(why(&definition, true).as_deref(), brought, "{definition}");
            definition["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            assert_eq!(why(&definition, false).as_deref(), nothing, "{definition}");
            assert_eq!(why(&definition, true), None, "{definition}");
        }
    }
}
