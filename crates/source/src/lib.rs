//! Where manifests come from: Git repositories, read without a checkout, without a `git` program and without the
//! machine's configuration of Git.
//!
//! ```text
//! repoURL ─ Address ─▶ Repository ─ look ─▶ Refs ─ resolve(targetRevision) ─▶ commit
//!                          └── locate(commit, source) ─▶ Located { key } ── read ─▶ files
//! ```
//!
//! Everything here blocks; callers keep it off their async threads. One look at the refs of a repository serves all who
//! use it: [`Repository::resolve`] asks what was seen last. The same commit and the same parameters give the same
//! [`Located::key`], so that what was made of them can be kept under it.
//!
//! What is not supported yet is an error that says so, never an empty result.

mod address;
mod commit;
mod directory;
mod error;
mod glob;
mod refs;
mod repository;
mod tree;

pub use address::Address;
pub use commit::commit_folder;
pub use error::SourceError;
pub use glob::Glob;
pub use refs::Refs;
pub use repository::{File, Located, Repositories, Repository, SOURCE_TYPE};
pub use tree::Limits;
