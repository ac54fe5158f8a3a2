//! What is applied keeps the ignored fields of the live object (`RespectIgnoreDifferences=true`).

use serde_json::Value;
use tidegate_model::Object;

use super::compare::Comparison;
use super::path::{Path, Step, remove_all};

/// What makes the object the one it is, and what only the server writes, is never taken over.
fn is_untouchable(path: &Path) -> bool {
    const METADATA: [&str; 3] = ["annotations", "finalizers", "labels"];
    let names: Vec<&str> = path
        .0
        .iter()
        .take(2)
        .map_while(|step| match step {
            Step::Field(name) => Some(name.as_str()),
            Step::Item(_) => None,
        })
        .collect();
    match names.as_slice() {
        [] | ["apiVersion" | "kind" | "status", ..] | ["metadata"] => true,
        ["metadata", name, ..] => !METADATA.contains(name),
        _ => false,
    }
}

/// Gives the target the live values of the ignored places. `wanted` are those places in the target, `present` those in
/// the live object.
pub(super) fn keep(target: &mut Object, live: &Object, (wanted, present): (Vec<Path>, Vec<Path>)) {
    let kind = target.clone();
    let rules = Comparison::to_find(&kind);
    let before = target.as_value().clone();
    let mut value = before.clone();
    let mut absent = Vec::new();
    for path in wanted.into_iter().filter(|path| !is_untouchable(path)) {
        let there = rules.counterpart(&path, &before, live.as_value());
        match there.and_then(|place| place.get(live.as_value()).cloned()) {
            Some(now) => path.set(&mut value, now),
            None => absent.push(path),
        }
    }
    for path in present.into_iter().filter(|path| !is_untouchable(path)) {
        let Some(now) = path.get(live.as_value()) else { continue };
        match rules.counterpart(&path, live.as_value(), &value) {
            Some(place) if place.get(&value).is_none() => place.set(&mut value, now.clone()),
            Some(_) => {}
            // An item of a list that the target does not have.
            None => append(&mut value, &path, now),
        }
    }
    remove_all(&mut value, absent);
    if let Value::Object(fields) = value {
        *target.fields_mut() = fields;
    }
}

/// Adds an item to the list it is in, when the target has that list.
fn append(value: &mut Value, path: &Path, item: &Value) {
    let Some((Step::Item(_), parents)) = path.0.split_last() else { return };
    let list = Path(parents.to_vec());
    if let Some(Value::Array(items)) = list.get(value) {
        let mut items = items.clone();
        items.push(item.clone());
        list.set(value, Value::Array(items));
    }
}
