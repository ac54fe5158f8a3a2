//! An ApplicationSet's progressive sync: starts it on request, notifies it of changes, and resumes it after a
//! restart.

use std::sync::Arc;

use ractor::ActorProcessingErr;
use tidegate_applicationset::reconcile_schedule::ScheduleInput;
use tidegate_applicationset::rollout::{
    ROLLOUT_REQUESTER, RolloutStepDue, TargetIdentities, completed_status, next_rollout_step, qualified_name,
    unwanted_rollout_request,
};
use tidegate_applicationset::status::{ConditionReason, RolloutStatus as Said};
use tidegate_applicationset::triggers::ReconcileTrigger;
use tidegate_executor::RunningMachine;
use tidegate_lifecycle::rollout::{Event, Input, ProgressiveSync, Request, State, UserRequest};
use tidegate_model::{StreamId, StreamKind};
use tidegate_oplog::Lookup;
use tokio::sync::Mutex;

use super::milestones::EmittedMilestones;
use super::{ActorState, StartError};
use crate::member_status::MemberStatusCache;
use crate::messages::AppSetMessage;
use crate::rollout_effects::{PruningApplications, RolloutContext, RolloutEffects};
use crate::same_manifests::RevisionEquivalence;
use crate::write_failure;

/// An ApplicationSet's rollouts.
pub(super) struct Rollouts {
    /// The running rollout.
    pub running: Option<RunningMachine<ProgressiveSync>>,
    /// ID and state of the newest rollout, running or finished.
    pub id: Option<StreamId>,
    pub last: Option<State>,
    /// Emitted Events of the newest rollout.
    pub emitted: EmittedMilestones,
    /// Applications synced with pruning.
    pub prunes: PruningApplications,
    /// Revisions with the same manifests.
    pub same: RevisionEquivalence,
    /// Collected status of the Applications.
    pub member_status: Arc<Mutex<MemberStatusCache>>,
    /// Status to report until a rollout is needed.
    pub settled: Said,
}

impl Default for Rollouts {
    fn default() -> Self {
        let same = RevisionEquivalence::default();
        Self {
            running: None,
            id: None,
            last: None,
            emitted: EmittedMilestones::default(),
            prunes: PruningApplications::default(),
            member_status: Arc::new(Mutex::new(MemberStatusCache::new(same.clone()))),
            same,
            settled: Said::default(),
        }
    }
}

impl ActorState {
    /// Resumes the rollout in the log, if any.
    pub(super) async fn recall_rollout(&mut self) -> Result<(), ActorProcessingErr> {
        let engine = &self.shared.applications.engine;
        let lookup = Lookup::of_appset(qualified_name(&self.set)).and_kind(StreamKind::ROLLOUT);
        let Some(newest) = engine.list_machines::<Event>(lookup).await?.pop() else { return Ok(()) };
        self.rollouts.id = Some(newest.stream);
        if newest.summary.is_open() {
            let running = self.run_rollout(newest.stream, None).await?;
            self.rollouts.last = Some(running.state().await?);
            self.rollouts.running = Some(running);
        } else {
            self.rollouts.last = engine.machine_state::<ProgressiveSync>(newest.stream).await?;
        }
        Ok(())
    }

    async fn run_rollout(
        &self,
        id: StreamId,
        begin: Option<Input>,
    ) -> Result<RunningMachine<ProgressiveSync>, StartError> {
        let engine = &self.shared.applications.engine;
        let notify = self.change_notifier(|| AppSetMessage::RolloutChanged);
        let targets = TargetIdentities::from_appset(&self.set).map_err(StartError::Ignored)?;
        let parts = RolloutContext {
            shared: Arc::clone(&self.shared.applications),
            applications: self.shared.supervisor.clone(),
            set: self.key.clone(),
            id,
            targets: Arc::new(targets),
            prunes: self.rollouts.prunes.clone(),
            same: self.rollouts.same.clone(),
            on_change: Arc::new(move |_| notify()),
        };
        let running = engine.run_machine(id, begin, move || RolloutEffects::new(parts.clone())).await?;
        self.report_machine_end(running.clone(), || AppSetMessage::RolloutChanged);
        Ok(running)
    }

    /// Returns the newest rollout if its UID matches this ApplicationSet's.
    pub(super) fn own_rollout(&self) -> Option<&State> {
        let is_own = |state: &&State| state.rollout().is_some_and(|one| one.uid == self.set.metadata.uid);
        self.rollouts.last.as_ref().filter(is_own)
    }

    /// Starts a rollout or notifies the running one of changes, if due.
    pub(super) async fn update_rollout(&mut self, request: Request) {
        if self.schedule.is_recall_pending() {
            return;
        }
        let all = completed_status(&request, self.now());
        match next_rollout_step(request, self.own_rollout(), self.requested_retry.is_some()) {
            RolloutStepDue::Nothing => self.rollouts.settled = all,
            RolloutStepDue::SendInputs(news) => {
                if let Some(running) = &self.rollouts.running {
                    news.into_iter().for_each(|news| running.send_input(news));
                }
            }
            // The rollout of a deleted ApplicationSet with this name must finish first.
            RolloutStepDue::Start(_) if self.rollouts.running.is_some() => {
                self.end_rollout("its ApplicationSet no longer exists").await
            }
            RolloutStepDue::Start(request) => {
                let mut request = *request;
                if let Some(retry) = &self.requested_retry {
                    request.by = retry.requester_text();
                }
                self.start_rollout(request).await;
            }
        }
    }

    async fn start_rollout(&mut self, request: Request) {
        let started = async {
            let id = self.shared.applications.engine.next_id().await.map_err(StartError::Engine)?;
            let begin = Some(Input::Begin(Box::new(request)));
            let running = self.run_rollout(id.into(), begin).await?;
            let state = running.state().await?;
            Ok::<_, StartError>((running, state))
        };
        match started.await {
            Ok((running, state)) => {
                self.rollouts.id = Some(running.id());
                (self.rollouts.running, self.rollouts.last) = (Some(running), Some(state));
                self.remove_retry().await;
                self.emit_rollout_milestones(false);
            }
            Err(error) => {
                self.recall_after_failed_start(&error);
                let message = format!("cannot start the progressive sync: {error}");
                let failure = write_failure(ConditionReason::SyncApplicationError, &message);
                self.results.failure.get_or_insert(failure);
            }
        }
    }

    /// Ends the running rollout, whatever its state.
    pub(super) async fn end_rollout(&mut self, reason: &str) {
        let Some(running) = &self.rollouts.running else { return };
        let rollout = self.rollouts.last.as_ref().and_then(State::rollout);
        if rollout.is_some_and(|one| one.terminated.is_some()) {
            return;
        }
        let request = Input::UserRequest {
            request: UserRequest::Terminate,
            by: ROLLOUT_REQUESTER.to_owned(),
            reason: reason.to_owned(),
        };
        if let Err(error) = running.request(request).await {
            tracing::info!(set = %self.key, %error, "failed to terminate the progressive sync");
        }
    }

    /// Handles a change in the rollout's state.
    pub(super) async fn handle_rollout_change(&mut self) {
        let Some(running) = &self.rollouts.running else { return };
        match running.state().await {
            Ok(state) => {
                if state.is_finished() {
                    self.rollouts.running = None;
                    // A pass may have been waiting for the rollout.
                    self.trigger(ReconcileTrigger::Status);
                }
                self.rollouts.last = Some(state);
                self.emit_rollout_milestones(false);
                if self.results.generated.is_some() {
                    self.end_unwanted_rollout().await;
                }
            }
            Err(error) => {
                tracing::warn!(set = %self.key, %error, "failed to resume the progressive sync");
                self.rollouts.running = None;
                self.apply(ScheduleInput::MachineLost);
            }
        }
    }

    /// Terminates the rollout of an ApplicationSet without a progressive sync, or pauses it while operations
    /// are running.
    pub(super) async fn end_unwanted_rollout(&mut self) {
        let Some(running) = &self.rollouts.running else { return };
        let Some(rollout) = self.rollouts.last.as_ref().and_then(State::rollout) else { return };
        let reason = "the ApplicationSet no longer has a progressive sync";
        match unwanted_rollout_request(&self.set, rollout, &self.shared.options) {
            Some(UserRequest::Pause) => {
                let request = UserRequest::Pause;
                let (by, reason) = (ROLLOUT_REQUESTER.to_owned(), reason.to_owned());
                if let Err(error) = running.request(Input::UserRequest { request, by, reason }).await {
                    tracing::info!(set = %self.key, %error, "failed to pause the progressive sync");
                }
            }
            Some(_) => self.end_rollout(reason).await,
            None => {}
        }
    }
}
