//! Exit codes of all commands.

use tidegate_model::OperationPhase;
use tidegate_state::error::ErrorCategory;

use crate::error::CliError;

/// Outcome of a command that didn't fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandOutcome {
    /// The command succeeded.
    Done,
    /// The executed or planned operation finished in this phase.
    Operation(OperationPhase),
    /// Another operation holds the application's claim. Nothing changed.
    ClaimConflict,
    /// The displayed plan can't run.
    InvalidPlan,
    /// Open operations are damaged. The message was printed.
    Damaged,
    /// A comparison found differences.
    HasDifferences,
    /// A comparison was impossible or incomplete. The reason was printed.
    NotCompared,
    /// The operation is still open and can be resumed.
    NotFinished,
}

impl CommandOutcome {
    /// Returns the worst of the given outcomes.
    pub fn worst(all: impl IntoIterator<Item = Self>) -> Self {
        let badness = |one: &Self| match exit_code(&Ok(*one)) {
            0 => 0,
            // An open operation may still succeed.
            3 => 1,
            _ => 2,
        };
        all.into_iter()
            .reduce(|worst, one| if badness(&one) > badness(&worst) { one } else { worst })
            .unwrap_or(Self::Done)
    }
}

/// Returns the exit code of a command.
pub fn exit_code(outcome: &Result<CommandOutcome, CliError>) -> i32 {
    match outcome {
        Ok(CommandOutcome::Done | CommandOutcome::Operation(OperationPhase::Succeeded)) => 0,
        Ok(
            CommandOutcome::Operation(OperationPhase::Failed | OperationPhase::Error)
            | CommandOutcome::InvalidPlan
            | CommandOutcome::Damaged
            | CommandOutcome::HasDifferences,
        ) => 1,
        Ok(CommandOutcome::NotCompared) => 2,
        Ok(CommandOutcome::ClaimConflict) => 4,
        Ok(
            CommandOutcome::NotFinished
            | CommandOutcome::Operation(OperationPhase::Running | OperationPhase::Terminating),
        ) => 3,
        Err(error) => match error_category(error) {
            ErrorCategory::Error => 1,
            ErrorCategory::BadInput => 2,
            ErrorCategory::NotFinished => 3,
            ErrorCategory::Refused => 4,
        },
    }
}

fn error_category(error: &CliError) -> ErrorCategory {
    match error {
        CliError::Service(error) => error.category(),
        CliError::Generate { is_input: false, .. } => ErrorCategory::Error,
        CliError::Generate { .. }
        | CliError::Usage { .. }
        | CliError::InvalidInput { .. }
        | CliError::Strict { .. } => ErrorCategory::BadInput,
        CliError::Paused { .. } | CliError::ForcedShutdown => ErrorCategory::NotFinished,
        CliError::Output { .. } | CliError::Encoding { .. } => ErrorCategory::Error,
    }
}
