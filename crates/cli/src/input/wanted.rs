//! What input may be like.

/// What is asked of the input besides being readable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// It may hold no objects at all.
    pub empty: bool,
    /// It is synced, so it is empty as well where a sync leaves all of its objects out.
    pub synced: bool,
    /// Its objects need no names, because they are only looked at.
    pub unnamed: bool,
}
