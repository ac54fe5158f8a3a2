//! Schemas that differ from the derived ones: for fields stored as raw values, and for requirements on a
//! single field.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::{MatchExpression, UnknownFields};

/// Returns the schema of an object with the given properties. Other properties are also allowed.
fn object(generator: &mut SchemaGenerator, properties: &Value, required: &[&str]) -> Schema {
    let mut schema = UnknownFields::json_schema(generator);
    schema.insert("properties".to_owned(), properties.clone());
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    schema
}

fn list(items: impl Into<Value>) -> Value {
    json!({"type": "array", "items": items.into()})
}

/// Returns the schema of `spec.source.directory.jsonnet`.
pub(super) fn jsonnet(generator: &mut SchemaGenerator) -> Schema {
    let text = json!({"type": "string"});
    let variable = json!({"name": text, "value": text, "code": {"type": "boolean"}});
    let variables = list(object(generator, &variable, &["name", "value"]));
    object(generator, &json!({"extVars": variables, "libs": list(text), "tlas": variables}), &[])
}

/// Returns the schema of `spec.source.plugin`.
pub(super) fn plugin(generator: &mut SchemaGenerator) -> Schema {
    let text = json!({"type": "string"});
    let variable = object(generator, &json!({"name": text, "value": text}), &["name", "value"]);
    let texts = json!({"type": "object", "additionalProperties": text});
    let parameter = json!({"name": text, "string": text, "array": list(text.clone()), "map": texts});
    let parameter = object(generator, &parameter, &[]);
    let fields = json!({"name": text, "env": list(variable), "parameters": list(parameter)});
    object(generator, &fields, &[])
}

/// Returns the schema of a project's `spec.sourceIntegrity`.
pub(super) fn source_integrity(generator: &mut SchemaGenerator) -> Schema {
    let text = json!({"type": "string"});
    let repository = object(generator, &json!({"url": text}), &["url"]);
    let gpg = json!({"keys": list(text.clone()), "mode": text});
    let gpg = object(generator, &gpg, &["keys", "mode"]);
    let policy = json!({"gpg": gpg, "repos": list(repository)});
    let policy = object(generator, &policy, &["gpg", "repos"]);
    let git = object(generator, &json!({"policies": list(policy)}), &["policies"]);
    object(generator, &json!({"git": git}), &["git"])
}

/// Returns the schema of a map with arbitrary values.
pub(super) fn any_values(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "additionalProperties": {"x-kubernetes-preserve-unknown-fields": true}})
}

/// Returns the schema of a selector's `matchExpressions`. Unlike rollout steps, selectors require a key and
/// an operator.
pub(super) fn selector_expressions(generator: &mut SchemaGenerator) -> Schema {
    let mut one = MatchExpression::json_schema(generator);
    one.insert("required".to_owned(), json!(["key", "operator"]));
    if let Some(values) = one.pointer_mut("/properties/values").and_then(Value::as_object_mut) {
        values.insert("x-kubernetes-list-type".to_owned(), json!("atomic"));
    }
    json_schema!({"type": "array", "items": one, "x-kubernetes-list-type": "atomic"})
}
