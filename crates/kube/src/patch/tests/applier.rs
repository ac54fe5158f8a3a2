//! A small server that applies patches according to the API server documentation.

use serde_json::{Map, Value};

use crate::patch::schema::{Merge, TypeSchema};
use crate::patch::{JSON_MERGE, Patch, schema};

type Fields = Map<String, Value>;

/// Returns `current` with the patch applied.
pub(super) fn apply_patch(current: &Value, patch: &Patch, gvk: &tidegate_model::Gvk) -> Value {
    if patch.content_type == JSON_MERGE {
        return apply_json_merge(current, &patch.body);
    }
    let root = schema::find_type(gvk).expect("only kinds with a schema get a strategic merge patch");
    let mut merged = current.as_object().unwrap().clone();
    merge_maps(&mut merged, patch.body.as_object().unwrap(), root);
    Value::Object(merged)
}

/// Applies a JSON merge patch (RFC 7396).
fn apply_json_merge(current: &Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let mut merged = current.as_object().cloned().unwrap_or_default();
    for (name, value) in patch {
        if value.is_null() {
            merged.remove(name);
        } else {
            let there = merged.get(name).cloned().unwrap_or(Value::Null);
            merged.insert(name.clone(), apply_json_merge(&there, value));
        }
    }
    Value::Object(merged)
}

fn merge_maps(current: &mut Fields, patch: &Fields, of: &TypeSchema) {
    if let Some(keys) = patch.get("$retainKeys") {
        let keys = keys.as_array().unwrap();
        let named = |name: &str| keys.iter().any(|key| key == name);
        for (name, value) in patch.iter().filter(|(name, _)| !name.starts_with('$')) {
            assert!(value.is_null() || named(name), "the server refuses {name}, which is not among {keys:?}");
        }
        current.retain(|name, _| named(name));
    }
    for (directive, values) in patch {
        if let Some(name) = directive.strip_prefix("$deleteFromPrimitiveList/") {
            let values = values.as_array().unwrap();
            let list = current.get_mut(name).unwrap().as_array_mut().unwrap();
            list.retain(|value| !values.contains(value));
        }
    }
    for (name, value) in patch.iter().filter(|(name, _)| !name.starts_with('$')) {
        let (merge, of) = of.merge_rule(name);
        match (merge, current.get_mut(name), value) {
            (_, _, Value::Null) => drop(current.remove(name)),
            (Merge::Plain | Merge::Union, Some(Value::Object(current)), Value::Object(patch)) => {
                merge_maps(current, patch, of);
            }
            (Merge::KeyedList(rule), Some(Value::Array(current)), Value::Array(patch)) => {
                merge_items(current, patch, rule.key, of);
            }
            (Merge::StringSet, Some(Value::Array(current)), Value::Array(patch)) => {
                let new: Vec<_> = patch.iter().filter(|value| !current.contains(value)).cloned().collect();
                current.extend(new);
            }
            (_, _, value) => drop(current.insert(name.clone(), value.clone())),
        }
    }
    for (directive, order) in patch {
        let Some(name) = directive.strip_prefix("$setElementOrder/") else { continue };
        let key = match of.merge_rule(name).0 {
            Merge::KeyedList(rule) => Some(rule.key),
            _ => None,
        };
        let list = current.get_mut(name).unwrap().as_array_mut().unwrap();
        *list = order_items(list, order.as_array().unwrap(), key);
    }
}

fn merge_items(current: &mut Vec<Value>, patch: &[Value], key: &str, of: &TypeSchema) {
    if patch.iter().any(|item| item["$patch"] == "replace") {
        *current = patch.iter().filter(|item| item.get("$patch").is_none()).cloned().collect();
        return;
    }
    for item in patch {
        assert!(item.get(key).is_some(), "the server refuses an item without its key {key}: {item}");
        if item["$patch"] == "delete" {
            current.retain(|there| there[key] != item[key]);
        } else if let Some(there) = current.iter_mut().find(|there| there[key] == item[key]) {
            merge_maps(there.as_object_mut().unwrap(), item.as_object().unwrap(), of);
        } else {
            current.push(item.clone());
        }
    }
}

/// Returns the items in `order` in that order. Every other item stays behind its predecessor.
fn order_items(list: &[Value], order: &[Value], key: Option<&str>) -> Vec<Value> {
    let name = |item: &Value| key.map_or_else(|| item.clone(), |key| item[key].clone());
    let place = |item: &Value| order.iter().position(|wanted| name(wanted) == name(item));
    let mut named: Vec<&Value> = list.iter().filter(|item| place(item).is_some()).collect();
    named.sort_by_key(|item| place(item));
    let mut named = named.into_iter().peekable();
    let mut result: Vec<Value> = Vec::new();
    // Items of other managers keep their index if possible.
    for (index, item) in list.iter().enumerate().filter(|(_, item)| place(item).is_none()) {
        while result.len() < index && named.peek().is_some() {
            result.extend(named.next().cloned());
        }
        result.push(item.clone());
    }
    result.extend(named.cloned());
    result
}
