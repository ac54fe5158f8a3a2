//! What a person should be told while something goes on.

/// Where it is told.
pub trait Notices: Sync {
    /// Something that needs a look.
    fn warn(&self, message: &str);
    /// Something that may help.
    fn note(&self, message: &str);
}
