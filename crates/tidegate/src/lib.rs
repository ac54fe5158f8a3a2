//! Embeds the Tidegate engine in a program.
//!
//! [`prelude`] exports the common types for programs with custom gates, hook runners, health judges and notifiers. The
//! functions in this crate open logs and simulated clusters. Each module re-exports one crate of the workspace.
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
//! To survive a crash, a program stores its log with [`open_log`] and resumes open operations when it starts.
//! It calls `engine.find(Lookup::open())`, and then `engine.resume` for each operation.

/// Return type of actor functions. An error stops the actor and affects only its callers.
pub type ActorResult<T = ()> = Result<T, ractor::ActorProcessingErr>;

mod constructors;
mod manifests;
pub mod prelude;

pub use constructors::{memory_log, open_log, open_simulated_cluster, simulated_cluster};
pub use manifests::{InvalidManifests, read_manifests};

pub use tidegate_cluster as cluster;
pub use tidegate_executor as executor;
/// The actor library, in the version used by the engine.
pub use tidegate_executor::extensions::ractor;
pub use tidegate_health as health;
pub use tidegate_kube as kube;
pub use tidegate_lifecycle as lifecycle;
pub use tidegate_model as model;
pub use tidegate_oplog as oplog;
pub use tidegate_planner as planner;
/// The runtime, in the version used by the engine.
pub use tokio;
