//! Reads resources that select clusters, as described by a generator's ConfigMap.

use std::collections::BTreeMap;

use serde_json::Value;
use tidegate_generate::{Decisions, Selector};
use tidegate_model::argo::ClusterDecisionResourceGenerator;
use tidegate_model::{Discovery, Gvk, Object};

use tidegate_app_controller::generator_inputs::ObjectSources;

/// Default name of the list of decisions in the resource's status.
const DEFAULT_LIST: &str = "clusters";

/// Returns the decisions in the resources that a generator selects in the ApplicationSet's namespace.
pub(super) fn find_decisions(
    objects: &ObjectSources<'_>,
    namespace: &str,
    generator: &ClusterDecisionResourceGenerator,
) -> Result<Decisions, String> {
    let name = &generator.config_map_ref;
    let home = objects.control_namespace;
    let config = objects.find("ConfigMap", home, name)?.ok_or_else(|| {
        format!(
            "ConfigMap {home}/{name} not found; create it with the apiVersion, kind and matchKey of the \
             resources"
        )
    })?;
    let text =
        |key: &str| config.pointer(&format!("/data/{key}")).and_then(Value::as_str).unwrap_or_default();
    for key in ["apiVersion", "kind", "matchKey"] {
        if text(key).is_empty() {
            return Err(format!("ConfigMap {home}/{name} has no key {key}"));
        }
    }
    let gvk = find_gvk(&objects.discover()?, text("apiVersion"), text("kind")).ok_or_else(|| {
        format!(
            "ConfigMap {home}/{name} specifies kind {} in {}, but the cluster does not serve that kind",
            text("kind"),
            text("apiVersion")
        )
    })?;
    let found = match &generator.label_selector {
        None => objects.get(&gvk, namespace, &generator.name)?.into_iter().collect(),
        Some(selector) => {
            let selector = Selector::new(selector).map_err(|problem| problem.to_string())?;
            let all = objects.list(&gvk, namespace)?;
            all.into_iter().filter(|one| selector.matches_labels(&object_labels(one))).collect::<Vec<_>>()
        }
    };
    let list = match text("statusListKey") {
        "" => DEFAULT_LIST,
        list => list,
    };
    Ok(Decisions {
        status_list_key: list.to_owned(),
        match_key: text("matchKey").to_owned(),
        resources: found.iter().map(|one| (one.name().to_owned(), object_status(one))).collect(),
    })
}

fn object_status(object: &Object) -> Value {
    object.as_value().get("status").cloned().unwrap_or_default()
}

fn object_labels(object: &Object) -> BTreeMap<String, String> {
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
    labels.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}

/// Finds a kind by its name or, as Argo CD requires, by its plural resource name.
fn find_gvk(discovery: &Discovery, api_version: &str, named: &str) -> Option<Gvk> {
    let gvk = Gvk::from_api_version(api_version, named);
    let named = named.to_ascii_lowercase();
    let is_it = |kind: &str| {
        let kind = kind.to_ascii_lowercase();
        kind == named || guess_plural(&kind) == named
    };
    let mut kinds = discovery.kinds.iter().filter(|(kind, info)| {
        kind.group == gvk.group && is_it(&kind.kind) && info.versions.contains(&gvk.version)
    });
    kinds.next().map(|(kind, _)| Gvk::new(&kind.group, &gvk.version, &kind.kind))
}

/// Guesses the plural as Kubernetes does. Nearly all definitions follow this rule.
fn guess_plural(kind: &str) -> String {
    match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if kind.ends_with('s') => format!("{kind}es"),
        None => format!("{kind}s"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use tidegate_model::{GroupKind, KindInfo};

    use super::*;

    #[test]
    fn a_kind_is_found_by_its_name_and_its_plural() {
        let group = "cluster.open-cluster-management.io";
        let info = KindInfo { versions: vec!["v1".to_owned(), "v1beta1".to_owned()], namespaced: true };
        let kinds = ["PlacementDecision", "Policy", "Status"];
        let kinds = kinds.into_iter().map(|kind| (GroupKind::new(group, kind), info.clone())).collect();
        let discovery = Discovery { kinds, ..Discovery::default() };
        for (version, named, expected) in [
            ("v1beta1", "placementdecisions", Some("PlacementDecision")),
            ("v1", "PlacementDecision", Some("PlacementDecision")),
            ("v1", "policies", Some("Policy")),
            ("v1", "statuses", Some("Status")),
            ("v2", "policies", None),
            ("v1", "placements", None),
        ] {
            let found = find_gvk(&discovery, &format!("{group}/{version}"), named);
            assert_eq!(found, expected.map(|kind| Gvk::new(group, version, kind)), "{version} {named}");
        }
        assert_eq!(find_gvk(&discovery, "v1", "policies"), None, "of another group");
    }
}
