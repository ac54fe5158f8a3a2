//! A small server: applies patches as an API server documents it.

use serde_json::{Map, Value};

use crate::patch::schema::{Merge, Type};
use crate::patch::{JSON_MERGE, Patch, schema};

type Fields = Map<String, Value>;

/// `current` after the patch.
pub(super) fn apply(current: &Value, patch: &Patch, gvk: &tidegate_model::Gvk) -> Value {
    if patch.content_type == JSON_MERGE {
        return json_merge(current, &patch.body);
    }
    let root = schema::of(gvk).expect("only kinds with a schema get a strategic merge patch");
    let mut merged = current.as_object().unwrap().clone();
    maps(&mut merged, patch.body.as_object().unwrap(), root);
    Value::Object(merged)
}

/// RFC 7396.
fn json_merge(current: &Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let mut merged = current.as_object().cloned().unwrap_or_default();
    for (name, value) in patch {
        if value.is_null() {
            merged.remove(name);
        } else {
            let there = merged.get(name).cloned().unwrap_or(Value::Null);
            merged.insert(name.clone(), json_merge(&there, value));
        }
    }
    Value::Object(merged)
}

fn maps(current: &mut Fields, patch: &Fields, of: &Type) {
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
        let (merge, of) = of.field(name);
        match (merge, current.get_mut(name), value) {
            (_, _, Value::Null) => drop(current.remove(name)),
            (Merge::Plain | Merge::Union, Some(Value::Object(current)), Value::Object(patch)) => {
                maps(current, patch, of);
            }
            (Merge::Items(rule), Some(Value::Array(current)), Value::Array(patch)) => {
                items(current, patch, rule.key, of);
            }
            (Merge::Values, Some(Value::Array(current)), Value::Array(patch)) => {
                let new: Vec<_> = patch.iter().filter(|value| !current.contains(value)).cloned().collect();
                current.extend(new);
            }
            (_, _, value) => drop(current.insert(name.clone(), value.clone())),
        }
    }
    for (directive, order) in patch {
        let Some(name) = directive.strip_prefix("$setElementOrder/") else { continue };
        let key = match of.field(name).0 {
            Merge::Items(rule) => Some(rule.key),
            _ => None,
        };
        let list = current.get_mut(name).unwrap().as_array_mut().unwrap();
        *list = ordered(list, order.as_array().unwrap(), key);
    }
}

fn items(current: &mut Vec<Value>, patch: &[Value], key: &str, of: &Type) {
    if patch.iter().any(|item| item["$patch"] == "replace") {
        *current = patch.iter().filter(|item| item.get("$patch").is_none()).cloned().collect();
        return;
    }
    for item in patch {
        assert!(item.get(key).is_some(), "the server refuses an item without its key {key}: {item}");
        if item["$patch"] == "delete" {
            current.retain(|there| there[key] != item[key]);
        } else if let Some(there) = current.iter_mut().find(|there| there[key] == item[key]) {
            maps(there.as_object_mut().unwrap(), item.as_object().unwrap(), of);
        } else {
            current.push(item.clone());
        }
    }
}

/// The items that `order` names in that order; each other one after the one it stood behind.
fn ordered(list: &[Value], order: &[Value], key: Option<&str>) -> Vec<Value> {
    let name = |item: &Value| key.map_or_else(|| item.clone(), |key| item[key].clone());
    let place = |item: &Value| order.iter().position(|wanted| name(wanted) == name(item));
    let mut named: Vec<&Value> = list.iter().filter(|item| place(item).is_some()).collect();
    named.sort_by_key(|item| place(item));
    let mut named = named.into_iter().peekable();
    let mut result: Vec<Value> = Vec::new();
    // An item of others keeps its distance from the front as far as it can.
    for (index, item) in list.iter().enumerate().filter(|(_, item)| place(item).is_none()) {
        while result.len() < index && named.peek().is_some() {
            result.extend(named.next().cloned());
        }
        result.push(item.clone());
    }
    result.extend(named.cloned());
    result
}
