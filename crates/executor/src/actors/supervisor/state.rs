//! What the supervisor knows, and what it is told.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ractor::{ActorId, ActorRef, RpcReplyPort};
use tidegate_cluster::Cluster;
use tidegate_health::HealthRules;
use tidegate_lifecycle::operation::{Driver, Input, OperationView};
use tidegate_model::{ClaimHolder, Destination, Digest, IfTaken, OperationId, SyncRequest, TakenPlan};
use tidegate_oplog::LogError;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::ends::Ends;
use crate::actors::operation::{Inspection, OperationMessage, Report};
use crate::effects::Targets;
use crate::error::EngineError;
use crate::manifests::HandedOver;
use crate::output::RunningHooks;
use crate::restarts::Restarts;
use crate::shared::Shared;
use crate::summary::Summary;

/// How many operations are read from the log at once; each takes a thread meanwhile.
pub(super) const READS_AT_ONCE: usize = 8;

pub(super) type Reply<T> = RpcReplyPort<Result<T, EngineError>>;

/// What is asked of the supervisor, by the engine, and by the actors it has started.
pub(crate) enum SupervisorMessage {
    /// Begin a new operation.
    Submit(Submit),
    /// The open operations, which some submits wait for.
    OpenRead(Result<Vec<Summary>, LogError>),
    /// Go on with an operation from the log.
    Resume { operation: OperationId, reply: Reply<()> },
    /// An operation was read from the log, or could not be.
    Read { operation: OperationId, purpose: Purpose, result: Result<Recovered, EngineError> },
    /// Tell when the operation is over.
    Wait { operation: OperationId, reply: Reply<OperationView> },
    /// A person's wish for an operation at work.
    Person { operation: OperationId, input: Input, reply: Reply<()> },
    /// How an operation at work stands.
    Inspect { operation: OperationId, reply: Reply<Inspection> },
    /// Which hooks of an operation at work run.
    RunningHooks { operation: OperationId, reply: Reply<RunningHooks> },
    /// Operations may work on this cluster too.
    AddCluster { destination: Destination, cluster: Arc<dyn Cluster>, reply: Reply<()> },
    /// Objects are judged by other rules from now on.
    JudgeBy { rules: HealthRules, reply: Reply<()> },
    /// The operations that an actor of this process carries out.
    AtWork { reply: Reply<BTreeSet<OperationId>> },
    /// An open operation is to end for another one.
    Supersede { open: OperationId, by: ClaimHolder },
    /// The open operation of an application cannot go on.
    Stuck { application: String, open: OperationId },
    /// An application has no open operation, and others may wait for that.
    BeginNext { application: String },
    /// What an operation says of itself.
    Report(Report),
    /// Start an actor that operations depend on.
    Start(Linked),
    /// Every actor is stopped; what is open can be resumed from the log.
    Shutdown { reply: Reply<()> },
}

/// Who an actor works for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Linked {
    Operation(OperationId),
    Log,
    Cluster(Destination),
}

impl fmt::Display for Linked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operation(operation) => write!(f, "the actor of operation {operation}"),
            Self::Log => f.write_str("the engine's log actor"),
            Self::Cluster(destination) => write!(f, "the engine's watches of the {destination}"),
        }
    }
}

pub(crate) struct SupervisorState {
    pub shared: Arc<Shared>,
    pub running: HashMap<OperationId, Child>,
    /// Who the actors at work are.
    pub linked: HashMap<ActorId, Linked>,
    /// How the actors that operations depend on have failed.
    pub restarts: BTreeMap<Linked, Restarts>,
    /// Held while the log is written to.
    pub writing: Arc<Semaphore>,
    /// What is done beside the supervisor; it ends with it.
    pub tasks: JoinSet<()>,
    /// The open operation of each application, as the log has it; read when it is needed first.
    pub open: Option<HashMap<String, OperationId>>,
    /// Submits that wait for it.
    pub submits: Vec<Submit>,
    /// Operations that wait until another one of their application is over.
    pub queues: HashMap<String, Queue>,
    /// Operations that are being read to be resumed.
    pub resuming: HashMap<OperationId, Resuming>,
    pub ends: Ends,
    /// A place for each operation that may be read at once.
    pub reads: Arc<Semaphore>,
    pub stopping: bool,
    /// Told when everything has stopped.
    pub stopped: Vec<Reply<()>>,
}

pub(crate) struct Child {
    pub actor: ActorRef<OperationMessage>,
    pub application: String,
    /// Not known of one that has lost its beginning.
    pub destination: Option<Destination>,
    pub restarts: Restarts,
    /// Its actor has failed, and the next one has not begun.
    pub is_down: bool,
    pub waiting: Vec<Reply<OperationView>>,
}

/// What is known of an operation besides its log.
pub(crate) struct About {
    pub application: String,
    pub destination: Option<Destination>,
    pub restarts: Restarts,
}

impl About {
    pub(super) fn new(request: &SyncRequest) -> Self {
        Self {
            application: request.application.clone(),
            destination: Some(request.destination.clone()),
            restarts: Restarts::default(),
        }
    }
}

/// An operation that is asked for, and whoever waits to hear whether it was accepted.
pub(crate) struct Submit {
    pub operation: OperationId,
    pub request: Box<SyncRequest>,
    pub targets: Digest,
    /// The kept plan that it carries out.
    pub plan: Option<Box<TakenPlan>>,
    pub handed_over: Option<Box<HandedOver>>,
    /// What becomes of it while another operation of its application is not over.
    pub if_open: IfTaken,
    /// What is kept anew when it has waited; empty for one that does not wait.
    pub manifests: Box<Targets>,
    pub reply: Reply<()>,
}

/// Operations of one application, the next one first.
pub(super) type Queue = VecDeque<Submit>;

/// An operation, read from the log.
pub(crate) struct Recovered {
    pub about: About,
    pub driver: Box<Driver>,
}

/// What an operation is read for.
#[derive(Debug)]
pub(crate) enum Purpose {
    /// Somebody wants it to go on.
    Resume,
    /// Its actor has failed; with a reason to end it at once.
    Restart { wait: Duration, give_up: Option<String> },
}

/// An operation that is being read to be resumed.
pub(crate) struct Resuming {
    pub reply: Reply<()>,
    /// Only if this engine has a connection to its cluster.
    pub if_connected: bool,
    /// What came for it meanwhile.
    pub messages: Vec<SupervisorMessage>,
}
