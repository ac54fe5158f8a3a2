//! Which facts can follow in which stage. Arrows, and facts about tasks, are checked further where they take effect.

use crate::operation::fact::{DeadlineScope, Fact};
use crate::operation::state::{ClaimNews, Stage, WaveStep};

pub(super) fn fits(stage: &Stage, fact: &Fact) -> bool {
    let step = match stage {
        Stage::Wave { step, .. } => Some(*step),
        _ => None,
    };
    let in_wave = step.is_some();
    let ending = matches!(stage, Stage::Terminating | Stage::Finishing { .. });
    match fact {
        Fact::Accepted { .. }
        | Fact::Planned { .. }
        | Fact::PlanTaken { .. }
        | Fact::CallFailed { task: None, .. } => false,
        Fact::Moved { .. } | Fact::Finished { .. } => true,
        Fact::GateAnswered { .. } => step == Some(WaveStep::Held),
        Fact::Checked { .. } | Fact::CheckFailed { .. } => {
            *stage == Stage::DryRun || step == Some(WaveStep::DryRun)
        }
        Fact::CallFailed { .. } => in_wave || ending || *stage == Stage::DryRun,
        Fact::Claim { news: ClaimNews::EndWanted { .. }, .. } => !ending,
        Fact::Watching { .. } | Fact::Claim { .. } | Fact::HealthRulesKnown { .. } => true,
        Fact::LogsKept { .. } => in_wave || ending,
        Fact::PruneSent { .. } | Fact::DeletionBegun { .. } => step == Some(WaveStep::Pruning),
        // Until a hook is created its place may be lost again.
        Fact::HookCleared { .. } | Fact::PlaceTaken { .. } => {
            matches!(step, Some(WaveStep::Clearing | WaveStep::Applying))
        }
        Fact::ObjectGone { .. }
        | Fact::HealthSeen { .. }
        | Fact::ReasonSeen { .. }
        | Fact::NamespaceTerminating { .. } => in_wave,
        Fact::NamespacesSeen { .. } => in_wave || *stage == Stage::Planned,
        Fact::NamespaceLost { .. } => in_wave || matches!(stage, Stage::Planned | Stage::DryRun),
        Fact::Warned { .. } if *stage == Stage::DryRun => true,
        // Of a hook that was skipped while it was being created, the answer may come later.
        Fact::Applied { .. } | Fact::Warned { .. } => in_wave || *stage == Stage::Terminating,
        Fact::RunnerStarted { .. } | Fact::RecreationBegun { .. } => step == Some(WaveStep::Applying),
        Fact::TaskCompleted { .. } | Fact::HookReleased { .. } => in_wave || ending,
        Fact::TaskFailed { .. } | Fact::HookStopped { .. } => in_wave || *stage == Stage::Terminating,
        Fact::HookDeleted { .. } => matches!(stage, Stage::Finishing { .. }),
        Fact::DeadlinePassed { scope: DeadlineScope::Wave | DeadlineScope::Hook(_), .. } => in_wave,
        Fact::AttemptFailed { .. } => in_wave || matches!(stage, Stage::Planned | Stage::DryRun),
        Fact::RetryStarted { .. } | Fact::RetryPlansAnew { .. } => {
            matches!(stage, Stage::AwaitingRetry { .. })
        }
        Fact::DeadlinePassed { scope: DeadlineScope::Operation, .. }
        | Fact::TerminateRequested { .. }
        | Fact::Paused { .. }
        | Fact::Unpaused { .. }
        | Fact::PruneConfirmed { .. }
        | Fact::Approved { .. }
        | Fact::Overridden { .. } => !ending,
    }
}
