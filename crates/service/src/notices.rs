//! Notices for the user of a running command.

/// Receiver of notices.
pub trait Notices: Sync {
    /// Shows a warning.
    fn warn(&self, message: &str);
    /// Shows a hint.
    fn note(&self, message: &str);
}
