//! What a server does with a custom resource that it is given: as Kubernetes documents it for structural schemas.

use serde_json::{Map, Value};

use super::{EITHER, OPEN};

/// What is wrong with a resource, once it is read: each as a path, and what was expected there.
pub(super) fn refusals(schema: &Value, value: &Value) -> Vec<String> {
    let mut value = value.clone();
    drop_nulls(schema, &mut value);
    let mut found = Vec::new();
    check("", schema, &value, &mut found);
    found
}

/// Whether it is taken.
pub(super) fn takes(schema: &Value, value: &Value) -> bool {
    refusals(schema, value).is_empty()
}

/// A field that is null, and may not be, counts as not given.
pub(super) fn drop_nulls(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let of = |name: &str| field(schema, name);
            let may_be = |schema: &Value| schema.get("nullable").is_some() || schema.get("type").is_none();
            let is_either = |schema: &Value| schema.get(EITHER).is_some();
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
    let words = schema.as_object().unwrap();
    if value.is_null() && words.contains_key("nullable") {
        return;
    }
    if !is_of_type(words, value) {
        found.push(format!("{path}: {value} is no {}", schema.get("type").unwrap_or(&EITHER.into())));
        return;
    }
    for (word, wanted) in words {
        let holds = match word.as_str() {
            "enum" => wanted.as_array().unwrap().contains(value),
            "maxLength" => length(value) <= wanted.as_u64().unwrap(),
            "minLength" => length(value) >= wanted.as_u64().unwrap(),
            "format" => is_of_format(wanted.as_str().unwrap(), value),
            "required" => {
                let names = wanted.as_array().unwrap().iter().map(|name| name.as_str().unwrap());
                names.into_iter().all(|name| value.get(name).is_some())
            }
            // The one pattern that there is: of folders, in what is not supported here.
            "pattern" => {
                assert_eq!(wanted, "^.{2,}|[^./]$");
                length(value) > 1 || !["", ".", "/"].contains(&value.as_str().unwrap())
            }
            "anyOf" => words.contains_key(EITHER),
            "type" | "description" | "nullable" | "properties" | "items" | "additionalProperties" => true,
            word => [OPEN, EITHER, "x-kubernetes-list-type", "x-kubernetes-map-type"].contains(&word),
        };
        if !holds {
            found.push(format!("{path}: {word} {wanted} does not hold of {value}"));
        }
    }
    go_inside(path, schema, value, found);
}

fn go_inside(path: &str, schema: &Value, value: &Value, found: &mut Vec<String>) {
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
        None if schema.contains_key(EITHER) => value.is_string() || is_whole(value),
        None => true,
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => is_whole(value),
        Some(other) => panic!("a type {other}"),
    }
}

fn is_whole(value: &Value) -> bool {
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
        other => panic!("a format {other}"),
    }
}
