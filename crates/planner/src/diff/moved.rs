//! How a live object has moved since something was decided about it.

use serde_json::Value;
use tidegate_model::Object;

use super::compare::{Comparison, same_item};
use super::path::{Path, Step, remove_all};
use super::walk::{Found, Walk};
use super::{Comparer, mask, normalise};

/// A field that is not as it was.
#[derive(Clone, Debug, PartialEq)]
pub struct Moved {
    /// Where, as a JSON pointer; empty where it cannot be told.
    pub path: String,
    /// The field as it was and as it is, where that is short and no secret: `was 2 and is 5`.
    pub words: String,
    /// The manifest gives the field, or it cannot be told whether it does.
    pub is_given: bool,
}

/// The longest value that is shown.
const SHOWN_MAX: usize = 60;

impl Comparer {
    /// What is remembered of a live object: all that is compared. Of a Secret without its values.
    pub fn seen(&self, live: &Object) -> Value {
        let mut seen = normalise::whole(live);
        remove_all(&mut seen, self.rules.paths(live, live.as_value(), live));
        if normalise::is_secret(live) {
            mask::mask(&mut Value::Null, &mut seen);
        }
        seen
    }

    /// The fields of an object that are not as they were when it was [seen](Comparer::seen). Values of Secrets are not
    /// remembered: where one was written since, whatever of it, something that the manifest gives may have moved.
    pub fn moved(
        &self,
        target: Option<&Object>,
        live: &Object,
        (seen, is_written): (&Value, bool),
    ) -> Vec<Moved> {
        let now = self.seen(live);
        let rules = Comparison::of(live);
        let mut walk = Walk::new(rules);
        walk.whole(Some(seen), Some(&now), false);
        let wanted = target.map(normalise::target);
        let mut moved: Vec<Moved> = walk
            .end()
            .into_iter()
            .map(|found| {
                let side = if found.after.is_some() { &now } else { seen };
                let is_given = wanted.as_ref().is_some_and(|wanted| gives(&rules, wanted, &found.path, side));
                Moved { path: found.path.to_string(), words: words(&found, live), is_given }
            })
            .collect();
        if moved.is_empty() && is_written && normalise::is_secret(live) {
            let words = "was written, and the plan does not keep its values to tell which".to_owned();
            moved.push(Moved { path: String::new(), words, is_given: target.is_some() });
        }
        moved
    }
}

/// Whether a manifest says something about a place: it gives it, or a whole that the place is part of.
fn gives(rules: &Comparison<'_>, wanted: &Value, path: &Path, side: &Value) -> bool {
    let (mut at, mut there) = (wanted, Some(side));
    let mut list = "";
    for step in &path.0 {
        let below = match (step, at) {
            (Step::Field(name), Value::Object(fields)) => {
                list = name;
                there = there.and_then(|there| there.get(name));
                match fields.get(name) {
                    Some(below) => below,
                    None => return false,
                }
            }
            (Step::Item(index), Value::Array(items)) => {
                there = there.and_then(|there| there.get(*index));
                let keyed = rules.keys(list, items).zip(there);
                let Some((keys, item)) = keyed else {
                    // A list without keys is given as a whole.
                    return true;
                };
                match items.iter().find(|wanted| same_item(keys, wanted, |key| item.get(key))) {
                    Some(below) => below,
                    None => return false,
                }
            }
            // It gives something else in the place of the whole.
            _ => return true,
        };
        at = below;
    }
    true
}

fn words(found: &Found<'_>, live: &Object) -> String {
    let shown = |value: Option<&Value>| match value {
        None | Some(Value::Null) => Some("not there".to_owned()),
        Some(Value::Object(_) | Value::Array(_)) => None,
        Some(value) => Some(value.to_string()).filter(|text| text.len() <= SHOWN_MAX),
    };
    match (shown(found.before), shown(found.after)) {
        (Some(before), Some(after)) if !normalise::is_secret(live) => format!("was {before} and is {after}"),
        _ => "is not as it was".to_owned(),
    }
}
