//! Why a command could not do what was asked. Every message says what to do next.

use std::io;
use std::path::PathBuf;

use tidegate_executor::EngineError;
use tidegate_kube::ConnectError;
use tidegate_lifecycle::Illegal;
use tidegate_model::{Destination, OperationId, Warning};
use tidegate_oplog::LogError;

use crate::input::Problem;

/// Why a command could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The arguments do not make sense together.
    #[error("{message}")]
    Usage {
        /// What is wrong and what to write instead.
        message: String,
    },
    /// The manifests cannot be used. All problems of all files.
    #[error("{}", counted(problems.len(), "problem", "in the input; nothing was written"))]
    BadInput {
        /// What is wrong, in the order of the files.
        problems: Vec<Problem>,
    },
    /// `--strict`, and the plan has findings.
    #[error("{}", counted(warnings.len(), "finding", "refused by --strict; nothing was written"))]
    Strict {
        /// The findings.
        warnings: Vec<Warning>,
    },
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
    #[error("no operation and no application is named {text:?} in {}; `tidegate ops list` shows those there are", state_dir.display())]
    UnknownOperation {
        /// What was asked for.
        text: String,
        /// Where it was looked for.
        state_dir: PathBuf,
    },
    /// More than one operation begins like this.
    #[error("{text:?} is the beginning of {} operations: {}; write more of the id", matches.len(), matches.join(", "))]
    AmbiguousOperation {
        /// What was asked for.
        text: String,
        /// The operations.
        matches: Vec<String>,
    },
    /// The state of things does not allow it.
    #[error("{message}")]
    Refused {
        /// What is in the way, and what to do.
        message: String,
    },
    /// What should go on is held by a person.
    #[error("{message}")]
    Paused {
        /// Which operation, and how to let it go on.
        message: String,
    },
    /// A second signal came during the orderly stop.
    #[error(
        "stopped at once; what was not recorded yet is looked at again on resume: `tidegate resume --all`"
    )]
    Impatient,
    /// A cluster.
    #[error("{message}")]
    Cluster {
        /// Which, and what it said.
        message: String,
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
    /// Standard output refused the result.
    #[error("cannot write the result: {source}")]
    Output {
        /// The system's words.
        #[from]
        source: io::Error,
    },
    /// A value could not be written in the asked format.
    #[error("cannot write the result as {format}: {reason}; please report this, and use another -o")]
    Unprintable {
        /// JSON or YAML.
        format: &'static str,
        /// The serialiser's words.
        reason: String,
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

impl CliError {
    /// A mistake in the arguments.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::Usage { message: message.into() }
    }

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
        Self::Cluster { message }
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

fn counted(count: usize, noun: &str, rest: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural} {rest}")
}
