//! The resources that decide for clusters, as the ConfigMap of a generator describes them.

use std::collections::BTreeMap;

use serde_json::Value;
use tidegate_generate::{Decisions, Selector};
use tidegate_model::argo::ClusterDecisionResourceGenerator;
use tidegate_model::{Discovery, Gvk, Object};

use crate::generating::Objects;

/// The list of a status, where the ConfigMap does not say.
const CLUSTERS: &str = "clusters";

/// The resources of the namespace of a set that a generator names.
pub(super) fn find(
    objects: &Objects<'_>,
    namespace: &str,
    generator: &ClusterDecisionResourceGenerator,
) -> Result<Decisions, String> {
    let name = &generator.config_map_ref;
    let home = objects.home;
    let config = objects.find("ConfigMap", home, name)?.ok_or_else(|| {
        format!(
            "there is no ConfigMap {home}/{name}; it says which kind the resources have, and what of their status counts"
        )
    })?;
    let text =
        |key: &str| config.pointer(&format!("/data/{key}")).and_then(Value::as_str).unwrap_or_default();
    for key in ["apiVersion", "kind", "matchKey"] {
        if text(key).is_empty() {
            return Err(format!("{key} is missing in the data of ConfigMap {home}/{name}"));
        }
    }
    let gvk = meant(&objects.kinds()?, text("apiVersion"), text("kind")).ok_or_else(|| {
        format!(
            "the cluster serves no {} of {}, which ConfigMap {home}/{name} names",
            text("kind"),
            text("apiVersion")
        )
    })?;
    let found = match &generator.label_selector {
        None => objects.get(&gvk, namespace, &generator.name)?.into_iter().collect(),
        Some(selector) => {
            let selector = Selector::new(selector).map_err(|problem| problem.to_string())?;
            let all = objects.list(&gvk, namespace)?;
            all.into_iter().filter(|one| selector.matches_labels(&labels(one))).collect::<Vec<_>>()
        }
    };
    let list = match text("statusListKey") {
        "" => CLUSTERS,
        list => list,
    };
    Ok(Decisions {
        status_list_key: list.to_owned(),
        match_key: text("matchKey").to_owned(),
        resources: found.iter().map(|one| (one.name().to_owned(), status(one))).collect(),
    })
}

fn status(object: &Object) -> Value {
    object.as_value().get("status").cloned().unwrap_or_default()
}

fn labels(object: &Object) -> BTreeMap<String, String> {
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
    labels.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}

/// The kind that is meant: by its own name, or by that of its resources in the plural, which Argo CD wants.
fn meant(discovery: &Discovery, api_version: &str, named: &str) -> Option<Gvk> {
    let wanted = Gvk::from_api_version(api_version, named);
    let named = named.to_ascii_lowercase();
    let is_it = |kind: &str| {
        let kind = kind.to_ascii_lowercase();
        kind == named || plural(&kind) == named
    };
    let mut kinds = discovery.kinds.iter().filter(|(kind, info)| {
        kind.group == wanted.group && is_it(&kind.kind) && info.versions.contains(&wanted.version)
    });
    kinds.next().map(|(kind, _)| Gvk::new(&kind.group, &wanted.version, &kind.kind))
}

/// How Kubernetes itself guesses it, and how practically all definitions write it.
fn plural(kind: &str) -> String {
    match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if kind.ends_with('s') => format!("{kind}es"),
        None => format!("{kind}s"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use tidegate_model::{GroupKind, KindInfo};

    use super::*;

    #[test]
    fn a_kind_is_known_by_both_of_its_names() {
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
            let found = meant(&discovery, &format!("{group}/{version}"), named);
            assert_eq!(found, expected.map(|kind| Gvk::new(group, version, kind)), "{version} {named}");
        }
        assert_eq!(meant(&discovery, "v1", "policies"), None, "of another group");
    }
}
