//! The progressive sync of a set: begun when it asks for one, told what has changed, and gone on with after a restart.

use std::sync::Arc;

use ractor::ActorProcessingErr;
use tidegate_applicationset::policy::is_progressive;
use tidegate_applicationset::rollout::{BY, Due, Targets, due, full_name, settled};
use tidegate_applicationset::status::{Failure, Reason, Rollout as Said};
use tidegate_executor::Running;
use tidegate_lifecycle::rollout::{Fact, Input, Member, Progress, Progressive, Request, State, Wish};
use tidegate_model::{StreamId, StreamKind};
use tidegate_oplog::Lookup;

use super::milestones::Told;
use super::{SetState, Unbegun};
use crate::sets::messages::SetMessage;
use crate::sets::rolling::{Prunes, Rolling, RollingParts};

/// The rollouts of a set.
#[derive(Default)]
pub(super) struct Rollouts {
    /// The one that is at work.
    pub running: Option<Running<Progressive>>,
    /// The newest one, and how it stands, at work or over.
    pub id: Option<StreamId>,
    pub last: Option<State>,
    /// What was told of it.
    pub told: Told,
    /// Whose objects are deleted when they are no longer in the manifests.
    pub prunes: Prunes,
    /// What is told where there was none yet, because nothing was to be done.
    pub settled: Said,
}

impl SetState {
    /// Goes on with the rollout that the log has of it.
    pub(super) async fn recall_rollout(&mut self) -> Result<(), ActorProcessingErr> {
        let engine = &self.shared.applications.engine;
        let lookup = Lookup::of_set(full_name(&self.set)).and_kind(StreamKind::ROLLOUT);
        let Some(newest) = engine.machines::<Fact>(lookup).await?.pop() else { return Ok(()) };
        self.rollouts.id = Some(newest.stream);
        if newest.summary.is_open() {
            let running = self.run_rollout(newest.stream, None).await?;
            self.rollouts.last = Some(running.state().await?);
            self.rollouts.running = Some(running);
        } else {
            self.rollouts.last = engine.machine_state::<Progressive>(newest.stream).await?;
        }
        Ok(())
    }

    async fn run_rollout(&self, id: StreamId, begin: Option<Input>) -> Result<Running<Progressive>, Unbegun> {
        let engine = &self.shared.applications.engine;
        let tell = self.teller(|| SetMessage::RolloutMoved);
        let targets = Targets::of(&self.set).map_err(Unbegun::Ignore)?;
        let parts = RollingParts {
            shared: Arc::clone(&self.shared.applications),
            applications: self.shared.supervisor.clone(),
            set: self.key.clone(),
            id,
            targets: Arc::new(targets),
            prunes: self.rollouts.prunes.clone(),
            moved: Arc::new(move |_| tell()),
        };
        let running = engine.run_machine(id, begin, move || Rolling::new(parts.clone())).await?;
        self.hear_the_end(running.clone(), || SetMessage::RolloutMoved);
        Ok(running)
    }

    /// The newest rollout, if it is one of this very set.
    pub(super) fn own_rollout(&self) -> Option<&State> {
        let is_own = |state: &&State| state.rollout().is_some_and(|one| one.uid == self.set.metadata.uid);
        self.rollouts.last.as_ref().filter(is_own)
    }

    /// Begins a rollout, or tells the one at work what has changed, if that is due.
    pub(super) async fn roll(&mut self, request: Request) {
        if self.recall_at.is_some() {
            return;
        }
        let all = settled(&request, self.now());
        match due(request, self.own_rollout(), self.asked.is_some()) {
            Due::Nothing => self.rollouts.settled = all,
            Due::Tell(news) => {
                if let Some(running) = &self.rollouts.running {
                    news.into_iter().for_each(|news| running.tell(news));
                }
            }
            // One of a set that had its name before goes first.
            Due::Begin(_) if self.rollouts.running.is_some() => {
                self.end_rollout("its ApplicationSet is gone").await
            }
            Due::Begin(request) => {
                let mut request = *request;
                if let Some(asked) = &self.asked {
                    request.by = asked.recorded();
                }
                self.begin_rollout(request).await;
            }
        }
    }

    async fn begin_rollout(&mut self, request: Request) {
        let begun = async {
            let id = self.shared.applications.engine.next_id().await.map_err(Unbegun::Engine)?;
            let begin = Some(Input::Begin(Box::new(request)));
            let running = self.run_rollout(id.into(), begin).await?;
            let state = running.state().await?;
            Ok::<_, Unbegun>((running, state))
        };
        match begun.await {
            Ok((running, state)) => {
                self.rollouts.id = Some(running.id());
                (self.rollouts.running, self.rollouts.last) = (Some(running), Some(state));
                self.end_retry().await;
                self.tell_rollout(false);
            }
            Err(error) => {
                self.doubt(&error);
                let message = format!("the progressive sync could not be begun: {error}");
                self.failure.get_or_insert(Failure { reason: Reason::SyncApplicationError, message });
            }
        }
    }

    /// The rollout at work is brought to its end, whatever it is doing.
    pub(super) async fn end_rollout(&mut self, why: &str) {
        let Some(running) = &self.rollouts.running else { return };
        let rollout = self.rollouts.last.as_ref().and_then(State::rollout);
        if rollout.is_some_and(|one| one.terminated.is_some()) {
            return;
        }
        let wish = Input::Wish { wish: Wish::Terminate, by: BY.to_owned(), why: why.to_owned() };
        if let Err(error) = running.wish(wish).await {
            tracing::info!(set = %self.key, %error, "the progressive sync is not ended");
        }
    }

    /// It stands in another way.
    pub(super) async fn rollout_moved(&mut self) {
        let Some(running) = &self.rollouts.running else { return };
        match running.state().await {
            Ok(state) => {
                if state.is_finished() {
                    self.rollouts.running = None;
                    // What was to come after it may be due.
                    self.wake = self.wake.max(tidegate_applicationset::wake::Wake::Status);
                }
                self.rollouts.last = Some(state);
                self.tell_rollout(false);
                if self.generated.is_some() {
                    self.end_unwanted_rollout().await;
                }
            }
            Err(error) => {
                tracing::warn!(set = %self.key, %error, "the progressive sync could not go on");
                self.rollouts.running = None;
                self.recall_later();
            }
        }
    }

    /// A set that is not synced step by step any more has no rollout.
    pub(super) async fn end_unwanted_rollout(&mut self) {
        if is_progressive(&self.set, &self.shared.options) {
            return;
        }
        let Some(running) = &self.rollouts.running else { return };
        let Some(rollout) = self.rollouts.last.as_ref().and_then(State::rollout) else { return };
        let why = "the ApplicationSet has no progressive sync any more";
        let is_at_work = |member: &Member| matches!(member.progress, Progress::Running { .. });
        if !rollout.members.values().any(is_at_work) {
            return self.end_rollout(why).await;
        }
        // What has begun ends by itself: nobody would sync those Applications once more.
        if rollout.paused.is_none() && rollout.terminated.is_none() {
            let wish = Input::Wish { wish: Wish::Pause, by: BY.to_owned(), why: why.to_owned() };
            if let Err(error) = running.wish(wish).await {
                tracing::info!(set = %self.key, %error, "the progressive sync is not held");
            }
        }
    }
}
