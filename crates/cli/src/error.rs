//! Why a command could not do what was asked. Every message says what to do next.

use std::io;
use std::path::PathBuf;

use tidegate_executor::EngineError;
use tidegate_model::Warning;
use tidegate_oplog::LogError;
use tidegate_service::error::ServiceError;

use crate::input::problem::Problem;

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
    Strict { warnings: Vec<Warning> },
    /// ApplicationSets do not make all of their Applications.
    #[error("{}", counted(problems.len(), "problem", "with ApplicationSets"))]
    Generate {
        /// What is wrong, each with the name of the ApplicationSet and the place in it.
        problems: Vec<String>,
        /// It is what is written in them, and not somebody who did not answer.
        is_input: bool,
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
    /// A state directory, a cluster or an operation.
    #[error(transparent)]
    Service(ServiceError),
}

/// What went wrong below, in the words of the one it happened to.
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
    /// A mistake in the arguments.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::Usage { message: message.into() }
    }

    /// A file or folder, and what the system said of it.
    pub fn io(action: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::Service(ServiceError::Io { action, path: path.into(), source })
    }

    /// Something the state of things does not allow.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::Service(ServiceError::refused(message))
    }
}

fn counted(count: usize, noun: &str, rest: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural} {rest}")
}
