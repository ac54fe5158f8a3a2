//! Where manifests come from: Git repositories, read without a checkout, without a `git` program and without the
//! machine's configuration of Git.
//!
//! ```text
//! repoURL ─ Address ─▶ Repository ─ look ─▶ Refs ─ resolve(targetRevision) ─▶ commit
//!                          └── locate(commit, source) ─▶ Located { key } ── read ─▶ files
//! ```
//!
//! A repository on this machine is read where it is. One over the network has a mirror in the state directory (`remote`): a
//! look asks the server for its names alone, and a commit is fetched when somebody wants its files and they are not there.
//!
//! Everything here blocks; callers keep it off their async threads. One look at the refs of a repository serves all who
//! use it: [`Repository::resolve`] asks what was seen last. The same commit and the same parameters give the same
//! [`Located::key`], so that what was made of them can be kept under it.
//!
//! What is not supported yet is an error that says so, never an empty result. No error holds what is secret.

mod address;
mod commit;
mod credentials;
mod directory;
mod error;
mod glob;
mod refs;
mod remote;
mod repository;
mod touched;
mod tree;
mod versions;

pub use address::Address;
pub use commit::commit_folder;
pub use credentials::{Credentials, CredentialsError};
pub use error::SourceError;
pub use glob::Glob;
pub use refs::Refs;
pub use remote::RemoteLimits;
pub use repository::{File, Located, Reach, Repositories, Repository, SOURCE_TYPE};
pub use touched::is_touched;
pub use tree::Limits;
