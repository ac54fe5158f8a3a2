use serde_json::{Map, Value};

use super::compare::{ComparisonRules, is_same_item};
use super::path::{Path, Step};

/// Difference between two values at a path.
#[derive(Debug)]
pub(super) struct ValueDifference<'v> {
    /// Path in the target or, for a removed field, in the live object.
    pub path: Path,
    /// Live value.
    pub before: Option<&'v Value>,
    /// Target value, or `None` if the field must be removed.
    pub after: Option<&'v Value>,
}

/// Parallel traversal of two values that records their differences.
pub(super) struct Walk<'t, 'v> {
    rules: ComparisonRules<'t>,
    path: Vec<WalkStep<'v>>,
    differences: Vec<ValueDifference<'v>>,
}

#[derive(Clone, Copy)]
enum WalkStep<'v> {
    Field(&'v str),
    Item(usize),
}

impl<'t, 'v> Walk<'t, 'v> {
    /// Starts a traversal at the roots of both values.
    pub fn new(rules: ComparisonRules<'t>) -> Self {
        Self { rules, path: Vec::new(), differences: Vec::new() }
    }

    /// Returns the differences in the order they were recorded.
    pub fn into_differences(self) -> Vec<ValueDifference<'v>> {
        self.differences
    }

    /// Runs a function for a field one level down.
    pub fn field(&mut self, name: &'v str, look: impl FnOnce(&mut Self)) {
        self.descend(WalkStep::Field(name), look);
    }

    fn descend(&mut self, at: WalkStep<'v>, look: impl FnOnce(&mut Self)) {
        self.path.push(at);
        look(self);
        self.path.pop();
    }

    /// Returns the name of the current field, or an empty string for list items.
    fn field_name(&self) -> &'v str {
        match self.path.last() {
            Some(WalkStep::Field(name)) => name,
            _ => "",
        }
    }

    /// Records a difference at the current path.
    pub fn record_difference(&mut self, before: Option<&'v Value>, after: Option<&'v Value>) {
        let step = |at: &WalkStep<'_>| match at {
            WalkStep::Field(name) => Step::Field((*name).to_owned()),
            WalkStep::Item(index) => Step::Item(*index),
        };
        let path = Path(self.path.iter().map(step).collect());
        self.differences.push(ValueDifference { path, before, after });
    }

    /// Compares a live value with the target. Extra fields in a live map, and extra items in a keyed list,
    /// are not differences.
    pub fn compare_with_target(&mut self, wanted: &'v Value, live: Option<&'v Value>, quantity: bool) {
        let quantity = quantity || self.rules.is_quantity(self.field_name());
        let same = match (wanted, live) {
            (Value::Null, _) => true,
            (Value::Object(fields), Some(Value::Object(present))) => {
                return self.compare_target_fields(fields, present, quantity);
            }
            (Value::Array(items), Some(Value::Array(present))) => {
                match self.rules.item_keys(self.field_name(), items) {
                    Some(keys) => return self.compare_target_items(keys, items, present, quantity),
                    None if items.len() == present.len() => {
                        for (index, (item, other)) in items.iter().zip(present).enumerate() {
                            self.descend(WalkStep::Item(index), |walk| {
                                walk.compare_with_target(item, Some(other), quantity)
                            });
                        }
                        return;
                    }
                    // One manager owns the whole list.
                    None => false,
                }
            }
            (wanted, None | Some(Value::Null)) => self.rules.is_same_as_absent(self.field_name(), wanted),
            (wanted, Some(live)) => self.rules.is_equal(wanted, live, quantity),
        };
        if !same {
            self.record_difference(live, Some(wanted));
        }
    }

    fn compare_target_fields(
        &mut self,
        fields: &'v Map<String, Value>,
        present: &'v Map<String, Value>,
        quantity: bool,
    ) {
        for (name, wanted) in fields {
            self.field(name, |walk| walk.compare_with_target(wanted, present.get(name), quantity));
        }
    }

    fn compare_target_items(
        &mut self,
        keys: &[&str],
        items: &'v [Value],
        present: &'v [Value],
        quantity: bool,
    ) {
        for (index, item) in items.iter().enumerate() {
            let other = present.iter().find(|other| is_same_item(keys, item, |key| other.get(key)));
            self.descend(WalkStep::Item(index), |walk| match other {
                Some(other) => walk.compare_with_target(item, Some(other), quantity),
                None => walk.record_difference(None, Some(item)),
            });
        }
    }

    /// Compares two values completely: fields and items that only one side has are differences too.
    pub fn compare_completely(
        &mut self,
        before: Option<&'v Value>,
        after: Option<&'v Value>,
        quantity: bool,
    ) {
        let quantity = quantity || self.rules.is_quantity(self.field_name());
        let same = match (before, after) {
            (None | Some(Value::Null), None | Some(Value::Null)) => true,
            (Some(Value::Object(one)), Some(Value::Object(other))) => {
                for (name, value) in one {
                    self.field(name, |walk| walk.compare_completely(Some(value), other.get(name), quantity));
                }
                for (name, value) in other.iter().filter(|(name, _)| !one.contains_key(*name)) {
                    self.field(name, |walk| walk.compare_completely(None, Some(value), quantity));
                }
                return;
            }
            (Some(Value::Array(one)), Some(Value::Array(other))) => {
                match self.rules.item_keys(self.field_name(), other) {
                    Some(keys) if self.rules.item_keys(self.field_name(), one).is_some() => {
                        self.compare_keyed_items(keys, one, other, quantity)
                    }
                    _ if one.len() == other.len() => {
                        for (index, (one, other)) in one.iter().zip(other).enumerate() {
                            self.descend(WalkStep::Item(index), |walk| {
                                walk.compare_completely(Some(one), Some(other), quantity)
                            });
                        }
                        return;
                    }
                    _ => false,
                }
            }
            (Some(one), Some(other)) => self.rules.is_equal(one, other, quantity),
            _ => false,
        };
        if !same {
            self.record_difference(before, after);
        }
    }

    /// Compares the items of two keyed lists completely. Returns false, without recording differences, if items
    /// that both lists contain are in a different order.
    fn compare_keyed_items(
        &mut self,
        keys: &[&str],
        one: &'v [Value],
        other: &'v [Value],
        quantity: bool,
    ) -> bool {
        let pairs = pair_items(keys, one, other);
        let kept: Vec<usize> = pairs.iter().copied().flatten().collect();
        if !kept.is_sorted() {
            return false;
        }
        for (index, item) in one.iter().enumerate().filter(|(index, _)| !kept.contains(index)) {
            self.descend(WalkStep::Item(index), |walk| walk.record_difference(Some(item), None));
        }
        for (index, (item, place)) in other.iter().zip(pairs).enumerate() {
            let there = place.and_then(|place| one.get(place));
            self.descend(WalkStep::Item(index), |walk| walk.compare_completely(there, Some(item), quantity));
        }
        true
    }
}

/// Returns the index of each item's counterpart in the other list. Servers accept duplicate keys in some
/// lists, such as a container's environment variables; items with the same keys are paired in order.
fn pair_items(keys: &[&str], one: &[Value], other: &[Value]) -> Vec<Option<usize>> {
    let mut is_free = vec![true; one.len()];
    let pair = |item: &Value| {
        let mut places = one.iter().zip(&mut is_free).enumerate();
        let (place, (_, is_free)) = places
            .find(|(_, (there, is_free))| **is_free && is_same_item(keys, item, |key| there.get(key)))?;
        *is_free = false;
        Some(place)
    };
    other.iter().map(pair).collect()
}
