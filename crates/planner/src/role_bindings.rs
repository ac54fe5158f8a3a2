//! Role bindings, which must be recreated to change their role.

use tidegate_model::{Gvk, Object};

/// API group of roles and bindings.
const RBAC: &str = "rbac.authorization.k8s.io";

/// Returns true if a kind is a role binding.
#[must_use]
pub fn is_role_binding(gvk: &Gvk) -> bool {
    gvk.group == RBAC && matches!(gvk.kind.as_str(), "RoleBinding" | "ClusterRoleBinding")
}

/// Returns true if a manifest binds a different role than the live binding.
#[must_use]
pub fn changes_role(manifest: &Object, live: &Object) -> bool {
    is_role_binding(&manifest.gvk()) && role_ref(manifest) != role_ref(live)
}

/// Returns the group, kind and name of the bound role. A manifest may omit the group.
fn role_ref(binding: &Object) -> (String, String, String) {
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
        let object = |group: &str, kind: &str, role: Value| {
            Object::try_from(json!({"apiVersion": format!("{group}/v1"), "kind": kind, "roleRef": role}))
                .unwrap()
        };
        let (a, b) = (json!({"kind": "Role", "name": "a"}), json!({"kind": "Role", "name": "b"}));
        let full = json!({"apiGroup": RBAC, "kind": "Role", "name": "a"});
        let of_cluster = json!({"kind": "ClusterRole", "name": "a"});
        for (group, kind, given, expected) in [
            (RBAC, "RoleBinding", &full, false),
            (RBAC, "RoleBinding", &a, false),
            (RBAC, "RoleBinding", &b, true),
            (RBAC, "ClusterRoleBinding", &b, true),
            (RBAC, "RoleBinding", &of_cluster, true),
            (RBAC, "Role", &b, false),
            ("x.org", "RoleBinding", &b, false),
        ] {
            let (manifest, live) = (object(group, kind, given.clone()), object(group, kind, full.clone()));
            assert_eq!(changes_role(&manifest, &live), expected, "{group} {kind} {given}");
        }
    }
}
