//! The engine that carries operations out: actors around the pure machines, and the API for extensions.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use tidegate_executor::{Engine, EngineError, Targets};
//! # async fn example(log: tidegate_oplog::Log,
//! #   cluster: Arc<dyn tidegate_cluster::Cluster>, request: tidegate_model::SyncRequest, targets: Targets) -> Result<(), EngineError> {
//! let engine = Engine::builder(log).cluster(request.destination.clone(), cluster).start().await?;
//! let operation = engine.submit(request, targets).await?;
//! let result = engine.wait(operation).await?;
//! println!("{}: {}", result.phase, result.message);
//! engine.shutdown().await;
//! # Ok(()) }
//! ```

mod actors;
mod alarm;
mod claims;
mod clock;
mod clusters;
mod durations;
mod engine;
mod error;
mod events;
mod gates;
mod ids;
mod inbox;
mod judging;
mod last_runs;
mod limits;
mod log;
mod machines;
mod manifests;
mod offline;
mod output;
mod permits;
mod restarts;
mod shared;
mod summary;
mod watches;

pub mod effects;
pub mod extend;

pub use claims::{CLAIM_LASTS, CLAIM_RENEWED_EVERY};
pub use clock::{Clock, RuntimeClock, SystemClock, Uptime};
pub use durations::{Counted, Durations};
pub use effects::{InvalidPlan, KeptPlan, PlanMoved, Targets};
pub use engine::{Engine, EngineBuilder, IN_FLIGHT};
pub use error::EngineError;
pub use events::{Events, Gone, Missed, Replay, Seen, replay};
pub use extend::{Cancellation, GateQuestion, GateReply, HealthQuestion, HookEnd, HookRun};
pub use gates::{
    CelGate, Concurrency, GateDefinitions, HeaderSource, HttpGate, HttpMethod, InvalidGate, StepQuestion,
    WINDOW, zone,
};
pub use ids::{IdSource, made_at};
pub use machines::{Durable, MachineError, Post, Running, SummaryOf, Work};
pub use offline::{Misstated, misstated, open_log, operations, record};
pub use output::{HookOutput, Output, OutputSource};
pub use permits::Permits;
pub use summary::{Summary, codecs};
pub use tidegate_lifecycle::operation::{Event, EventKind};
pub use tidegate_model::{Window, WindowKind};
