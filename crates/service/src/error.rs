//! Why a state directory, a cluster or an operation could not be reached. Every message says what to do next.

use std::io;
use std::path::PathBuf;

use tidegate_cluster::{ClusterError, ErrorKind};
use tidegate_executor::EngineError;
use tidegate_kube::ConnectError;
use tidegate_lifecycle::Illegal;
use tidegate_model::{Destination, OperationId};
use tidegate_oplog::LogError;

/// Why something could not be done.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// There is no way to the cluster.
    #[error("{source}{}", instead(source))]
    Connect {
        /// Why not.
        #[from]
        source: ConnectError,
    },
    /// The way to the cluster of an operation leads to another one now.
    #[error(
        "operation {operation} was begun on the {recorded}, and what is there now is the {found}; it goes on only where it was begun: name the way there with --context or --kubeconfig"
    )]
    Elsewhere {
        /// Which operation.
        operation: OperationId,
        /// Where it was begun.
        recorded: String,
        /// Where the way leads to.
        found: String,
    },
    /// Another cluster has come in the place of the one an operation was begun on.
    #[error(
        "operation {operation} was begun on another cluster than the one that is at {recorded} now: the URL is the same, but the UID of the namespace kube-system is not. Name the way to the old one with --context or --kubeconfig, or, if it is gone, end the operation with `tidegate ops terminate {operation}` and begin anew"
    )]
    Replaced {
        /// Which operation.
        operation: OperationId,
        /// Where it was begun.
        recorded: String,
    },
    /// Nowhere to keep state.
    #[error(
        "neither HOME nor XDG_STATE_HOME is set, so there is no place for the state; name one with --state-dir or TIDEGATE_STATE_DIR"
    )]
    NoStateDirectory,
    /// No operation has this id, prefix or application.
    #[error("no operation, and no application that has had one, is named {text:?} in {}; `tidegate ops list` shows those there are, and `tidegate app explain` says what an application waits for before its first", state_dir.display())]
    UnknownOperation {
        /// What was asked for.
        text: String,
        /// Where it was looked for.
        state_dir: PathBuf,
    },
    /// The id is that of something else.
    #[error("{id} is {what}")]
    NoOperation {
        /// What was asked for.
        id: OperationId,
        /// What it is, and where to look.
        what: String,
        /// It is a rollout or a deletion of an ApplicationSet.
        is_run: bool,
    },
    /// More than one operation begins like this.
    #[error("{text:?} is the beginning of {} operations: {}; write more of the id", matches.len(), matches.join(", "))]
    AmbiguousOperation {
        /// What was asked for.
        text: String,
        /// The operations.
        matches: Vec<String>,
    },
    /// No rollout and no deletion has this id, prefix or ApplicationSet.
    #[error(
        "no rollout and no deletion is named {text:?}: the oldest are not kept; `tidegate appset runs` shows those there are"
    )]
    UnknownRun {
        /// What was asked for.
        text: String,
    },
    /// More than one rollout or deletion is meant.
    #[error("{text:?} means {} rollouts or deletions: {}; write more of the id", matches.len(), matches.join(", "))]
    AmbiguousRun {
        /// What was asked for.
        text: String,
        /// They, with their ApplicationSets.
        matches: Vec<String>,
    },
    /// The state of things does not allow it.
    #[error("{message}")]
    Refused {
        /// What is in the way, and what to do.
        message: String,
    },
    /// Somebody may not have that done, whatever their role.
    #[error("{message}")]
    NotAllowed {
        /// Why, and who may.
        message: String,
    },
    /// No kept plan is named so.
    #[error("there is no plan {text}: {why}")]
    UnknownPlan {
        /// What was asked for.
        text: String,
        /// Which there are, or what a hash is.
        why: String,
    },
    /// What was asked for is not there, or means nothing, as the process at work says.
    #[error("{message}")]
    BadInput {
        /// What, and which there are.
        message: String,
    },
    /// The key in the environment is none.
    #[error("TIDEGATE_LOG_KEY holds no key: {reason}")]
    LogKey {
        /// Why not.
        reason: String,
    },
    /// A cluster.
    #[error("{message}")]
    Cluster {
        /// Which, and what it said.
        message: String,
        /// Whether the same may be done in a moment, though nobody changes anything.
        is_passing: bool,
    },
    /// A file or folder of the state directory.
    #[error("cannot {action} {}: {source}; {}", path.display(), advice(source))]
    Io {
        /// What was tried.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// The system's words.
        source: io::Error,
    },
    /// The process that owns the state directory gave no usable answer.
    #[error("the process that works in this state directory {problem}; try again, or stop it and resume")]
    Control {
        /// What happened.
        problem: String,
    },
    /// The process that owns the state directory gave no answer at all.
    #[error(
        "the process at work in {} does not answer: it was stopped by a signal, or hangs; let it go on (`kill -CONT`), or end it and start it again",
        state_dir.display()
    )]
    Silent {
        /// Where it works.
        state_dir: PathBuf,
    },
    /// The API of a process elsewhere.
    #[error("the `tidegate serve` at {url} {problem}")]
    Remote {
        /// Where.
        url: String,
        /// What happened.
        problem: String,
    },
    /// The address of an API.
    #[error("{url:?} is no address of a `tidegate serve`: {why}")]
    Address {
        /// What was given.
        url: String,
        /// What is wrong with it, and what to write instead.
        why: String,
    },
    /// The operation log.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The log of an operation does not make sense.
    #[error(transparent)]
    Damaged(#[from] Illegal),
}

impl ServiceError {
    /// What a cluster said. Where its words name the server, only the context has to be added.
    pub fn of_cluster(cluster: &Destination, message: &str) -> Self {
        let message = match cluster {
            Destination::Kubernetes { server, context, .. } if message.contains(server.as_str()) => {
                match context.as_str() {
                    "" => message.to_owned(),
                    context => format!("context {context}: {message}"),
                }
            }
            _ => format!("the {cluster}: {message}"),
        };
        Self::Cluster { message, is_passing: false }
    }

    /// What a call to a cluster came to.
    pub fn of_call(cluster: &Destination, error: &ClusterError) -> Self {
        let passes = error.kind.is_transient() || error.kind == ErrorKind::Conflict;
        match Self::of_cluster(cluster, &error.to_string()) {
            Self::Cluster { message, .. } => Self::Cluster { message, is_passing: passes },
            other => other,
        }
    }

    /// Whether the same may be done in a moment, though nobody changes anything.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Cluster { is_passing: true, .. })
    }

    /// What the simulated cluster said.
    pub fn simulated(error: impl ToString) -> Self {
        Self::of_cluster(&Destination::Simulated, &error.to_string())
    }

    /// Something the state of things does not allow.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::Refused { message: message.into() }
    }
}

/// What an error means for whoever asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Something went wrong.
    Error,
    /// What was asked for does not make sense.
    BadInput,
    /// The operation can be resumed.
    NotFinished,
    /// Nothing is wrong but the state of things, which may change.
    Refusal,
}

impl ServiceError {
    /// What it means for whoever asked.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Connect { .. }
            | Self::Address { .. }
            | Self::LogKey { .. }
            | Self::NoStateDirectory
            | Self::UnknownOperation { .. }
            | Self::UnknownPlan { .. }
            | Self::BadInput { .. }
            | Self::AmbiguousOperation { .. }
            | Self::UnknownRun { .. }
            | Self::AmbiguousRun { .. }
            | Self::Engine(EngineError::Unknown { .. })
            | Self::Log(LogError::UnknownStream { .. }) => Kind::BadInput,
            Self::Engine(EngineError::ShuttingDown) => Kind::NotFinished,
            Self::Refused { .. }
            | Self::NoOperation { .. }
            | Self::NotAllowed { .. }
            | Self::Elsewhere { .. }
            | Self::Replaced { .. }
            | Self::Log(LogError::Locked { .. })
            | Self::Engine(
                EngineError::Busy { .. }
                | EngineError::Refused { .. }
                | EngineError::AlreadyFinished { .. }
                | EngineError::NotRunning { .. },
            ) => Kind::Refusal,
            Self::Log(_)
            | Self::Engine(_)
            | Self::Cluster { .. }
            | Self::Io { .. }
            | Self::Control { .. }
            | Self::Remote { .. }
            | Self::Silent { .. }
            | Self::Damaged(_) => Kind::Error,
        }
    }
}

/// What to do about an error of the system.
fn advice(error: &io::Error) -> &'static str {
    /// Too many open files, in this process or in all.
    const NO_HANDLES: [i32; 2] = [23, 24];
    match error.kind() {
        _ if error.raw_os_error().is_some_and(|code| NO_HANDLES.contains(&code)) => {
            "allow more open files (`ulimit -n`) or end other programs"
        }
        io::ErrorKind::FileTooLarge => "raise the limit for the size of files (`ulimit -f`)",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space and start again",
        _ => "check that the path exists and that you may use it",
    }
}

/// Who has no cluster can still try things out.
fn instead(error: &ConnectError) -> &'static str {
    match error {
        ConnectError::NotConfigured { .. } => "; --sim works on a simulated cluster, and needs nothing",
        _ => "",
    }
}
