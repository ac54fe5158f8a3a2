//! Changes to an Application's fields.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tidegate_application::credentials::{MASK, text_without_credentials};
use tidegate_model::argo::Application;

use crate::desired::normalize_spec;

/// Parts of a source with free-form fields. A value is masked if its field's name contains one of
/// [`SECRET_WORDS`].
const FREE_FORM_BLOCKS: [&str; 4] = ["helm", "kustomize", "plugin", "directory"];
/// Words that mark a free-form field as secret. Dots, dashes and underscores in the field's name are ignored.
const SECRET_WORDS: [&str; 9] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "credential",
    "apikey",
    "accesskey",
    "privatekey",
];
/// Path of the inline Helm values, which are text but compared field by field.
const HELM_VALUES: [&str; 2] = ["helm", "values"];

/// Change to a field. Secrets are masked in both values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FieldChange {
    /// Path of the field, such as `spec.source.helm.parameters[image.tag].value`.
    pub field: String,
    /// Current value. Absent if the field doesn't exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// New value. Absent if the field would no longer exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// Returns the changed fields of the parts that an ApplicationSet writes, in path order.
pub(super) fn changed_fields(before: &Application, after: &Application) -> Vec<FieldChange> {
    let mut found = Vec::new();
    collect_changes(&mut Vec::new(), Some(&written_parts(before)), Some(&written_parts(after)), &mut found);
    found
}

/// Returns the parts of an Application that an ApplicationSet writes.
fn written_parts(application: &Application) -> Value {
    let metadata = &application.metadata;
    json!({
        "metadata": {
            "annotations": metadata.annotations,
            "finalizers": metadata.finalizers,
            "labels": metadata.labels,
            "ownerReferences": metadata.rest.get("ownerReferences"),
        },
        "spec": serde_json::to_value(normalize_spec(&application.spec)).unwrap_or_default(),
    })
}

fn collect_changes(
    path: &mut Vec<String>,
    before: Option<&Value>,
    after: Option<&Value>,
    found: &mut Vec<FieldChange>,
) {
    let (before, after) = (before.filter(|one| !one.is_null()), after.filter(|one| !one.is_null()));
    if before == after {
        return;
    }
    if path.ends_with(&HELM_VALUES.map(str::to_owned))
        && let Some((before, after)) = helm_values(before).zip(helm_values(after))
    {
        return collect_part_changes(path, &before, &after, found);
    }
    match (value_parts(before, after), value_parts(after, before)) {
        (Some(before), Some(after)) => collect_part_changes(path, &before, &after, found),
        _ => found.push(FieldChange {
            field: path_text(path),
            before: before.map(|value| masked_value(path, value)),
            after: after.map(|value| masked_value(path, value)),
        }),
    }
}

type ValueParts = BTreeMap<String, Value>;

fn collect_part_changes(
    path: &mut Vec<String>,
    before: &ValueParts,
    after: &ValueParts,
    found: &mut Vec<FieldChange>,
) {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for name in names {
        path.push(name.clone());
        collect_changes(path, before.get(name), after.get(name), found);
        path.pop();
    }
}

/// Splits a value into parts for comparison. A missing value counts as an empty one of the other value's
/// type.
fn value_parts(value: Option<&Value>, other: Option<&Value>) -> Option<ValueParts> {
    match (value, other) {
        // An empty map equals a missing map.
        (Some(Value::Object(map)), None) if map.is_empty() => None,
        (None, Some(Value::Object(map))) if map.is_empty() => None,
        (Some(Value::Object(map)), None | Some(Value::Object(_))) => Some(map_parts(map)),
        (Some(Value::Array(all)), None | Some(Value::Array(_))) => {
            let other = other.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            list_parts(all, other)
        }
        (None, Some(Value::Object(_))) => Some(ValueParts::new()),
        (None, Some(Value::Array(other))) => list_parts(&[], other),
        _ => None,
    }
}

fn map_parts(map: &Map<String, Value>) -> ValueParts {
    map.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Returns the items of a list, identified by name if they all have one, and by position otherwise. A list of
/// scalars is compared as a single value.
fn list_parts(all: &[Value], other: &[Value]) -> Option<ValueParts> {
    let is_composed = |one: &Value| one.is_object() || one.is_array();
    if !all.iter().chain(other).any(is_composed) {
        return None;
    }
    let by_name = items_by_name(all).zip(items_by_name(other)).map(|(named, _)| named);
    let by_place = || {
        let place = |(index, one): (usize, &Value)| (format!("[{index}]"), one.clone());
        all.iter().enumerate().map(place).collect()
    };
    Some(by_name.unwrap_or_else(by_place))
}

fn items_by_name(all: &[Value]) -> Option<ValueParts> {
    let mut parts = ValueParts::new();
    for one in all {
        let name = one.get("name").and_then(Value::as_str)?;
        if parts.insert(format!("[{name}]"), one.clone()).is_some() {
            return None;
        }
    }
    Some(parts)
}

/// Parses the YAML text of a chart's values. Returns `None` if the values aren't a map.
fn helm_values(text: Option<&Value>) -> Option<ValueParts> {
    let Some(text) = text else { return Some(ValueParts::new()) };
    match serde_saphyr::from_str::<Value>(text.as_str()?) {
        Ok(Value::Object(map)) => Some(map_parts(&map)),
        _ => None,
    }
}

fn masked_value(path: &[String], value: &Value) -> Value {
    let free = path.iter().position(|part| FREE_FORM_BLOCKS.contains(&part.as_str()));
    let free = free.and_then(|index| path.get(index..)).unwrap_or_default();
    // Text that isn't a map can contain anything, so mask all of it.
    let is_whole_text = path.ends_with(&HELM_VALUES.map(str::to_owned));
    if is_whole_text || free.iter().any(|part| is_secret(part)) {
        return Value::from(MASK);
    }
    match value {
        Value::String(text) => Value::from(text_without_credentials(text)),
        Value::Array(all) => all.iter().map(|one| masked_value(path, one)).collect(),
        other => other.clone(),
    }
}

fn is_secret(name: &str) -> bool {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let plain = plain.to_ascii_lowercase();
    SECRET_WORDS.iter().any(|word| plain.contains(word))
}

fn path_text(path: &[String]) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    path.iter().fold(String::new(), |mut name, part| {
        match part {
            part if part.starts_with('[') => name.push_str(part),
            part if !part.chars().all(is_plain) => name.push_str(&format!("[{part}]")),
            part if name.is_empty() => name.push_str(part),
            part => name.push_str(&format!(".{part}")),
        }
        name
    })
}
