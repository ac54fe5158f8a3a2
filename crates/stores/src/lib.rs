//! Stores for Applications and ApplicationSets: the folder or cluster where they are defined, and their
//! persisted state.

pub mod applications;
pub mod appsets;
