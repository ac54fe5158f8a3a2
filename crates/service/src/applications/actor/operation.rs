//! The operation that an application asks for.

use std::sync::Arc;

use ractor::ActorRef;
use tidegate_application::approval;
use tidegate_application::dependencies::DEPENDS_ON;
use tidegate_application::operation::{self, ID_REMARK, Progress};
use tidegate_application::recorded as remembered;
use tidegate_application::refresh::{self, Level};
use tidegate_application::running;
use tidegate_application::superseding::{self, Busy, NOT_TAKEN};
use tidegate_model::argo::OperationRequest;
use tidegate_model::{IfTaken, OperationId, PlanApproval, Timestamp, Wisher};

use super::AppState;
use crate::applications::announce_refusal;
use crate::applications::carrying;
use crate::applications::messages::{AppMessage, ByPlan};

impl AppState {
    /// Somebody asks for an operation. What is answered with a yes is on the disk.
    pub(super) async fn asked(
        &mut self,
        myself: &ActorRef<AppMessage>,
        asked: OperationRequest,
        plan: Option<ByPlan>,
    ) -> Result<(), String> {
        // A plan is carried out as it was approved; whoever writes the resource may name what they like, as with Argo CD.
        let is_another_matter = self.application.is_deleting()
            || self.problem.is_some()
            || refresh::left_alone(&self.application).is_some();
        if plan.is_none() && !is_another_matter {
            operation::may_name(&self.application, &asked).map_err(|refused| refused.to_string())?;
        }
        let before = (self.application.operation.clone(), self.application.status.operation_state.clone());
        let answer = self.sync(asked, plan);
        if answer.is_ok() {
            self.recall_plan().await;
            self.tell_begin(self.now());
        }
        let kept = self.keep_now(myself).await;
        if answer.is_ok() && kept.is_err() {
            // Whoever is told that nothing was begun may ask again.
            (self.application.operation, self.application.status.operation_state) = before;
        }
        answer.and(kept)
    }

    /// Ends its operation, unless somebody means one that is over by now.
    pub(super) async fn terminate_named(
        &mut self,
        meant: Option<OperationId>,
        by: &str,
    ) -> Result<(), String> {
        let current = self.application.operation.as_ref().map(operation::id);
        if let (Some(meant), Some(current)) = (meant, current)
            && current != Some(meant)
        {
            let current = current.map(|id| format!(": {id}")).unwrap_or_default();
            return Err(format!(
                "operation {meant} of application {} is not at work any more, and another one is{current}; look at that one before you end it",
                self.key
            ));
        }
        self.terminate(by).await
    }

    /// Ends its operation, whatever that is waiting for.
    pub(super) async fn terminate(&mut self, by: &str) -> Result<(), String> {
        let Some(asked) = &self.application.operation else {
            return Err("Unable to terminate operation. No operation is in progress".to_owned());
        };
        let id = operation::id(asked);
        if let Some(id) = id
            && carrying::terminate(&self.shared, id, by).await?
        {
            return Ok(());
        }
        // The engine does not know it yet: what leads there ends. It may have come there meanwhile.
        self.carrying.shutdown().await;
        (self.preparing, self.carried) = (false, None);
        if let Some(id) = id
            && carrying::terminate(&self.shared, id, by).await?
        {
            return Ok(());
        }
        let now = self.now();
        if let Some(revisions) = self.rejected() {
            operation::set_revisions(&mut self.application, &revisions);
        }
        // How long it has waited stays in its status.
        let state = self.application.status.operation_state.as_ref();
        let since = state.filter(|state| state.finished_at.is_none()).map(|state| state.started_at.moment());
        let started_at = since.unwrap_or(now);
        operation::take_in(&mut self.application, Progress { started_at, ..Progress::terminated(by, now) });
        // Nobody but what is written down knows that it does not begin any more.
        self.is_urgent = true;
        if self.application.operation.is_none() {
            let Wisher { by, reason } = Wisher::read(by);
            let by = PlanApproval { by: by.to_owned(), reason: reason.to_owned(), at: now };
            self.withdraw_plan(Some(by)).await;
        }
        self.ask(Level::Latest);
        Ok(())
    }

    pub(super) fn sync(&mut self, mut asked: OperationRequest, plan: Option<ByPlan>) -> Result<(), String> {
        operation::disown(&mut asked);
        let policy = superseding::take_policy(&mut asked).map_err(|busy| busy.to_string())?;
        if let Some(why) = refresh::left_alone(&self.application) {
            return Err(why);
        }
        if self.application.is_deleting() {
            return Err(format!("application {} is deleting", self.key));
        }
        if let Some(cycle) = self.cycle() {
            return Err(format!(
                "application {} cannot be synced: {DEPENDS_ON} makes a cycle: {cycle}; take one of these away",
                self.key
            ));
        }
        if self.application.operation.is_some() && policy == IfTaken::Refuse {
            return Err(Busy::InProgress(self.key.to_string()).to_string());
        }
        if let Some(problem) = &self.problem {
            return Err(format!("application {} cannot be synced: {problem}", self.key));
        }
        if let Some(held) = self.shared.windows(&self.application).held(true, self.now()) {
            return Err(carrying::held_back(&held));
        }
        if let Some(ByPlan { hash, allow_drift }) = plan {
            approval::set_plan(&mut asked, &hash.to_string(), allow_drift);
        }
        let now = self.now();
        superseding::receive(&mut self.application, asked, (policy, !self.preparing), now)
            .map_err(|busy| busy.to_string())
    }

    pub(super) fn prepared(&mut self, prepared: Result<(Vec<String>, OperationId), String>) {
        self.preparing = false;
        match prepared {
            Ok((revisions, id)) => {
                // There may be a newer commit than was known: those it depends on are to be at that one.
                self.found = Some(revisions.clone());
                let is_held = self.not_ready().is_some();
                let Some(asked) = &mut self.application.operation else { return };
                if is_held && operation::cascade(asked).is_none() {
                    return;
                }
                asked.set_remark(ID_REMARK, id.to_string());
                operation::set_revisions(&mut self.application, &revisions);
            }
            Err(message) => {
                self.refuse(message);
                self.ask(Level::Latest);
            }
        }
    }

    /// The operation that is asked for ends before it began. Nothing but its state, and an Event, tells of that.
    pub(super) fn refuse(&mut self, why: String) {
        let refused = Progress::refused(why.clone(), self.now());
        operation::take_in(&mut self.application, refused);
        let (shared, application) = (Arc::clone(&self.shared), self.application.clone());
        self.tasks.spawn(async move { announce_refusal(&shared, &application, &why).await });
    }

    pub(super) fn moved(&mut self, id: OperationId, progress: Progress) {
        let is_current = self.application.operation.as_ref().and_then(operation::id) == Some(id);
        if !is_current {
            return;
        }
        let automated = self.application.operation.as_ref().is_some_and(|asked| asked.initiated_by.automated);
        self.look_before_retry(&progress);
        let again = self.anew(&progress);
        operation::take_in(&mut self.application, progress);
        self.run_begun(id);
        if self.application.operation.is_none() && !self.application.is_deleting() {
            self.application.operation = again;
        }
        if self.application.operation.as_ref().and_then(operation::id) != Some(id) {
            self.carried = None;
            self.ended = self.ended.wrapping_add(1);
            self.memory.forget();
            self.deployments.newest = running::deployed(&self.application).or(self.deployments.newest.take());
            let now = self.now();
            remembered::tell(&mut self.application, None, now);
            self.say(NOT_TAKEN, &[], now);
            // What it has done is to be seen, and never before it ended.
            self.ask(if automated { Level::Latest } else { Level::Forced });
        }
    }

    /// It is not in the engine's hands yet, and says what it waits for.
    pub(super) fn waits(&mut self, id: OperationId, why: String) {
        if self.application.operation.as_ref().and_then(operation::id) == Some(id) {
            let now = self.now();
            operation::wait(&mut self.application, why, now);
        }
    }

    /// Says of an operation that has no id yet, and waits for nothing, that it is about to begin: or the status would be about the
    /// one before, until this one is far enough to tell of itself.
    pub(super) fn tell_begin(&mut self, now: Timestamp) {
        let has_no_id =
            self.application.operation.as_ref().is_some_and(|asked| operation::id(asked).is_none());
        // Looked at first: whoever changes it has one of his own from then on.
        if has_no_id && !operation::tells_of_itself(&self.application) {
            operation::say_it_begins(&mut self.application, now);
        }
    }

    /// Prepares the operation that is asked for, or carries it out.
    pub(super) fn carry_on(&mut self, myself: &ActorRef<AppMessage>) {
        let Some(asked) = &self.application.operation else { return };
        let with = || (Arc::clone(&self.shared), self.application.clone(), myself.clone());
        match operation::id(asked) {
            Some(id) if self.carried != Some(id) => {
                let (shared, application, actor) = with();
                self.carried = Some(id);
                self.carrying.spawn(carrying::carry(shared, application.share(), id, actor));
            }
            None if !self.preparing => {
                let (shared, application, actor) = with();
                self.preparing = true;
                self.carrying.spawn(async move {
                    let prepared = carrying::prepare(&shared, &application).await;
                    drop(actor.send_message(AppMessage::Prepared(prepared)));
                });
            }
            _ => {}
        }
    }
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]
mod tests;
