//! State and messages of the supervisor.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ractor::{ActorId, ActorRef, RpcReplyPort};
use tidegate_cluster::Cluster;
use tidegate_health::HealthRules;
use tidegate_lifecycle::operation::{Driver, Input, OperationView};
use tidegate_model::{
    ClaimConflictPolicy, ClaimHolder, Destination, Digest, OperationId, StoredPlanRef, SyncRequest,
};
use tidegate_oplog::{LogError, OwnedShards, Shard};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::recent_results::RecentResults;
use crate::actors::operation::{Inspection, OperationMessage, Report};
use crate::effects::Targets;
use crate::engine_context::EngineContext;
use crate::error::EngineError;
use crate::manifests::SubmittedManifests;
use crate::output::RunningHooks;
use crate::restarts::Restarts;
use crate::summary::Summary;

/// Maximum number of operations read concurrently. Each read takes up a thread.
pub(super) const CONCURRENT_READS_MAX: usize = 8;

pub(super) type Reply<T> = RpcReplyPort<Result<T, EngineError>>;

/// Message to the supervisor, from the engine or from one of its actors.
pub(crate) enum SupervisorMessage {
    /// Start a new operation.
    Submit(Submission),
    /// Open operations, for the submissions waiting for the list, which was requested after this number of
    /// changes of the owned shards.
    OpenOperationsLoaded { shard_changes: u64, open: Result<Vec<Summary>, LogError> },
    /// Resume an operation from the log.
    Resume { operation: OperationId, reply: Reply<()> },
    /// Result of reading an operation from the log.
    OperationRead {
        operation: OperationId,
        purpose: ReadPurpose,
        result: Result<RecoveredOperation, EngineError>,
    },
    /// Reply once the operation has finished.
    Wait { operation: OperationId, reply: Reply<OperationView> },
    /// A user's request for a running operation.
    Request { operation: OperationId, input: Input, reply: Reply<()> },
    /// Return the status of a running operation.
    Inspect { operation: OperationId, reply: Reply<Inspection> },
    /// Return the running hooks of a running operation.
    RunningHooks { operation: OperationId, reply: Reply<RunningHooks> },
    /// Add a cluster.
    AddCluster { destination: Destination, cluster: Arc<dyn Cluster>, reply: Reply<()> },
    /// Change the health rules.
    SetHealthRules { rules: HealthRules, reply: Reply<()> },
    /// Return the operations with an actor in this process.
    ListRunning { reply: Reply<BTreeSet<OperationId>> },
    /// Return the number of in-memory entries about operations.
    Entries { reply: Reply<usize> },
    /// End an open operation in favor of another.
    Supersede { open: OperationId, by: ClaimHolder },
    /// The application's open operation can't continue.
    OpenOperationStuck { application: String, open: OperationId },
    /// An application has no open operation, so a queued operation can start.
    StartNext { application: String },
    /// Report from an operation.
    Report(Report),
    /// Start an actor that operations depend on.
    StartLinkedActor(ActorRole),
    /// Run only the operations in these shards. Other engines with the same log continue the others. The function returns
    /// the shard of an application's new operations.
    SetOwnedShards {
        owned: OwnedShards,
        shard_of: Arc<dyn Fn(&str) -> Shard + Send + Sync>,
        reply: Reply<()>,
    },
    /// Stop all actors. Open operations can be resumed from the log.
    Shutdown { reply: Reply<()> },
}

/// Role of an actor.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ActorRole {
    Operation(OperationId),
    Log,
    Cluster(Destination),
}

impl fmt::Display for ActorRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operation(operation) => write!(f, "the actor that runs operation {operation}"),
            Self::Log => f.write_str("the engine's log actor"),
            Self::Cluster(destination) => write!(f, "the engine's watches of the {destination}"),
        }
    }
}

pub(crate) struct SupervisorState {
    pub shared: Arc<EngineContext>,
    pub running: HashMap<OperationId, Child>,
    /// Roles of the running actors.
    pub actor_roles: HashMap<ActorId, ActorRole>,
    /// Failures of the actors that operations depend on.
    pub restarts: BTreeMap<ActorRole, Restarts>,
    /// Permit held while the log is being written.
    pub write_permit: Arc<Semaphore>,
    /// Background tasks, which end with the supervisor.
    pub tasks: JoinSet<()>,
    /// Open operation of each application, according to the log. Loaded on first use.
    pub open: Option<HashMap<String, OperationId>>,
    /// Submissions waiting for the list of open operations.
    pub waiting_submissions: Vec<Submission>,
    /// Operations waiting for their application's open operation to finish.
    pub queues: HashMap<String, Queue>,
    /// Operations being read from the log to be resumed.
    pub resuming: HashMap<OperationId, PendingResume>,
    pub recent_results: RecentResults,
    /// Limits the number of concurrent reads of operations.
    pub reads: Arc<Semaphore>,
    /// Handovers that wait for operations to stop.
    pub handovers: Vec<Handover>,
    /// Number of changes of the owned shards. Each of them makes earlier lists of open operations obsolete.
    pub shard_changes: u64,
    pub is_stopping: bool,
    /// Callers to notify once all actors have stopped.
    pub shutdown_replies: Vec<Reply<()>>,
}

/// Operations that stop because another engine continues them.
pub(crate) struct Handover {
    /// Operations that have not stopped yet.
    pub operations: BTreeSet<OperationId>,
    pub reply: Reply<()>,
}

pub(crate) struct Child {
    pub actor: ActorRef<OperationMessage>,
    pub application: String,
    /// Shard that stores the operation.
    pub shard: Shard,
    /// `None` if the operation's first records were lost.
    pub destination: Option<Destination>,
    pub restarts: Restarts,
    /// True once this engine has held the operation's claim.
    pub claim_held: Arc<AtomicBool>,
    /// True if the actor has failed and hasn't restarted yet.
    pub is_down: bool,
    pub waiters: Vec<Reply<OperationView>>,
}

/// Metadata of an operation, available before the operation is in the log.
pub(crate) struct OperationMetadata {
    pub application: String,
    /// Shard that stores the operation.
    pub shard: Shard,
    pub destination: Option<Destination>,
    pub restarts: Restarts,
    /// True once this engine has held the operation's claim.
    pub claim_held: Arc<AtomicBool>,
}

impl OperationMetadata {
    pub(super) fn new(request: &SyncRequest, shard: Shard) -> Self {
        Self {
            application: request.application.clone(),
            shard,
            destination: Some(request.destination.clone()),
            restarts: Restarts::default(),
            claim_held: Arc::default(),
        }
    }
}

/// Request for a new operation, and the caller waiting for its acceptance.
pub(crate) struct Submission {
    pub operation: OperationId,
    pub request: Box<SyncRequest>,
    pub targets: Digest,
    /// Stored plan to execute.
    pub plan: Option<Box<StoredPlanRef>>,
    pub submitted: Option<Box<SubmittedManifests>>,
    /// Policy for an application with another open operation.
    pub if_open: ClaimConflictPolicy,
    /// Manifests to store again after the submission has left the queue. Empty if it isn't queued.
    pub manifests: Box<Targets>,
    pub reply: Reply<()>,
}

/// One application's queued operations, in order.
pub(super) type Queue = VecDeque<Submission>;

/// An operation read from the log.
pub(crate) struct RecoveredOperation {
    pub metadata: OperationMetadata,
    pub driver: Box<Driver>,
}

/// Reason for reading an operation.
#[derive(Debug)]
pub(crate) enum ReadPurpose {
    /// A caller resumes the operation.
    Resume,
    /// The operation's actor has failed. `end_reason` is set if the operation must end immediately.
    Restart { delay: Duration, end_reason: Option<String> },
}

/// Operation being read from the log to be resumed.
pub(crate) struct PendingResume {
    pub reply: Reply<()>,
    /// True if the operation may be resumed only if this engine is connected to its cluster.
    pub if_connected: bool,
    /// Messages deferred until the operation has been read.
    pub deferred_messages: Vec<SupervisorMessage>,
}
