//! Bindings of roles, whose role cannot be changed: with another one they are made anew.

use tidegate_model::{Gvk, Object};

/// The group of roles and bindings.
const RBAC: &str = "rbac.authorization.k8s.io";

/// Whether an object gives somebody a role.
#[must_use]
pub fn is_binding(gvk: &Gvk) -> bool {
    gvk.group == RBAC && matches!(gvk.kind.as_str(), "RoleBinding" | "ClusterRoleBinding")
}

/// Whether a manifest is a binding that gives another role than the one in the cluster does.
#[must_use]
pub fn gives_another_role(manifest: &Object, live: &Object) -> bool {
    is_binding(&manifest.gvk()) && role(manifest) != role(live)
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
            assert_eq!(gives_another_role(&manifest, &live), expected, "{group} {kind} {given}");
        }
    }
}
