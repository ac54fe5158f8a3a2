//! Which fields of an Application would change, from what to what.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tidegate_application::credentials::{HIDDEN, text_without_credentials};
use tidegate_model::argo::Application;

use crate::desired::normal;

/// Blocks of a source whose fields are what their author likes: the name of a field says whether its value is a secret.
const FREE_BLOCKS: [&str; 4] = ["helm", "kustomize", "plugin", "directory"];
/// A free field with one of these in its name, written without dots, dashes and underscores, holds a secret.
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
/// Values of Helm, written as a text: compared field by field.
const HELM_VALUES: [&str; 2] = ["helm", "values"];

/// A field that would change. Secrets are hidden in both values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FieldChange {
    /// Which: `spec.source.helm.parameters[image.tag].value`.
    pub field: String,
    /// What it is; absent where it is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// What it would be; absent where it would not be there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// The fields that differ, in the order of their names: of the specification, and of what else a set writes.
pub(super) fn changed(before: &Application, after: &Application) -> Vec<FieldChange> {
    let mut found = Vec::new();
    walk(&mut Vec::new(), Some(&written(before)), Some(&written(after)), &mut found);
    found
}

/// What a set writes of an Application.
fn written(application: &Application) -> Value {
    let metadata = &application.metadata;
    json!({
        "metadata": {
            "annotations": metadata.annotations,
            "finalizers": metadata.finalizers,
            "labels": metadata.labels,
            "ownerReferences": metadata.rest.get("ownerReferences"),
        },
        "spec": serde_json::to_value(normal(&application.spec)).unwrap_or_default(),
    })
}

fn walk(path: &mut Vec<String>, before: Option<&Value>, after: Option<&Value>, found: &mut Vec<FieldChange>) {
    let (before, after) = (before.filter(|one| !one.is_null()), after.filter(|one| !one.is_null()));
    if before == after {
        return;
    }
    if path.ends_with(&HELM_VALUES.map(str::to_owned))
        && let Some((before, after)) = values(before).zip(values(after))
    {
        return each(path, &before, &after, found);
    }
    match (parts(before, after), parts(after, before)) {
        (Some(before), Some(after)) => each(path, &before, &after, found),
        _ => found.push(FieldChange {
            field: name(path),
            before: before.map(|value| shown(path, value)),
            after: after.map(|value| shown(path, value)),
        }),
    }
}

type Parts = BTreeMap<String, Value>;

fn each(path: &mut Vec<String>, before: &Parts, after: &Parts, found: &mut Vec<FieldChange>) {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for name in names {
        path.push(name.clone());
        walk(path, before.get(name), after.get(name), found);
        path.pop();
    }
}

/// What a value consists of, where it is compared part by part; a missing one is taken for an empty one of the other's kind.
fn parts(value: Option<&Value>, other: Option<&Value>) -> Option<Parts> {
    match (value, other) {
        // Nothing in it is told from nothing at all.
        (Some(Value::Object(map)), None) if map.is_empty() => None,
        (None, Some(Value::Object(map))) if map.is_empty() => None,
        (Some(Value::Object(map)), None | Some(Value::Object(_))) => Some(fields(map)),
        (Some(Value::Array(all)), None | Some(Value::Array(_))) => {
            let other = other.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            items(all, other)
        }
        (None, Some(Value::Object(_))) => Some(Parts::new()),
        (None, Some(Value::Array(other))) => items(&[], other),
        _ => None,
    }
}

fn fields(map: &Map<String, Value>) -> Parts {
    map.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The items of a list: by their names where all have one, or else by their places. A list of plain values is one value.
fn items(all: &[Value], other: &[Value]) -> Option<Parts> {
    let is_composed = |one: &Value| one.is_object() || one.is_array();
    if !all.iter().chain(other).any(is_composed) {
        return None;
    }
    let by_name = named(all).zip(named(other)).map(|(named, _)| named);
    let by_place = || {
        let place = |(index, one): (usize, &Value)| (format!("[{index}]"), one.clone());
        all.iter().enumerate().map(place).collect()
    };
    Some(by_name.unwrap_or_else(by_place))
}

fn named(all: &[Value]) -> Option<Parts> {
    let mut parts = Parts::new();
    for one in all {
        let name = one.get("name").and_then(Value::as_str)?;
        if parts.insert(format!("[{name}]"), one.clone()).is_some() {
            return None;
        }
    }
    Some(parts)
}

/// The values of a chart, written as YAML; nothing where they are no map.
fn values(text: Option<&Value>) -> Option<Parts> {
    let Some(text) = text else { return Some(Parts::new()) };
    match serde_saphyr::from_str::<Value>(text.as_str()?) {
        Ok(Value::Object(map)) => Some(fields(&map)),
        _ => None,
    }
}

fn shown(path: &[String], value: &Value) -> Value {
    let free = path.iter().position(|part| FREE_BLOCKS.contains(&part.as_str()));
    let free = free.and_then(|index| path.get(index..)).unwrap_or_default();
    // What is no map may have any words in it.
    let is_whole_text = path.ends_with(&HELM_VALUES.map(str::to_owned));
    if is_whole_text || free.iter().any(|part| is_secret(part)) {
        return Value::from(HIDDEN);
    }
    match value {
        Value::String(text) => Value::from(text_without_credentials(text)),
        Value::Array(all) => all.iter().map(|one| shown(path, one)).collect(),
        other => other.clone(),
    }
}

fn is_secret(name: &str) -> bool {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let plain = plain.to_ascii_lowercase();
    SECRET_WORDS.iter().any(|word| plain.contains(word))
}

fn name(path: &[String]) -> String {
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
