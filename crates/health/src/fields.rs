//! Reading fields of an object with errors that name the place.
//!
//! An absent field and an explicit null are the same: the field is not set. Anything else of the wrong type is an
//! error, because a rule that guesses would open a gate on a guess.

use serde_json::Value;
use tidegate_model::{Object, describe};

use crate::HealthError;

/// A place in an object to read fields from, by paths such as `status.loadBalancer.ingress`.
#[derive(Clone, Copy)]
pub(crate) struct Node<'a> {
    value: &'a Value,
    place: &'static str,
}

/// One entry of a list of conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Condition<'a> {
    pub(crate) kind: &'a str,
    pub(crate) status: &'a str,
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
}

impl Condition<'_> {
    /// Whether this condition has the type and is `True`.
    pub(crate) fn is_true(&self, kind: &str) -> bool {
        self.kind == kind && self.status == "True"
    }

    /// Whether this condition has the type and is `False`.
    pub(crate) fn is_false(&self, kind: &str) -> bool {
        self.kind == kind && self.status == "False"
    }
}

impl<'a> Node<'a> {
    /// The whole object.
    pub(crate) fn of(object: &'a Object) -> Self {
        Self { value: object.as_value(), place: "" }
    }

    /// A value inside an object, named for error messages.
    pub(crate) fn at(value: &'a Value, place: &'static str) -> Self {
        Self { value, place }
    }

    /// Whether the field is set.
    pub(crate) fn has(self, path: &'static str) -> Result<bool, HealthError> {
        Ok(self.find(path)?.is_some())
    }

    /// A text, empty when not set.
    pub(crate) fn text(self, path: &'static str) -> Result<&'a str, HealthError> {
        let Some(value) = self.find(path)? else { return Ok("") };
        value.as_str().ok_or_else(|| self.wrong(path, "a text", value))
    }

    /// A boolean, false when not set.
    pub(crate) fn boolean(self, path: &'static str) -> Result<bool, HealthError> {
        let Some(value) = self.find(path)? else { return Ok(false) };
        value.as_bool().ok_or_else(|| self.wrong(path, "a boolean", value))
    }

    /// A whole number.
    pub(crate) fn integer(self, path: &'static str) -> Result<Option<i64>, HealthError> {
        let Some(value) = self.find(path)? else { return Ok(None) };
        value.as_i64().map(Some).ok_or_else(|| self.wrong(path, "a whole number", value))
    }

    /// A whole number, 0 when not set.
    pub(crate) fn count(self, path: &'static str) -> Result<i64, HealthError> {
        Ok(self.integer(path)?.unwrap_or(0))
    }

    /// The entries of a list, none when not set.
    pub(crate) fn list(
        self,
        path: &'static str,
    ) -> Result<impl ExactSizeIterator<Item = Node<'a>> + Clone, HealthError> {
        let entries = match self.find(path)? {
            None => &[],
            Some(Value::Array(entries)) => entries.as_slice(),
            Some(other) => return Err(self.wrong(path, "a list", other)),
        };
        Ok(entries.iter().map(move |value| Node::at(value, path)))
    }

    /// `status.conditions`, in the order of the object.
    pub(crate) fn conditions(self) -> Result<Vec<Condition<'a>>, HealthError> {
        self.list("status.conditions")?.map(Node::condition).collect()
    }

    /// This place, read as one condition.
    pub(crate) fn condition(self) -> Result<Condition<'a>, HealthError> {
        Ok(Condition {
            kind: self.text("type")?,
            status: self.text("status")?,
            reason: self.text("reason")?,
            message: self.text("message")?,
        })
    }

    fn find(self, path: &'static str) -> Result<Option<&'a Value>, HealthError> {
        let mut value = self.value;
        let mut walked = 0;
        for step in path.split('.') {
            match value {
                Value::Null => return Ok(None),
                Value::Object(fields) => match fields.get(step) {
                    Some(next) => value = next,
                    None => return Ok(None),
                },
                other => {
                    let parent = path.get(..walked).unwrap_or(path).trim_end_matches('.');
                    return Err(self.wrong(parent, "a map", other));
                }
            }
            walked += step.len() + 1;
        }
        Ok(Some(value).filter(|value| !value.is_null()))
    }

    fn wrong(self, path: &str, expected: &'static str, found: &Value) -> HealthError {
        let field = match (self.place, path) {
            (place, "") => format!("{place}[]"),
            ("", path) => path.to_owned(),
            (place, path) => format!("{place}[].{path}"),
        };
        HealthError::WrongType { field, expected, found: describe(found) }
    }
}
