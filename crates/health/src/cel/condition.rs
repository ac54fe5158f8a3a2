//! Gate conditions on a single object: CEL expressions about `object`.

use serde_json::Value as Json;
use tidegate_model::Object;

use super::budget::STEPS_MAX;
use super::error::EvaluationError;
use super::evaluate::evaluate_on;
use super::parse::{self, Expression};
use super::unknown_names;
use super::value::Value;

/// Name of the object in expressions.
const OBJECT: &str = "object";

/// Expression about a single object, `object`.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition(Expression);

impl Condition {
    /// Parses an expression. The error gives the reason and the position. Unknown functions and names are
    /// errors.
    pub fn parse(text: &str) -> Result<Self, String> {
        let expression = parse::parse_expression(text)?;
        let unknown = unknown_names::find_unknown_names(&expression, |name| name == OBJECT);
        if unknown.is_empty() {
            return Ok(Self(expression));
        }
        Err(format!(
            "{}; refer to the object as {OBJECT}; docs/concepts/health.md lists the functions",
            unknown.join(", ")
        ))
    }

    /// Evaluates the expression for an object. The error gives the reason: a missing field, a result that
    /// isn't a boolean, or too many steps.
    pub fn is_true(&self, object: &Object) -> Result<bool, String> {
        match self.evaluate(object.as_value())? {
            Value::Boolean(value) => Ok(value),
            other => Err(format!("the result is {}, not a boolean", other.type_name())),
        }
    }

    /// Evaluates the expression to a string. Fails like [`Condition::is_true`].
    pub fn to_text(&self, object: &Object) -> Result<String, String> {
        match self.evaluate(object.as_value())? {
            Value::Text(text) => Ok(text.to_string()),
            other => Err(format!("the result is {}, not a string", other.type_name())),
        }
    }

    fn evaluate(&self, object: &Json) -> Result<Value, String> {
        evaluate_on(&self.0, OBJECT, object).map_err(|fault| match fault {
            EvaluationError::MissingField(name) => format!("{name} does not exist"),
            EvaluationError::Invalid(reason) => reason,
            EvaluationError::Exhausted => format!("evaluation stopped after {STEPS_MAX} steps"),
        })
    }
}
