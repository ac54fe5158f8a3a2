//! Lists of maps that are maps by key: containers by name, ports by number.

use serde_json::{Value, json};

use super::schema::{Items, Type};
use super::strategic::{Differ, PATCH, SET_ELEMENT_ORDER, retain_keys};
use super::{Fields, set, without_nulls};

/// The three states of one list.
#[derive(Clone, Copy)]
pub(super) struct Lists<'a> {
    pub(super) original: &'a [Value],
    pub(super) modified: &'a [Value],
    pub(super) current: &'a [Value],
}

/// Adds to `patch` what to send for the list.
pub(super) fn diff(
    differ: &mut Differ,
    patch: &mut Fields,
    name: &str,
    rule: &Items,
    lists: &Lists<'_>,
    of: &Type,
) {
    let Lists { original, modified, current } = *lists;
    let keyed = |list| keyed(list, rule.key);
    let (Some(original), Some(modified), Some(current), true) =
        (keyed(original), keyed(modified), keyed(current), key_suffices(rule, lists))
    else {
        if let Some(merged) = whole(rule, lists) {
            differ.repeats_others = true;
            patch.insert(name.to_owned(), Value::Array(merged));
        }
        return;
    };
    let changes = changes(differ, rule, &original, &modified, &current, of);
    if changes.is_empty() && order(&modified, &current) == order(&current, &modified) {
        return;
    }
    if !modified.is_empty() {
        let order = modified.iter().map(|(key, _)| json!({ rule.key: key })).collect();
        patch.insert(format!("{SET_ELEMENT_ORDER}{name}"), order);
    }
    if !changes.is_empty() {
        patch.insert(name.to_owned(), Value::Array(changes));
    }
}

type Keyed<'a> = Vec<(&'a Value, &'a Fields)>;

/// The items with their keys; `None` when a key is missing or there twice, so that the server could not tell them
/// apart.
fn keyed<'a>(list: &'a [Value], key: &str) -> Option<Keyed<'a>> {
    let mut found: Keyed<'a> = Vec::with_capacity(list.len());
    for item in list {
        let item = item.as_object()?;
        let key = set(Some(item), key)?;
        if find(&found, key).is_some() {
            return None;
        }
        found.push((key, item));
    }
    Some(found)
}

/// Whether items of the three lists that share the key share the further field too: port 53 for TCP is another port
/// than port 53 for UDP, but the server would merge one into the other.
fn key_suffices(rule: &Items, lists: &Lists<'_>) -> bool {
    let Some(also) = rule.also else { return true };
    let further = |item| further(item, also);
    lists.modified.iter().all(|item| {
        let namesakes = lists
            .original
            .iter()
            .chain(lists.current)
            .filter(|other| other.get(rule.key) == item.get(rule.key));
        namesakes.map(further).all(|other| other == further(item))
    })
}

fn further(item: &Value, (field, default): (&str, &str)) -> Value {
    set(item.as_object(), field).cloned().unwrap_or_else(|| Value::from(default))
}

fn find<'a>(list: &Keyed<'a>, key: &Value) -> Option<&'a Fields> {
    list.iter().find(|(candidate, _)| *candidate == key).map(|(_, item)| *item)
}

/// The keys that both lists have, in the order of the first.
fn order<'a>(list: &Keyed<'a>, other: &Keyed<'_>) -> Vec<&'a Value> {
    list.iter().map(|(key, _)| *key).filter(|key| find(other, key).is_some()).collect()
}

fn changes(
    differ: &mut Differ,
    rule: &Items,
    original: &Keyed<'_>,
    modified: &Keyed<'_>,
    current: &Keyed<'_>,
    of: &Type,
) -> Vec<Value> {
    let mut changes = Vec::new();
    for (key, wanted) in modified {
        let Some(there) = find(current, key) else {
            changes.push(without_nulls(&Value::Object((*wanted).clone())));
            continue;
        };
        let mut patch = differ.maps(find(original, key), wanted, there, of);
        if rule.union {
            retain_keys(&mut patch, wanted);
        }
        if !patch.is_empty() {
            patch.insert(rule.key.to_owned(), (*key).clone());
            changes.push(Value::Object(patch));
        }
    }
    let dropped =
        original.iter().filter(|(key, _)| find(modified, key).is_none() && find(current, key).is_some());
    changes.extend(dropped.map(|(key, _)| json!({ rule.key: key, PATCH: "delete" })));
    changes
}

/// The list as it shall be, to be sent as a whole; `None` when it is so already.
///
/// A server merges by its one key and would mix up two items that share it, such as port 53 for TCP and for UDP. So
/// the merge happens here.
fn whole(rule: &Items, lists: &Lists<'_>) -> Option<Vec<Value>> {
    let Lists { original, modified, current } = *lists;
    let (original, modified, current_named) =
        (named(original, rule), named(modified, rule), named(current, rule));
    let find = |list: &[(Identity, &Value)], identity: &Identity| {
        list.iter().find(|(candidate, _)| candidate == identity).map(|(_, item)| (*item).clone())
    };
    let mut merged: Vec<Value> = modified
        .iter()
        .map(|(identity, wanted)| match find(&current_named, identity) {
            Some(there) => overlay(find(&original, identity).as_ref(), wanted, &there),
            None => without_nulls(wanted),
        })
        .collect();
    let of_others =
        |identity: &Identity| find(&modified, identity).or_else(|| find(&original, identity)).is_none();
    merged.extend(
        current_named.iter().filter(|(identity, _)| of_others(identity)).map(|(_, item)| (*item).clone()),
    );
    if merged == current {
        return None;
    }
    merged.insert(0, json!({ PATCH: "replace" }));
    Some(merged)
}

/// The key, the further field, and the number of earlier items that have both.
type Identity = (Value, Value, usize);

fn named<'a>(list: &'a [Value], rule: &Items) -> Vec<(Identity, &'a Value)> {
    let mut found: Vec<(Identity, &Value)> = Vec::with_capacity(list.len());
    for item in list {
        let key = item.get(rule.key).cloned().unwrap_or(Value::Null);
        let also = rule.also.map_or(Value::Null, |also| further(item, also));
        let earlier = found.iter().filter(|((k, a, _), _)| *k == key && *a == also).count();
        found.push(((key, also, earlier), item));
    }
    found
}

/// `there` with what the manifest says, and without what only the last one said.
fn overlay(original: Option<&Value>, wanted: &Value, there: &Value) -> Value {
    let (Value::Object(wanted), Value::Object(there)) = (wanted, there) else { return without_nulls(wanted) };
    let original = original.and_then(Value::as_object);
    let mut merged = there.clone();
    merged.retain(|name, _| wanted.contains_key(name) || set(original, name).is_none());
    for (name, wanted) in wanted {
        let value = there
            .get(name)
            .map_or_else(|| without_nulls(wanted), |there| overlay(set(original, name), wanted, there));
        merged.insert(name.clone(), value);
    }
    merged.retain(|_, value| !value.is_null());
    Value::Object(merged)
}
