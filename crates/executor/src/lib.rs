//! The engine that executes operations: actors around pure state machines, and an API for extensions.
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
mod assignment;
mod call_timeouts;
mod claims;
mod clock;
mod clusters;
mod duration_histogram;
mod engine;
mod engine_context;
mod error;
mod events;
mod gates;
mod health_evaluation;
mod ids;
mod inbox;
mod last_runs;
mod log;
mod machines;
mod manifests;
mod offline;
mod output;
mod plan_counters;
mod policy_check;
mod restarts;
mod summary;
mod watches;

pub mod effects;
pub mod extensions;

pub use claims::{
    CLAIM_DURATION, CLAIM_RENEWAL_INTERVAL, Fence, HeartbeatCoverage, HeldLease, LeaseError, LeaseHolder,
    LeaseLoss, LeaseWait, PeerCheck, SERVICE_LEASE_DURATION, SERVICE_LEASE_RENEWAL_INTERVAL, ServiceIdentity,
    ServiceLease,
};
pub use clock::{Clock, RuntimeClock, SystemClock, Uptime};
pub use duration_histogram::{DurationHistogram, HistogramSnapshot};
pub use effects::{InvalidPlan, OutdatedPlan, StoredPlan, Targets};
pub use engine::{DEFAULT_IN_FLIGHT, Engine, EngineBuilder, OpenOperation};
pub use error::EngineError;
pub use events::{EventCursor, EventGap, EventStream, MissingEvents, Replay, replay};
pub use extensions::{Cancellation, GateReply, GateRequest, HealthRequest, HookResult, HookRun};
pub use gates::{
    CelGate, ConcurrencyGroup, GateDefinitions, HeaderSource, HttpGate, HttpMethod, InvalidGate,
    StepGateRequest, WINDOW_PREFIX, load_time_zone,
};
pub use ids::{IdSource, creation_time};
pub use machines::{DurableMachine, MachineEffects, MachineError, MachineSender, RunningMachine, SummaryOf};
pub use offline::{SummaryCorrection, find_wrong_summaries, list_summaries, open_log, record_request};
pub use output::{HookOutput, Output, OutputSource};
pub use plan_counters::PlanCounts;
pub use policy_check::PolicyCheck;
pub use summary::{Summary, codecs};
pub use tidegate_lifecycle::operation::{Event, EventKind};
pub use tidegate_model::{Window, WindowKind};
