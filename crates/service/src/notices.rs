//! Notices to the user of a running command.

/// Receiver of notices.
pub trait Notices: Sync {
    /// Reports a warning.
    fn warn(&self, message: &str);
    /// Reports a hint.
    fn note(&self, message: &str);
}
