//! Typed access to an object's fields. Errors name the path of the field.
//!
//! An explicit null counts as unset. Any other wrong type is an error, because a rule that guesses could open
//! a gate without evidence.

use serde_json::Value;
use tidegate_model::{Object, describe_json_type};

use crate::HealthError;

/// Part of an object. Its fields are read by paths such as `status.loadBalancer.ingress`.
#[derive(Clone, Copy)]
pub(crate) struct Node<'a> {
    value: &'a Value,
    path: &'static str,
}

/// Entry in a list of conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Condition<'a> {
    pub(crate) kind: &'a str,
    pub(crate) status: &'a str,
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
}

impl Condition<'_> {
    /// Returns true if the condition has this type and is `True`.
    pub(crate) fn is_true(&self, kind: &str) -> bool {
        self.kind == kind && self.status == "True"
    }

    /// Returns true if the condition has this type and is `False`.
    pub(crate) fn is_false(&self, kind: &str) -> bool {
        self.kind == kind && self.status == "False"
    }
}

impl<'a> Node<'a> {
    /// Creates a node for the whole object.
    pub(crate) fn for_object(object: &'a Object) -> Self {
        Self { value: object.as_value(), path: "" }
    }

    /// Creates a node for a value within an object. Errors refer to it as `place`.
    pub(crate) fn at(value: &'a Value, place: &'static str) -> Self {
        Self { value, path: place }
    }

    /// Returns true if the field is set.
    pub(crate) fn has(self, path: &'static str) -> Result<bool, HealthError> {
        Ok(self.find(path)?.is_some())
    }

    /// Returns a string, empty if the field isn't set.
    pub(crate) fn text(self, path: &'static str) -> Result<&'a str, HealthError> {
        let Some(value) = self.find(path)? else { return Ok("") };
        value.as_str().ok_or_else(|| self.wrong_type(path, "a string", value))
    }

    /// Returns a boolean, false if the field isn't set.
    pub(crate) fn boolean(self, path: &'static str) -> Result<bool, HealthError> {
        let Some(value) = self.find(path)? else { return Ok(false) };
        value.as_bool().ok_or_else(|| self.wrong_type(path, "a boolean", value))
    }

    /// Returns an integer.
    pub(crate) fn integer(self, path: &'static str) -> Result<Option<i64>, HealthError> {
        let Some(value) = self.find(path)? else { return Ok(None) };
        value.as_i64().map(Some).ok_or_else(|| self.wrong_type(path, "a whole number", value))
    }

    /// Returns an integer, 0 if the field isn't set.
    pub(crate) fn count(self, path: &'static str) -> Result<i64, HealthError> {
        Ok(self.integer(path)?.unwrap_or(0))
    }

    /// Returns the entries of a list, empty if the field isn't set.
    pub(crate) fn list(
        self,
        path: &'static str,
    ) -> Result<impl ExactSizeIterator<Item = Node<'a>> + Clone, HealthError> {
        let entries = match self.find(path)? {
            None => &[],
            Some(Value::Array(entries)) => entries.as_slice(),
            Some(other) => return Err(self.wrong_type(path, "a list", other)),
        };
        Ok(entries.iter().map(move |value| Node::at(value, path)))
    }

    /// Returns `status.conditions`, in the object's order.
    pub(crate) fn conditions(self) -> Result<Vec<Condition<'a>>, HealthError> {
        self.list("status.conditions")?.map(Node::as_condition).collect()
    }

    /// Parses this node as a condition.
    pub(crate) fn as_condition(self) -> Result<Condition<'a>, HealthError> {
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
                    return Err(self.wrong_type(parent, "a map", other));
                }
            }
            walked += step.len() + 1;
        }
        Ok(Some(value).filter(|value| !value.is_null()))
    }

    fn wrong_type(self, path: &str, expected: &'static str, found: &Value) -> HealthError {
        let field = match (self.path, path) {
            (place, "") => format!("{place}[]"),
            ("", path) => path.to_owned(),
            (place, path) => format!("{place}[].{path}"),
        };
        HealthError::WrongType { field, expected, found: describe_json_type(found) }
    }
}
