//! Bindings of roles, whose role cannot be changed.

use tidegate_cluster::{Cluster, ClusterError};
use tidegate_model::{Gvk, Object};

/// The group of roles and bindings.
pub(super) const RBAC: &str = "rbac.authorization.k8s.io";

/// Whether an object gives somebody a role.
pub(super) fn is_binding(object: &Object) -> bool {
    let Gvk { group, kind, .. } = object.gvk();
    group == RBAC && matches!(kind.as_str(), "RoleBinding" | "ClusterRoleBinding")
}

/// Whether a binding is to give another role than the one in the cluster gives.
pub(super) async fn gives_another_role(
    cluster: &dyn Cluster,
    manifest: &Object,
) -> Result<bool, ClusterError> {
    let live = cluster.get(&manifest.gvk(), manifest.namespace(), manifest.name()).await?;
    Ok(live.is_some_and(|live| role(manifest) != role(&live)))
}

/// Group, kind and name of the role; a manifest may leave out the group.
fn role(binding: &Object) -> (String, String, String) {
    let text = |field: &str| binding.text(&format!("/roleRef/{field}")).to_owned();
    let group = Some(text("apiGroup")).filter(|group| !group.is_empty());
    (group.unwrap_or_else(|| RBAC.to_owned()), text("kind"), text("name"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn roles_are_compared_as_the_server_reads_them() {
        let binding = |group: &str, kind: &str, role: Value| {
            Object::try_from(json!({"apiVersion": format!("{group}/v1"), "kind": kind, "roleRef": role}))
                .unwrap()
        };
        let live = json!({"apiGroup": RBAC, "kind": "Role", "name": "a"});
        for (given, other) in [
            (live.clone(), false),
            (json!({"kind": "Role", "name": "a"}), false),
            (json!({"kind": "Role", "name": "b"}), true),
            (json!({"kind": "ClusterRole", "name": "a"}), true),
        ] {
            let of = |given: &Value| role(&binding(RBAC, "RoleBinding", given.clone()));
            assert_eq!(of(&given) != of(&live), other, "{given}");
        }
        for (group, kind, expected) in [
            (RBAC, "RoleBinding", true),
            (RBAC, "ClusterRoleBinding", true),
            (RBAC, "Role", false),
            ("x.org", "RoleBinding", false),
        ] {
            assert_eq!(is_binding(&binding(group, kind, json!({}))), expected, "{group} {kind}");
        }
    }
}
