//! Git LFS: files whose content is stored outside the repository. The repository contains a pointer with the
//! content's digest, and an LFS server provides the content.
//!
//! ```text
//! Repository::with_reader ─▶ CommitReader::content ─ Pointer? ─▶ Lookup ─ Store: present? ─▶ content
//!      ▲                                                            └── no: recorded; returns the pointer
//!      └─ repeat ◀── Lfs::fetch ◀── the read has ended
//!                        endpoint: server ─▶ batch: locations ─▶ verified content ─▶ Store
//! ```
//!
//! LFS is enabled by `enableLfs` in the repository's Secret. Content is stored next to the mirror, separately
//! for each repository. A pointer therefore gives access to an object only if the server grants this
//! repository access to it.

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

/// Maximum number of times that a commit is read because of missing objects. Content that has been fetched
/// may reveal more pointers.
pub(crate) const ROUNDS_MAX: usize = 32;
/// Remedy that is suggested if a server doesn't have an object.
pub(crate) const PUSH_HINT: &str = "push it with `git lfs push --all origin`, or commit the file again";
