//! Writing down what is known of an application, and what is said where that is refused.

use std::sync::Arc;
use std::time::Duration;

use ractor::ActorRef;
use tidegate_application::refresh::REFRESH_ANNOTATION;
use tidegate_application::{approval, conditions, operation, refresh, superseding};
use tidegate_executor::EngineError;
use tidegate_model::argo::{Application, ConditionType, OperationRequest, SyncStatusCode};
use tidegate_model::{OperationId, OperationPhase, Timestamp};
use tokio::task::JoinHandle;

use super::{AGAIN_AFTER, AppState};
use crate::applications::messages::AppMessage;
use crate::applications::store::Ended;
use crate::applications::telling;

/// What others read is written no more often than this; where nobody waits for it, also only after so many times what the last
/// write has taken, or a server with much to do would have this to do as well. After the longest of these it is written anyway.
const WRITE_EVERY: Duration = Duration::from_secs(1);
const WRITE_RARELY: u32 = 30;
const WRITE_ALWAYS: Duration = Duration::from_secs(10);
/// A write that takes longer is not waited for by what does not need it.
const ANSWERED_SOON: Duration = Duration::from_secs(1);
/// What is about to be told in full, by a comparison or an operation that begins, waits no longer than this for that.
const TOLD_WITHIN: Duration = Duration::from_millis(500);
/// That a newer commit changes nothing is written so long after it was found: a push is about many, of which few have work to do.
const SAME_WITHIN: Duration = Duration::from_secs(5);
/// A condition of our own, which is shown and cannot be written: it is about just that.
const UNWRITTEN: &str = "StatusWriteError";

/// A condition of our own: others go on writing into the status.
const OVERWRITTEN: &str = "StatusOverwrittenWarning";
/// What others have changed so often, each time within this time of the last, is put back no more often than this.
const FIGHT: u32 = 5;
const FIGHT_IS_OVER_AFTER: Duration = Duration::from_secs(120);
const PUT_BACK_EVERY: Duration = Duration::from_secs(30);

/// What others have written over what was kept.
#[derive(Default)]
pub(super) struct Overwritten {
    /// It is not put back yet.
    is_due: bool,
    /// How often it was, without a rest between, and when last.
    times: u32,
    last: Timestamp,
}

impl Overwritten {
    fn is_fight(&self, now: Timestamp) -> bool {
        self.times >= FIGHT && now < self.last + FIGHT_IS_OVER_AFTER
    }
}

/// A write that was refused.
pub(super) struct Unkept {
    why: String,
    /// The first of those that were refused without one that was not, and the last.
    since: Timestamp,
    tried_at: Timestamp,
    /// What was asked for then: with something else it is tried at once.
    operation: Option<OperationRequest>,
}

/// A write that is under way; it ends with whoever awaits it.
pub(super) struct Writing {
    task: JoinHandle<Result<(), String>>,
    what: Arc<Application>,
    begun: Timestamp,
    /// It puts back what others have written over it.
    puts_back: bool,
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Whether an operation may be written down later in the place of the one that is. One that somebody asks for, and one that has
/// its id and begins with that, may not.
fn may_be_late(written: Option<&OperationRequest>, asked: Option<&OperationRequest>) -> bool {
    written == asked || asked.is_none_or(is_wish)
}

/// Whether it is one that the application would ask for again, if that were forgotten. One with a plan may be approved by now.
fn is_wish(asked: &OperationRequest) -> bool {
    let is_bare = operation::id(asked).is_none() && approval::plan_of(asked).is_none();
    asked.initiated_by.automated && is_bare && superseding::next(asked).is_none()
}

/// Whether nothing is different but that it is as a newer commit wants it, too.
fn is_newer_and_same(known: &Application, now: &Application) -> bool {
    let (Some(before), Some(after)) = (&known.status.sync, &now.status.sync) else { return false };
    if after.status != SyncStatusCode::Synced || before.status != after.status {
        return false;
    }
    let mut known = known.clone();
    known.status.sync.clone_from(&now.status.sync);
    known == *now && before.compared_to == after.compared_to
}

/// The operation that a status says is to end; it has no id before it is begun.
pub(super) struct ToEnd(Option<OperationId>);

/// The operation that is asked for, if the status of the application says that it is to end.
pub(super) fn to_end(application: &Application) -> Option<ToEnd> {
    let asked = operation::id(application.operation.as_ref()?);
    let state = application.status.operation_state.as_ref()?;
    // What is said before it begins is said before it has its id.
    let told = operation::id(&state.operation);
    let is_to_end = state.phase == OperationPhase::Terminating
        && state.finished_at.is_none()
        && (told.is_none() || told == asked);
    is_to_end.then_some(ToEnd(asked))
}

/// An application that is gone on with from what was shown of it says nothing of writes that others have tried.
pub(crate) fn forget(application: &mut Application) {
    application.status.conditions.retain(|one| one.kind.to_string() != UNWRITTEN);
}

impl AppState {
    /// Shows what has changed, and writes it down: once a second at most, except for the operation, which is not begun before it
    /// is written down. What is refused is tried again after a while, and shown with the reason. A write that is not answered
    /// goes on beside: until it has ended nothing else is written, and nothing waits for it but what relies on it.
    pub(super) async fn keep(&mut self, myself: &ActorRef<AppMessage>) -> Result<(), String> {
        self.keep_within(myself, Some(ANSWERED_SOON)).await
    }

    /// The same, where somebody waits for just that: however long it takes.
    pub(super) async fn keep_now(&mut self, myself: &ActorRef<AppMessage>) -> Result<(), String> {
        self.keep_within(myself, None).await
    }

    async fn keep_within(
        &mut self,
        myself: &ActorRef<AppMessage>,
        patience: Option<Duration>,
    ) -> Result<(), String> {
        // One that was not answered soon is not waited for once more.
        self.await_write(patience.map(|_| Duration::ZERO)).await;
        if self.writing.is_some() {
            self.show();
            return Err(self.is_unanswered(myself));
        }
        let is_kept = self.kept.as_ref().is_some_and(|kept| self.application.is(kept));
        if is_kept && !self.is_to_be_put_back() {
            self.is_written();
            self.settle(None);
            if self.shown != self.deployments {
                self.show();
            }
            return Ok(());
        }
        if let Some(unkept) = &self.unkept
            && unkept.operation == self.application.operation
            && self.now() < unkept.tried_at + AGAIN_AFTER
        {
            let (due, why) = (unkept.tried_at + AGAIN_AFTER, unkept.why.clone());
            self.show();
            self.set_alarm(myself, due);
            return Err(why);
        }
        self.show();
        if self.may_wait(myself) {
            return Ok(());
        }
        self.begin_to_write();
        let written = self.await_write(patience).await;
        if let Some(Err(_)) = &written {
            self.set_alarm(myself, self.now() + AGAIN_AFTER);
        }
        written.unwrap_or_else(|| Err(self.is_unanswered(myself)))
    }

    fn is_unanswered(&mut self, myself: &ActorRef<AppMessage>) -> String {
        let now = self.now();
        self.unwritten.get_or_insert(now);
        self.shared.unwritten.add(&self.key);
        self.set_alarm(myself, now + ANSWERED_SOON);
        "what is known of it is being written down".to_owned()
    }

    fn begin_to_write(&mut self) {
        let (store, what) = (Arc::clone(&self.shared.store), self.application.share());
        let written = Arc::clone(&what);
        let task = tokio::spawn(async move { store.keep(&written).await.map_err(|error| error.to_string()) });
        let puts_back = std::mem::take(&mut self.overwritten.is_due);
        self.writing = Some(Box::new(Writing { task, what, begun: self.now(), puts_back }));
    }

    /// Waits for the write that is under way, for so long at most, and takes in how it has ended; nothing where it has not.
    pub(super) async fn await_write(&mut self, patience: Option<Duration>) -> Option<Result<(), String>> {
        let writing = self.writing.as_mut()?;
        let ended = match patience {
            Some(patience) => tokio::time::timeout(patience, &mut writing.task).await.ok()?,
            None => (&mut writing.task).await,
        };
        let writing = self.writing.take()?;
        let written = ended.unwrap_or_else(|fault| match fault.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err("it was not written to the end".to_owned()),
        });
        let now = self.now();
        self.settle(written.as_ref().err().map(|why| (why.clone(), writing.what.operation.clone())));
        match &written {
            Ok(()) => {
                (self.kept_at, self.took) = (now, now.since(writing.begun));
                self.durable = writing.what.operation.as_ref().and_then(operation::id);
                if self.application.is(&writing.what) {
                    self.is_written();
                }
                self.kept = Some(Arc::clone(&writing.what));
            }
            Err(_) => self.overwritten.is_due |= writing.puts_back,
        }
        Some(written)
    }

    /// Whether what there is to write can be written later, which is then seen to.
    fn may_wait(&mut self, myself: &ActorRef<AppMessage>) -> bool {
        let (is_put_back, now) = (self.is_to_be_put_back(), self.now());
        let asked = self.application.operation.as_ref();
        let may_be_late = |kept: &&mut Arc<Application>| may_be_late(kept.operation.as_ref(), asked);
        let Some(kept) = self.kept.as_mut().filter(|_| !self.is_urgent).filter(may_be_late) else {
            return false;
        };
        let is_refreshed = |one: &Application| one.annotation(REFRESH_ANNOTATION).is_some();
        let is_awaited = is_put_back
            || kept.operation.as_ref() != asked
            || is_refreshed(kept) != is_refreshed(&self.application);
        let is_about_to_be_told = self.comparing || self.preparing || asked.is_some_and(is_wish);
        // That it was looked at again is told by the next write that tells more.
        let mut known = Application::clone(kept);
        known.status.reconciled_at = self.application.status.reconciled_at;
        let is_same = known == *self.application;
        if is_same && !is_put_back {
            self.kept = Some(self.application.share());
            self.is_written();
            self.settle(None);
            return true;
        }
        let is_newer_and_same = is_newer_and_same(&known, &self.application);
        *kept = Arc::new(known);
        let since = *self.unwritten.get_or_insert(now);
        let every = match is_same && self.overwritten.is_fight(now) {
            true => PUT_BACK_EVERY,
            false if is_awaited => WRITE_EVERY,
            false => self.took.saturating_mul(WRITE_RARELY).clamp(WRITE_EVERY, WRITE_ALWAYS),
        };
        // The clock may have been set back.
        let (since, kept_at) = (since.min(now), self.kept_at.min(now));
        let mut due = kept_at + every;
        if is_about_to_be_told {
            due = due.max(since + TOLD_WITHIN);
        }
        if is_newer_and_same && !is_put_back {
            due = due.max(since + SAME_WITHIN);
        }
        let is_early = now < due;
        if is_early {
            self.shared.unwritten.add(&self.key);
            self.set_alarm(myself, due);
        }
        is_early
    }

    fn is_written(&mut self) {
        self.is_urgent = false;
        if self.unwritten.take().is_some() {
            self.shared.unwritten.remove(&self.key);
        }
    }

    /// Somebody else has changed what was kept: that is put back. Where the phase of its operation says now that it is to end,
    /// it does.
    pub(super) async fn is_overwritten(&mut self, ended: Option<Ended>) {
        let now = self.now();
        let times =
            if now < self.overwritten.last + FIGHT_IS_OVER_AFTER { self.overwritten.times } else { 0 };
        self.overwritten = Overwritten { is_due: true, times: times.saturating_add(1), last: now };
        let Some(Ended { operation }) = ended else { return };
        if self.application.operation.is_none() || operation.is_some() && operation != self.operation_id() {
            return;
        }
        let by = self.shared.store.writer_of_phase(&self.key).await;
        self.end(&by.unwrap_or_else(|| "somebody who wrote the phase Terminating".to_owned())).await;
    }

    /// While nobody was at work its status has come to say that its operation is to end. It does where others have written that:
    /// one that was ending before ends by what is in the log.
    pub(super) async fn end_as_written(&mut self, ToEnd(meant): ToEnd) {
        let is_meant = self.operation_id().is_none_or(|id| Some(id) == meant);
        if self.application.operation.is_some()
            && is_meant
            && let Some(by) = self.shared.store.writer_of_phase(&self.key).await
        {
            self.end(&by).await;
        }
    }

    async fn end(&mut self, by: &str) {
        if let Err(problem) = self.terminate(by).await {
            tracing::warn!(application = %self.key, problem, by, "an operation that is to end goes on");
        }
    }

    /// Whether what others have changed is put back now. While it is left alone, they may.
    fn is_to_be_put_back(&self) -> bool {
        self.overwritten.is_due && (self.is_at_work() || !refresh::is_skipped(&self.application))
    }

    /// Says whether others go on writing into its status.
    pub(super) fn tell_overwritten(&mut self, myself: &ActorRef<AppMessage>, now: Timestamp) {
        let is_fight = self.overwritten.is_fight(now);
        let words = is_fight.then(|| {
            format!(
                "others write into its status again and again, which is put back every {} s at most: see in metadata.managedFields who does; two controllers cannot serve one application",
                PUT_BACK_EVERY.as_secs()
            )
        });
        self.say(OVERWRITTEN, words.as_slice(), now);
        if is_fight {
            self.set_alarm(myself, self.overwritten.last + FIGHT_IS_OVER_AFTER);
        }
    }

    /// Takes in how the last write has ended, which was about this operation, and shows what is new in that.
    fn settle(&mut self, wrong: Option<(String, Option<OperationRequest>)>) {
        let now = self.now();
        let before = self.unkept.take();
        let Some((why, operation)) = wrong else {
            if before.is_some() {
                tracing::info!(application = %self.key, "what is known of an application can be kept again");
                self.show();
            }
            return;
        };
        let is_new = before.as_ref().is_none_or(|before| before.why != why);
        if is_new {
            tracing::error!(application = %self.key, problem = why, "what is known of an application cannot be kept");
        }
        let since = before.map_or(now, |before| before.since);
        self.unkept = Some(Unkept { why, since, tried_at: now, operation });
        if is_new {
            self.show();
        }
    }

    /// Shows it as it is now, and tells what is different.
    pub(super) fn show(&mut self) {
        self.shown.clone_from(&self.deployments);
        let (before, deployments) = self.shared.board.sight(&self.key).unzip();
        let is_shown = before.as_ref().is_some_and(|before| self.application.is(before));
        let shown = self.as_shown();
        let is_same = if self.unkept.is_none() { is_shown } else { before.as_ref() == Some(&shown) };
        if is_same && deployments.as_deref() == Some(&self.deployments) {
            return;
        }
        if !is_same {
            telling::tell(&self.key, before.as_deref().or(self.kept.as_deref()), &shown);
        }
        self.shared.board.post(&self.key, shown, self.deployments.clone());
        if !is_same {
            self.announce();
        }
    }

    /// As it is, with why that cannot be written down.
    fn as_shown(&self) -> Arc<Application> {
        let Some(Unkept { why, since, .. }) = &self.unkept else { return self.application.share() };
        let mut shown = Application::clone(&self.application);
        let begins = match (&self.application.operation, self.operation_id()) {
            (None, _) => "; no operation begins until then",
            (Some(_), Some(id)) if self.durable == Some(id) => "",
            _ => "; the operation that is asked for begins when that is done",
        };
        let message = format!(
            "what is known of it cannot be written down, so others read what was known before: {why}; it is tried again every {} s{begins}",
            AGAIN_AFTER.as_secs()
        );
        let kind = ConditionType::Other(UNWRITTEN.to_owned());
        conditions::set(
            &mut shown.status.conditions,
            std::slice::from_ref(&kind),
            [(kind.clone(), message)],
            *since,
        );
        Arc::new(shown)
    }

    fn operation_id(&self) -> Option<OperationId> {
        self.application.operation.as_ref().and_then(operation::id)
    }

    /// Whether its operation would be found again after a kill: its id is written down, or the log has it.
    pub(super) async fn is_durable(&mut self) -> bool {
        let Some(id) = self.operation_id() else { return false };
        if self.durable != Some(id) {
            let known = self.shared.engine.inspect(id).await;
            let is_known = matches!(known, Ok(_) | Err(EngineError::AlreadyFinished { .. }));
            self.durable = is_known.then_some(id);
        }
        self.durable == Some(id)
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
