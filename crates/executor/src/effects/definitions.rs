//! Will a kind be served that is not served yet?

use serde_json::Value;
use tidegate_cluster::{Cluster, Scope};
use tidegate_model::{Gvk, Object};

use super::subject::Subject;

/// Whether the kind of a task is worth waiting for: its definition is part of the operation, or is in the cluster and
/// about to be established.
pub(super) async fn will_be_served(cluster: &dyn Cluster, subject: &Subject<'_>) -> bool {
    if subject.task.options.awaits_kind {
        return true;
    }
    let definitions = Scope::all(Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition"));
    match cluster.list(&definitions).await {
        Ok(listing) => listing.objects.iter().any(|definition| will_serve(definition, &subject.task.gvk)),
        // Who may not look has no reason to wait; whose look failed looks again.
        Err(error) => error.kind.is_transient(),
    }
}

fn will_serve(definition: &Object, gvk: &Gvk) -> bool {
    let is_true = |condition: &Value, wanted: &str, status: &str| {
        let text = |field| condition.get(field).and_then(Value::as_str);
        text("type") == Some(wanted) && text("status") == Some(status)
    };
    let conditions = definition.pointer("/status/conditions").and_then(Value::as_array);
    // Another definition has its names.
    let is_refused = conditions.into_iter().flatten().any(|one| is_true(one, "NamesAccepted", "False"));
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
    let serves = versions.into_iter().flatten().any(|version| {
        version.get("name").and_then(Value::as_str) == Some(gvk.version.as_str())
            && version.get("served").and_then(Value::as_bool).unwrap_or(false)
    });
    let names = (definition.text("/spec/group"), definition.text("/spec/names/kind"));
    names == (gvk.group.as_str(), gvk.kind.as_str()) && serves && !is_refused && !definition.is_deleting()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_definition_of_the_kind_and_version_makes_it_worth_waiting() {
        let accepted = json!([{"type": "NamesAccepted", "status": "True"}]);
        let refused = json!([{"type": "NamesAccepted", "status": "False"}]);
        for (group, kind, version, served, conditions, expected) in [
            ("example.com", "Widget", "v1", true, &accepted, true),
            ("example.com", "Widget", "v1", true, &json!([]), true),
            ("example.com", "Widget", "v1", true, &refused, false),
            ("example.com", "Widget", "v1", false, &accepted, false),
            ("example.com", "Widget", "v2", true, &accepted, false),
            ("example.com", "Gadget", "v1", true, &accepted, false),
            ("example.org", "Widget", "v1", true, &accepted, false),
        ] {
            let definition = json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": "x"}, "status": {"conditions": conditions},
                "spec": {"group": group, "names": {"kind": kind}, "versions": [{"name": version, "served": served}]},
            });
            let definition = Object::try_from(definition).unwrap();
            let found = will_serve(&definition, &Gvk::new("example.com", "v1", "Widget"));
            assert_eq!(found, expected, "{definition}");
        }
    }
}
