//! Stores for Applications and ApplicationSets: the folder or cluster that defines them, and their persisted
//! state.

pub mod applications;
pub mod appsets;
