//! Stores for Applications and ApplicationSets: the folder or the cluster that contains them, and their
//! persisted state.

pub mod applications;
pub mod appsets;
