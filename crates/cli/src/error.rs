//! Errors of commands. Every message says what to do next.

use std::io;
use std::path::PathBuf;

use tidegate_executor::EngineError;
use tidegate_model::Warning;
use tidegate_oplog::LogError;
use tidegate_state::error::ServiceError;

use crate::input::problem::Problem;

/// Error of a command.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The arguments are invalid, or can't be combined.
    #[error("{message}")]
    Usage {
        /// Description of the problem and the correct usage.
        message: String,
    },
    /// The manifests are invalid. Lists the problems in all files.
    #[error("{}", format_count(problems.len(), "problem", "in the input; nothing was written"))]
    InvalidInput {
        /// Problems, in the order of the files.
        problems: Vec<Problem>,
    },
    /// The plan has warnings, and `--strict` is set.
    #[error("{}", format_count(warnings.len(), "warning", "rejected by --strict; nothing was written"))]
    Strict { warnings: Vec<Warning> },
    /// ApplicationSets couldn't generate all of their Applications.
    #[error("{}", format_count(problems.len(), "problem", "with ApplicationSets"))]
    Generate {
        /// Problems, each with the ApplicationSet's name and the position in it.
        problems: Vec<String>,
        /// True if the files are to blame, rather than a server that didn't respond.
        is_input: bool,
    },
    /// The operation to continue is paused.
    #[error("{message}")]
    Paused {
        /// Name of the operation, and how to continue it.
        message: String,
    },
    /// A second signal arrived during the graceful shutdown.
    #[error(
        "stopped before all results were recorded; continue with `tidegate resume --all`, which checks the cluster for the missing results"
    )]
    ForcedShutdown,
    /// Writing to standard output failed.
    #[error("cannot write the result to standard output: {source}")]
    Output {
        /// Error from the operating system.
        #[from]
        source: io::Error,
    },
    /// A value couldn't be encoded as requested.
    #[error(
        "cannot write the result as {format}: {reason}; please report this problem, and use another output format (-o)"
    )]
    Encoding {
        /// Format: JSON or YAML.
        format: &'static str,
        /// Error from the serializer.
        reason: String,
    },
    /// Error from a state directory, a cluster or an operation.
    #[error(transparent)]
    Service(ServiceError),
}

/// Converts errors from lower layers without changing their messages.
macro_rules! from_below {
    ($($error:ty),*) => {
        $(impl From<$error> for CliError {
            fn from(error: $error) -> Self {
                Self::Service(error.into())
            }
        })*
    };
}
from_below!(ServiceError, EngineError, LogError);

impl CliError {
    /// Creates an error for invalid arguments.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::Usage { message: message.into() }
    }

    /// Creates an error with the path of a file or folder and the operating system's error.
    pub fn io(action: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::Service(ServiceError::Io { action, path: path.into(), source })
    }

    /// Creates an error for a request that the current state doesn't permit.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::Service(ServiceError::refused(message))
    }
}

fn format_count(count: usize, noun: &str, rest: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural} {rest}")
}
