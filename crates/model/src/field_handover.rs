//! Transfer of fields from another field manager to Tidegate.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::Object;
use crate::annotations::{
    ARGO_CD_MANAGERS, FIELD_MANAGER, POST_DELETE_FINALIZER, PRE_DELETE_FINALIZER, RESOURCES_FINALIZER,
    is_finalizer_or_stage,
};
use crate::argo::GROUP;

/// Sync option that names a field manager. Tidegate takes over its fields in all objects of an application.
/// For a single resource, use the annotation [`MIGRATION_MANAGER`](crate::annotations::MIGRATION_MANAGER).
pub const MIGRATION_OPTION: &str = "ClientSideApplyMigrationManager";

/// Fields that a manager wrote with updates, according to `managedFields`, split in two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldHandover {
    /// Fields that Tidegate takes over. They are removed from the object unless a manifest sets them.
    pub transferred: Map<String, Value>,
    /// Fields that the manager keeps because manifests don't control them. These are the status, an
    /// Application's requested operation, and finalizers that controllers add to Applications and
    /// ApplicationSets.
    pub retained: Map<String, Value>,
}

impl FieldHandover {
    /// Splits the fields that a manager wrote to an object.
    pub fn split(object: &Object, manager: &str, fields: &Map<String, Value>) -> Self {
        let mut parts = Self { transferred: fields.clone(), retained: Map::new() };
        parts.retain_field("f:status");
        match (object.group(), object.kind()) {
            (GROUP, "Application") => {
                parts.retain_field("f:operation");
                parts.retain_finalizers(|one| {
                    is_finalizer_or_stage(one, PRE_DELETE_FINALIZER)
                        || is_finalizer_or_stage(one, POST_DELETE_FINALIZER)
                });
            }
            // Users can set this finalizer in a manifest, but earlier versions of Tidegate also added it,
            // under the engine's field manager.
            (GROUP, "ApplicationSet") if manager == FIELD_MANAGER => {
                parts.retain_finalizers(|one| one == RESOURCES_FINALIZER);
            }
            _ => {}
        }
        parts
    }

    fn retain_field(&mut self, name: &str) {
        if let Some(fields) = self.transferred.remove(name) {
            self.retained.insert(name.to_owned(), fields);
        }
    }

    fn retain_finalizers(&mut self, stays: impl Fn(&str) -> bool) {
        const PATH: [&str; 2] = ["f:metadata", "f:finalizers"];
        let Some(metadata) = self.transferred.get_mut(PATH[0]).and_then(Value::as_object_mut) else { return };
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
        // The list's own entry (`.`) belongs to the manager that owns its items.
        left.extend(taken.get(".").map(|whole| (".".to_owned(), whole.clone())));
        match taken.keys().any(|name| name != ".") {
            true => *list = taken,
            false => drop(metadata.remove(PATH[1])),
        }
        if metadata.is_empty() {
            self.transferred.remove(PATH[0]);
        }
        let metadata = Map::from_iter([(PATH[1].to_owned(), Value::Object(left))]);
        self.retained.insert(PATH[0].to_owned(), Value::Object(metadata));
    }
}

/// Returns true if Tidegate can take over the fields of a `managedFields` entry. The manager must have
/// written them with updates, or Argo CD's controller by server-side apply.
pub fn can_be_taken_over(entry: &Value, manager: &str) -> bool {
    let text = |field| entry.get(field).and_then(Value::as_str).unwrap_or_default();
    let operation = text("operation");
    text("manager") == manager
        && text("subresource").is_empty()
        && (operation == "Update" || (operation == "Apply" && ARGO_CD_MANAGERS.contains(&manager)))
}

/// Serialization of the managers whose fields Tidegate takes over. Older records and journals have at most
/// one manager. For compatibility, a single one is written as a string, and an empty list as null.
pub mod managers {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    #[derive(serde::Serialize, serde::Deserialize)]
    #[serde(untagged)]
    enum ManagerNames {
        One(Option<String>),
        All(Vec<String>),
    }

    /// Serializes the managers. In binary formats, a list of at most one item has the same bytes as an
    /// `Option`.
    ///
    /// # Errors
    ///
    /// Fails if the serializer does.
    pub fn serialize<S: Serializer>(managers: &[String], serializer: S) -> Result<S::Ok, S::Error> {
        match managers {
            _ if !serializer.is_human_readable() => managers.serialize(serializer),
            [] => ManagerNames::One(None).serialize(serializer),
            [one] => ManagerNames::One(Some(one.clone())).serialize(serializer),
            all => ManagerNames::All(all.to_vec()).serialize(serializer),
        }
    }

    /// Deserializes the managers.
    ///
    /// # Errors
    ///
    /// Fails if the deserializer does.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
        if !deserializer.is_human_readable() {
            return Vec::deserialize(deserializer);
        }
        Ok(match ManagerNames::deserialize(deserializer)? {
            ManagerNames::One(manager) => manager.into_iter().collect(),
            ManagerNames::All(managers) => managers,
        })
    }
}

/// Returns the fields of a `managedFields` entry, stored as a map or as JSON text.
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

    #[test]
    fn entries_that_can_be_taken_over() {
        let entry = |manager: &str, operation: &str, subresource: &str| json!({"manager": manager, "operation": operation, "subresource": subresource});
        for (manager, operation, subresource, expected) in [
            ("argocd-controller", "Update", "", true),
            ("argocd-controller", "Apply", "", true),
            ("argocd-controller", "Update", "status", false),
            ("argocd-controller", "Apply", "scale", false),
            ("argocd-application-controller", "Update", "", true),
            ("argocd-application-controller", "Apply", "", true),
            ("argocd-application-controller", "Update", "status", false),
            ("kubectl", "Update", "", true),
            ("kubectl", "Apply", "", false),
            ("tidegate", "Apply", "", false),
        ] {
            let entry = entry(manager, operation, subresource);
            assert_eq!(can_be_taken_over(&entry, manager), expected, "{entry}");
            assert!(!can_be_taken_over(&entry, "another"), "{entry}");
        }
    }

    /// Records from before the support for multiple managers keep their format.
    #[test]
    fn one_manager_is_written_as_an_option() {
        #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        struct Record {
            #[serde(default, with = "managers")]
            take_over: Vec<String>,
        }
        for (names, text) in [(&[][..], json!(null)), (&["a"], json!("a")), (&["a", "b"], json!(["a", "b"]))]
        {
            let record = Record { take_over: names.iter().map(|name| (*name).to_owned()).collect() };
            let written = serde_json::to_value(&record).unwrap();
            assert_eq!(written, json!({"take_over": text}));
            assert_eq!(serde_json::from_value::<Record>(written).unwrap(), record);
        }
        assert_eq!(serde_json::from_value::<Record>(json!({})).unwrap().take_over, Vec::<String>::new());
    }

    fn parts(api_version: &str, kind: &str, manager: &str, fields: Value) -> (Value, Value) {
        let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}});
        let object = Object::try_from(object).unwrap();
        let FieldHandover { transferred: taken, retained: left } =
            FieldHandover::split(&object, manager, fields.as_object().unwrap());
        (taken.into(), left.into())
    }

    #[test]
    fn fields_outside_of_manifests_stay() {
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
            // Any object, with any manager.
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
