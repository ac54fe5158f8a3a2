//! Access to the strings in an input, so that secrets in them can be masked before the input is recorded.

use std::sync::Arc;

use tidegate_model::{ObservedState, Plan};

use super::input::{
    Answer, ApplyResponse, CallError, ClearingResult, DryRunResponse, Input, PruneResult, StopResult,
};
use super::state::{ClaimEvent, Verdict};

impl Input {
    /// Calls `visit` for every string that may quote a manifest or an object. Names are not included.
    pub fn for_each_text(&mut self, visit: &mut dyn FnMut(&mut String)) {
        match self {
            Self::Planned { plan, .. } => visit_plan(Arc::make_mut(plan), visit),
            Self::PlanFailed(CallError { message, .. }) | Self::Claim(Err(CallError { message, .. })) => {
                visit(message)
            }
            Self::Claim(Ok(ClaimEvent::Without { reason })) => visit(reason),
            Self::Answer { answer, .. } => visit_answer(answer, visit),
            Self::Observed { observation, .. } => visit_observed_state(&mut observation.seen, visit),
            Self::Reason { reason, .. }
            | Self::PlanRejected { reason }
            | Self::Abort { reason }
            | Self::Pause { reason, .. }
            | Self::Approve { reason, .. }
            | Self::Override { reason, .. } => visit(reason),
            Self::WatchStatus { trouble, .. } => trouble.iter_mut().for_each(visit),
            Self::Gate { verdict: Verdict::Closed { reason, .. }, .. } => visit(reason),
            Self::Gate { verdict: Verdict::Open, .. }
            | Self::Request { .. }
            | Self::StopTimeout
            | Self::Resumed
            | Self::HealthRules { .. }
            | Self::Claim(Ok(_))
            | Self::NamespaceObserved(_)
            | Self::NamespacesRead { .. }
            | Self::Terminate { .. }
            | Self::Supersede { .. }
            | Self::Unpause { .. }
            | Self::ConfirmPrune { .. } => {}
        }
    }
}

fn visit_plan(plan: &mut Plan, visit: &mut dyn FnMut(&mut String)) {
    plan.warnings.iter_mut().for_each(|warning| visit(&mut warning.message));
    for task in &mut plan.tasks {
        visit(&mut task.reason);
        task.error.iter_mut().for_each(&mut *visit);
    }
}

fn visit_answer(answer: &mut Answer, visit: &mut dyn FnMut(&mut String)) {
    match answer {
        Answer::Checked(Ok(DryRunResponse { message, warnings })) => {
            visit(message);
            warnings.iter_mut().for_each(visit);
        }
        Answer::Ran { message, .. } => visit(message),
        Answer::Applied(Ok(applied))
        | Answer::Started(Ok(applied))
        | Answer::Cleared(Ok(ClearingResult::Adopted(applied))) => visit_apply_response(applied, visit),
        Answer::Suspended(hook) | Answer::Cleared(Ok(ClearingResult::Suspended(hook))) => {
            visit(&mut hook.message);
            hook.warnings.iter_mut().for_each(visit);
        }
        Answer::Stopped(Ok(StopResult { message, .. })) => visit(message),
        Answer::LogsRead { reason, logs } => {
            visit(reason);
            logs.iter_mut().for_each(|log| visit(&mut log.text));
        }
        Answer::Checked(Err(error))
        | Answer::Pruned(Err(error))
        | Answer::Cleared(Err(error))
        | Answer::Applied(Err(error))
        | Answer::Started(Err(error))
        | Answer::Released(Err(error))
        | Answer::Deleted(Err(error))
        | Answer::Stopped(Err(error)) => visit(&mut error.message),
        Answer::Pruned(Ok(PruneResult::LeftAlone { reason })) => visit(reason),
        Answer::Pruned(Ok(PruneResult::Gone | PruneResult::DeletionStarted))
        | Answer::Cleared(Ok(
            ClearingResult::Clear | ClearingResult::Deleting { .. } | ClearingResult::Occupied { .. },
        ))
        | Answer::Released(Ok(()))
        | Answer::Deleted(Ok(())) => {}
    }
}

fn visit_apply_response(applied: &mut ApplyResponse, visit: &mut dyn FnMut(&mut String)) {
    visit(&mut applied.message);
    applied.warnings.iter_mut().for_each(&mut *visit);
    visit_observed_state(&mut applied.observed, visit);
}

fn visit_observed_state(observed: &mut ObservedState, visit: &mut dyn FnMut(&mut String)) {
    if let ObservedState::Present { kept_by, health, .. } = observed {
        visit(kept_by);
        health.iter_mut().for_each(|health| visit(&mut health.message));
    }
}
