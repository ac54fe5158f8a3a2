//! Git LFS: files whose content is stored outside the repository. The repository contains a pointer with the
//! content's digest, and an LFS server provides the content.
//!
//! ```text
//! Repository::in_commit ─▶ Reader::content ─ Pointer? ─▶ Lookup ─ Store: present? ─▶ the content
//!      ▲                                                   └── no: recorded as missing; the pointer is returned meanwhile
//!      └─ repeated ◀── Lfs::fetch ◀── the reading has ended
//!                              endpoint: server ─▶ batch: locations ─▶ content, verified ─▶ Store
//! ```
//!
//! LFS is enabled by `enableLfs` in the repository's Secret. Content is stored next to the mirror, separately
//! for each repository, so that naming an object doesn't give access to it unless the server grants it.

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

/// Maximum number of times that a commit is read because of missing objects. Fetched content can reveal more
/// pointers.
pub(crate) const ROUNDS_MAX: usize = 32;
/// Remedy if a server doesn't have an object.
pub(crate) const PUSH_HINT: &str = "push it with `git lfs push --all origin`, or commit the file again";
