//! Common imports for programs that embed an engine: `use tidegate::prelude::*`.
//!
//! | purpose | items |
//! | --- | --- |
//! | engine | [`Engine`], [`memory_log`], [`open_log`], [`simulated_cluster`], [`open_simulated_cluster`] |
//! | operation | [`SyncRequest`], [`read_manifests`], [`Targets`], [`Destination`], [`ClaimConflictPolicy`], [`Lookup`] |
//! | status | [`OperationView`], [`OperationPhase`], [`Explanation`], [`Event`], [`EventKind`] |
//! | gate | [`GateRequest`], [`Verdict`] |
//! | hook runner | [`HookRun`], [`HookResult`] |
//! | health judge | [`HealthRequest`], [`Health`], [`HealthStatus`] |
//! | actor | [`Actor`], [`ActorRef`], [`ActorResult`] |

pub use crate::ractor::{Actor, ActorProcessingErr, ActorRef};
pub use crate::{
    ActorResult, InvalidManifests, memory_log, open_log, open_simulated_cluster, read_manifests,
    simulated_cluster,
};
pub use tidegate_cluster::Cluster;
pub use tidegate_executor::{
    Cancellation, Clock, Engine, EngineBuilder, EngineError, Event, EventCursor, EventKind, GateDefinitions,
    GateReply, GateRequest, HealthRequest, HookResult, HookRun, Summary, SystemClock, Targets,
};
pub use tidegate_health::HealthRules;
pub use tidegate_lifecycle::operation::{Explanation, OperationView, Verdict};
pub use tidegate_model::{
    ClaimConflictPolicy, Destination, Health, HealthStatus, Object, ObjectKey, OperationId, OperationPhase,
    Phase, SyncRequest, Timestamp,
};
pub use tidegate_oplog::{Log, LogError, Lookup, Retention};
