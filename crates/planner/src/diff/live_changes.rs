//! Changes made to a live object after it was planned.

use serde_json::Value;
use tidegate_model::Object;

use super::compare::{ComparisonRules, is_same_item};
use super::path::{Path, Step, remove_all};
use super::walk::{ValueDifference, Walk};
use super::{Comparer, mask, normalize};

/// Changed field of a live object.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveFieldChange {
    /// JSON pointer; empty if unknown.
    pub path: String,
    /// The old and new value if they are short and not secret, such as `was 2 and is 5`.
    pub description: String,
    /// True if the field is, or might be, in the manifest.
    pub is_in_manifest: bool,
}

/// Maximum length of a displayed value in bytes.
const SHOWN_MAX: usize = 60;

impl Comparer {
    /// Returns the part of a live object to store for a later comparison: all compared fields, without Secret
    /// values.
    pub fn comparable_state(&self, live: &Object) -> Value {
        let mut seen = normalize::normalize_live(live);
        remove_all(&mut seen, self.rules.paths(live, live.as_value(), live));
        if normalize::is_secret(live) {
            mask::mask_secret_values(&mut Value::Null, &mut seen);
        }
        seen
    }

    /// Returns the fields of an object that have changed since it was [stored](Comparer::comparable_state).
    /// Secret values aren't stored, so any write to a Secret may have changed a manifest field and is
    /// reported as such.
    pub fn changes_since(
        &self,
        target: Option<&Object>,
        live: &Object,
        seen: &Value,
        is_written: bool,
    ) -> Vec<LiveFieldChange> {
        let now = self.comparable_state(live);
        let rules = ComparisonRules::for_kind(live);
        let mut walk = Walk::new(rules);
        walk.compare_completely(Some(seen), Some(&now), false);
        let wanted = target.map(normalize::normalize_target);
        let mut moved: Vec<LiveFieldChange> = walk
            .into_differences()
            .into_iter()
            .map(|found| {
                let side = if found.after.is_some() { &now } else { seen };
                let is_given =
                    wanted.as_ref().is_some_and(|wanted| contains_place(&rules, wanted, &found.path, side));
                LiveFieldChange {
                    path: found.path.to_string(),
                    description: describe_change(&found, live),
                    is_in_manifest: is_given,
                }
            })
            .collect();
        if moved.is_empty() && is_written && normalize::is_secret(live) {
            let text = "was written, but its changed fields are unknown because the plan does not store Secret values".to_owned();
            moved.push(LiveFieldChange {
                path: String::new(),
                description: text,
                is_in_manifest: target.is_some(),
            });
        }
        moved
    }
}

/// Returns true if a manifest has the field at a path, or an enclosing value that is owned as a whole.
fn contains_place(rules: &ComparisonRules<'_>, wanted: &Value, path: &Path, side: &Value) -> bool {
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
                let keyed = rules.item_keys(list, items).zip(there);
                let Some((keys, item)) = keyed else {
                    // A list without keys is always owned as a whole.
                    return true;
                };
                match items.iter().find(|wanted| is_same_item(keys, wanted, |key| item.get(key))) {
                    Some(below) => below,
                    None => return false,
                }
            }
            // The manifest has a value of a different type here.
            _ => return true,
        };
        at = below;
    }
    true
}

fn describe_change(found: &ValueDifference<'_>, live: &Object) -> String {
    let shown = |value: Option<&Value>| match value {
        None | Some(Value::Null) => Some("absent".to_owned()),
        Some(Value::Object(_) | Value::Array(_)) => None,
        Some(value) => Some(value.to_string()).filter(|text| text.len() <= SHOWN_MAX),
    };
    match (shown(found.before), shown(found.after)) {
        (Some(before), Some(after)) if !normalize::is_secret(live) => {
            format!("was {before} and is now {after}")
        }
        _ => "has changed".to_owned(),
    }
}
