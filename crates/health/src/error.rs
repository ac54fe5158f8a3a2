use tidegate_model::{Gvk, Health, HealthStatus};

/// Reason why an object's health can't be determined.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HealthError {
    /// The kind has a rule, but not for this version.
    #[error("no health rule for {found}: only {supported} is supported")]
    UnsupportedVersion {
        /// Version of the object.
        found: Gvk,
        /// Supported versions.
        supported: &'static str,
    },
    /// A field has the wrong type.
    #[error("field {field} must be {expected}, found {found}")]
    WrongType {
        /// Path of the field.
        field: String,
        /// Expected type.
        expected: &'static str,
        /// Actual type.
        found: &'static str,
    },
    /// A field is not a valid time.
    #[error("field {field} must be an RFC 3339 time, found {found:?}")]
    InvalidTime {
        /// Path of the field.
        field: &'static str,
        /// Value of the field.
        found: String,
    },
    /// The conditions in an annotation are not valid JSON.
    #[error("the {annotation} annotation must be a list of conditions in JSON: {reason}")]
    InvalidConditions {
        /// Name of the annotation.
        annotation: &'static str,
        /// Reason why the conditions are invalid.
        reason: String,
    },
    /// A health script is invalid.
    #[error("failed to load the health script for this kind: {fault}")]
    InvalidScript {
        /// Reason why the script is invalid.
        fault: String,
    },
    /// The expressions for a kind or object are invalid.
    #[error("invalid health expressions for this object: {fault}")]
    InvalidExpressions {
        /// Reason why the expressions are invalid.
        fault: String,
    },
    /// A health expression did not return a boolean.
    #[error("health expression {expression} failed: {reason}")]
    Expression {
        /// Expression and its origin.
        expression: String,
        /// Reason why it didn't return a boolean.
        reason: String,
    },
    /// A health script failed while running.
    #[error("health script failed: {reason}")]
    Script {
        /// Origin of the script.
        script: String,
        /// Lua's message, with the file and line.
        reason: String,
    },
    /// A health script exceeded the maximum number of steps.
    #[error("health script {script} was stopped after {limit} steps; check it for an endless loop")]
    ScriptSteps {
        /// Origin of the script.
        script: String,
        /// Maximum number of steps.
        limit: u64,
    },
    /// A health script exceeded the maximum memory.
    #[error(
        "health script {script} was stopped: it needed more than {limit} bytes of memory; reduce its memory usage"
    )]
    ScriptMemory {
        /// Origin of the script.
        script: String,
        /// Maximum memory in bytes.
        limit: usize,
    },
    /// A health script returned an invalid result.
    #[error(
        "health script {script} must return a table with the string fields status and message, found {found}"
    )]
    ScriptResult {
        /// Origin of the script.
        script: String,
        /// Result of the script.
        found: String,
    },
    /// A health script returned nothing or an empty table, so there is no health.
    #[error(
        "health script {script} returned no status; return a table with the string fields status and message"
    )]
    NoStatus {
        /// Origin of the script.
        script: String,
    },
}

/// Converts an error to a health with the error as its message: [`HealthStatus::Missing`] for
/// [`HealthError::NoStatus`], and [`HealthStatus::Unknown`] for all others.
///
/// As in Argo CD, operations wait for a Missing resource, whereas a hook is done once it is created.
impl From<HealthError> for Health {
    fn from(error: HealthError) -> Self {
        let status = match error {
            HealthError::NoStatus { .. } => HealthStatus::Missing,
            _ => HealthStatus::Unknown,
        };
        Self::new(status, error.to_string())
    }
}
