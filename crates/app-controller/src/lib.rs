//! Manages Applications: compares them with their clusters, and syncs them on request.
//!
//! ```text
//! ApplicationStore ──▶ Supervisor ──links, restarts──▶ ApplicationActor, one per Application
//!                       ▲        ▲                       │ compares (`compare`), syncs (`run_operation`)
//!               refs moved   objects changed             ▼
//!   (`application_service`)  (`watches`)             engine, clusters, store, `ApplicationCache`
//! ```
//!
//! An idle actor keeps only its resource in memory. The `application` crate makes the decisions. State that
//! must survive a crash is persisted before the actor acts on it. An operation's ID, for example, is in the
//! store before the engine receives the operation, so that it starts only once even after a crash.

mod actor;
pub mod actor_pool;
mod admission;
mod application_cache;
mod application_service;
mod compare;
mod comparison_cache;
mod comparison_result;
mod confirmations;
mod declared_secrets;
mod delete;
mod deletion_queue;
mod dependency_graph;
mod destinations;
mod discovery;
mod drift_warnings;
mod fetched_dependencies;
pub mod generator_inputs;
mod git_metrics;
mod kubernetes_events;
mod managed_applications;
pub mod manifests;
mod messages;
mod operation_history;
mod operation_start;
mod orphaned_syncs;
mod plan_approval;
pub mod projects;
pub mod reconcile_metrics;
mod reference_checks;
mod repositories;
pub mod resource_cache;
mod run_operation;
mod shared_state;
pub mod shutdown;
mod status_log;
mod supervisor;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]
mod testing;
mod watches;

pub mod listing;
pub mod sync_request;

pub use application_cache::{ApplicationCache, SearchResult};
pub use application_service::ApplicationService;
pub use destinations::Destinations;
pub use destinations::cluster_status::ClusterStatus;
pub use git_metrics::RepositoryRequests;
pub use kubernetes_events::{KubernetesEvent, put_event, write_refusal_event};
pub use managed_applications::{ManagedApplications, ManagedApplicationsInput, ReconcileSettings};
pub use manifests::{SourceSettings, have_same_manifests};
pub use messages::{AppMessage, ChildOperation, DeletionOptions, SupervisorMessage};
pub use operation_history::is_operation_known;
pub use projects::MissingProject;
pub use repositories::RepositoryFiles;
pub use shared_state::SharedState;
pub use tidegate_source::RequestKind;
