//! Lists of maps with a key, such as containers by name or ports by number.

use serde_json::{Value, json};

use super::directives::{PATCH_DIRECTIVE, SET_ELEMENT_ORDER, retain_keys};
use super::schema::{FurtherField, ItemRule};
use super::{Fields, non_null_field, without_nulls};

/// The three states of a list.
#[derive(Clone, Copy)]
pub(super) struct Lists<'a> {
    pub(super) original: &'a [Value],
    pub(super) modified: &'a [Value],
    pub(super) current: &'a [Value],
}

/// Adds the changes to the list to `patch`, using `diff_item(original, modified, current)` for each item.
/// Returns true if the patch repeats other managers' values from the live object.
pub(super) fn diff_list(
    patch: &mut Fields,
    name: &str,
    rule: &ItemRule,
    lists: &Lists<'_>,
    diff_item: impl FnMut(Option<&Fields>, &Fields, &Fields) -> Fields,
) -> bool {
    let Lists { original, modified, current } = *lists;
    let keyed = |list| parse_keyed_items(list, rule.key);
    let (Some(original), Some(modified), Some(current), true) =
        (keyed(original), keyed(modified), keyed(current), is_key_sufficient(rule, lists))
    else {
        let Some(merged) = merge_whole_list(rule, lists) else { return false };
        patch.insert(name.to_owned(), Value::Array(merged));
        return true;
    };
    let changes = diff_items(rule, &original, &modified, &current, diff_item);
    if changes.is_empty() && merge_order(&modified, &current) == merge_order(&current, &modified) {
        return false;
    }
    if !modified.is_empty() {
        let order = modified.iter().map(|(key, _)| json!({ rule.key: key })).collect();
        patch.insert(format!("{SET_ELEMENT_ORDER}{name}"), order);
    }
    if !changes.is_empty() {
        patch.insert(name.to_owned(), Value::Array(changes));
    }
    false
}

type KeyedItems<'a> = Vec<(&'a Value, &'a Fields)>;

/// Returns the items with their keys. `None` if a key is missing or repeated, because the server can't tell
/// such items apart.
fn parse_keyed_items<'a>(list: &'a [Value], key: &str) -> Option<KeyedItems<'a>> {
    let mut found: KeyedItems<'a> = Vec::with_capacity(list.len());
    for item in list {
        let item = item.as_object()?;
        let key = non_null_field(Some(item), key)?;
        if find_item(&found, key).is_some() {
            return None;
        }
        found.push((key, item));
    }
    Some(found)
}

/// Returns true if items with the same key always have the same value in the rule's second field. A
/// counterexample is port 53 for TCP and UDP: the two items differ, but the server would merge them.
fn is_key_sufficient(rule: &ItemRule, lists: &Lists<'_>) -> bool {
    let Some(also) = rule.further_field else { return true };
    let further = |item| further_field(item, also);
    lists.modified.iter().all(|item| {
        let namesakes = lists
            .original
            .iter()
            .chain(lists.current)
            .filter(|other| other.get(rule.key) == item.get(rule.key));
        namesakes.map(further).all(|other| other == further(item))
    })
}

fn further_field(item: &Value, further: FurtherField) -> Value {
    let FurtherField { name, default } = further;
    non_null_field(item.as_object(), name).cloned().unwrap_or_else(|| Value::from(default))
}

fn find_item<'a>(list: &KeyedItems<'a>, key: &Value) -> Option<&'a Fields> {
    list.iter().find(|(candidate, _)| *candidate == key).map(|(_, item)| *item)
}

/// Returns the keys that both lists contain, in the order of the first list.
fn merge_order<'a>(list: &KeyedItems<'a>, other: &KeyedItems<'_>) -> Vec<&'a Value> {
    list.iter().map(|(key, _)| *key).filter(|key| find_item(other, key).is_some()).collect()
}

fn diff_items(
    rule: &ItemRule,
    original: &KeyedItems<'_>,
    modified: &KeyedItems<'_>,
    current: &KeyedItems<'_>,
    mut diff_item: impl FnMut(Option<&Fields>, &Fields, &Fields) -> Fields,
) -> Vec<Value> {
    let mut changes = Vec::new();
    for (key, wanted) in modified {
        let Some(there) = find_item(current, key) else {
            changes.push(without_nulls(&Value::Object((*wanted).clone())));
            continue;
        };
        let mut patch = diff_item(find_item(original, key), wanted, there);
        if rule.is_union {
            retain_keys(&mut patch, wanted);
        }
        if !patch.is_empty() {
            patch.insert(rule.key.to_owned(), (*key).clone());
            changes.push(Value::Object(patch));
        }
    }
    let dropped = original
        .iter()
        .filter(|(key, _)| find_item(modified, key).is_none() && find_item(current, key).is_some());
    changes.extend(dropped.map(|(key, _)| json!({ rule.key: key, PATCH_DIRECTIVE: "delete" })));
    changes
}

/// Returns the complete list to send, or `None` if it is unchanged.
///
/// The server merges by a single key and would mix up two items with the same key, such as port 53 for TCP
/// and UDP. For such items, this function merges the list itself.
fn merge_whole_list(rule: &ItemRule, lists: &Lists<'_>) -> Option<Vec<Value>> {
    let Lists { original, modified, current } = *lists;
    let (original, modified, current_named) =
        (identify_items(original, rule), identify_items(modified, rule), identify_items(current, rule));
    let find = |list: &[(ItemIdentity, &Value)], identity: &ItemIdentity| {
        list.iter().find(|(candidate, _)| candidate == identity).map(|(_, item)| (*item).clone())
    };
    let mut merged: Vec<Value> = modified
        .iter()
        .map(|(identity, wanted)| match find(&current_named, identity) {
            Some(there) => overlay_fields(find(&original, identity).as_ref(), wanted, &there),
            None => without_nulls(wanted),
        })
        .collect();
    let of_others =
        |identity: &ItemIdentity| find(&modified, identity).or_else(|| find(&original, identity)).is_none();
    merged.extend(
        current_named.iter().filter(|(identity, _)| of_others(identity)).map(|(_, item)| (*item).clone()),
    );
    if merged == current {
        return None;
    }
    merged.insert(0, json!({ PATCH_DIRECTIVE: "replace" }));
    Some(merged)
}

/// The key, the second field, and the number of earlier items with the same values in both.
type ItemIdentity = (Value, Value, usize);

fn identify_items<'a>(list: &'a [Value], rule: &ItemRule) -> Vec<(ItemIdentity, &'a Value)> {
    let mut found: Vec<(ItemIdentity, &Value)> = Vec::with_capacity(list.len());
    for item in list {
        let key = item.get(rule.key).cloned().unwrap_or(Value::Null);
        let also = rule.further_field.map_or(Value::Null, |also| further_field(item, also));
        let earlier = found.iter().filter(|((k, a, _), _)| *k == key && *a == also).count();
        found.push(((key, also, earlier), item));
    }
    found
}

/// Returns `there` with the manifest's fields added, and without the fields that only the last manifest had.
fn overlay_fields(original: Option<&Value>, wanted: &Value, there: &Value) -> Value {
    let (Value::Object(wanted), Value::Object(there)) = (wanted, there) else { return without_nulls(wanted) };
    let original = original.and_then(Value::as_object);
    let mut merged = there.clone();
    merged.retain(|name, _| wanted.contains_key(name) || non_null_field(original, name).is_none());
    for (name, wanted) in wanted {
        let value = there.get(name).map_or_else(
            || without_nulls(wanted),
            |there| overlay_fields(non_null_field(original, name), wanted, there),
        );
        merged.insert(name.clone(), value);
    }
    merged.retain(|_, value| !value.is_null());
    Value::Object(merged)
}
