//! Errors from state directories, clusters and operations. Every message explains what to do next.

use std::io;
use std::path::PathBuf;

use tidegate_application::NameError;
use tidegate_cluster::{ClusterError, ErrorKind};
use tidegate_executor::EngineError;
use tidegate_kube::ConnectError;
use tidegate_lifecycle::IllegalEvent;
use tidegate_model::{Destination, OperationId};
use tidegate_oplog::{CopyError, LogError, Shard};

/// Error in a state directory, a cluster or an operation.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// A cluster can't be reached.
    #[error("{source}{}", alternative_without_cluster(source))]
    Connect {
        /// Underlying connection error.
        #[from]
        source: ConnectError,
    },
    /// The connection now leads to a different cluster than the operation's.
    #[error(
        "operation {operation} was started on the {recorded}, but the current cluster is the {found}; an operation can resume only on the \
         cluster where it was started; select that cluster with --context or --kubeconfig"
    )]
    DifferentCluster {
        /// ID of the operation.
        operation: OperationId,
        /// Cluster in which the operation was started.
        recorded: String,
        /// Cluster at the other end of the connection.
        found: String,
    },
    /// A different cluster has replaced the operation's cluster.
    #[error(
        "operation {operation} was started on a different cluster than the one now at {recorded}: the URL is \
         the same, but the UID of the kube-system namespace differs; select the original cluster with \
         --context or --kubeconfig; if that cluster no longer exists, terminate the operation with \
         `tidegate ops terminate {operation}` and sync again"
    )]
    ClusterReplaced {
        /// ID of the operation.
        operation: OperationId,
        /// Cluster in which the operation was started.
        recorded: String,
    },
    /// The state directory couldn't be determined.
    #[error(
        "no state directory: neither HOME nor XDG_STATE_HOME is set; set --state-dir or TIDEGATE_STATE_DIR"
    )]
    NoStateDirectory,
    /// No operation matches the ID, ID prefix or application name.
    #[error(
        "{text:?} is neither the ID of an operation in {} nor the name of an application with an operation; \
         `tidegate ops list` lists all operations, and `tidegate app explain` shows what an application is \
         waiting for before its first operation",
        state_dir.display()
    )]
    UnknownOperation {
        /// Text that the user entered.
        text: String,
        /// State directory that was searched.
        state_dir: PathBuf,
    },
    /// The ID belongs to something other than an operation.
    #[error("{id} is {what}")]
    NotAnOperation {
        /// Requested ID.
        id: OperationId,
        /// Description of the item with this ID, and the command that shows it.
        what: String,
        /// True if the ID belongs to a rollout or deletion of an ApplicationSet.
        is_run: bool,
    },
    /// Several operations match.
    #[error("{text:?} matches {} operations: {}; use more digits of the ID", matches.len(), matches.join(", "))]
    AmbiguousOperation {
        /// Text that the user entered.
        text: String,
        /// Matching operations.
        matches: Vec<String>,
    },
    /// No rollout or deletion matches the ID, ID prefix or ApplicationSet name.
    #[error(
        "rollout or deletion {text:?} not found; it may be too old to be stored (`tidegate appset runs` \
         lists the stored rollouts and deletions)"
    )]
    UnknownRun {
        /// Text that the user entered.
        text: String,
    },
    /// Several rollouts or deletions match.
    #[error("{text:?} matches {} rollouts or deletions: {}; use more digits of the ID", matches.len(), matches.join(", "))]
    AmbiguousRun {
        /// Text that the user entered.
        text: String,
        /// Matching runs, each with its ApplicationSet.
        matches: Vec<String>,
    },
    /// The current state doesn't allow the request.
    #[error("{message}")]
    Refused {
        /// Reason for the rejection, and what to do about it.
        message: String,
    },
    /// Another replica manages the subject of the request.
    #[error("another replica manages {subject}; send the request to that replica")]
    OtherReplica {
        /// Kind and name of the subject.
        subject: String,
        /// Shard that the other replica owns.
        shard: Shard,
    },
    /// The user may not make the request, in any role.
    #[error("{message}")]
    NotAllowed {
        /// Reason for the rejection, and who may make the request.
        message: String,
    },
    /// No stored plan matches.
    #[error("cannot find plan {text}: {why}")]
    UnknownPlan {
        /// Text that the user entered.
        text: String,
        /// Existing plans, or the expected format of a hash.
        why: String,
    },
    /// According to the running process, the request is invalid or its subject doesn't exist.
    #[error("{message}")]
    BadInput {
        /// Description of the problem, and the existing subjects.
        message: String,
    },
    /// The log key in the environment is invalid.
    #[error("invalid key in TIDEGATE_LOG_KEY: {reason}")]
    LogKey {
        /// Reason the key is invalid.
        reason: String,
    },
    /// A cluster returned an error.
    #[error("{message}")]
    Cluster {
        /// Name of the cluster, and its error.
        message: String,
        /// True if a retry may succeed without any change.
        is_transient: bool,
    },
    /// A file or folder in the state directory isn't accessible.
    #[error("cannot {action} {}: {source}; {}", path.display(), io_advice(source))]
    Io {
        /// Action that failed.
        action: &'static str,
        /// Path of the file or folder.
        path: PathBuf,
        /// Error from the operating system.
        source: io::Error,
    },
    /// The process that owns the state directory sent an unusable response.
    #[error("the process using this state directory {problem}; try again, or stop that process and resume")]
    Control {
        /// Description of the problem.
        problem: String,
    },
    /// The process that owns the state directory isn't responding.
    #[error(
        "the process using {} is not responding: it is hanging or was stopped by a signal; continue it with `kill -CONT`, or restart it",
        state_dir.display()
    )]
    NoResponse {
        /// State directory of the process.
        state_dir: PathBuf,
    },
    /// A remote service's API returned an error.
    #[error("the service at {url} {problem}")]
    Remote {
        /// URL of the service.
        url: String,
        /// Description of the problem.
        problem: String,
    },
    /// The URL of an API is invalid.
    #[error("invalid address {url:?} of `tidegate serve`: {why}")]
    InvalidUrl {
        /// URL that the user entered.
        url: String,
        /// Reason, and the expected format.
        why: String,
    },
    /// The operation log returned an error.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The operation log couldn't be copied.
    #[error(transparent)]
    Copy(CopyError),
    /// The engine returned an error.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// An operation's log is inconsistent.
    #[error(transparent)]
    Damaged(#[from] IllegalEvent),
}

impl From<CopyError> for ServiceError {
    fn from(error: CopyError) -> Self {
        match error {
            CopyError::Log(error) => Self::Log(error),
            error => Self::Copy(error),
        }
    }
}

impl From<NameError> for ServiceError {
    /// Converts the error. The input is wrong, not the system, so every command exits with code 2.
    fn from(error: NameError) -> Self {
        Self::BadInput { message: error.to_string() }
    }
}

impl ServiceError {
    /// Returns the shard of the request, if another replica owns it and must handle the request.
    pub fn other_shard(&self) -> Option<Shard> {
        match self {
            Self::OtherReplica { shard, .. }
            | Self::Log(LogError::OtherReplica { shard, .. })
            | Self::Engine(EngineError::Log(LogError::OtherReplica { shard, .. })) => Some(*shard),
            _ => None,
        }
    }

    /// Returns true if the database of the operation log is unavailable.
    pub fn is_outage(&self) -> bool {
        match self {
            Self::Log(error) | Self::Engine(EngineError::Log(error)) => error.is_outage(),
            _ => false,
        }
    }

    /// Creates an error from a cluster's message. If the message already mentions the server, adds only the
    /// context.
    pub fn from_cluster_message(cluster: &Destination, message: &str) -> Self {
        let message = match cluster {
            Destination::Kubernetes { server, context, .. } if message.contains(server.as_str()) => {
                match context.as_str() {
                    "" => message.to_owned(),
                    context => format!("context {context}: {message}"),
                }
            }
            _ => format!("the {cluster}: {message}"),
        };
        Self::Cluster { message, is_transient: false }
    }

    /// Creates an error from a failed call to a cluster.
    pub fn from_call(cluster: &Destination, error: &ClusterError) -> Self {
        let passes = error.kind.is_transient() || error.kind == ErrorKind::Conflict;
        Self::from_cluster_message(cluster, &error.to_string()).with_transient(passes)
    }

    /// Sets whether a retry of a failed call may succeed without any change.
    pub fn with_transient(self, is_transient: bool) -> Self {
        match self {
            Self::Cluster { message, .. } => Self::Cluster { message, is_transient },
            other => other,
        }
    }

    /// Returns true if a retry may succeed without any change.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Cluster { is_transient: true, .. })
    }

    /// Creates an error for the simulated cluster.
    pub fn simulation(error: impl ToString) -> Self {
        Self::from_cluster_message(&Destination::Simulated, &error.to_string())
    }

    /// Creates an error for a request that the current state doesn't allow.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::Refused { message: message.into() }
    }
}

/// Error category from the requester's point of view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCategory {
    /// A general error.
    Error,
    /// The request is invalid.
    BadInput,
    /// The operation can be resumed.
    NotFinished,
    /// The current state doesn't allow the request, but that may change.
    Refused,
}

impl ServiceError {
    /// Returns the error's category.
    pub fn category(&self) -> ErrorCategory {
        match self {
            Self::Connect { .. }
            | Self::InvalidUrl { .. }
            | Self::LogKey { .. }
            | Self::NoStateDirectory
            | Self::UnknownOperation { .. }
            | Self::UnknownPlan { .. }
            | Self::BadInput { .. }
            | Self::AmbiguousOperation { .. }
            | Self::UnknownRun { .. }
            | Self::AmbiguousRun { .. }
            | Self::Engine(
                EngineError::UnknownOperation { .. } | EngineError::Log(LogError::UnknownStream { .. }),
            )
            | Self::Log(LogError::UnknownStream { .. }) => ErrorCategory::BadInput,
            Self::Engine(EngineError::ShuttingDown) => ErrorCategory::NotFinished,
            Self::Refused { .. }
            | Self::OtherReplica { .. }
            | Self::NotAnOperation { .. }
            | Self::NotAllowed { .. }
            | Self::DifferentCluster { .. }
            | Self::ClusterReplaced { .. }
            | Self::Log(LogError::Locked { .. } | LogError::ReplicaJoined { .. })
            | Self::Copy(CopyError::TwoOpenOperations { .. })
            | Self::Engine(
                EngineError::Busy { .. }
                | EngineError::Rejected { .. }
                | EngineError::AlreadyFinished { .. }
                | EngineError::NotRunning { .. },
            ) => ErrorCategory::Refused,
            Self::Log(_)
            | Self::Copy(_)
            | Self::Engine(_)
            | Self::Cluster { .. }
            | Self::Io { .. }
            | Self::Control { .. }
            | Self::Remote { .. }
            | Self::NoResponse { .. }
            | Self::Damaged(_) => ErrorCategory::Error,
        }
    }
}

/// Returns advice for an operating system error.
fn io_advice(error: &io::Error) -> &'static str {
    /// Error codes for too many open files, in the whole system or in this process.
    const TOO_MANY_OPEN_FILES: [i32; 2] = [23, 24];
    match error.kind() {
        _ if error.raw_os_error().is_some_and(|code| TOO_MANY_OPEN_FILES.contains(&code)) => {
            "allow more open files (`ulimit -n`) or stop other programs"
        }
        io::ErrorKind::FileTooLarge => "raise the file size limit (`ulimit -f`)",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some disk space and start again",
        _ => "check that the path exists and that you have access to it",
    }
}

/// Suggests an alternative to users without a cluster.
fn alternative_without_cluster(error: &ConnectError) -> &'static str {
    match error {
        ConnectError::NotConfigured { .. } => "; --sim uses a simulated cluster and needs no configuration",
        _ => "",
    }
}
