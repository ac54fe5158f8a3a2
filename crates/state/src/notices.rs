//! Notices for the user of a running command.

/// Receiver of notices.
pub trait Notices: Sync {
    /// Shows a warning.
    fn warn(&self, message: &str);
    /// Shows a hint.
    fn note(&self, message: &str);
}

/// Receiver that discards all notices.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoNotices;

impl Notices for NoNotices {
    fn warn(&self, _: &str) {}

    fn note(&self, _: &str) {}
}
