//! All that most programs with an engine name; for `use tidegate::prelude::*`.
//!
//! | for | there is |
//! | --- | --- |
//! | an engine | [`Engine`], [`memory_log`], [`open_log`], [`simulated_cluster`], [`open_simulated_cluster`] |
//! | an operation | [`SyncRequest`], [`read_manifests`], [`Targets`], [`Destination`], [`IfTaken`], [`Lookup`] |
//! | how it stands | [`OperationView`], [`OperationPhase`], [`Explanation`], [`Event`], [`EventKind`] |
//! | a gate | [`GateQuestion`], [`Verdict`] |
//! | a hook runner | [`HookRun`], [`HookEnd`] |
//! | a health judge | [`HealthQuestion`], [`Health`], [`HealthStatus`] |
//! | any actor | [`Actor`], [`ActorRef`], [`ActorResult`] |

pub use crate::ractor::{Actor, ActorProcessingErr, ActorRef};
pub use crate::{
    ActorResult, InvalidManifests, memory_log, open_log, open_simulated_cluster, read_manifests,
    simulated_cluster,
};
pub use tidegate_cluster::Cluster;
pub use tidegate_executor::{
    Cancellation, Clock, Engine, EngineBuilder, EngineError, Event, EventKind, GateDefinitions, GateQuestion,
    GateReply, HealthQuestion, HookEnd, HookRun, Seen, Summary, SystemClock, Targets,
};
pub use tidegate_health::HealthRules;
pub use tidegate_lifecycle::operation::{Explanation, OperationView, Verdict};
pub use tidegate_model::{
    Destination, Health, HealthStatus, IfTaken, Object, ObjectKey, OperationId, OperationPhase, Phase,
    SyncRequest, Timestamp,
};
pub use tidegate_oplog::{Log, LogError, Lookup, Retention};
