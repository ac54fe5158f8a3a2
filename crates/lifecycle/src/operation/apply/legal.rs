//! Events that are legal in each stage. Transitions and events about tasks are checked in more detail when
//! they are applied.

use crate::operation::recorded_event::{DeadlineScope, OperationEvent};
use crate::operation::state::{ClaimEvent, Stage, WaveStep};

pub(super) fn is_legal(stage: &Stage, event: &OperationEvent) -> bool {
    let step = match stage {
        Stage::Wave { step, .. } => Some(*step),
        _ => None,
    };
    let in_wave = step.is_some();
    let ending = matches!(stage, Stage::Terminating | Stage::Finishing { .. });
    match event {
        OperationEvent::Accepted { .. }
        | OperationEvent::Planned { .. }
        | OperationEvent::StoredPlanUsed { .. }
        | OperationEvent::CallFailed { task: None, .. } => false,
        OperationEvent::StageChanged { .. } | OperationEvent::Finished { .. } => true,
        OperationEvent::GateEvaluated { .. } => step == Some(WaveStep::Held),
        OperationEvent::DryRunPassed { .. } | OperationEvent::DryRunFailed { .. } => {
            *stage == Stage::DryRun || step == Some(WaveStep::DryRun)
        }
        OperationEvent::CallFailed { .. } => in_wave || ending || *stage == Stage::DryRun,
        OperationEvent::ClaimChanged { news: ClaimEvent::EndWanted { .. }, .. } => !ending,
        OperationEvent::WatchChanged { .. }
        | OperationEvent::ClaimChanged { .. }
        | OperationEvent::HealthRulesSet { .. } => true,
        OperationEvent::LogsStored { .. } => in_wave || ending,
        OperationEvent::ObjectDeleted { .. } | OperationEvent::DeletionStarted { .. } => {
            step == Some(WaveStep::Pruning)
        }
        // Until the hook is created, another client can take its name.
        OperationEvent::HookCleared { .. } | OperationEvent::HookNameInUse { .. } => {
            matches!(step, Some(WaveStep::Clearing | WaveStep::Applying))
        }
        OperationEvent::DeletionCompleted { .. }
        | OperationEvent::HealthChanged { .. }
        | OperationEvent::ReasonChanged { .. } => in_wave,
        OperationEvent::NamespacesObserved { .. } => in_wave || *stage == Stage::Planned,
        OperationEvent::NamespaceLost { .. } => in_wave || matches!(stage, Stage::Planned | Stage::DryRun),
        OperationEvent::WarningsReceived { .. } if *stage == Stage::DryRun => true,
        // The result may arrive after the wave's `Applying` step, because a hook can be skipped or stopped
        // while it is being created.
        OperationEvent::Applied { .. } | OperationEvent::WarningsReceived { .. } => {
            in_wave || *stage == Stage::Terminating
        }
        OperationEvent::RunnerStarted { .. }
        | OperationEvent::HookSuspended { .. }
        | OperationEvent::RecreationStarted { .. } => step == Some(WaveStep::Applying),
        OperationEvent::TaskCompleted { .. } | OperationEvent::HookFinalizerRemoved { .. } => {
            in_wave || ending
        }
        OperationEvent::TaskFailed { .. } | OperationEvent::HookStopped { .. } => {
            in_wave || *stage == Stage::Terminating
        }
        OperationEvent::HookDeleted { .. } => matches!(stage, Stage::Finishing { .. }),
        OperationEvent::DeadlineExceeded { scope: DeadlineScope::Wave | DeadlineScope::Hook(_), .. } => {
            in_wave
        }
        OperationEvent::AttemptFailed { .. } => in_wave || matches!(stage, Stage::Planned | Stage::DryRun),
        OperationEvent::RetryStarted { .. } | OperationEvent::ReplanStarted { .. } => {
            matches!(stage, Stage::AwaitingRetry { .. })
        }
        OperationEvent::DeadlineExceeded { scope: DeadlineScope::Operation, .. }
        | OperationEvent::TerminationRequested { .. }
        | OperationEvent::Paused { .. }
        | OperationEvent::Unpaused { .. }
        | OperationEvent::PruneConfirmed { .. }
        | OperationEvent::Approved { .. }
        | OperationEvent::Overridden { .. } => !ending,
    }
}
