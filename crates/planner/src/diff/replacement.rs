//! Comparison of objects that a sync replaces as a whole.
//!
//! After a replacement, the server attributes all resulting fields to Tidegate, including defaults. The
//! ownership records therefore can't tell which fields came from the earlier manifest; only the server knows
//! its own defaults. A field counts as a difference in two cases:
//!
//! - the manifest has the field, the live object has a different value, and the server would not store
//!   the live value;
//! - Tidegate wrote the field, the manifest doesn't contain it, and the server would not add it
//!   automatically. A changed server default doesn't count.

use serde_json::Value;
use tidegate_model::Object;

use super::compare::ComparisonRules;
use super::path::{Path, Step, remove_all};
use super::walk::{ValueDifference, Walk};
use super::{Comparer, Difference, field_ownership, mask, masked_difference, normalize};

impl Comparer {
    /// Returns true if only the server can tell its own fields from Tidegate's fields that were removed from
    /// the manifest.
    pub fn needs_server_prediction(&self, target: &Object, live: &Object) -> bool {
        let wanted = normalize::normalize_target(target);
        !fields_beyond_target(
            &ComparisonRules::for_kind(target),
            &wanted,
            live,
            &self.comparable_part(live, live),
        )
        .is_empty()
    }

    /// Returns the changes that a replacement would make to fields that come from manifests, given the
    /// server's prediction for the target (`predicted`). A replacement also removes other managers' fields,
    /// but those don't count.
    pub fn replacement_difference(&self, target: &Object, live: &Object, predicted: &Object) -> Difference {
        let wanted = normalize::normalize_target(target);
        let (given, present) = self.without_ignored(target, &wanted, live);
        let (mut before, made) = (self.comparable_part(live, live), self.comparable_part(predicted, live));
        let rules = ComparisonRules::for_kind(target);
        let mut after = before.clone();
        for ValueDifference { path, .. } in self.local_differences(target, &given, &present, live) {
            let value = value_at_counterpart(&rules, &path, &given, &made);
            if !is_equal_value(target, value_at_counterpart(&rules, &path, &given, &before), value) {
                set_at_counterpart(&rules, &path, &given, &mut after, value.cloned());
            }
        }
        let lost = lost_fields(&rules, &wanted, live, &before, &made);
        let lost: Vec<Path> =
            lost.iter().filter_map(|path| rules.counterpart(path, &before, &after)).collect();
        remove_all(&mut after, lost);
        if let Value::Object(fields) = &mut after {
            fields.insert("apiVersion".to_owned(), Value::from(target.text("/apiVersion")));
        }
        if normalize::is_secret(live) {
            mask::mask_secret_values(&mut before, &mut after);
        }
        masked_difference(target, before, after)
    }

    /// Returns the compared part of an object.
    fn comparable_part(&self, object: &Object, live: &Object) -> Value {
        let mut value = normalize::normalize_live(object);
        remove_all(&mut value, self.rules.paths(object, object.as_value(), live));
        value
    }
}

/// Returns the live paths beyond the target that Tidegate wrote, or that the server attributes to it.
fn fields_beyond_target(
    rules: &ComparisonRules<'_>,
    wanted: &Value,
    live: &Object,
    before: &Value,
) -> Vec<Path> {
    let mut own = field_ownership::written_fields(live, before);
    own.retain(|path| value_at_counterpart(rules, path, before, wanted).is_none());
    own
}

/// Returns the paths of fields that would be lost because the server doesn't add them.
fn lost_fields(
    rules: &ComparisonRules<'_>,
    wanted: &Value,
    live: &Object,
    before: &Value,
    made: &Value,
) -> Vec<Path> {
    let goes = |path: &Path| {
        let missing = first_missing_path(rules, path, before, made)?;
        let Some((Step::Item(_), list)) = missing.0.split_last() else { return Some(path.clone()) };
        // Items that the server adds may get a different name each time.
        let list = Path(list.to_vec());
        let items =
            |value: &Value| value_at_counterpart(rules, &list, before, value)?.as_array().map(Vec::len);
        (items(made) <= items(wanted)).then_some(missing)
    };
    fields_beyond_target(rules, wanted, live, before).iter().filter_map(goes).collect()
}

/// Returns the shortest prefix of a path in `from` that is missing in `to`.
fn first_missing_path(rules: &ComparisonRules<'_>, path: &Path, from: &Value, to: &Value) -> Option<Path> {
    let mut ways = (1..=path.0.len()).map(|steps| Path(path.0.iter().take(steps).cloned().collect()));
    ways.find(|way| value_at_counterpart(rules, way, from, to).is_none())
}

/// Returns the value in `to` that corresponds to a path in `from`.
fn value_at_counterpart<'v>(
    rules: &ComparisonRules<'_>,
    path: &Path,
    from: &Value,
    to: &'v Value,
) -> Option<&'v Value> {
    rules.counterpart(path, from, to)?.get(to)
}

fn is_equal_value(target: &Object, one: Option<&Value>, other: Option<&Value>) -> bool {
    let mut walk = Walk::new(ComparisonRules::for_kind(target));
    walk.compare_completely(one, other, false);
    walk.into_differences().is_empty()
}

/// Sets the value in `after` that corresponds to a path in `given`, adding a missing item to its list.
fn set_at_counterpart(
    rules: &ComparisonRules<'_>,
    path: &Path,
    given: &Value,
    after: &mut Value,
    value: Option<Value>,
) {
    let Some((last, parents)) = path.0.split_last() else { return };
    match (rules.counterpart(path, given, after), value) {
        (Some(place), Some(value)) => place.set(after, value),
        (Some(place), None) => place.remove(after),
        (None, Some(value)) => {
            let parents = Path(parents.to_vec());
            let mut place = rules.counterpart(&parents, given, after).unwrap_or(parents);
            place.0.push(last.clone());
            place.restore(after, value);
        }
        (None, None) => {}
    }
}

#[cfg(test)]
mod tests;
