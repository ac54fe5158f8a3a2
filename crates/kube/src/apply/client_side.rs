//! Client-side apply: the difference is calculated here, from what was applied last.

use http::Method;
use serde_json::Value;
use tidegate_cluster::{Applied, ClusterError, ErrorKind};
use tidegate_model::annotations::FIELD_MANAGER;
use tidegate_model::{Gvk, Object};

use super::{Manner, said};
use crate::KubeCluster;
use crate::delete::JSON_PATCH;
use crate::patch::{LAST_APPLIED, PatchError, last_applied, take_over, three_way};
use crate::paths::Target;
use crate::server::Call;

const RBAC: &str = "rbac.authorization.k8s.io";
/// How often fields are tried to be taken over while others write to the object.
const ROUNDS: usize = 5;

impl KubeCluster {
    pub(super) async fn client_side(
        &self,
        target: &Target<'_>,
        mut object: Object,
        manner: Manner,
    ) -> Result<Applied, ClusterError> {
        let live = if target.name.is_empty() { None } else { self.read(target).await? };
        let note = last_applied(&object).map_err(|error| refused(target, &error))?;
        object.set_annotation(LAST_APPLIED, note);
        let Some(live) = live else { return self.create(target, &object, manner).await };
        if grants_another_role(&object, &live) {
            return self.recreate(target, &object, &live, manner).await;
        }
        let original: Option<Value> =
            live.annotation(LAST_APPLIED).and_then(|text| serde_json::from_str(text).ok());
        let patch = three_way(target.gvk, original.as_ref(), object.as_value(), live.as_value());
        let Some(patch) = patch.map_err(|error| refused(target, &error))? else {
            let message = said(&target.key(), "unchanged", manner);
            return Ok(Applied { object: live, created: false, message });
        };
        let mut path = target.path();
        manner.query(&mut path);
        let body = patch.body.to_string().into_bytes();
        let call = Call::write(Method::PATCH, path, patch.content_type, body, manner.operation);
        let (_, object) = self.object_call(target, &call).await?;
        Ok(Applied { object, created: false, message: said(&target.key(), "configured", manner) })
    }

    /// Makes the fields that another manager wrote by client-side apply ours.
    pub(super) async fn take_over(
        &self,
        target: &Target<'_>,
        from_manager: &str,
        manner: Manner,
    ) -> Result<(), ClusterError> {
        let mut refused = None;
        for _ in 0..ROUNDS {
            let Some(live) = self.read(target).await? else { return Ok(()) };
            let Some(patch) = take_over(&live, from_manager, FIELD_MANAGER) else { return Ok(()) };
            let path = format!("{}?fieldManager={FIELD_MANAGER}", target.path());
            let body = patch.to_string().into_bytes();
            let call = Call::write(Method::PATCH, path, JSON_PATCH, body, manner.operation);
            match self.object_call(target, &call).await {
                Ok(_) => return Ok(()),
                Err(error) if error.kind == ErrorKind::NotFound => return Ok(()),
                Err(error) if error.kind == ErrorKind::Conflict => refused = Some(error),
                Err(error) => return Err(not_taken_over(target, error)),
            }
        }
        match refused {
            Some(error) => Err(not_taken_over(target, error)),
            None => Ok(()),
        }
    }
}

fn refused(target: &Target<'_>, error: &PatchError) -> ClusterError {
    ClusterError::new(ErrorKind::Invalid, format!("{}: {error}", target.key()))
}

fn not_taken_over(target: &Target<'_>, error: ClusterError) -> ClusterError {
    let words = format!(
        "Failed to perform client-side apply migration for {}: {}",
        target.key().in_messages(),
        error.message
    );
    ClusterError::new(error.kind, words)
}

/// Whether a binding is to give another role than it does: what it gives cannot be changed, only made anew.
fn grants_another_role(manifest: &Object, live: &Object) -> bool {
    let Gvk { group, kind, .. } = manifest.gvk();
    if group != RBAC || !matches!(kind.as_str(), "RoleBinding" | "ClusterRoleBinding") {
        return false;
    }
    let role = |object: &Object| {
        let text = |field: &str| object.text(&format!("/roleRef/{field}")).to_owned();
        let group = Some(text("apiGroup")).filter(|group| !group.is_empty());
        (group.unwrap_or_else(|| RBAC.to_owned()), text("kind"), text("name"))
    };
    role(manifest) != role(live)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_another_role_makes_a_binding_anew() {
        let binding = |group: &str, kind: &str, role: Value| {
            Object::try_from(json!({"apiVersion": format!("{group}/v1"), "kind": kind, "roleRef": role}))
                .unwrap()
        };
        let live = json!({"apiGroup": RBAC, "kind": "Role", "name": "a"});
        for (role, anew) in [
            (live.clone(), false),
            (json!({"kind": "Role", "name": "a"}), false),
            (json!({"kind": "Role", "name": "b"}), true),
            (json!({"kind": "ClusterRole", "name": "a"}), true),
        ] {
            let of = |kind: &str, group: &str| {
                grants_another_role(&binding(group, kind, role.clone()), &binding(group, kind, live.clone()))
            };
            assert_eq!((of("RoleBinding", RBAC), of("ClusterRoleBinding", RBAC)), (anew, anew), "{role}");
            assert!(!of("RoleBinding", "example.org"));
        }
    }
}
