//! Applications, served: compared with their clusters, and synced when they ask for it.
//!
//! ```text
//! ApplicationStore ──▶ Applications (supervisor) ──links, restarts──▶ ApplicationActor, one per Application
//!   folder of YAML         ▲           ▲                                │ compares (`comparing`), carries out (`carrying`)
//!                     refs moved   objects changed                      ▼
//!                     (`Repositories`)  (`watching`)                 Engine, Cluster, store, `Board`
//! ```
//!
//! An actor that waits holds its resource and nothing else; what it decides is in the crate `application`. Everything it
//! must not forget is in the store before it acts: an operation has its id there before the engine hears of it, so it is
//! begun once, whatever dies in between.

mod actor;
mod admission;
mod announcing;
mod board;
mod carrying;
mod checking;
mod comparing;
mod deleting;
mod depending;
mod given;
mod manifests;
mod messages;
mod places;
mod projects;
mod pushed;
mod reconciles;
mod recorded;
mod repositories;
mod shared;
mod supervisor;
mod telling;
mod watching;

pub mod asking;
pub mod listing;
pub mod store;

pub use board::{Board, Found};
pub use manifests::Sourcing;
pub use places::Places;
pub use projects::ProjectSet;
pub use repositories::RepositoryFiles;
pub use supervisor::{Applications, Serving};
