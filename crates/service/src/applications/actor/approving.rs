//! What its operation waits for where an approval is asked for: the plan is made and kept, and looked at again when something
//! has changed. Nothing is written to its cluster before that plan is approved.

use std::sync::Arc;
use std::time::Duration;

use ractor::ActorRef;
use tidegate_application::approval::{self, Policy, Told};
use tidegate_application::operation::{self, Progress};
use tidegate_application::running;
use tidegate_executor::PlanMoved;
use tidegate_model::argo::OperationRequest;
use tidegate_model::{Digest, PlanApproval, Timestamp};

use super::AppState;
use crate::applications::approving::{self, Looked, UNAPPROVED, Unplanned, Waiting, with_plans};
use crate::applications::carrying;
use crate::applications::messages::{AppMessage, ByPlan};

/// How long until what could not be planned is planned again, if nothing happens before.
const AGAIN_AFTER: Duration = Duration::from_secs(30);

/// The plan that waits, and what is done about it.
#[derive(Default)]
pub(super) struct Approving {
    /// The operation waits for an approval now.
    is_due: bool,
    /// Something has changed since the plan was looked at.
    is_stale: bool,
    looking: bool,
    waiting: Option<Waiting>,
    /// Why it could not be looked at, and when it is tried again.
    trouble: Option<(String, Timestamp)>,
}

impl AppState {
    /// Something has changed: the plan that waits may not be the one that would be made now.
    pub(super) fn doubt_plan(&mut self) {
        self.approving.is_stale = true;
        self.approving.trouble = None;
    }

    /// An operation that has not begun, and was to carry out a plan, does that and nothing else, whatever else of it is not
    /// believed. Whether that plan may be carried out is asked when it begins.
    pub(super) fn keep_plan(&mut self, plan: Option<ByPlan>) {
        let of_plan = |asked: &&mut OperationRequest| {
            operation::id(asked).is_none() && operation::cascade(asked).is_none()
        };
        if let Some((ByPlan { hash, allow_drift }, asked)) =
            plan.zip(self.application.operation.as_mut().filter(of_plan))
        {
            approval::set_plan(asked, &hash.to_string(), allow_drift);
        }
    }

    /// Takes in the plan of an operation that was waiting when a process ended.
    pub(super) async fn recall_plan(&mut self) {
        let asked = self.application.operation.as_ref().filter(|asked| self.may_be_held(asked));
        let hash = asked.and_then(approval::plan_of).and_then(|hash| hash.parse::<Digest>().ok());
        self.approving.is_stale = true;
        if let Some(hash) = hash
            && let Ok((plan, line)) = approving::kept(&self.shared, hash).await
        {
            self.approving.waiting = Some(Waiting::of(line, &plan));
        }
    }

    /// Nothing waits for an approval, as far as is known.
    pub(super) fn wait_for_nobody(&mut self) {
        self.approving.is_due = false;
    }

    /// What of an approval its operation still needs, which is then said in the conditions.
    pub(super) fn unapproved(&mut self, now: Timestamp) -> Option<String> {
        let policy = self.shared.approvals(&self.application).ok()?;
        let is_about = |asked: &&OperationRequest| self.may_be_held(asked) && approval::is_about(asked);
        if !policy.is_required() || self.application.operation.as_ref().filter(is_about).is_none() {
            return None;
        }
        if self.is_approved() {
            return None;
        }
        approval::renew(&mut self.application, now);
        let asked = self.application.operation.as_ref()?;
        let name = self.key.to_string();
        let told = self.waiting_with(asked);
        let told = told.and_then(|one| Some((one, policy.missing(one.askers(asked), &one.line.approvals)?)));
        let (awaited, condition) = match told {
            Some((one, who)) => {
                let told =
                    Told { application: &name, hash: &one.line.hash.short(), does: &one.does, who: &who };
                (told.awaited(), told.condition())
            }
            None => {
                let words = "its plan, which then needs an approval".to_owned();
                (words.clone(), format!("it waits for {words}"))
            }
        };
        self.approving.is_due = true;
        let trouble = self.approving.trouble.as_ref().map(|(why, _)| format!("{condition}; {why}"));
        self.say(approval::WAITING, &[trouble.unwrap_or(condition)], now);
        Some(awaited)
    }

    /// The plan that an operation waits with, where that is known.
    fn waiting_with(&self, asked: &OperationRequest) -> Option<&Waiting> {
        let plan = approval::plan_of(asked)?;
        self.approving.waiting.as_ref().filter(|one| one.line.hash.to_string() == plan)
    }

    /// Whether all is approved of the plan of its operation that has to be: it begins with that, and with nothing else.
    pub(super) fn is_approved(&self) -> bool {
        let Some(asked) = self.application.operation.as_ref() else { return false };
        let Some(waiting) = self.waiting_with(asked) else { return false };
        let policy = self.shared.approvals(&self.application).ok().filter(Policy::is_required);
        policy.is_some_and(|policy| policy.missing(waiting.askers(asked), &waiting.line.approvals).is_none())
    }

    /// The revisions that its operation waits with. Whoever ends it has rejected these: they are not synced by themselves then.
    pub(super) fn rejected(&self) -> Option<Vec<String>> {
        let waiting = self.waiting_with(self.application.operation.as_ref()?)?;
        Some(waiting.revisions.clone())
    }

    /// Nobody asks any more for what a plan was made for: it is not taken up again when somebody asks for the same. `by` is
    /// whoever has said so. The answer is for whoever is told that.
    pub(super) fn withdraw_plan(
        &mut self,
        by: Option<PlanApproval>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let waiting = self.approving.waiting.take();
        let shared = Arc::clone(&self.shared);
        async move {
            let Some(Waiting { line, .. }) = waiting else { return };
            if let Err(error) = with_plans(&shared, move |plans| plans.withdraw(line.hash, by)).await {
                tracing::warn!(plan = %line.hash, %error, "a plan that nobody wants any more is kept as one that waits");
            }
        }
    }

    /// Has the plan made, or looked at again, that its operation waits with.
    pub(super) fn look_at_plan(&mut self, myself: &ActorRef<AppMessage>, now: Timestamp) {
        if !self.approving.is_due {
            self.say(approval::WAITING, &[], now);
            if self.application.operation.is_none() {
                let withdrawing = self.withdraw_plan(None);
                self.tasks.spawn(withdrawing);
            }
            return;
        }
        let asked = self.application.operation.as_ref();
        let plan = asked.and_then(approval::plan_of).map(str::to_owned);
        let before = self.approving.waiting.as_ref().filter(|one| plan == Some(one.line.hash.to_string()));
        let before = before.map(|one| one.line.clone());
        if let Some((_, again)) = &self.approving.trouble {
            let again = *again;
            if now < again {
                return self.set_alarm(myself, again);
            }
        } else if before.is_some() && !self.approving.is_stale {
            return;
        }
        if self.approving.looking || self.comparing {
            return;
        }
        (self.approving.looking, self.approving.is_stale, self.approving.trouble) = (true, false, None);
        let (shared, application, actor) =
            (Arc::clone(&self.shared), self.application.clone(), myself.clone());
        self.tasks.spawn(async move {
            let looked = approving::look(&shared, &application, before.as_ref()).await;
            let about = Box::new(application.operation.clone().unwrap_or_default());
            drop(actor.send_message(AppMessage::Looked { about, looked }));
        });
    }

    /// Its plan was looked at, for this operation.
    pub(super) fn looked(&mut self, about: &OperationRequest, looked: Looked) {
        self.approving.looking = false;
        let now = self.now();
        let is_due = self.approving.is_due;
        let Some(asked) = self.application.operation.as_mut().filter(|asked| is_due && *asked == about)
        else {
            // Something else is asked for by now.
            self.approving.is_stale = true;
            return;
        };
        match looked {
            Looked::Same => {}
            Looked::Kept(waiting) => {
                approval::set_plan(asked, &waiting.line.hash.to_string(), true);
                self.approving.waiting = Some(*waiting);
            }
            Looked::Not(Unplanned::Wrong(why)) if running::placed(&self.application).is_none() => {
                self.refuse(why);
            }
            Looked::Not(Unplanned::Wrong(why) | Unplanned::Later(why)) => {
                self.approving.trouble = Some((why, now + AGAIN_AFTER));
            }
        }
    }

    /// Somebody approves a plan. When this returns that is durable, and so is what waits for it.
    pub(super) async fn approve(
        &mut self,
        myself: &ActorRef<AppMessage>,
        hash: Digest,
        given: PlanApproval,
    ) -> Result<(), String> {
        let asked = self.application.operation.as_ref();
        let is_waiting = asked.and_then(approval::plan_of) == Some(hash.to_string().as_str());
        let is_automated = asked.is_some_and(|asked| asked.initiated_by.automated);
        if is_waiting
            && !is_automated
            && let Some(held) = self.shared.windows(&self.application).held(true, self.now())
        {
            return Err(carrying::held_back(&held));
        }
        if is_waiting {
            self.keep_now(myself).await?;
        }
        let approved = with_plans(&self.shared, move |plans| plans.approve(hash, given)).await;
        let line = approved.map_err(|error| error.to_string())?;
        if let Some(waiting) = self.approving.waiting.as_mut().filter(|one| one.line.hash == hash) {
            waiting.line = line;
        }
        Ok(())
    }

    /// What is asked for once more, of an operation that has ended before anything was written: its plan did not fit any more,
    /// or it needs an approval since a moment ago.
    pub(super) fn anew(&self, ended: &Progress) -> Option<OperationRequest> {
        let asked = self.application.operation.as_ref().filter(|_| ended.finished_at.is_some())?;
        let is_required = self.shared.approvals(&self.application).is_ok_and(|policy| policy.is_required());
        if ended.message == UNAPPROVED && !running::is_of_rollout(asked) {
            let mut again = asked.clone();
            operation::disown(&mut again);
            return Some(again);
        }
        let has_moved = PlanMoved::is_told(&ended.message);
        approval::anew(&self.application, asked, is_required).filter(|_| has_moved)
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
