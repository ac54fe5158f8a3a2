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
mod approving;
pub(crate) mod asked;
mod board;
mod carrying;
mod checking;
mod comparing;
mod confirmations;
mod deleting;
mod depending;
mod fetched;
mod given;
mod held;
mod made;
pub(crate) mod manifests;
mod messages;
mod parting;
mod places;
pub(crate) mod projects;
mod pushed;
pub(crate) mod reconciles;
mod recorded;
mod remembered;
mod repositories;
mod served;
mod serving;
mod shared;
mod supervisor;
mod surprises;
mod telling;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests stop at the first surprise")]
pub(crate) mod testing;
mod turns;
mod view;
mod watching;

pub mod asking;
pub mod listing;
pub mod store;

pub(crate) use announcing::{Announced, announce_refusal, put_event};
pub use asked::RepositoryRequests;
pub(crate) use board::Deployments;
pub use board::{Board, Found};
pub use manifests::Sourcing;
pub(crate) use messages::SupervisorMessage;
pub use places::Places;
pub use places::standing::ClusterStanding;
pub(crate) use projects::Missing;
pub use projects::ProjectSet;
pub(crate) use recorded::is_known;
pub use repositories::RepositoryFiles;
pub use served::{Applications, Pace};
pub use serving::Serving;
pub(crate) use shared::Shared;
pub use tidegate_source::RequestKind;
