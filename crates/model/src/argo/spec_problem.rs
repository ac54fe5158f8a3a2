/// Error in an Application's specification. The Application is not managed until the error is fixed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SpecProblem {
    /// Path of the field, such as `spec.source.path`.
    pub field: String,
    /// Message with the field, the problem and the fix.
    pub message: String,
}

impl SpecProblem {
    /// Creates a problem for a field.
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}
