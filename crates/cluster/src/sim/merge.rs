//! How an applied manifest and the live object become one.

use serde_json::{Map, Value};

use super::fields::Fields;
use super::schema::{ListKind, Schema, item_key};

/// Puts the applied fields over the live ones.
pub(crate) fn merge(schema: Schema, live: &mut Map<String, Value>, applied: &Map<String, Value>) {
    for (name, value) in applied {
        match (live.get_mut(name), value) {
            (Some(Value::Object(live)), Value::Object(applied)) if !schema.is_atomic_map(name) => {
                merge(schema, live, applied);
            }
            (Some(Value::Array(live)), Value::Array(applied)) => merge_list(schema, name, live, applied),
            (Some(live), value) => {
                if live != value {
                    *live = value.clone();
                }
            }
            (None, value) => {
                live.insert(name.clone(), value.clone());
            }
        }
    }
}

fn merge_list(schema: Schema, name: &str, live: &mut Vec<Value>, applied: &[Value]) {
    match schema.list(name, applied) {
        ListKind::Atomic => {
            if live.as_slice() != applied {
                *live = applied.to_vec();
            }
        }
        ListKind::Set => {
            for item in applied {
                if !live.contains(item) {
                    live.push(item.clone());
                }
            }
        }
        ListKind::Keyed(keys) => merge_keyed(schema, keys, live, applied),
    }
}

/// Items in the order they were applied in, then those that others added.
fn merge_keyed(schema: Schema, keys: &[(&str, Option<&str>)], live: &mut Vec<Value>, applied: &[Value]) {
    let mut rest = std::mem::take(live);
    for item in applied {
        let key = item_key(item, keys);
        let known = rest.iter().position(|known| key.is_some() && item_key(known, keys) == key);
        let mut merged = known.map(|position| rest.remove(position)).unwrap_or(Value::Null);
        match (&mut merged, item) {
            (Value::Object(merged), Value::Object(item)) => merge(schema, merged, item),
            (merged, item) => *merged = item.clone(),
        }
        live.push(merged);
    }
    live.append(&mut rest);
}

/// Removes the fields that were in `old` and are no longer in `new`, unless somebody else owns them too.
pub(crate) fn remove_dropped(
    schema: Schema,
    live: &mut Map<String, Value>,
    old: &Fields,
    new: &Fields,
    others: &[&Fields],
) {
    for (node, inner) in old {
        let (Some(name), Some(inner)) = (node.strip_prefix("f:"), inner.as_object()) else { continue };
        let kept = inside(new, node);
        let others: Vec<&Fields> = others.iter().filter_map(|other| inside(other, node)).collect();
        if inner.is_empty() {
            if kept.is_none() && others.is_empty() {
                live.remove(name);
            }
            continue;
        }
        let nothing = Fields::new();
        let kept = kept.unwrap_or(&nothing);
        let emptied = match live.get_mut(name) {
            Some(Value::Object(map)) if !map.is_empty() => {
                remove_dropped(schema, map, inner, kept, &others);
                map.is_empty()
            }
            Some(Value::Array(items)) if !items.is_empty() => {
                remove_items(schema, name, items, inner, kept, &others);
                items.is_empty()
            }
            _ => false,
        };
        if emptied && inside(new, node).is_none() {
            live.remove(name);
        }
    }
}

fn inside<'a>(fields: &'a Fields, node: &str) -> Option<&'a Fields> {
    fields.get(node).and_then(Value::as_object)
}

fn remove_items(
    schema: Schema,
    name: &str,
    items: &mut Vec<Value>,
    old: &Fields,
    new: &Fields,
    others: &[&Fields],
) {
    let kind = schema.list(name, items);
    items.retain_mut(|item| {
        let node = match kind {
            ListKind::Keyed(keys) => item_key(item, keys),
            ListKind::Set => Some(format!("v:{item}")),
            ListKind::Atomic => None,
        };
        let Some(node) = node else { return true };
        let Some(mine) = inside(old, &node) else { return true };
        let kept = inside(new, &node);
        let others: Vec<&Fields> = others.iter().filter_map(|other| inside(other, &node)).collect();
        if kept.is_none() && others.is_empty() {
            return false;
        }
        if let Value::Object(map) = item {
            remove_dropped(schema, map, mine, kept.unwrap_or(&Fields::new()), &others);
        }
        true
    });
}
