//! Git LFS, which stores file content outside the repository. The repository contains a pointer with the
//! digest of the content, and an LFS server provides the content.
//!
//! ```text
//! Repository::with_reader ─▶ CommitReader::content ─ Pointer? ─▶ Lookup ─ Store: present? ─▶ content
//!      ▲                                                            └── no: recorded; returns the pointer
//!      └─ repeat ◀── Lfs::fetch ◀── the read has ended
//!                        endpoint: server ─▶ batch: locations ─▶ verified content ─▶ Store
//! ```
//!
//! `enableLfs` in a repository's Secret turns on Git LFS. Each repository has its own store next to its
//! mirror, so a pointer never gives access to an object that the repository's own server wouldn't provide.

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

/// Maximum number of times to read a commit because of missing objects. Fetched content may contain further
/// pointers.
pub(crate) const ROUNDS_MAX: usize = 32;
/// Advice when a server lacks an object.
pub(crate) const PUSH_HINT: &str =
    "push the object with `git lfs push --all origin`, or commit the file again";
