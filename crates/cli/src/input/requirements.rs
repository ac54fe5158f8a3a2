//! Requirements for a command's input.

/// Requirements for the input, besides being readable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputRequirements {
    /// True if the input may be empty.
    pub can_be_empty: bool,
    /// True if the command syncs the input, which then also counts as empty if a sync would skip all of its
    /// objects.
    pub is_synced: bool,
    /// True if objects may lack names, for commands that only examine them.
    pub can_be_unnamed: bool,
}
