//! Record kinds of an operation in the log, and the functions that read them.

use tidegate_model::LogRecord;

use super::recorded_event::{OperationEvent, PlannedWithoutDependencies};
use super::state::{State, StateWithoutDependencies};

impl LogRecord for OperationEvent {
    type Earlier = PlannedWithoutDependencies;
    const HIGHEST_KIND: u16 = 43;

    fn is_earlier(kind: u16) -> bool {
        kind == 2
    }

    fn kind(&self) -> u16 {
        match self {
            Self::Accepted { .. } => 1,
            Self::Planned { .. } => 43,
            Self::StageChanged { .. } => 3,
            Self::GateEvaluated { .. } => 4,
            Self::DryRunPassed { .. } => 5,
            Self::DryRunFailed { .. } => 6,
            Self::CallFailed { .. } => 7,
            Self::ObjectDeleted { .. } => 8,
            Self::HookCleared { .. } => 9,
            Self::DeletionCompleted { .. } => 10,
            Self::Applied { .. } => 11,
            Self::RunnerStarted { .. } => 12,
            Self::HealthChanged { .. } => 13,
            Self::TaskCompleted { .. } => 14,
            Self::TaskFailed { .. } => 15,
            Self::HookFinalizerRemoved { .. } => 16,
            Self::HookDeleted { .. } => 17,
            Self::DeadlineExceeded { .. } => 18,
            Self::HookStopped { .. } => 19,
            Self::AttemptFailed { .. } => 20,
            Self::RetryStarted { .. } => 21,
            Self::TerminationRequested { .. } => 22,
            Self::Paused { .. } => 23,
            Self::Unpaused { .. } => 24,
            Self::PruneConfirmed { .. } => 25,
            Self::Finished { .. } => 26,
            Self::ReasonChanged { .. } => 27,
            Self::LogsStored { .. } => 28,
            Self::WatchChanged { .. } => 29,
            Self::HookNameInUse { .. } => 30,
            Self::WarningsReceived { .. } => 31,
            Self::ClaimChanged { .. } => 32,
            Self::DeletionStarted { .. } => 33,
            Self::Approved { .. } => 34,
            Self::NamespacesObserved { .. } => 35,
            Self::NamespaceLost { .. } => 36,
            Self::ReplanStarted { .. } => 37,
            Self::RecreationStarted { .. } => 38,
            Self::HealthRulesSet { .. } => 39,
            Self::Overridden { .. } => 40,
            Self::StoredPlanUsed { .. } => 41,
            Self::HookSuspended { .. } => 42,
        }
    }
}

impl LogRecord for State {
    type Earlier = StateWithoutDependencies;
    const HIGHEST_KIND: u16 = 2;

    fn is_earlier(kind: u16) -> bool {
        kind == 1
    }
}
