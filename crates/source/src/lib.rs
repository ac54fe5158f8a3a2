//! Manifests from Git repositories, Helm charts and kustomizations. Git repositories are read without a
//! checkout, without a `git` program, and without the machine's Git configuration.
//!
//! ```text
//! repoURL ─ Address ─▶ Repository ─ observe ─▶ Refs ─ resolve(targetRevision) ─▶ commit
//!                          └── locate_manifests(commit, source) ─▶ LocatedManifests { key } ── read ─▶ files
//!                                 folder: unchanged; chart: `helm template`; kustomization: `kustomize build`
//! ```
//!
//! A local repository is read in place. A remote repository has a mirror in the state directory (`remote`).
//! `observe` lists the refs of the remote repository. A commit is fetched when its files are needed and
//! missing from the mirror.
//!
//! All functions block, so async code must call them in separate threads. [`Repository::resolve`] uses the
//! latest observation, so one call of `observe` serves all users of a repository. [`LocatedManifests::key`]
//! depends only on the commit and the parameters, which makes it a suitable cache key for rendered manifests.
//!
//! An unsupported feature causes an error rather than an empty result. Errors don't contain secrets.

mod address;
mod cache;
mod charts;
mod checkout;
mod commit;
mod credentials;
mod error;
mod file_access;
mod helm;
mod kustomize;
mod lfs;
mod listing;
mod located;
mod located_chart;
mod manifest_paths;
mod mask;
mod observations;
mod open_cache;
mod origin;
mod refs;
mod remote;
mod remote_dependencies;
mod render_inputs;
mod render_target;
mod repositories;
mod repository;
mod request_events;
mod sanitize;
mod secret_text;
mod signing;
mod source_overrides;
mod source_type;
mod tools;
mod tree;
mod version_constraints;

pub use address::{Address, AddressContext};
pub use cache::Cache;
pub use charts::ChartRepository;
pub use commit::commit_folder;
pub use credentials::{AzureWorkload, Credentials, CredentialsError};
pub use error::{FailureCause, SourceError};
pub use lfs::LfsError;
pub use located::{LocatedManifests, LocatedSource};
pub use located_chart::LocatedChart;
pub use manifest_paths::is_affected;
pub use origin::{OpenSource, Origin};
pub use refs::Refs;
pub use remote::RemoteLimits;
pub use remote_dependencies::{
    AllowedSources, DependencyFetcher, InvalidPrefix, Prefix, RepositoryPermission, UsedDependency,
};
pub use render_inputs::{ReferencedSource, RenderInputs};
pub use render_target::{Capabilities, CapabilitiesQuery, ClusterCapabilities, RenderTarget};
pub use repositories::{RemoteAccess, Repositories};
pub use repository::{File, Repository};
pub use request_events::{Listener, RequestEvent, RequestKind};
pub use signing::{RequiredKeys, SignatureCheck};
pub use tidegate_web::Clock;
pub use tools::{ToolLimits, Tools};
pub use tree::Limits;
pub use version_constraints::allows;
