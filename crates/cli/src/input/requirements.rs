//! Requirements that the input of a command must meet.

/// Requirements that the input must meet in addition to being readable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputRequirements {
    /// True if the input may be empty.
    pub can_be_empty: bool,
    /// True if the command syncs the input. Input then also counts as empty if a sync would omit all of its
    /// objects.
    pub is_synced: bool,
    /// True if objects may lack names because the command only examines them.
    pub can_be_unnamed: bool,
}
