//! Requirements for the input of a command.

/// Requirements for the input beyond being readable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputRequirements {
    /// True if the input may be empty.
    pub can_be_empty: bool,
    /// True if the command syncs the input. It then also counts as empty if a sync would skip all of its
    /// objects.
    pub is_synced: bool,
    /// True if objects may lack names, because the command only examines them.
    pub can_be_unnamed: bool,
}
