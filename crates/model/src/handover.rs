//! Which fields of another manager become Tidegate's when it takes over what that wrote?

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::Object;
use crate::annotations::{
    FIELD_MANAGER, POST_DELETE_FINALIZER, PRE_DELETE_FINALIZER, RESOURCES_FINALIZER, is_stage_of,
};
use crate::argo::GROUP;

/// Fields that a manager wrote by updates, as `managedFields` has them, in two parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HandOver {
    /// Those that become Tidegate's, and go when no manifest gives them.
    pub taken: Map<String, Value>,
    /// Those that stay the manager's, as no manifest is asked about them: a status, the operation that an Application asks
    /// for, and the finalizers that whoever serves Applications and ApplicationSets puts on them.
    pub left: Map<String, Value>,
}

impl HandOver {
    /// What a manager wrote of an object.
    pub fn of(object: &Object, manager: &str, fields: &Map<String, Value>) -> Self {
        let mut parts = Self { taken: fields.clone(), left: Map::new() };
        parts.leave("f:status");
        match (object.group(), object.kind()) {
            (GROUP, "Application") => {
                parts.leave("f:operation");
                parts.leave_finalizers(|one| {
                    is_stage_of(one, PRE_DELETE_FINALIZER) || is_stage_of(one, POST_DELETE_FINALIZER)
                });
            }
            // People write that one as well; what earlier versions have put there bears the name of the engine.
            (GROUP, "ApplicationSet") if manager == FIELD_MANAGER => {
                parts.leave_finalizers(|one| one == RESOURCES_FINALIZER);
            }
            _ => {}
        }
        parts
    }

    fn leave(&mut self, name: &str) {
        if let Some(fields) = self.taken.remove(name) {
            self.left.insert(name.to_owned(), fields);
        }
    }

    fn leave_finalizers(&mut self, stays: impl Fn(&str) -> bool) {
        const PATH: [&str; 2] = ["f:metadata", "f:finalizers"];
        let Some(metadata) = self.taken.get_mut(PATH[0]).and_then(Value::as_object_mut) else { return };
        let Some(list) = metadata.get_mut(PATH[1]).and_then(Value::as_object_mut) else { return };
        let is_left = |name: &str| {
            let item = name.strip_prefix("v:").and_then(|item| serde_json::from_str::<String>(item).ok());
            item.is_some_and(|item| stays(&item))
        };
        let (mut left, taken): (Map<_, _>, Map<_, _>) =
            std::mem::take(list).into_iter().partition(|(name, _)| is_left(name));
        if left.is_empty() {
            *list = taken;
            return;
        }
        // The list itself is whose the items are.
        left.extend(taken.get(".").map(|whole| (".".to_owned(), whole.clone())));
        match taken.keys().any(|name| name != ".") {
            true => *list = taken,
            false => drop(metadata.remove(PATH[1])),
        }
        if metadata.is_empty() {
            self.taken.remove(PATH[0]);
        }
        let metadata = Map::from_iter([(PATH[1].to_owned(), Value::Object(left))]);
        self.left.insert(PATH[0].to_owned(), Value::Object(metadata));
    }
}

/// The fields of an entry of `managedFields`: a map, or the JSON text of one.
pub fn managed_fields(entry: &Value) -> Option<Cow<'_, Map<String, Value>>> {
    match entry.get("fieldsV1")? {
        Value::Object(fields) => Some(Cow::Borrowed(fields)),
        Value::String(text) => serde_json::from_str(text).ok().map(Cow::Owned),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parts(api_version: &str, kind: &str, manager: &str, fields: Value) -> (Value, Value) {
        let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}});
        let object = Object::try_from(object).unwrap();
        let HandOver { taken, left } = HandOver::of(&object, manager, fields.as_object().unwrap());
        (taken.into(), left.into())
    }

    #[test]
    fn what_no_manifest_is_asked_about_stays() {
        const ARGO: &str = "argoproj.io/v1alpha1";
        let (post, cleanup) = (
            r#"v:"post-delete-finalizer.argocd.argoproj.io""#,
            r#"v:"pre-delete-finalizer.argocd.argoproj.io/cleanup""#,
        );
        let resources = r#"v:"resources-finalizer.argocd.argoproj.io""#;
        let finalizers = |names: &[&str]| {
            let items = names.iter().map(|name| ((*name).to_owned(), json!({})));
            json!({"f:metadata": {"f:finalizers": Value::Object(items.collect())}})
        };
        let with = |mut fields: Value, more: Value| {
            fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            fields
        };
        let known = json!({"f:status": {"f:health": {}}, "f:operation": {"f:sync": {}}});
        let spec = json!({"f:spec": {"f:project": {}}});
        for (api_version, kind, manager, fields, taken, left) in [
            // Of anything, whoever wrote it.
            (
                "example.com/v1",
                "Thing",
                "kubectl-client-side-apply",
                with(known.clone(), spec.clone()),
                with(json!({"f:operation": {"f:sync": {}}}), spec.clone()),
                json!({"f:status": {"f:health": {}}}),
            ),
            (ARGO, "Application", "kubectl-client-side-apply", known.clone(), json!({}), known.clone()),
            (
                ARGO,
                "Application",
                "tidegate",
                finalizers(&[".", post, cleanup, resources]),
                finalizers(&[".", resources]),
                finalizers(&[".", post, cleanup]),
            ),
            (
                ARGO,
                "Application",
                "tidegate",
                with(finalizers(&[".", post]), spec.clone()),
                spec.clone(),
                finalizers(&[".", post]),
            ),
            (ARGO, "Application", "kubectl-client-side-apply", spec.clone(), spec.clone(), json!({})),
            (
                ARGO,
                "ApplicationSet",
                "tidegate",
                finalizers(&[resources]),
                json!({}),
                finalizers(&[resources]),
            ),
            (
                ARGO,
                "ApplicationSet",
                "kubectl-client-side-apply",
                finalizers(&[resources]),
                finalizers(&[resources]),
                json!({}),
            ),
            ("v1", "ConfigMap", "tidegate", finalizers(&[post]), finalizers(&[post]), json!({})),
        ] {
            let found = parts(api_version, kind, manager, fields.clone());
            assert_eq!(found, (taken, left), "{kind} {manager} {fields}");
        }
    }
}
