//! The exit code, in one place.

use tidegate_executor::EngineError;
use tidegate_model::OperationPhase;
use tidegate_oplog::LogError;

use crate::error::CliError;

/// How a command ended that did what it could.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The command did what was asked.
    Done,
    /// The operation, or what was planned, is over like this.
    Operation(OperationPhase),
    /// Another operation has the application's claim; nothing was changed.
    Refused,
    /// A plan was shown that cannot run.
    InvalidPlan,
    /// Operations that are not over are damaged; which, was said.
    Damaged,
    /// A comparison found differences.
    Different,
    /// A comparison could not be made, or not of everything; why was said.
    NotCompared,
    /// The operation is not over and can be resumed.
    NotFinished,
}

/// What each code means; help and `docs/cli.md` say the same.
pub const CODES: &str = "\
Exit codes:
  0  succeeded
  1  failed, or an error, such as a cluster that cannot be reached
  2  bad input or usage
  3  not finished: timed out, interrupted or paused; can be resumed
  4  refused: another operation is running, the state directory is in use, or the operation's state does not allow it";

/// The exit code of a command.
pub fn code(outcome: &Result<Ended, CliError>) -> i32 {
    match outcome {
        Ok(Ended::Done | Ended::Operation(OperationPhase::Succeeded)) => 0,
        Ok(
            Ended::Operation(OperationPhase::Failed | OperationPhase::Error)
            | Ended::InvalidPlan
            | Ended::Damaged
            | Ended::Different,
        ) => 1,
        Ok(Ended::NotCompared) => 2,
        Ok(Ended::Refused) => 4,
        Ok(Ended::NotFinished | Ended::Operation(OperationPhase::Running | OperationPhase::Terminating)) => 3,
        Err(error) => match kind(error) {
            Kind::Error => 1,
            Kind::BadInput => 2,
            Kind::NotFinished => 3,
            Kind::Refusal => 4,
        },
    }
}

/// Whether nothing is wrong but the state of things, which may change.
pub fn is_refusal(error: &CliError) -> bool {
    kind(error) == Kind::Refusal
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Error,
    BadInput,
    NotFinished,
    Refusal,
}

fn kind(error: &CliError) -> Kind {
    match error {
        CliError::Usage { .. }
        | CliError::BadInput { .. }
        | CliError::Strict { .. }
        | CliError::Connect { .. }
        | CliError::NoStateDirectory
        | CliError::UnknownOperation { .. }
        | CliError::AmbiguousOperation { .. }
        | CliError::Engine(EngineError::Unknown { .. })
        | CliError::Log(LogError::UnknownStream { .. }) => Kind::BadInput,
        CliError::Paused { .. } | CliError::Impatient | CliError::Engine(EngineError::ShuttingDown) => {
            Kind::NotFinished
        }
        CliError::Refused { .. }
        | CliError::Elsewhere { .. }
        | CliError::Replaced { .. }
        | CliError::Log(LogError::Locked { .. })
        | CliError::Engine(
            EngineError::Busy { .. }
            | EngineError::Refused { .. }
            | EngineError::AlreadyFinished { .. }
            | EngineError::NotRunning { .. },
        ) => Kind::Refusal,
        CliError::Log(_)
        | CliError::Engine(_)
        | CliError::Cluster { .. }
        | CliError::Io { .. }
        | CliError::Control { .. }
        | CliError::Output { .. }
        | CliError::Damaged(_)
        | CliError::Unprintable { .. } => Kind::Error,
    }
}
