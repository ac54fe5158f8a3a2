//! Preservation of ignored live fields during an apply (`RespectIgnoreDifferences=true`).

use serde_json::Value;
use tidegate_model::Object;

use super::compare::ComparisonRules;
use super::path::{Path, Step, remove_all};

/// Returns true for identity fields and server-managed fields, which are never preserved.
fn is_never_preserved(path: &Path) -> bool {
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

/// Copies the live values of ignored fields to the target. `wanted` lists the ignored paths in the target,
/// `present` those in the live object.
pub(super) fn preserve_fields(target: &mut Object, live: &Object, wanted: Vec<Path>, present: Vec<Path>) {
    let kind = target.clone();
    let rules = ComparisonRules::for_locating(&kind);
    let before = target.as_value().clone();
    let mut value = before.clone();
    let mut absent = Vec::new();
    for path in wanted.into_iter().filter(|path| !is_never_preserved(path)) {
        let there = rules.counterpart(&path, &before, live.as_value());
        match there.and_then(|place| place.get(live.as_value()).cloned()) {
            Some(now) => path.set(&mut value, now),
            None => absent.push(path),
        }
    }
    for path in present.into_iter().filter(|path| !is_never_preserved(path)) {
        let Some(now) = path.get(live.as_value()) else { continue };
        match rules.counterpart(&path, live.as_value(), &value) {
            Some(place) if place.get(&value).is_none() => place.set(&mut value, now.clone()),
            Some(_) => {}
            // The list item doesn't exist in the target.
            None => append_item(&mut value, &path, now),
        }
    }
    remove_all(&mut value, absent);
    if let Value::Object(fields) = value {
        *target.fields_mut() = fields;
    }
}

/// Appends an item to its list if the target has the list.
fn append_item(value: &mut Value, path: &Path, item: &Value) {
    let Some((Step::Item(_), parents)) = path.0.split_last() else { return };
    let list = Path(parents.to_vec());
    if let Some(Value::Array(items)) = list.get(value) {
        let mut items = items.clone();
        items.push(item.clone());
        list.set(value, Value::Array(items));
    }
}
