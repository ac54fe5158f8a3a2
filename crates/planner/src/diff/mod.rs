//! How does a live object differ from what is wanted?
//!
//! Two questions, one cheap and one exact. The cheap one is asked of the target alone: has the live object every field
//! that the target gives, as given, and does it have none that Tidegate wrote and the target no longer gives? Whatever
//! else is there (defaults of the server, fields of other writers) is no difference. A yes is a proof. A no may be due
//! to what only the server knows, such as the pruning of unknown fields; then the exact question compares the live
//! object with what the server predicts it would be.
//!
//! Fields that an `ignoreDifferences` entry names count in neither.

mod compare;
mod ignore;
mod mask;
mod moved;
mod normalise;
mod owned;
mod path;
mod quantity;
mod replaced;
mod respect;
mod walk;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tidegate_model::{IgnoreDifference, Object, Tracking, TrackingMethod, annotations};

use crate::kinds::is_crd;
use crate::text::words;
use compare::Comparison;
use ignore::IgnoreRules;
pub use ignore::{IgnoreError, JqError};
pub use moved::Moved;
use path::{Path, Step, remove_all};
use walk::{Found, Walk};

/// A field that differs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Where, as a JSON pointer: into the object as it would be, or, for what goes away, as it is. Empty for the whole
    /// object.
    pub path: String,
    /// What is there now.
    pub before: Option<Value>,
    /// What would be there.
    pub after: Option<Value>,
}

/// An object as it is and as it would be, as far as they are compared. Values of Secrets are masked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// The object as it is; nothing when it is not there.
    pub before: Value,
    /// The object as it would be; nothing when it would be gone.
    pub after: Value,
    /// Where the two differ. Empty: they do not.
    pub changes: Vec<Change>,
}

impl Difference {
    /// An object that would come new, or go: one side is absent.
    pub fn of_one(before: Option<&Object>, after: Option<&Object>) -> Self {
        let shown = |object: Option<&Object>| object.map_or(Value::Null, normalise::whole);
        let (mut before_value, mut after_value) = (shown(before), shown(after));
        if before.or(after).is_some_and(normalise::is_secret) {
            mask::mask(&mut before_value, &mut after_value);
        }
        let side = |value: &Value| Some(value.clone()).filter(|value| !value.is_null());
        let change = Change { path: String::new(), before: side(&before_value), after: side(&after_value) };
        Self { before: before_value, after: after_value, changes: vec![change] }
    }
}

/// Fields that Tidegate takes over when it applies, which a dry run cannot try.
#[derive(Clone, Copy, Debug)]
pub struct Taken<'a> {
    /// The manager whose fields they are.
    pub manager: &'a str,
    /// What the server would make of the target if the object were not there, where that is known: what the server fills
    /// in by itself does not go for good.
    pub anew: Option<&'a Object>,
}

/// Compares objects, under the `ignoreDifferences` and the tracking of one request.
#[derive(Default)]
pub struct Comparer {
    rules: IgnoreRules,
    tracking: Tracking,
}

impl Comparer {
    /// Rules that cannot be used are left out, and returned.
    pub fn new(entries: &[IgnoreDifference], tracking: &Tracking) -> (Self, Vec<IgnoreError>) {
        let (rules, errors) = IgnoreRules::compile(entries);
        (Self { rules, tracking: tracking.clone() }, errors)
    }

    /// The path of the first field in which the live object is not what the target asks for; `None` when it is in sync
    /// for certain.
    ///
    /// Where the two cannot be compared, as with different API versions, they count as different. `taken`: the manager
    /// whose fields Tidegate takes over when it applies.
    pub(crate) fn first_difference(
        &self,
        target: &Object,
        live: &Object,
        taken: Option<&str>,
    ) -> Option<String> {
        self.first_given(target, live).or_else(|| {
            let dropped = self.dropped(&normalise::target(target), live, taken);
            dropped.first().map(Path::to_string)
        })
    }

    /// The path of the first field that the target gives and the live object does not have as given, whatever that has besides.
    pub(crate) fn first_given(&self, target: &Object, live: &Object) -> Option<String> {
        if target.text("/apiVersion") != live.text("/apiVersion") {
            return Some("/apiVersion".to_owned());
        }
        let wanted = normalise::target(target);
        let (given, present) = self.without_ignored(target, &wanted, live);
        let found = self.local(target, &given, &present, live);
        found.first().map(|first| first.path.to_string())
    }

    /// What the server would change: `predicted` is its answer to a dry run of the target. `filtered`: changes to fields
    /// that are not Tidegate's, which admission webhooks make, do not count unless the object asks for it
    /// (`IncludeMutationWebhook=true`); it makes sense only where the dry run says who owns what, after a server-side
    /// apply.
    pub fn predicted(
        &self,
        target: &Object,
        live: &Object,
        predicted: &Object,
        (filtered, taken): (bool, Option<Taken<'_>>),
    ) -> Difference {
        let (mut before, mut after) = (normalise::whole(live), normalise::whole(predicted));
        remove_all(&mut before, self.rules.paths(live, live.as_value(), live));
        remove_all(&mut after, self.rules.paths(predicted, predicted.as_value(), live));
        if self.needs_no_annotation(live) {
            forget_tracking(&mut before, &mut after);
        }
        let remove_taken = |after: &mut Value| {
            let Some(Taken { manager, anew }) = taken else { return };
            let there = after.clone();
            let gone = owned::only_of(manager, predicted, after);
            remove_all(after, gone.clone());
            let Some(anew) = anew.map(normalise::whole) else { return };
            let rules = Comparison::of(target);
            for path in gone {
                let place = rules.counterpart(&path, &there, &anew);
                if let Some(value) = place.and_then(|place| place.get(&anew).cloned()) {
                    path.put_back(after, value);
                }
            }
        };
        if normalise::is_secret(live) {
            // The server notes the writers of `stringData` and stores `data`, so it does not know whose that is.
            remove_taken(&mut after);
            mask::mask(&mut before, &mut after);
        } else {
            if filtered && !has_compare_option(target, live, "IncludeMutationWebhook=true") {
                revert_foreign(target, (live, &before), (predicted, &mut after));
            }
            remove_taken(&mut after);
        }
        difference(target, before, after)
    }

    /// What would change as far as that can be known without asking the server: for objects it refuses.
    pub fn estimated(&self, target: &Object, live: &Object, taken: Option<&str>) -> Difference {
        let wanted = normalise::target(target);
        let (given, present) = self.without_ignored(target, &wanted, live);
        let mut before = normalise::whole(live);
        remove_all(&mut before, self.rules.paths(live, live.as_value(), live));
        let mut after = before.clone();
        let rules = Comparison::of(target);
        for found in self.local(target, &given, &present, live) {
            let Some(value) = found.after else { continue };
            let place = rules.counterpart(&found.path, &given, &after);
            place.unwrap_or_else(|| found.path.clone()).set(&mut after, value.clone());
        }
        remove_all(&mut after, self.dropped(&wanted, live, taken));
        if let (Value::Object(fields), version) = (&mut after, target.text("/apiVersion")) {
            fields.insert("apiVersion".to_owned(), Value::from(version));
        }
        if normalise::is_secret(live) {
            mask::mask(&mut before, &mut after);
        }
        difference(target, before, after)
    }

    /// Where the fields that a target gives are not in the live object as given.
    fn local<'v>(
        &self,
        target: &Object,
        given: &'v Value,
        present: &'v Value,
        live: &Object,
    ) -> Vec<Found<'v>> {
        // Type, metadata and status are the responsibility of other code or other writers.
        const NOT_COMPARED: [&str; 4] = ["apiVersion", "kind", "metadata", "status"];
        let mut walk = Walk::new(Comparison::of(target));
        for (name, wanted) in given.as_object().into_iter().flatten() {
            if !NOT_COMPARED.contains(&name.as_str()) {
                walk.field(name, |walk| walk.given(wanted, present.get(name), false));
            }
        }
        metadata(&mut walk, given, present, self.needs_no_annotation(live));
        walk.end()
    }

    /// Whether a live object belongs to its application by a label only, which somebody else gave it, and so has no
    /// tracking annotation. Where the annotation is the method, that is no difference; the next write adds it.
    fn needs_no_annotation(&self, live: &Object) -> bool {
        self.tracking.method != TrackingMethod::Label
            && live.label(&self.tracking.label).is_some()
            && live.annotation(annotations::TRACKING_ID).is_none()
            && !self.tracking.wrote_label(live)
            && !is_crd(live.group(), live.kind())
    }

    /// Keeps the ignored fields of the live object as they are (`RespectIgnoreDifferences=true`): the target gets their
    /// values, and loses those that the live object does not have.
    pub fn respect(&self, target: &mut Object, live: &Object) {
        if self.rules.apply_to(live) {
            let wanted = self.rules.paths(target, target.as_value(), live);
            let present = self.rules.paths(live, live.as_value(), live);
            respect::keep(target, live, (wanted, present));
        }
    }

    /// Target and live object without the fields that do not count.
    fn without_ignored<'o>(
        &self,
        target: &Object,
        wanted: &'o Cow<'o, Value>,
        live: &'o Object,
    ) -> (Cow<'o, Value>, Cow<'o, Value>) {
        if !self.rules.apply_to(live) {
            return (Cow::Borrowed(wanted.as_ref()), Cow::Borrowed(live.as_value()));
        }
        let (mut given, mut present) = (wanted.as_ref().clone(), live.as_value().clone());
        let (in_given, in_present) =
            (self.rules.paths(target, &given, live), self.rules.paths(live, &present, live));
        remove_all(&mut given, in_given);
        remove_all(&mut present, in_present);
        (Cow::Owned(given), Cow::Owned(present))
    }

    /// The places in the live object that Tidegate wrote, or takes over, and the target no longer gives.
    fn dropped(&self, wanted: &Value, live: &Object, taken: Option<&str>) -> Vec<Path> {
        let mut dropped = owned::dropped(wanted, live, taken);
        if !dropped.is_empty() && self.rules.apply_to(live) {
            let ignored = self.rules.paths(live, live.as_value(), live);
            dropped.retain(|path| !ignored.iter().any(|ignored| path.is_within(ignored)));
        }
        dropped
    }
}

/// Whether the server is asked even where the target alone proves that nothing differs, or not asked at all
/// (`ServerSideDiff` among the compare options).
pub fn server_side_diff(target: &Object, live: &Object) -> Option<bool> {
    if has_compare_option(target, live, "ServerSideDiff=false") {
        return Some(false);
    }
    has_compare_option(target, live, "ServerSideDiff=true").then_some(true)
}

/// Whether an object that is no longer in the manifests makes no difference for its application.
pub fn is_ignored_when_extraneous(live: &Object) -> bool {
    compare_options(live).contains(&"IgnoreExtraneous")
}

fn has_compare_option(target: &Object, live: &Object, option: &str) -> bool {
    compare_options(target).contains(&option) || compare_options(live).contains(&option)
}

fn compare_options(object: &Object) -> Vec<&str> {
    object.annotation(annotations::COMPARE_OPTIONS).map(words).unwrap_or_default()
}

/// Labels and annotations, and the entries of the two lists that people write. The rest is the server's.
fn metadata<'v>(walk: &mut Walk<'_, 'v>, given: &'v Value, present: &'v Value, label_tracked: bool) {
    let (Some(given), Some(present)) = (given.get("metadata"), present.get("metadata")) else { return };
    let counts = |name: &str| !is_ours(name) && (!label_tracked || name != annotations::TRACKING_ID);
    walk.field("metadata", |walk| {
        for name in ["labels", "annotations"] {
            let entries = given.get(name).and_then(Value::as_object).into_iter().flatten();
            let there = present.get(name);
            walk.field(name, |walk| {
                for (key, wanted) in entries.filter(|(key, _)| counts(key)) {
                    let live = there.and_then(|there| there.get(key));
                    walk.field(key, |walk| match live {
                        None if !wanted.is_null() => walk.differs(None, Some(wanted)),
                        live => walk.given(wanted, live, false),
                    });
                }
            });
        }
        for name in ["finalizers", "ownerReferences"] {
            let Some(wanted) = given.get(name) else { continue };
            let there = present.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let is_there = |item: &Value| there.iter().any(|other| has(other, item));
            if !wanted.as_array().is_some_and(|items| items.iter().all(is_there)) {
                walk.field(name, |walk| walk.differs(present.get(name), Some(wanted)));
            }
        }
    });
}

/// Whether a live item has all that the wanted one gives.
fn has(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            wanted.iter().all(|(name, value)| live.get(name) == Some(value))
        }
        (live, wanted) => live == wanted,
    }
}

/// Annotations that are no part of what is wanted.
fn is_ours(annotation: &str) -> bool {
    normalise::is_bookkeeping(annotation)
}

/// Takes the tracking annotation out of what would be.
fn forget_tracking(before: &mut Value, after: &mut Value) {
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

/// Takes back what would change in fields that are not Tidegate's.
fn revert_foreign(
    target: &Object,
    (live, before): (&Object, &Value),
    (predicted, after): (&Object, &mut Value),
) {
    let mut walk = Walk::new(Comparison::of(target));
    let there = after.clone();
    walk.whole(Some(before), Some(&there), false);
    let is_foreign = |found: &Found<'_>| {
        !owned::is_owned(predicted, &there, &found.path) && !owned::is_owned(live, before, &found.path)
    };
    let foreign: Vec<Found<'_>> = walk.end().into_iter().filter(is_foreign).collect();
    let added = foreign.iter().filter(|found| found.before.is_none()).map(|found| found.path.clone());
    for found in &foreign {
        match (found.before, found.after) {
            (Some(value), Some(_)) => found.path.set(after, value.clone()),
            (Some(value), None) => found.path.put_back(after, value.clone()),
            (None, _) => {}
        }
    }
    remove_all(after, added.collect());
}

fn difference(target: &Object, before: Value, after: Value) -> Difference {
    let mut walk = Walk::new(Comparison::of(target));
    walk.whole(Some(&before), Some(&after), false);
    let change = |found: Found<'_>| Change {
        path: found.path.to_string(),
        before: found.before.cloned(),
        after: found.after.cloned(),
    };
    let changes = walk.end().into_iter().map(change).collect();
    Difference { before, after, changes }
}

#[cfg(test)]
mod tests;
