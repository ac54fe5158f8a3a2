//! Template values: JSON values, with additional distinctions that Go's types make.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::Value;

use crate::semver::Version;
use crate::time::Time;

/// Maximum size of an argument of a custom function, in values or 64-byte pieces of text.
const NODES_MAX: usize = 1_000_000;

/// A value in a template.
#[derive(Clone, Debug)]
pub(crate) enum Val {
    /// A missing value, for example because a map doesn't have the key.
    Absent,
    /// An explicit null.
    Nil,
    Bool(bool),
    Int(i64),
    Int64(i64),
    /// A byte of a string.
    Uint8(u8),
    /// A component of a semantic version, such as `.Major`.
    Uint64(u64),
    Float(f64),
    Str(Rc<str>),
    List(List),
    Map(Map),
    Time(Time),
    Version(Rc<Version>),
}

/// Declared element type of a Go list or map, as shown in type names and error messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Elem {
    Any,
    Str,
    Int,
    List,
    /// `interface {}` elements in a list that is nil in Go. The list is empty, and its JSON is null.
    NilAny,
    NilStr,
}

#[derive(Clone, Debug)]
pub(crate) struct List {
    pub(crate) elem: Elem,
    pub(crate) items: Rc<Vec<Val>>,
}

/// A map that several values can share. `set` and `unset` change it for all of them.
#[derive(Clone, Debug)]
pub(crate) struct Map {
    pub(crate) elem: Elem,
    pub(crate) items: Rc<RefCell<BTreeMap<String, Val>>>,
}

/// Drops nested values iteratively. Templates can nest values to any depth, so recursion could overflow the
/// stack.
fn drop_nested(mut waiting: Vec<Val>) {
    while let Some(mut value) = waiting.pop() {
        match &mut value {
            Val::List(list) => {
                if let Some(items) = Rc::get_mut(&mut list.items) {
                    waiting.append(items);
                }
            }
            Val::Map(map) => {
                if let Some(items) = Rc::get_mut(&mut map.items) {
                    waiting.extend(std::mem::take(items.get_mut()).into_values());
                }
            }
            _ => {}
        }
    }
}

impl Drop for List {
    fn drop(&mut self) {
        if let Some(items) = Rc::get_mut(&mut self.items).filter(|items| items.iter().any(Val::is_collection))
        {
            drop_nested(std::mem::take(items));
        }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        let items = Rc::get_mut(&mut self.items).map(RefCell::get_mut);
        if let Some(items) = items.filter(|items| items.values().any(Val::is_collection)) {
            drop_nested(std::mem::take(items).into_values().collect());
        }
    }
}

/// Size of a value. Shared parts count once per reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    /// Number of nested values.
    Parts(usize),
    /// The value contains more than the maximum number of values.
    TooMany,
    /// The value is nested too deeply or is cyclic.
    TooDeep,
}

impl Map {
    pub(crate) fn get(&self, key: &str) -> Option<Val> {
        self.items.borrow().get(key).cloned()
    }

    /// Returns a snapshot of the entries.
    pub(crate) fn entries(&self) -> Vec<(String, Val)> {
        self.items.borrow().iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.items.borrow().len()
    }
}

impl Val {
    pub(crate) fn str(text: impl Into<Rc<str>>) -> Self {
        Self::Str(text.into())
    }

    pub(crate) fn list(items: Vec<Self>) -> Self {
        Self::List(List { elem: Elem::Any, items: Rc::new(items) })
    }

    pub(crate) fn strings<T: Into<Rc<str>>>(items: impl IntoIterator<Item = T>) -> Self {
        let items = items.into_iter().map(Self::str).collect();
        Self::List(List { elem: Elem::Str, items: Rc::new(items) })
    }

    /// Creates a list of strings, which is nil in Go if empty.
    pub(crate) fn strings_or_nil<T: Into<Rc<str>>>(items: impl IntoIterator<Item = T>) -> Self {
        let items: Vec<Self> = items.into_iter().map(Self::str).collect();
        let elem = if items.is_empty() { Elem::NilStr } else { Elem::Str };
        Self::List(List { elem, items: Rc::new(items) })
    }

    /// Creates a list of `interface {}` elements, which is nil in Go if empty.
    pub(crate) fn list_or_nil(items: Vec<Self>) -> Self {
        let elem = if items.is_empty() { Elem::NilAny } else { Elem::Any };
        Self::List(List { elem, items: Rc::new(items) })
    }

    pub(crate) fn ints(items: impl IntoIterator<Item = i64>) -> Self {
        let items = items.into_iter().map(Self::Int).collect();
        Self::List(List { elem: Elem::Int, items: Rc::new(items) })
    }

    pub(crate) fn map(items: BTreeMap<String, Self>) -> Self {
        Self::Map(Map { elem: Elem::Any, items: Rc::new(RefCell::new(items)) })
    }

    pub(crate) fn string_map(items: BTreeMap<String, Self>) -> Self {
        Self::Map(Map { elem: Elem::Str, items: Rc::new(RefCell::new(items)) })
    }

    pub(crate) fn count(count: usize) -> Self {
        Self::Int(i64::try_from(count).unwrap_or(i64::MAX))
    }

    /// Converts a JSON value. Every number becomes a float, as in Go.
    pub(crate) fn from_json(value: &Value) -> Self {
        match value {
            Value::Null => Self::Nil,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => Self::Float(number.as_f64().unwrap_or(f64::NAN)),
            Value::String(text) => Self::str(text.as_str()),
            Value::Array(items) => Self::list(items.iter().map(Self::from_json).collect()),
            Value::Object(fields) => {
                Self::map(fields.iter().map(|(key, value)| (key.clone(), Self::from_json(value))).collect())
            }
        }
    }

    /// Converts the value to JSON. Returns `None` if the value is cyclic, contains a number that JSON can't
    /// represent, or is larger than `NODES_MAX`.
    pub(crate) fn to_json(&self) -> Option<Value> {
        let mut left = NODES_MAX;
        self.to_json_within(&mut left, 0)
    }

    fn to_json_within(&self, left: &mut usize, depth: usize) -> Option<Value> {
        *left = left.checked_sub(1)?;
        if depth > crate::MAX_DEPTH {
            return None;
        }
        Some(match self {
            Self::Absent | Self::Nil => Value::Null,
            list if list.is_nil_list() => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) | Self::Int64(value) => Value::from(*value),
            Self::Uint8(value) => Value::from(*value),
            Self::Uint64(value) => Value::from(*value),
            Self::Float(value) => Value::Number(serde_json::Number::from_f64(*value)?),
            Self::Str(text) => {
                *left = left.checked_sub(text.len() / 64)?;
                Value::String(text.to_string())
            }
            Self::List(list) => {
                let items = list.items.iter().map(|item| item.to_json_within(left, depth + 1));
                Value::Array(items.collect::<Option<_>>()?)
            }
            Self::Map(map) => {
                let entries = map.entries().into_iter();
                let entries = entries.map(|(key, value)| Some((key, value.to_json_within(left, depth + 1)?)));
                Value::Object(entries.collect::<Option<_>>()?)
            }
            Self::Time(time) => Value::String(time.rfc3339()),
            Self::Version(version) => Value::String(version.to_string()),
        })
    }

    /// Returns true for lists and maps.
    pub(crate) fn is_collection(&self) -> bool {
        matches!(self, Self::List(_) | Self::Map(_))
    }

    /// Measures the size of the value. Stops counting at `parts_max`.
    pub(crate) fn measure(&self, parts_max: usize) -> Weight {
        let mut waiting = vec![(self.clone(), 0)];
        let mut parts = 0_usize;
        while let Some((value, depth)) = waiting.pop() {
            let inside: Vec<Self> = match &value {
                Self::List(list) => list.items.iter().cloned().collect(),
                Self::Map(map) => map.items.borrow().values().cloned().collect(),
                _ => continue,
            };
            parts = parts.saturating_add(inside.len());
            if parts > parts_max {
                return Weight::TooMany;
            }
            if depth > crate::MAX_DEPTH {
                return Weight::TooDeep;
            }
            waiting.extend(inside.into_iter().map(|part| (part, depth + 1)));
        }
        Weight::Parts(parts)
    }

    /// Returns true for a list that is nil in Go.
    pub(crate) fn is_nil_list(&self) -> bool {
        matches!(self, Self::List(list) if matches!(list.elem, Elem::NilAny | Elem::NilStr))
    }

    /// Returns the number if the value has an integer type.
    pub(crate) fn integer(&self) -> Option<i128> {
        match self {
            Self::Int(value) | Self::Int64(value) => Some(i128::from(*value)),
            Self::Uint8(value) => Some(i128::from(*value)),
            Self::Uint64(value) => Some(i128::from(*value)),
            _ => None,
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Self::Absent | Self::Nil)
    }

    /// Returns true if `if` treats the value as true.
    pub(crate) fn is_true(&self) -> bool {
        match self {
            Self::Absent | Self::Nil => false,
            Self::Bool(value) => *value,
            Self::Int(value) | Self::Int64(value) => *value != 0,
            Self::Uint8(value) => *value != 0,
            Self::Uint64(value) => *value != 0,
            Self::Float(value) => *value != 0.0,
            Self::Str(text) => !text.is_empty(),
            Self::List(list) => !list.items.is_empty(),
            Self::Map(map) => map.len() > 0,
            Self::Time(_) | Self::Version(_) => true,
        }
    }

    /// Returns the name of the value's Go type.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Absent | Self::Nil => "<nil>",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Int64(_) => "int64",
            Self::Uint8(_) => "uint8",
            Self::Uint64(_) => "uint64",
            Self::Float(_) => "float64",
            Self::Str(_) => "string",
            Self::List(list) => match list.elem {
                Elem::Any | Elem::NilAny => "[]interface {}",
                Elem::Str | Elem::NilStr => "[]string",
                Elem::Int => "[]int",
                Elem::List => "[][]interface {}",
            },
            Self::Map(map) if map.elem == Elem::Str => "map[string]string",
            Self::Map(_) => "map[string]interface {}",
            Self::Time(_) => "time.Time",
            Self::Version(_) => "*semver.Version",
        }
    }

    /// Returns the kind of the value's Go type.
    pub(crate) fn kind_name(&self) -> &'static str {
        match self {
            Self::Absent | Self::Nil => "invalid",
            Self::List(_) => "slice",
            Self::Map(_) => "map",
            Self::Time(_) => "struct",
            Self::Version(_) => "ptr",
            _ => self.type_name(),
        }
    }

    /// Compares types and contents, like `reflect.DeepEqual`.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Absent | Self::Nil, Self::Absent | Self::Nil) => true,
            (Self::Bool(left), Self::Bool(right)) => left == right,
            (Self::Int(left), Self::Int(right)) | (Self::Int64(left), Self::Int64(right)) => left == right,
            (Self::Uint8(left), Self::Uint8(right)) => left == right,
            (Self::Uint64(left), Self::Uint64(right)) => left == right,
            (Self::Float(left), Self::Float(right)) => left == right,
            (Self::Str(left), Self::Str(right)) => left == right,
            (Self::List(left), Self::List(right)) => {
                left.elem == right.elem
                    && left.items.len() == right.items.len()
                    && left.items.iter().zip(right.items.iter()).all(|(left, right)| left.is_same(right))
            }
            (Self::Map(left), Self::Map(right)) => {
                let (left_items, right_items) = (left.entries(), right.entries());
                left.elem == right.elem
                    && left_items.len() == right_items.len()
                    && left_items
                        .iter()
                        .zip(&right_items)
                        .all(|(left, right)| left.0 == right.0 && left.1.is_same(&right.1))
            }
            (Self::Time(left), Self::Time(right)) => left == right,
            (Self::Version(left), Self::Version(right)) => left == right,
            _ => false,
        }
    }

    /// Returns a deep copy.
    pub(crate) fn deep_copy(&self) -> Self {
        match self {
            Self::List(list) => Self::List(List {
                elem: list.elem,
                items: Rc::new(list.items.iter().map(Self::deep_copy).collect()),
            }),
            Self::Map(map) => {
                let items = map.entries().into_iter().map(|(key, value)| (key, value.deep_copy())).collect();
                Self::Map(Map { elem: map.elem, items: Rc::new(RefCell::new(items)) })
            }
            other => other.clone(),
        }
    }
}
