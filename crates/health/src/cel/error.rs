//! Errors in the evaluation of expressions.

use super::value::Value;

/// Reason why an evaluation didn't return a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EvaluationError {
    /// A field is missing now but may appear later.
    MissingField(String),
    /// Another error.
    Invalid(String),
    /// The evaluation took too many steps.
    Exhausted,
}

pub(super) type EvaluationResult = Result<Value, EvaluationError>;

pub(super) fn invalid(what: impl Into<String>) -> EvaluationError {
    EvaluationError::Invalid(what.into())
}

pub(super) fn overflow() -> EvaluationError {
    invalid("number too large")
}
