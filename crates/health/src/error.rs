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
}

/// What could not be judged is [`HealthStatus::Unknown`], and the message says why.
impl From<HealthError> for Health {
    fn from(error: HealthError) -> Self {
        Self::new(HealthStatus::Unknown, error.to_string())
    }
}
