//! Deserialization of resources, with errors that identify the invalid field.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{AppProject, Application, ApplicationSet, crds};

/// Error returned when a resource can't be deserialized.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}", field_prefix(.field))]
pub struct InvalidResource {
    /// Path of the field, such as `spec.strategy.rollingSync.steps[0]`. Empty if the error concerns the whole
    /// resource.
    pub field: String,
    /// Description of the problem with the field.
    pub problem: String,
}

fn field_prefix(field: &str) -> String {
    if field.is_empty() { String::new() } else { format!("{field}: ") }
}

/// Custom resource that can be deserialized and validated.
pub trait Resource: DeserializeOwned {
    /// Returns the schema from the custom resource definition.
    fn schema() -> &'static Value;
}

impl Resource for Application {
    fn schema() -> &'static Value {
        crds::crd_schema("Application")
    }
}

impl Resource for ApplicationSet {
    fn schema() -> &'static Value {
        crds::crd_schema("ApplicationSet")
    }
}

impl Resource for AppProject {
    fn schema() -> &'static Value {
        crds::crd_schema("AppProject")
    }
}

/// Deserializes a resource from JSON. As on an API server, null means that a field is unset.
///
/// # Errors
///
/// Returns an error if a field has the wrong type or a required field is missing.
pub fn read_resource<T: Resource>(value: &Value) -> Result<T, InvalidResource> {
    deserialize(value).or_else(|error| {
        let mut said = value.clone();
        if let Some(metadata) = said.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.retain(|_, value| !value.is_null());
        }
        drop_nulls(T::schema(), &mut said);
        if &said == value { Err(error) } else { deserialize(&said) }
    })
}

/// Removes null fields, except where the schema permits any value.
fn drop_nulls(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let of = |name: &str| {
                let field = schema.get("properties").and_then(|fields| fields.get(name));
                field.or_else(|| schema.get("additionalProperties"))
            };
            let is_typed = |name: &str| of(name).is_some_and(|field| field.get("type").is_some());
            fields.retain(|name, value| !value.is_null() || !is_typed(name));
            for (name, value) in fields {
                of(name).into_iter().for_each(|field| drop_nulls(field, value));
            }
        }
        Value::Array(entries) => {
            let items = schema.get("items");
            entries.iter_mut().for_each(|entry| items.into_iter().for_each(|items| drop_nulls(items, entry)));
        }
        _ => {}
    }
}

fn deserialize<T: DeserializeOwned>(value: &Value) -> Result<T, InvalidResource> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        // `serde_path_to_error` reports the resource itself as a dot.
        let field = match error.path().to_string() {
            path if path == "." => String::new(),
            path => path,
        };
        InvalidResource { field, problem: error.into_inner().to_string() }
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::argo::{Application, ApplicationSet};

    #[test]
    fn the_error_names_the_invalid_field() {
        let set = |spec: Value| {
            json!({
                "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
                "metadata": {"name": "fleet"}, "spec": spec,
            })
        };
        let template = json!({"metadata": {"name": "a"}, "spec": {"project": "", "destination": {}}});
        let steps =
            json!({"type": "RollingSync", "rollingSync": {"steps": [{}, {"matchExpressions": "env"}]}});
        let wrong = [
            (
                set(json!({"generators": [], "template": template, "strategy": steps})),
                "spec.strategy.rollingSync.steps[1].matchExpressions",
            ),
            (set(json!({"generators": {"list": {}}, "template": template})), "spec.generators"),
            (
                set(json!({"generators": [{"list": {"elements": 3}}], "template": template})),
                "spec.generators[0].list.elements",
            ),
            (json!("nothing"), ""),
        ];
        for (document, field) in wrong {
            let error = read_resource::<ApplicationSet>(&document).unwrap_err();
            assert_eq!(error.field, field, "{error}");
            assert!(!error.problem.is_empty());
            assert_eq!(error.to_string().starts_with(&format!("{field}: ")), !field.is_empty(), "{error}");
        }
        let application = json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "a"},
            "spec": {"project": "", "destination": {"server": 3}},
        });
        assert_eq!(read_resource::<Application>(&application).unwrap_err().field, "spec.destination.server");
    }

    /// Null fields occur in files with omitted values, and in the output of Go programs.
    #[test]
    fn a_field_that_is_null_is_none() {
        let application = |spec: Value| {
            json!({
                "apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "status": null,
                "metadata": {"name": "a", "labels": null, "creationTimestamp": null}, "spec": spec,
            })
        };
        let destination = json!({"server": null, "name": "x"});
        let written = application(json!({
            "project": null, "destination": destination, "syncPolicy": {"syncOptions": null, "automated": null},
            "sources": [{
                "repoURL": "r", "chart": null, "directory": {"recurse": null},
                "helm": {"valuesObject": {"image": null}, "parameters": [{"name": "a", "value": null}]},
            }],
        }));
        let read_as = read_resource::<Application>(&written).unwrap();
        assert_eq!(
            serde_json::to_value(&read_as.spec).unwrap(),
            json!({
                "project": "", "destination": {"name": "x"}, "syncPolicy": {},
                "sources": [{
                    "repoURL": "r", "directory": {},
                    // In Helm values, null removes a value that the chart sets.
                    "helm": {"valuesObject": {"image": null}, "parameters": [{"name": "a"}]},
                }],
            })
        );
        for (source, reason) in [
            (json!({"repoURL": null}), "spec.source: missing field `repoURL`"),
            (
                json!({"repoURL": "r", "helm": {"valueFiles": [null]}}),
                "spec.source.helm.valueFiles[0]: invalid type: null",
            ),
        ] {
            let wrong = application(json!({"project": "", "destination": {}, "source": source}));
            let error = read_resource::<Application>(&wrong).unwrap_err().to_string();
            assert!(error.starts_with(reason), "{error}");
        }
    }
}
