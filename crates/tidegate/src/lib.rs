//! The engine of Tidegate in a program of your own.
//!
//! [`prelude`] has what a program with gates, hook runners, health judges and notifiers of its own needs. The functions
//! here open what an engine works with, and the modules hold the rest: each is one crate of the workspace.
//!
//! ```
//! use tidegate::prelude::*;
//!
//! # #[tidegate::tokio::main(crate = "tidegate::tokio", flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = Engine::builder(memory_log())
//!     .cluster(Destination::Simulated, simulated_cluster())
//!     .start()
//!     .await?;
//! let targets = read_manifests("shop.yaml", b"{apiVersion: v1, kind: ConfigMap, metadata: {name: shop}}")?;
//! let request = SyncRequest::new("shop", "default", Destination::Simulated);
//! let operation = engine.submit(request, targets).await?;
//! let result = engine.wait(operation).await?;
//! assert_eq!(result.phase, OperationPhase::Succeeded, "{}", result.message);
//! engine.shutdown().await;
//! # Ok(()) }
//! ```
//!
//! A program that outlives a crash keeps its log with [`open_log`] and, when it starts, resumes what is open:
//! `engine.find(Lookup::open())`, then `engine.resume` for each.

/// What the functions of an actor return. An error ends the actor, which harms nobody but those who ask it.
pub type ActorResult<T = ()> = Result<T, ractor::ActorProcessingErr>;

mod manifests;
mod open;
pub mod prelude;

pub use manifests::{InvalidManifests, read_manifests};
pub use open::{memory_log, open_log, open_simulated_cluster, simulated_cluster};

pub use tidegate_cluster as cluster;
pub use tidegate_executor as executor;
/// The actor library, in the version the engine uses.
pub use tidegate_executor::extend::ractor;
pub use tidegate_health as health;
pub use tidegate_kube as kube;
pub use tidegate_lifecycle as lifecycle;
pub use tidegate_model as model;
pub use tidegate_oplog as oplog;
pub use tidegate_planner as planner;
/// The runtime the engine needs, in the version it uses.
pub use tokio;
