//! Comparison of live objects with their targets.
//!
//! The cheap comparison uses only the target: the live object must have every field of the target with the
//! same value, and the target must still have every field that Tidegate wrote. Other fields (server defaults,
//! fields of other managers) aren't differences. If it finds nothing, the object is in sync. Otherwise, the
//! cause may be server behavior such as the pruning of unknown fields. The exact comparison therefore checks
//! the live object against the server's prediction.
//!
//! Both comparisons ignore fields that match an `ignoreDifferences` entry.

mod compare;
mod field_ownership;
mod ignore;
mod live_changes;
mod mask;
mod normalize;
mod path;
mod preserve_ignored;
mod quantity;
mod replacement;
mod walk;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tidegate_model::{IgnoreDifference, Object, Tracking, TrackingMethod, annotations};

use crate::known_kinds::is_crd;
use crate::text::split_list;
use compare::ComparisonRules;
use ignore::IgnoreRules;
pub use ignore::{IgnoreError, JqError};
pub use live_changes::LiveFieldChange;
use path::{Path, Step, remove_all};
use walk::{ValueDifference, Walk};

/// Field with a different value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// JSON pointer into the predicted object or, for a removed field, into the live object. Empty for the
    /// whole object.
    pub path: String,
    /// Value in the live object.
    pub before: Option<Value>,
    /// Value in the predicted object.
    pub after: Option<Value>,
}

/// The compared parts of an object before and after a sync, with Secret values masked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// The live object, or null if it doesn't exist.
    pub before: Value,
    /// The predicted object, or null if it would be deleted.
    pub after: Value,
    /// Changes between the two objects. Empty if they are equal.
    pub changes: Vec<Change>,
}

impl Difference {
    /// Returns the difference for an object that would be created or deleted, where one side is missing.
    pub fn one_sided(before: Option<&Object>, after: Option<&Object>) -> Self {
        let shown = |object: Option<&Object>| object.map_or(Value::Null, normalize::normalize_live);
        let (mut before_value, mut after_value) = (shown(before), shown(after));
        if before.or(after).is_some_and(normalize::is_secret) {
            mask::mask_secret_values(&mut before_value, &mut after_value);
        }
        let side = |value: &Value| Some(value.clone()).filter(|value| !value.is_null());
        let change = Change { path: String::new(), before: side(&before_value), after: side(&after_value) };
        Self { before: before_value, after: after_value, changes: vec![change] }
    }
}

/// Fields that Tidegate takes over when it applies. A dry run doesn't show the takeover.
#[derive(Clone, Copy, Debug)]
pub struct TakenOverFields<'a> {
    /// Managers that own these fields.
    pub managers: &'a [String],
    /// The server's prediction for the target without the live object, if known. It shows which fields the
    /// server would fill in again.
    pub prediction_without_live: Option<&'a Object>,
}

/// Compares objects, respecting a request's `ignoreDifferences` and tracking settings.
#[derive(Default)]
pub struct Comparer {
    rules: IgnoreRules,
    tracking: Tracking,
}

impl Comparer {
    /// Creates a comparer. Invalid rules are skipped, and their errors returned.
    pub fn new(entries: &[IgnoreDifference], tracking: &Tracking) -> (Self, Vec<IgnoreError>) {
        let (rules, errors) = IgnoreRules::compile(entries);
        (Self { rules, tracking: tracking.clone() }, errors)
    }

    /// Returns the path of the first field that differs between the live object and the target, or `None` if
    /// the object is definitely in sync.
    ///
    /// Objects that can't be compared, for example because their API versions differ, count as different.
    /// `taken` lists the managers whose fields Tidegate takes over when it applies.
    pub(crate) fn first_difference(
        &self,
        target: &Object,
        live: &Object,
        taken: &[String],
    ) -> Option<String> {
        self.first_target_difference(target, live).or_else(|| {
            let dropped = self.dropped_fields(&normalize::normalize_target(target), live, taken);
            dropped.first().map(Path::to_string)
        })
    }

    /// Returns the path of the first target field that is missing from the live object or has a different
    /// value. Extra live fields are fine.
    pub(crate) fn first_target_difference(&self, target: &Object, live: &Object) -> Option<String> {
        if target.text("/apiVersion") != live.text("/apiVersion") {
            return Some("/apiVersion".to_owned());
        }
        let wanted = normalize::normalize_target(target);
        let (given, present) = self.without_ignored(target, &wanted, live);
        let found = self.local_differences(target, &given, &present, live);
        found.first().map(|first| first.path.to_string())
    }

    /// Returns the changes that the server would make, given its response to a dry run of the target
    /// (`predicted`). If `filtered` is set, changes that admission webhooks make to fields not owned by
    /// Tidegate are ignored, unless the object has `IncludeMutationWebhook=true`. Filtering needs field
    /// owners in the prediction, so the dry run must be a server-side apply.
    pub fn predicted_difference(
        &self,
        target: &Object,
        live: &Object,
        predicted: &Object,
        filtered: bool,
        taken: Option<TakenOverFields<'_>>,
    ) -> Difference {
        let (mut before, mut after) = (normalize::normalize_live(live), normalize::normalize_live(predicted));
        remove_all(&mut before, self.rules.paths(live, live.as_value(), live));
        remove_all(&mut after, self.rules.paths(predicted, predicted.as_value(), live));
        if self.is_owned_by_foreign_label(live) {
            remove_tracking(&mut before, &mut after);
        }
        let remove_taken = |after: &mut Value| {
            let Some(TakenOverFields { managers, prediction_without_live: anew }) = taken else { return };
            let there = after.clone();
            let gone = field_ownership::exclusive_fields(managers, predicted, after);
            remove_all(after, gone.clone());
            let Some(anew) = anew.map(normalize::normalize_live) else { return };
            let rules = ComparisonRules::for_kind(target);
            for path in gone {
                let place = rules.counterpart(&path, &there, &anew);
                if let Some(value) = place.and_then(|place| place.get(&anew).cloned()) {
                    path.restore(after, value);
                }
            }
        };
        if normalize::is_secret(live) {
            // The server records who wrote `stringData` but stores the values as `data`, so the owner of
            // `data` is unknown.
            remove_taken(&mut after);
            mask::mask_secret_values(&mut before, &mut after);
        } else {
            if filtered && !has_compare_option(target, live, "IncludeMutationWebhook=true") {
                revert_foreign_changes(target, live, &before, predicted, &mut after);
            }
            remove_taken(&mut after);
        }
        masked_difference(target, before, after)
    }

    /// Returns true if the object records which of these managers' fields came from a manifest. Otherwise,
    /// some of them may be server defaults.
    pub fn can_tell_taken_over(live: &Object, managers: &[String]) -> bool {
        field_ownership::taken_over_parts(live, managers).iter().all(field_ownership::TakenOverPart::is_exact)
    }

    /// Estimates the changes without a dry run, for objects that the server rejects.
    pub fn estimated_difference(&self, target: &Object, live: &Object, taken: &[String]) -> Difference {
        let wanted = normalize::normalize_target(target);
        let (given, present) = self.without_ignored(target, &wanted, live);
        let mut before = normalize::normalize_live(live);
        remove_all(&mut before, self.rules.paths(live, live.as_value(), live));
        let mut after = before.clone();
        let rules = ComparisonRules::for_kind(target);
        for found in self.local_differences(target, &given, &present, live) {
            let Some(value) = found.after else { continue };
            let place = rules.counterpart(&found.path, &given, &after);
            place.unwrap_or_else(|| found.path.clone()).set(&mut after, value.clone());
        }
        remove_all(&mut after, self.dropped_fields(&wanted, live, taken));
        if let (Value::Object(fields), version) = (&mut after, target.text("/apiVersion")) {
            fields.insert("apiVersion".to_owned(), Value::from(version));
        }
        if normalize::is_secret(live) {
            mask::mask_secret_values(&mut before, &mut after);
        }
        masked_difference(target, before, after)
    }

    /// Returns the target fields that are missing from the live object or have a different value.
    fn local_differences<'v>(
        &self,
        target: &Object,
        given: &'v Value,
        present: &'v Value,
        live: &Object,
    ) -> Vec<ValueDifference<'v>> {
        // The API version and the metadata are compared separately, the kind is the same in both objects, and
        // the status belongs to controllers.
        const NOT_COMPARED: [&str; 4] = ["apiVersion", "kind", "metadata", "status"];
        let mut walk = Walk::new(ComparisonRules::for_kind(target));
        for (name, wanted) in given.as_object().into_iter().flatten() {
            if !NOT_COMPARED.contains(&name.as_str()) {
                walk.field(name, |walk| walk.compare_with_target(wanted, present.get(name), false));
            }
        }
        compare_metadata(&mut walk, given, present, self.is_owned_by_foreign_label(live));
        walk.into_differences()
    }

    /// Returns true if only a label set by another program makes a live object part of its application. With
    /// annotation tracking, the missing tracking annotation isn't a difference by itself: the next write adds
    /// it.
    fn is_owned_by_foreign_label(&self, live: &Object) -> bool {
        self.tracking.method != TrackingMethod::Label
            && live.label(&self.tracking.label).is_some()
            && live.annotation(annotations::TRACKING_ID).is_none()
            && !self.tracking.wrote_label(live)
            && !is_crd(live.group(), live.kind())
    }

    /// Preserves the live object's ignored fields (`RespectIgnoreDifferences=true`): copies their live values
    /// into the target, and drops ignored fields that the live object doesn't have.
    pub fn preserve_ignored(&self, target: &mut Object, live: &Object) {
        if self.rules.has_rule_for(live) {
            let wanted = self.rules.paths(target, target.as_value(), live);
            let present = self.rules.paths(live, live.as_value(), live);
            preserve_ignored::preserve_fields(target, live, wanted, present);
        }
    }

    /// Returns the target and the live object without their ignored fields.
    fn without_ignored<'o>(
        &self,
        target: &Object,
        wanted: &'o Cow<'o, Value>,
        live: &'o Object,
    ) -> (Cow<'o, Value>, Cow<'o, Value>) {
        if !self.rules.has_rule_for(live) {
            return (Cow::Borrowed(wanted.as_ref()), Cow::Borrowed(live.as_value()));
        }
        let (mut given, mut present) = (wanted.as_ref().clone(), live.as_value().clone());
        let (in_given, in_present) =
            (self.rules.paths(target, &given, live), self.rules.paths(live, &present, live));
        remove_all(&mut given, in_given);
        remove_all(&mut present, in_present);
        (Cow::Owned(given), Cow::Owned(present))
    }

    /// Returns the live paths that Tidegate wrote or takes over and that are gone from the target.
    fn dropped_fields(&self, wanted: &Value, live: &Object, taken: &[String]) -> Vec<Path> {
        let mut dropped = field_ownership::dropped_fields(wanted, live, taken);
        if !dropped.is_empty() && self.rules.has_rule_for(live) {
            let ignored = self.rules.paths(live, live.as_value(), live);
            dropped.retain(|path| !ignored.iter().any(|ignored| path.is_within(ignored)));
        }
        dropped
    }
}

/// Returns the value of the `ServerSideDiff` compare option. True forces a dry run even if the target alone
/// shows no difference; false prevents it.
pub fn server_side_diff(target: &Object, live: &Object) -> Option<bool> {
    if has_compare_option(target, live, "ServerSideDiff=false") {
        return Some(false);
    }
    has_compare_option(target, live, "ServerSideDiff=true").then_some(true)
}

/// Returns true if the application stays in sync when this object is missing from the manifests
/// (`IgnoreExtraneous`).
pub fn is_ignored_when_extraneous(live: &Object) -> bool {
    compare_options(live).contains(&"IgnoreExtraneous")
}

fn has_compare_option(target: &Object, live: &Object, option: &str) -> bool {
    compare_options(target).contains(&option) || compare_options(live).contains(&option)
}

fn compare_options(object: &Object) -> Vec<&str> {
    object.annotation(annotations::COMPARE_OPTIONS).map(split_list).unwrap_or_default()
}

/// Compares labels, annotations, finalizers and owner references. The server manages all other metadata.
fn compare_metadata<'v>(walk: &mut Walk<'_, 'v>, given: &'v Value, present: &'v Value, label_tracked: bool) {
    let (Some(given), Some(present)) = (given.get("metadata"), present.get("metadata")) else { return };
    let counts =
        |name: &str| !is_tracking_annotation(name) && (!label_tracked || name != annotations::TRACKING_ID);
    walk.field("metadata", |walk| {
        for name in ["labels", "annotations"] {
            let entries = given.get(name).and_then(Value::as_object).into_iter().flatten();
            let there = present.get(name);
            walk.field(name, |walk| {
                for (key, wanted) in entries.filter(|(key, _)| counts(key)) {
                    let live = there.and_then(|there| there.get(key));
                    walk.field(key, |walk| match live {
                        None if !wanted.is_null() => walk.record_difference(None, Some(wanted)),
                        live => walk.compare_with_target(wanted, live, false),
                    });
                }
            });
        }
        for name in ["finalizers", "ownerReferences"] {
            let Some(wanted) = given.get(name) else { continue };
            let there = present.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let is_there = |item: &Value| there.iter().any(|other| contains_fields(other, item));
            if !wanted.as_array().is_some_and(|items| items.iter().all(is_there)) {
                walk.field(name, |walk| walk.record_difference(present.get(name), Some(wanted)));
            }
        }
    });
}

/// Returns true if a live item has every field of the target's item.
fn contains_fields(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            wanted.iter().all(|(name, value)| live.get(name) == Some(value))
        }
        (live, wanted) => live == wanted,
    }
}

/// Returns true for annotations outside the target.
fn is_tracking_annotation(annotation: &str) -> bool {
    normalize::is_bookkeeping_annotation(annotation)
}

/// Removes the tracking annotation from the prediction, along with the `annotations` map if that becomes
/// empty and the live object has none.
fn remove_tracking(before: &mut Value, after: &mut Value) {
    let names = ["metadata", "annotations"].map(|name| Step::Field(name.to_owned()));
    let all = Path(names.to_vec());
    let mut one = all.clone();
    one.0.push(Step::Field(annotations::TRACKING_ID.to_owned()));
    one.remove(after);
    if all.get(before).is_none()
        && all.get(after).and_then(Value::as_object).is_some_and(|all| all.is_empty())
    {
        all.remove(after);
    }
}

/// Reverts predicted changes to fields that Tidegate doesn't own.
fn revert_foreign_changes(
    target: &Object,
    live: &Object,
    before: &Value,
    predicted: &Object,
    after: &mut Value,
) {
    let mut walk = Walk::new(ComparisonRules::for_kind(target));
    let there = after.clone();
    walk.compare_completely(Some(before), Some(&there), false);
    let is_foreign = |found: &ValueDifference<'_>| {
        !field_ownership::is_owned(predicted, &there, &found.path)
            && !field_ownership::is_owned(live, before, &found.path)
    };
    let foreign: Vec<ValueDifference<'_>> = walk.into_differences().into_iter().filter(is_foreign).collect();
    let added = foreign.iter().filter(|found| found.before.is_none()).map(|found| found.path.clone());
    for found in &foreign {
        match (found.before, found.after) {
            (Some(value), Some(_)) => found.path.set(after, value.clone()),
            (Some(value), None) => found.path.restore(after, value.clone()),
            (None, _) => {}
        }
    }
    remove_all(after, added.collect());
}

fn masked_difference(target: &Object, before: Value, after: Value) -> Difference {
    let mut walk = Walk::new(ComparisonRules::for_kind(target));
    walk.compare_completely(Some(&before), Some(&after), false);
    let change = |found: ValueDifference<'_>| Change {
        path: found.path.to_string(),
        before: found.before.cloned(),
        after: found.after.cloned(),
    };
    let changes = walk.into_differences().into_iter().map(change).collect();
    Difference { before, after, changes }
}

#[cfg(test)]
mod tests;
