//! Conditions over one object, as gates have them: the same expressions, in which the object is called `object`.

use serde_json::Value as Json;
use tidegate_model::Object;

use super::names;
use super::run::{Fault, STEPS_MAX, run_on};
use super::syntax::{self, Expression};
use super::value::Value;

/// What the object is called.
const OBJECT: &str = "object";

/// An expression over `object`.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition(Expression);

impl Condition {
    /// Reads an expression. The error says what is wrong with it, and where; functions and names that are not known are
    /// wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let expression = syntax::parse(text)?;
        let unknown = names::unknown(&expression, |name| name == OBJECT);
        if unknown.is_empty() {
            return Ok(Self(expression));
        }
        Err(format!(
            "{}; the object is called {OBJECT}, and docs/cli.md names the functions",
            unknown.join(", ")
        ))
    }

    /// Whether it is true of an object. The error says why that cannot be told: a field is not there, the expression gives
    /// something else, or takes too many steps.
    pub fn holds(&self, object: &Object) -> Result<bool, String> {
        match self.value(object.as_value())? {
            Value::Boolean(value) => Ok(value),
            other => Err(format!("it gives {}, not a boolean", other.described())),
        }
    }

    /// The text that it gives for an object, with errors as those of [`Condition::holds`].
    pub fn text(&self, object: &Object) -> Result<String, String> {
        match self.value(object.as_value())? {
            Value::Text(text) => Ok(text.to_string()),
            other => Err(format!("it gives {}, not a text", other.described())),
        }
    }

    fn value(&self, object: &Json) -> Result<Value, String> {
        run_on(&self.0, OBJECT, object).map_err(|fault| match fault {
            Fault::Missing(name) => format!("{name} is not there"),
            Fault::Wrong(reason) => reason,
            Fault::Exhausted => format!("it was stopped after {STEPS_MAX} steps"),
        })
    }
}
