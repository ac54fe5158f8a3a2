//! Merging of an applied manifest into the live object.

use serde_json::{Map, Value};

use super::fields::Fields;
use super::schema::{ListKind, Schema, item_key};

/// Merges the applied fields into the live ones.
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
    match schema.list_kind(name, applied) {
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

/// Merges keyed lists: the applied items in their order, followed by the items of other managers.
fn merge_keyed(schema: Schema, keys: &[(&str, Option<&str>)], live: &mut Vec<Value>, applied: &[Value]) {
    let before = std::mem::take(live).into_iter().map(|item| (item_key(&item, keys), item));
    let before: Vec<(Option<String>, Value)> = before.collect();
    let wanted: Vec<Option<String>> = applied.iter().map(|item| item_key(item, keys)).collect();
    for (item, key) in applied.iter().zip(&wanted) {
        let mut known =
            before.iter().filter(|(known, _)| key.is_some() && known == key).map(|(_, item)| item);
        let is_unique = wanted.iter().filter(|wanted| *wanted == key).nth(1).is_none();
        // Items that share a key cannot be told apart, so all of them are replaced.
        live.push(match (known.next(), known.next(), item) {
            (Some(Value::Object(known)), None, Value::Object(item)) if is_unique => {
                let mut merged = known.clone();
                merge(schema, &mut merged, item);
                Value::Object(merged)
            }
            _ => item.clone(),
        });
    }
    let others = before.into_iter().filter(|(key, _)| key.is_none() || !wanted.contains(key));
    live.extend(others.map(|(_, item)| item));
}

/// Removes the fields that are in `old` but not in `new`, unless another manager also owns them.
pub(crate) fn remove_dropped(
    schema: Schema,
    live: &mut Map<String, Value>,
    old: &Fields,
    new: &Fields,
    others: &[&Fields],
) {
    for (node, inner) in old {
        let (Some(name), Some(inner)) = (node.strip_prefix("f:"), inner.as_object()) else { continue };
        let kept = fields_inside(new, node);
        let others: Vec<&Fields> = others.iter().filter_map(|other| fields_inside(other, node)).collect();
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
        if emptied && fields_inside(new, node).is_none() {
            live.remove(name);
        }
    }
}

fn fields_inside<'a>(fields: &'a Fields, node: &str) -> Option<&'a Fields> {
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
    let kind = schema.list_kind(name, items);
    items.retain_mut(|item| {
        let node = match kind {
            ListKind::Keyed(keys) => item_key(item, keys),
            ListKind::Set => Some(format!("v:{item}")),
            ListKind::Atomic => None,
        };
        let Some(node) = node else { return true };
        let Some(mine) = fields_inside(old, &node) else { return true };
        let kept = fields_inside(new, &node);
        let others: Vec<&Fields> = others.iter().filter_map(|other| fields_inside(other, &node)).collect();
        if kept.is_none() && others.is_empty() {
            return false;
        }
        // In `new`, the node covers all items with this key. They have already replaced the old items.
        if kept.is_some_and(Fields::is_empty) {
            return true;
        }
        if let Value::Object(map) = item {
            remove_dropped(schema, map, mine, kept.unwrap_or(&Fields::new()), &others);
        }
        true
    });
}
