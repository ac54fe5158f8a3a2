//! The words in an input that came from elsewhere, for whoever must look at them before they are recorded.

use std::sync::Arc;

use tidegate_model::{Observed, Plan};

use super::input::{Answer, Applied, CallError, Clearing, Input, Pruning, Stopped, Trial};
use super::state::{ClaimNews, Verdict};

impl Input {
    /// Shows every text that may quote what was in a manifest or an object. Names are not among them.
    pub fn each_text(&mut self, look: &mut dyn FnMut(&mut String)) {
        match self {
            Self::Planned { plan, .. } => planned(Arc::make_mut(plan), look),
            Self::PlanFailed(CallError { message, .. }) | Self::Claim(Err(CallError { message, .. })) => {
                look(message)
            }
            Self::Claim(Ok(ClaimNews::Without { reason })) => look(reason),
            Self::Answer { answer, .. } => answered(answer, look),
            Self::Observed { observation, .. } => seen(&mut observation.seen, look),
            Self::Reason { reason, .. }
            | Self::PlanRefused { reason }
            | Self::Abort { reason }
            | Self::Pause { reason, .. }
            | Self::Approve { reason, .. }
            | Self::Override { reason, .. } => look(reason),
            Self::Watching { trouble, .. } => trouble.iter_mut().for_each(look),
            Self::Gate { verdict: Verdict::Closed { reason, .. }, .. } => look(reason),
            Self::Gate { verdict: Verdict::Open, .. }
            | Self::Request { .. }
            | Self::StopsOverdue
            | Self::Resumed
            | Self::HealthRules { .. }
            | Self::Claim(Ok(_))
            | Self::NamespaceSeen(_)
            | Self::NamespacesSeen { .. }
            | Self::Terminate { .. }
            | Self::Supersede { .. }
            | Self::Unpause { .. }
            | Self::ConfirmPrune { .. } => {}
        }
    }
}

fn planned(plan: &mut Plan, look: &mut dyn FnMut(&mut String)) {
    plan.warnings.iter_mut().for_each(|warning| look(&mut warning.message));
    for task in &mut plan.tasks {
        look(&mut task.reason);
        task.error.iter_mut().for_each(&mut *look);
    }
}

fn answered(answer: &mut Answer, look: &mut dyn FnMut(&mut String)) {
    match answer {
        Answer::Checked(Ok(Trial { message, warnings })) => {
            look(message);
            warnings.iter_mut().for_each(look);
        }
        Answer::Ran { message, .. } => look(message),
        Answer::Applied(Ok(applied)) | Answer::Cleared(Ok(Clearing::Adopted(applied))) => {
            written(applied, look)
        }
        Answer::Stopped(Ok(Stopped { message, .. })) => look(message),
        Answer::LogsRead { reason, logs } => {
            look(reason);
            logs.iter_mut().for_each(|log| look(&mut log.text));
        }
        Answer::Checked(Err(error))
        | Answer::Pruned(Err(error))
        | Answer::Cleared(Err(error))
        | Answer::Applied(Err(error))
        | Answer::Released(Err(error))
        | Answer::Deleted(Err(error))
        | Answer::Stopped(Err(error)) => look(&mut error.message),
        Answer::Pruned(Ok(Pruning::Kept { reason })) => look(reason),
        Answer::Pruned(Ok(Pruning::Gone | Pruning::Begun))
        | Answer::Cleared(Ok(Clearing::Clear | Clearing::Deleting { .. } | Clearing::Taken { .. }))
        | Answer::Released(Ok(()))
        | Answer::Deleted(Ok(())) => {}
    }
}

fn written(applied: &mut Applied, look: &mut dyn FnMut(&mut String)) {
    look(&mut applied.message);
    applied.warnings.iter_mut().for_each(&mut *look);
    seen(&mut applied.observed, look);
}

fn seen(observed: &mut Observed, look: &mut dyn FnMut(&mut String)) {
    if let Observed::Present { kept_by, health, .. } = observed {
        look(kept_by);
        health.iter_mut().for_each(|health| look(&mut health.message));
    }
}
