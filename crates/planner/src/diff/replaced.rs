//! Does an object that is replaced as a whole have what its manifest asks for?
//!
//! After such a write the server notes all that came of it as ours, its defaults too. So what is noted does not tell what an
//! earlier manifest gave: only the server knows what is its own. A field counts in two cases:
//!
//! - the manifest gives it, the live object has it otherwise, and the server would not store just what is there;
//! - we wrote it, the manifest does not give it, and the server would not put it there by itself. Another value of the
//!   server's own is none of our concern.

use serde_json::Value;
use tidegate_model::Object;

use super::compare::Comparison;
use super::path::{Path, Step, remove_all};
use super::walk::{Found, Walk};
use super::{Comparer, Difference, difference, mask, normalise, owned};

impl Comparer {
    /// Whether only the server can tell if all that we have written to an object is still in its manifest, or is its own.
    pub fn may_lose(&self, target: &Object, live: &Object) -> bool {
        let wanted = normalise::target(target);
        !besides(&Comparison::of(target), &wanted, live, &self.compared(live, live)).is_empty()
    }

    /// What a replacement would change of what the manifests are asked about. `predicted` is what the server would make of
    /// the target. What others wrote would go as well, and does not count.
    pub fn replaced(&self, target: &Object, live: &Object, predicted: &Object) -> Difference {
        let wanted = normalise::target(target);
        let (given, present) = self.without_ignored(target, &wanted, live);
        let (mut before, made) = (self.compared(live, live), self.compared(predicted, live));
        let rules = Comparison::of(target);
        let mut after = before.clone();
        for Found { path, .. } in self.local(target, &given, &present, live) {
            let value = value_at(&rules, &path, &given, &made);
            if !is_same(target, value_at(&rules, &path, &given, &before), value) {
                put(&rules, &path, &given, &mut after, value.cloned());
            }
        }
        let lost = lost(&rules, &wanted, live, (&before, &made));
        let lost: Vec<Path> =
            lost.iter().filter_map(|path| rules.counterpart(path, &before, &after)).collect();
        remove_all(&mut after, lost);
        if let Value::Object(fields) = &mut after {
            fields.insert("apiVersion".to_owned(), Value::from(target.text("/apiVersion")));
        }
        if normalise::is_secret(live) {
            mask::mask(&mut before, &mut after);
        }
        difference(target, before, after)
    }

    /// All of an object that is compared.
    fn compared(&self, object: &Object, live: &Object) -> Value {
        let mut value = normalise::whole(object);
        remove_all(&mut value, self.rules.paths(object, object.as_value(), live));
        value
    }
}

/// The places in a live object of what we wrote, or the server for us, and the target does not give.
fn besides(rules: &Comparison<'_>, wanted: &Value, live: &Object, before: &Value) -> Vec<Path> {
    let mut own = owned::written(live, before);
    own.retain(|path| value_at(rules, path, before, wanted).is_none());
    own
}

/// Those of them that the server would not put there by itself.
fn lost(
    rules: &Comparison<'_>,
    wanted: &Value,
    live: &Object,
    (before, made): (&Value, &Value),
) -> Vec<Path> {
    let goes = |path: &Path| {
        let missing = first_missing(rules, path, before, made)?;
        let Some((Step::Item(_), list)) = missing.0.split_last() else { return Some(path.clone()) };
        // Names of items that the server adds may be others each time.
        let list = Path(list.to_vec());
        let items = |value: &Value| value_at(rules, &list, before, value)?.as_array().map(Vec::len);
        (items(made) <= items(wanted)).then_some(missing)
    };
    besides(rules, wanted, live, before).iter().filter_map(goes).collect()
}

/// The first place on the way to a place in `from` that is not in `to`.
fn first_missing(rules: &Comparison<'_>, path: &Path, from: &Value, to: &Value) -> Option<Path> {
    let mut ways = (1..=path.0.len()).map(|steps| Path(path.0.iter().take(steps).cloned().collect()));
    ways.find(|way| value_at(rules, way, from, to).is_none())
}

/// What `to` has in the place that stands for a place in `from`.
fn value_at<'v>(rules: &Comparison<'_>, path: &Path, from: &Value, to: &'v Value) -> Option<&'v Value> {
    rules.counterpart(path, from, to)?.get(to)
}

fn is_same(target: &Object, one: Option<&Value>, other: Option<&Value>) -> bool {
    let mut walk = Walk::new(Comparison::of(target));
    walk.whole(one, other, false);
    walk.end().is_empty()
}

/// Puts a value where it stands for a place in `given`; an item that is not there yet comes into its list.
fn put(rules: &Comparison<'_>, path: &Path, given: &Value, after: &mut Value, value: Option<Value>) {
    let Some((last, parents)) = path.0.split_last() else { return };
    match (rules.counterpart(path, given, after), value) {
        (Some(place), Some(value)) => place.set(after, value),
        (Some(place), None) => place.remove(after),
        (None, Some(value)) => {
            let parents = Path(parents.to_vec());
            let mut place = rules.counterpart(&parents, given, after).unwrap_or(parents);
            place.0.push(last.clone());
            place.put_back(after, value);
        }
        (None, None) => {}
    }
}

#[cfg(test)]
mod tests;
