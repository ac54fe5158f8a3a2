//! Git LFS: files whose content is not in the repository. What is there in its place is a pointer, which says by what the content
//! is known; a server of objects has the content itself.
//!
//! ```text
//! Repository::in_commit ─▶ Reader::content ─ Pointer? ─▶ Lookup ─ Store: is it kept? ─▶ the content
//!      ▲                                                   └── no: noted as missing, and the pointer stands for it meanwhile
//!      └─ read once more ◀── Lfs::fetch ◀── nobody reads any more
//!                              endpoint: whom to ask ─▶ batch: where they are ─▶ their content, checked ─▶ Store
//! ```
//!
//! It is done for repositories whose Secret says `enableLfs`. What is fetched is kept beside the mirror, for that repository
//! alone: whoever may name an object may not have it, unless the server gives it to them.

mod batch;
mod config;
mod endpoint;
mod error;
mod fetch;
mod lookup;
mod pointer;
mod store;

pub use error::LfsError;
pub(crate) use fetch::{Lfs, Source};
pub(crate) use lookup::{CONFIG, Lookup};
pub(crate) use store::ENDING;

/// So often is a commit read again for what was missing: what was fetched may be a pointer's way to others. More than anybody has.
pub(crate) const ROUNDS_MAX: usize = 32;
/// What to do where a server does not have an object.
pub(crate) const PUSH: &str = "push it with `git lfs push --all origin`, or commit the file anew";
