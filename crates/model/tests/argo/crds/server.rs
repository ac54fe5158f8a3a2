//! Validation of a custom resource like an API server's, according to the Kubernetes documentation on
//! structural schemas.

use serde_json::{Map, Value};

use super::{INT_OR_STRING, PRESERVE_UNKNOWN_FIELDS};

/// Returns the validation errors of a resource after pruning, each with a path and the expected value.
pub(super) fn validation_errors(schema: &Value, value: &Value) -> Vec<String> {
    let mut value = value.clone();
    drop_nulls(schema, &mut value);
    let mut found = Vec::new();
    check("", schema, &value, &mut found);
    found
}

/// Returns true if the schema accepts the resource.
pub(super) fn accepts(schema: &Value, value: &Value) -> bool {
    validation_errors(schema, value).is_empty()
}

/// Removes null fields that are not nullable, as an API server does.
pub(super) fn drop_nulls(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let of = |name: &str| field(schema, name);
            let may_be = |schema: &Value| schema.get("nullable").is_some() || schema.get("type").is_none();
            let is_either = |schema: &Value| schema.get(INT_OR_STRING).is_some();
            fields.retain(|name, value| {
                !value.is_null() || of(name).is_none_or(|schema| may_be(schema) && !is_either(schema))
            });
            for (name, value) in fields {
                if let Some(schema) = of(name) {
                    drop_nulls(schema, value);
                }
            }
        }
        Value::Array(entries) => {
            let Some(schema) = schema.get("items") else { return };
            entries.iter_mut().for_each(|entry| drop_nulls(schema, entry));
        }
        _ => {}
    }
}

pub(super) fn field<'s>(schema: &'s Value, name: &str) -> Option<&'s Value> {
    let properties = schema.get("properties").and_then(|fields| fields.get(name));
    properties.or_else(|| schema.get("additionalProperties"))
}

fn check(path: &str, schema: &Value, value: &Value, found: &mut Vec<String>) {
    let text = schema.as_object().unwrap();
    if value.is_null() && text.contains_key("nullable") {
        return;
    }
    if !is_of_type(text, value) {
        found.push(format!(
            "{path}: {value} is not a valid {}",
            schema.get("type").unwrap_or(&INT_OR_STRING.into())
        ));
        return;
    }
    for (word, wanted) in text {
        let holds = match word.as_str() {
            "enum" => wanted.as_array().unwrap().contains(value),
            "maxLength" => length(value) <= wanted.as_u64().unwrap(),
            "minLength" => length(value) >= wanted.as_u64().unwrap(),
            "format" => is_of_format(wanted.as_str().unwrap(), value),
            "required" => {
                let names = wanted.as_array().unwrap().iter().map(|name| name.as_str().unwrap());
                names.into_iter().all(|name| value.get(name).is_some())
            }
            // The only pattern in the definitions applies to folders of a feature that Tidegate doesn't
            // support.
            "pattern" => {
                assert_eq!(wanted, "^.{2,}|[^./]$");
                length(value) > 1 || !["", ".", "/"].contains(&value.as_str().unwrap())
            }
            "anyOf" => text.contains_key(INT_OR_STRING),
            "type" | "description" | "nullable" | "properties" | "items" | "additionalProperties" => true,
            word => {
                [PRESERVE_UNKNOWN_FIELDS, INT_OR_STRING, "x-kubernetes-list-type", "x-kubernetes-map-type"]
                    .contains(&word)
            }
        };
        if !holds {
            found.push(format!("{path}: {value} violates {word} {wanted}"));
        }
    }
    validate_nested(path, schema, value, found);
}

fn validate_nested(path: &str, schema: &Value, value: &Value, found: &mut Vec<String>) {
    for (name, value) in value.as_object().into_iter().flatten() {
        if let Some(schema) = field(schema, name) {
            check(&format!("{path}.{name}"), schema, value, found);
        }
    }
    for (at, value) in value.as_array().into_iter().flatten().enumerate() {
        check(&format!("{path}[{at}]"), &schema["items"], value, found);
    }
}

fn is_of_type(schema: &Map<String, Value>, value: &Value) -> bool {
    match schema.get("type").and_then(Value::as_str) {
        None if schema.contains_key(INT_OR_STRING) => value.is_string() || is_integer(value),
        None => true,
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => is_integer(value),
        Some(other) => panic!("unsupported type {other}"),
    }
}

fn is_integer(value: &Value) -> bool {
    value.is_i64() || value.is_u64()
}

fn length(value: &Value) -> u64 {
    value.as_str().map_or(0, |text| text.chars().count().try_into().unwrap())
}

fn is_of_format(format: &str, value: &Value) -> bool {
    match format {
        "date-time" => value.as_str().unwrap().parse::<jiff::Timestamp>().is_ok(),
        "int64" => value.is_i64(),
        "int32" => value.as_i64().is_some_and(|number| i32::try_from(number).is_ok()),
        other => panic!("unsupported format {other}"),
    }
}
