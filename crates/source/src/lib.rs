//! Where manifests come from: Git repositories, read without a checkout, without a `git` program and without the
//! machine's configuration of Git.
//!
//! ```text
//! repoURL ─ Address ─▶ Repository ─ look ─▶ Refs ─ resolve(targetRevision) ─▶ commit
//!                          └── locate(commit, source) ─▶ Located { key } ── read ─▶ files of manifests
//!                                                  a folder: as they are; a chart: `helm template`; a kustomization: `kustomize build`
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
mod asked;
mod charts;
mod checkout;
mod commit;
mod credentials;
mod directory;
mod error;
mod fetching;
mod files;
mod helm;
mod hidden;
mod kept;
mod kind;
mod kustomize;
mod lfs;
mod listing;
mod located;
mod looks;
mod making;
mod mask;
mod opened;
mod origin;
mod overrides;
mod purpose;
mod refs;
mod remote;
mod repositories;
mod repository;
mod signing;
mod tools;
mod touched;
mod tree;
mod versions;
mod words;

pub use address::{Address, Home};
pub use asked::{Asked, Listener, RequestKind};
pub use charts::{ChartRepository, LocatedChart};
pub use commit::commit_folder;
pub use credentials::{AzureWorkload, Credentials, CredentialsError};
pub use error::SourceError;
pub use fetching::{Allowed, BadPrefix, Fetching, Permits, Prefix, Used};
pub use kept::Kept;
pub use lfs::LfsError;
pub use located::Located;
pub use making::{Making, Referred};
pub use origin::{Found, Origin};
pub use purpose::{Capabilities, Purpose, Question, Served};
pub use refs::Refs;
pub use remote::RemoteLimits;
pub use repositories::{Known, Reach, Repositories};
pub use repository::{File, Repository};
pub use signing::Wanted;
pub use tidegate_web::Clock;
pub use tools::{ToolLimits, Tools};
pub use touched::is_touched;
pub use tree::Limits;
pub use versions::allows;
