use serde_json::{Map, Value};

use super::compare::{Comparison, same_item};
use super::path::{Path, Step};

/// A place in which two values differ, and what either has there.
#[derive(Debug)]
pub(super) struct Found<'v> {
    /// Where, in the object as it is wanted; for what goes away, in the object as it is.
    pub path: Path,
    /// What is there now.
    pub before: Option<&'v Value>,
    /// What is wanted there; `None` where it is to go away.
    pub after: Option<&'v Value>,
}

/// A walk through two values side by side, which notes where they differ.
pub(super) struct Walk<'t, 'v> {
    rules: Comparison<'t>,
    path: Vec<At<'v>>,
    found: Vec<Found<'v>>,
}

#[derive(Clone, Copy)]
enum At<'v> {
    Field(&'v str),
    Item(usize),
}

impl<'t, 'v> Walk<'t, 'v> {
    /// A walk that stands at the roots of both values.
    pub fn new(rules: Comparison<'t>) -> Self {
        Self { rules, path: Vec::new(), found: Vec::new() }
    }

    /// The differences, in the order in which the walk met them.
    pub fn end(self) -> Vec<Found<'v>> {
        self.found
    }

    /// Goes into a field.
    pub fn field(&mut self, name: &'v str, look: impl FnOnce(&mut Self)) {
        self.inside(At::Field(name), look);
    }

    fn inside(&mut self, at: At<'v>, look: impl FnOnce(&mut Self)) {
        self.path.push(at);
        look(self);
        self.path.pop();
    }

    /// The field we are in; empty for the items of a list.
    fn name(&self) -> &'v str {
        match self.path.last() {
            Some(At::Field(name)) => name,
            _ => "",
        }
    }

    /// Notes that the values here differ.
    pub fn differs(&mut self, before: Option<&'v Value>, after: Option<&'v Value>) {
        let step = |at: &At<'_>| match at {
            At::Field(name) => Step::Field((*name).to_owned()),
            At::Item(index) => Step::Item(*index),
        };
        let path = Path(self.path.iter().map(step).collect());
        self.found.push(Found { path, before, after });
    }

    /// Is a live value as the target gives it? What else is in a live map, or in a list whose items are told apart by
    /// their keys, is no difference.
    pub fn given(&mut self, wanted: &'v Value, live: Option<&'v Value>, quantity: bool) {
        let quantity = quantity || self.rules.is_quantity(self.name());
        let same = match (wanted, live) {
            (Value::Null, _) => true,
            (Value::Object(fields), Some(Value::Object(present))) => {
                return self.given_fields(fields, present, quantity);
            }
            (Value::Array(items), Some(Value::Array(present))) => {
                match self.rules.keys(self.name(), items) {
                    Some(keys) => return self.given_keyed(keys, items, present, quantity),
                    None if items.len() == present.len() => {
                        for (index, (item, other)) in items.iter().zip(present).enumerate() {
                            self.inside(At::Item(index), |walk| walk.given(item, Some(other), quantity));
                        }
                        return;
                    }
                    // A list that one writer owns as a whole.
                    None => false,
                }
            }
            (wanted, None | Some(Value::Null)) => self.rules.means_nothing(self.name(), wanted),
            (wanted, Some(live)) => self.rules.is_same(wanted, live, quantity),
        };
        if !same {
            self.differs(live, Some(wanted));
        }
    }

    fn given_fields(
        &mut self,
        fields: &'v Map<String, Value>,
        present: &'v Map<String, Value>,
        quantity: bool,
    ) {
        for (name, wanted) in fields {
            self.field(name, |walk| walk.given(wanted, present.get(name), quantity));
        }
    }

    fn given_keyed(&mut self, keys: &[&str], items: &'v [Value], present: &'v [Value], quantity: bool) {
        for (index, item) in items.iter().enumerate() {
            let other = present.iter().find(|other| same_item(keys, item, |key| other.get(key)));
            self.inside(At::Item(index), |walk| match other {
                Some(other) => walk.given(item, Some(other), quantity),
                None => walk.differs(None, Some(item)),
            });
        }
    }

    /// Are two values the same, all they hold included?
    pub fn whole(&mut self, before: Option<&'v Value>, after: Option<&'v Value>, quantity: bool) {
        let quantity = quantity || self.rules.is_quantity(self.name());
        let same = match (before, after) {
            (None | Some(Value::Null), None | Some(Value::Null)) => true,
            (Some(Value::Object(one)), Some(Value::Object(other))) => {
                for (name, value) in one {
                    self.field(name, |walk| walk.whole(Some(value), other.get(name), quantity));
                }
                for (name, value) in other.iter().filter(|(name, _)| !one.contains_key(*name)) {
                    self.field(name, |walk| walk.whole(None, Some(value), quantity));
                }
                return;
            }
            (Some(Value::Array(one)), Some(Value::Array(other))) => match self.rules.keys(self.name(), other)
            {
                Some(keys) if self.rules.keys(self.name(), one).is_some() => {
                    return self.whole_keyed((before, after), keys, (one, other), quantity);
                }
                _ if one.len() == other.len() => {
                    for (index, (one, other)) in one.iter().zip(other).enumerate() {
                        self.inside(At::Item(index), |walk| walk.whole(Some(one), Some(other), quantity));
                    }
                    return;
                }
                _ => false,
            },
            (Some(one), Some(other)) => self.rules.is_same(one, other, quantity),
            _ => false,
        };
        if !same {
            self.differs(before, after);
        }
    }

    /// Lists whose items are told apart by their keys. Where the same items stand in another order, the list as a whole
    /// is the difference.
    fn whole_keyed(
        &mut self,
        (before, after): (Option<&'v Value>, Option<&'v Value>),
        keys: &[&str],
        (one, other): (&'v [Value], &'v [Value]),
        quantity: bool,
    ) {
        let pairs = pairs(keys, one, other);
        let kept: Vec<usize> = pairs.iter().copied().flatten().collect();
        if !kept.is_sorted() {
            return self.differs(before, after);
        }
        for (index, item) in one.iter().enumerate().filter(|(index, _)| !kept.contains(index)) {
            self.inside(At::Item(index), |walk| walk.differs(Some(item), None));
        }
        for (index, (item, place)) in other.iter().zip(pairs).enumerate() {
            let there = place.and_then(|place| one.get(place));
            self.inside(At::Item(index), |walk| walk.whole(there, Some(item), quantity));
        }
    }
}

/// For each item of a list its place in another one. Servers take some lists in which several items have the same keys, such
/// as variables of a container: the first of them stands for the first, the next for the next.
fn pairs(keys: &[&str], one: &[Value], other: &[Value]) -> Vec<Option<usize>> {
    let mut is_free = vec![true; one.len()];
    let pair = |item: &Value| {
        let mut places = one.iter().zip(&mut is_free).enumerate();
        let (place, (_, is_free)) =
            places.find(|(_, (there, is_free))| **is_free && same_item(keys, item, |key| there.get(key)))?;
        *is_free = false;
        Some(place)
    };
    other.iter().map(pair).collect()
}
