use tidegate_model::{Gvk, Health, HealthStatus};

/// Why an object could not be judged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HealthError {
    /// There is a rule for the kind, but not for this version of it.
    #[error("no health rule for {found}: only {supported} is supported")]
    UnsupportedVersion {
        /// What the object is.
        found: Gvk,
        /// The versions that have a rule.
        supported: &'static str,
    },
    /// A field the rule reads has the wrong type.
    #[error("field {field} must be {expected}, found {found}")]
    WrongType {
        /// Path of the field.
        field: String,
        /// What it should be.
        expected: &'static str,
        /// What it is.
        found: &'static str,
    },
    /// A field the rule reads should be a time and is not.
    #[error("field {field} must be an RFC 3339 time, found {found:?}")]
    InvalidTime {
        /// Path of the field.
        field: &'static str,
        /// What it is.
        found: String,
    },
    /// An annotation that should hold conditions as JSON does not.
    #[error("annotation {annotation} must be a list of conditions in JSON: {reason}")]
    InvalidConditions {
        /// Name of the annotation.
        annotation: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// A health script cannot be used.
    #[error("the health script for this kind does not load: {fault}")]
    ScriptFault {
        /// What is wrong with it.
        fault: String,
    },
    /// The expressions for a kind or object cannot be used.
    #[error("the health expressions for this object cannot be read: {fault}")]
    ExpressionFault {
        /// What is wrong with them.
        fault: String,
    },
    /// A health expression gave no boolean.
    #[error("health expression {expression} failed: {reason}")]
    Expression {
        /// Which one, and where it was read.
        expression: String,
        /// What went wrong.
        reason: String,
    },
    /// A health script failed.
    #[error("health script failed: {reason}")]
    Script {
        /// Where the script was read.
        script: String,
        /// Lua's words, with file and line.
        reason: String,
    },
    /// A health script did not come to an end.
    #[error("health script {script} was stopped after {limit} steps; does it have an endless loop?")]
    ScriptSteps {
        /// Where the script was read.
        script: String,
        /// How many steps a script has.
        limit: u64,
    },
    /// A health script wanted too much memory.
    #[error("health script {script} was stopped: it wanted more than {limit} bytes of memory")]
    ScriptMemory {
        /// Where the script was read.
        script: String,
        /// How much memory a script has.
        limit: usize,
    },
    /// A health script returned something that is no verdict.
    #[error("health script {script} must return a table with the texts status and message, found {found}")]
    ScriptResult {
        /// Where the script was read.
        script: String,
        /// What it returned.
        found: String,
    },
    /// A health script returned nothing, or an empty table: it has no opinion.
    #[error("health script {script} gives no status")]
    NoStatus {
        /// Where the script was read.
        script: String,
    },
}

/// What could not be judged is [`HealthStatus::Unknown`], and the message says why.
///
/// No status at all does what [`HealthStatus::Missing`] does, as in Argo CD: a resource stays awaited, a hook counts as
/// done once it is created.
impl From<HealthError> for Health {
    fn from(error: HealthError) -> Self {
        let status = match error {
            HealthError::NoStatus { .. } => HealthStatus::Missing,
            _ => HealthStatus::Unknown,
        };
        Self::new(status, error.to_string())
    }
}
