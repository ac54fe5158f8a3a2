//! Requirements that the input must meet.

/// Requirements that the input must meet in addition to being readable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputRequirements {
    /// True if the input may contain no objects.
    pub can_be_empty: bool,
    /// True if the input is synced. It then also counts as empty if a sync would omit all of its objects.
    pub is_synced: bool,
    /// True if the objects don't need names because they are only examined.
    pub can_be_unnamed: bool,
}
