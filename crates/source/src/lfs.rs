//! Git LFS, which stores the content of files outside the repository. The repository contains a pointer with
//! the digest of the content, and an LFS server provides the content.
//!
//! ```text
//! Repository::with_reader ─▶ CommitReader::content ─ Pointer? ─▶ Lookup ─ Store: present? ─▶ content
//!      ▲                                                            └── no: recorded; returns the pointer
//!      └─ repeat ◀── Lfs::fetch ◀── the read has ended
//!                        endpoint: server ─▶ batch: locations ─▶ verified content ─▶ Store
//! ```
//!
//! `enableLfs` in a repository's Secret enables Git LFS. Content is stored next to the mirror, separately for
//! each repository. A pointer therefore gives access only to objects that the server provides for this
//! repository.

mod batch;
mod config;
mod endpoint;
mod error;
mod fetch;
mod lookup;
mod pointer;
mod store;

pub use error::LfsError;
pub(crate) use fetch::{Lfs, LfsSource};
pub(crate) use lookup::{CONFIG, Lookup};

/// Maximum number of times that a commit is read because objects are missing. Reading the commit again may
/// reveal further pointers in the fetched content.
pub(crate) const ROUNDS_MAX: usize = 32;
/// Advice that is given if a server doesn't have an object.
pub(crate) const PUSH_HINT: &str =
    "push the object with `git lfs push --all origin`, or commit the file again";
