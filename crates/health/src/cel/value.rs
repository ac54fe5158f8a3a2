//! Values of expressions. They are cheap to clone, because large ones are shared.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value as Json;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Boolean(bool),
    Integer(i64),
    Double(f64),
    Text(Arc<str>),
    List(Arc<Vec<Value>>),
    Map(Arc<BTreeMap<Arc<str>, Value>>),
    Optional(Option<Arc<Value>>),
}

impl Value {
    pub(super) fn from_json(json: &Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Boolean(*value),
            Json::Number(number) => match number.as_i64() {
                Some(number) => Self::Integer(number),
                None => Self::Double(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => Self::Text(text.as_str().into()),
            Json::Array(entries) => Self::List(Arc::new(entries.iter().map(Self::from_json).collect())),
            Json::Object(fields) => {
                let fields =
                    fields.iter().map(|(name, field)| (name.as_str().into(), Self::from_json(field)));
                Self::Map(Arc::new(fields.collect()))
            }
        }
    }

    /// Returns the type of the value, for error messages.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean(_) => "a boolean",
            Self::Integer(_) | Self::Double(_) => "a number",
            Self::Text(_) => "a string",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
            Self::Optional(_) => "an optional value",
        }
    }

    /// Returns the cost of comparing or copying the value.
    pub(super) fn cost(&self) -> usize {
        match self {
            Self::Text(text) => 1 + text.len() / 16,
            Self::List(entries) => 1 + entries.len(),
            Self::Map(fields) => 1 + fields.len(),
            _ => 1,
        }
    }

    /// Compares two values. Numbers of different types may be equal.
    pub(super) fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Integer(_), Self::Double(_)) | (Self::Double(_), Self::Integer(_)) => {
                self.compare(other) == Some(Ordering::Equal)
            }
            (Self::List(one), Self::List(two)) => {
                one.len() == two.len() && one.iter().zip(two.iter()).all(|(one, two)| one.equals(two))
            }
            (one, two) => one == two,
        }
    }

    pub(super) fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Integer(one), Self::Integer(two)) => Some(one.cmp(two)),
            (Self::Integer(one), Self::Double(two)) => (*one as f64).partial_cmp(two),
            (Self::Double(one), Self::Integer(two)) => one.partial_cmp(&(*two as f64)),
            (Self::Double(one), Self::Double(two)) => one.partial_cmp(two),
            (Self::Text(one), Self::Text(two)) => Some(one.cmp(two)),
            (Self::Boolean(one), Self::Boolean(two)) => Some(one.cmp(two)),
            _ => None,
        }
    }
}
