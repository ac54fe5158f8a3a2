//! What people ask of a set.

use tidegate_applicationset::changes::Wrong;
use tidegate_applicationset::guard::approval::{self, Approval};
use tidegate_applicationset::ownership::{Owner, owner};
use tidegate_applicationset::retry::{self, Retry};
use tidegate_applicationset::rollout::{Idle, how, why_not_again};
use tidegate_applicationset::status::Rollout as Said;
use tidegate_applicationset::wake::Wake;
use tidegate_lifecycle::fleet::Scope;
use tidegate_lifecycle::{rollout, teardown};
use tidegate_model::StreamId;

use super::SetState;
use crate::sets::wishes::SetWish;

impl SetState {
    /// What a person asks for: of the ordered deletion that is at work, or else of the progressive sync. What has ended is
    /// begun again where somebody asks for that.
    pub(super) async fn wish(
        &mut self,
        wish: SetWish,
        run: Option<StreamId>,
        by: String,
        why: String,
    ) -> Result<(), String> {
        if let SetWish::ApproveDeletions { token } = wish {
            return self.approve_deletions(token, by, why).await;
        }
        // A deletion of some of its Applications keeps nobody from what only the progressive sync knows.
        let is_of_rollout = matches!(wish, SetWish::Approve { .. } | SetWish::Retry { .. });
        let goes_to_rollout = is_of_rollout && self.rollouts.running.is_some();
        if let Some(running) = self.teardowns.running.clone().filter(|_| !goes_to_rollout) {
            self.is_meant(run, running.id())?;
            let wish = of_teardown(wish)?;
            let asked = running.wish(teardown::Input::Wish { wish, by, why }).await;
            self.teardown_moved().await;
            return asked.map_err(|error| error.to_string());
        }
        if let Some(running) = self.rollouts.running.clone() {
            self.is_meant(run, running.id())?;
            let is_approval = matches!(wish, SetWish::Approve { .. });
            let wish = of_rollout(wish, self.own_rollout().and_then(rollout::State::rollout))?;
            let asked = running.wish(rollout::Input::Wish { wish, by, why }).await;
            self.rollout_moved().await;
            return asked.map_err(|error| self.with_held(error.to_string(), is_approval));
        }
        if let SetWish::Retry { step: None, member: None } = wish {
            self.may_begin_again()?;
            return self.ask_again(&by, &why).await;
        }
        let last = self.own_rollout().and_then(rollout::State::rollout);
        let idle = Idle::new(&self.set, verb(&wish), how(&self.set, last, &self.shared.options));
        Err(self.with_held(idle.to_string(), matches!(wish, SetWish::Approve { .. })))
    }

    /// Refuses what is meant for a rollout or a deletion that is over, while another one is at work.
    fn is_meant(&self, meant: Option<StreamId>, at_work: StreamId) -> Result<(), String> {
        match meant.filter(|meant| *meant != at_work) {
            None => Ok(()),
            Some(meant) => Err(format!(
                "{meant} of ApplicationSet {} is not at work any more, and another rollout or deletion is: {at_work}; look at that one before you ask anything of it",
                self.key
            )),
        }
    }

    /// What has ended is to be begun again: the set says so, with who and why, before it is.
    async fn ask_again(&mut self, by: &str, why: &str) -> Result<(), String> {
        let asked = Retry::new(by, why, self.now().into(), self.newest_run());
        let set = asked.written(&self.set);
        self.shared.store.annotate(&set, &retry::ANNOTATIONS).await.map_err(|error| error.to_string())?;
        tracing::info!(set = %self.key, by, why, "what has ended is to be begun again");
        (self.set, self.asked, self.wake) = (set, Some(asked), self.wake.max(Wake::Status));
        Ok(())
    }

    fn newest_run(&self) -> Option<StreamId> {
        self.rollouts.id.max(self.teardowns.id)
    }

    /// What somebody has asked for before this process began, and what was not begun then.
    pub(super) fn recall_retry(&mut self) {
        let is_idle = self.rollouts.running.is_none() && self.teardowns.running.is_none();
        self.asked = Retry::of(&self.set, self.newest_run()).filter(|_| is_idle);
    }

    /// What was asked for was begun, or there is nothing to begin.
    pub(super) async fn end_retry(&mut self) {
        self.asked = None;
        let Some(without) = retry::without(&self.set) else { return };
        match self.shared.store.annotate(&without, &retry::ANNOTATIONS).await {
            Ok(()) => self.set = without,
            Err(error) => {
                tracing::warn!(set = %self.key, %error, "who has asked for what was begun cannot be taken off the ApplicationSet");
            }
        }
    }

    /// An approval that no step waits for may be meant for deletions that are held.
    fn with_held(&self, refused: String, is_approval: bool) -> String {
        let held = self.wrong.iter().find(|wrong| matches!(wrong, Wrong::Guarded(_)));
        match held.filter(|_| is_approval) {
            Some(held) => format!("{refused}; and of its deletions: {held}"),
            None => refused,
        }
    }

    /// Whether something is left to do of what has ended.
    fn may_begin_again(&self) -> Result<(), String> {
        if self.is_teardown_held() {
            return Ok(());
        }
        let last = self.own_rollout().and_then(rollout::State::rollout);
        let failure = self.failure.as_ref().filter(|_| !self.is_deleting());
        match failure {
            // It would not be begun before that is mended.
            Some(failure) if !self.is_whole() => Err(Idle::new(
                &self.set,
                "retry",
                format!(
                    "what it generates is not known, and no progressive sync begins before ({})",
                    failure.message
                ),
            )
            .to_string()),
            // It could not be begun: that is tried again.
            Some(_) if last.is_none() => Ok(()),
            _ if last.is_none()
                && matches!(self.rollouts.settled, Said::Unknown)
                && self.looking.is_some() =>
            {
                Ok(())
            }
            _ => why_not_again(&self.set, last, &self.shared.options).map_err(|idle| idle.to_string()),
        }
    }

    /// Whether the last teardown has left Applications that are still there.
    fn is_teardown_held(&self) -> bool {
        let own = self.members.values().filter(|one| owner(&self.set, one) == Owner::Set);
        own.into_iter().any(|one| self.is_left_behind(&one.metadata.name, &one.metadata.uid))
    }

    /// Deletions that are held may be done: the set says so, with who and why, before the first of them.
    async fn approve_deletions(&mut self, token: String, by: String, why: String) -> Result<(), String> {
        let approval = Approval { token, by, reason: why, at: self.now().into() };
        let approved = approval::approve(&self.set, &self.wrong, &approval);
        let approved = approved.map_err(|refused| refused.to_string())?;
        self.shared
            .store
            .annotate(&approved, &approval::ANNOTATIONS)
            .await
            .map_err(|error| error.to_string())?;
        let Approval { token, by, reason, .. } = approval;
        tracing::info!(set = %self.key, token, by, reason, "deletions that were held are approved");
        self.give_up_look();
        (self.set, self.wake) = (approved, Wake::Reconcile);
        Ok(())
    }

    /// A permit that a command has given goes when all that it was for is gone.
    pub(super) async fn end_approval(&mut self) {
        let Some(generated) = self.generated.as_ref().filter(|generated| generated.failed.is_empty()) else {
            return;
        };
        let is_wanted =
            |name: &str| generated.applications.contains_key(name) || generated.refused.contains_key(name);
        let mut own = self.members.iter().filter(|(_, one)| owner(&self.set, one) == Owner::Set);
        if self.teardowns.running.is_some() || !own.all(|(name, _)| is_wanted(name)) {
            return;
        }
        let Some(without) = approval::spent(&self.set) else { return };
        match self.shared.store.annotate(&without, &approval::ANNOTATIONS).await {
            Ok(()) => self.set = without,
            Err(error) => {
                tracing::warn!(set = %self.key, %error, "an approval of deletions that is spent cannot be taken away");
            }
        }
    }
}

fn verb(wish: &SetWish) -> &'static str {
    match wish {
        SetWish::Approve { .. } | SetWish::ApproveDeletions { .. } => "approve",
        SetWish::Skip { .. } => "skip",
        SetWish::Retry { .. } => "retry",
        SetWish::Pause => "pause",
        SetWish::Resume => "resume",
        SetWish::Terminate => "terminate",
    }
}

fn of_rollout(wish: SetWish, at_work: Option<&rollout::Rollout>) -> Result<rollout::Wish, String> {
    Ok(match wish {
        SetWish::Approve { step } => rollout::Wish::Approve { step },
        SetWish::Skip { step, member } => rollout::Wish::Skip(scope(step, member)?),
        SetWish::Retry { step: None, member: None } => {
            let others = at_work.map(rollout::may_be_retried).filter(|others| !others.is_empty());
            let others = others.map_or_else(
                || "nothing of it can be retried now".to_owned(),
                |others| format!("what can be retried now: {others}"),
            );
            return Err(format!(
                "the progressive sync is under way, and only one that has ended is begun again; say with --app or --step what is to be brought to its target once more; {others}"
            ));
        }
        SetWish::Retry { step, member } => rollout::Wish::Retry(scope(step, member)?),
        SetWish::Pause => rollout::Wish::Pause,
        SetWish::Resume => rollout::Wish::Resume,
        SetWish::Terminate => rollout::Wish::Terminate,
        SetWish::ApproveDeletions { .. } => return Err(NOT_OF_MACHINES.to_owned()),
    })
}

/// It is asked of the set itself.
const NOT_OF_MACHINES: &str = "deletions that are held are approved for the ApplicationSet";

fn of_teardown(wish: SetWish) -> Result<teardown::Wish, String> {
    let none = |what: &str| {
        Err(format!(
            "Applications are being deleted in order, and there is nothing to {what}; skip, pause, resume and terminate are possible"
        ))
    };
    Ok(match wish {
        SetWish::Approve { .. } => return none("approve"),
        SetWish::Retry { .. } => return none("retry"),
        SetWish::Skip { step, member } => teardown::Wish::Skip(scope(step, member)?),
        SetWish::Pause => teardown::Wish::Pause,
        SetWish::Resume => teardown::Wish::Resume,
        SetWish::Terminate => teardown::Wish::Terminate,
        SetWish::ApproveDeletions { .. } => return Err(NOT_OF_MACHINES.to_owned()),
    })
}

/// What a wish is about.
fn scope(step: Option<u32>, member: Option<String>) -> Result<Scope, String> {
    match (step, member) {
        (Some(step), None) => Ok(Scope::Step(step)),
        (None, Some(member)) => Ok(Scope::Member(member)),
        _ => Err("name one Application, or the number of one step".to_owned()),
    }
}
