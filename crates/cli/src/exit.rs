//! The exit code, in one place.

use tidegate_model::OperationPhase;
use tidegate_service::error::Kind;

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

impl Ended {
    /// How all of them together have ended.
    pub fn worst(all: impl IntoIterator<Item = Self>) -> Self {
        let badness = |one: &Self| match code(&Ok(*one)) {
            0 => 0,
            // What is not over may still succeed.
            3 => 1,
            _ => 2,
        };
        all.into_iter()
            .reduce(|worst, one| if badness(&one) > badness(&worst) { one } else { worst })
            .unwrap_or(Self::Done)
    }
}

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

fn kind(error: &CliError) -> Kind {
    match error {
        CliError::Service(error) => error.kind(),
        CliError::Generate { is_input: false, .. } => Kind::Error,
        CliError::Generate { .. }
        | CliError::Usage { .. }
        | CliError::BadInput { .. }
        | CliError::Strict { .. } => Kind::BadInput,
        CliError::Paused { .. } | CliError::Impatient => Kind::NotFinished,
        CliError::Output { .. } | CliError::Unprintable { .. } => Kind::Error,
    }
}
