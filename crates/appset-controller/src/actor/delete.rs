//! Deletes Applications: those that are no longer generated, in order, and all of them with their
//! ApplicationSet.

use std::sync::Arc;

use ractor::{ActorProcessingErr, ActorRef};
use tidegate_application::deletion::DeletionRequester;
use tidegate_applicationset::changes::AppSetChanges;
use tidegate_applicationset::deletion::{self, AppSetDeletionStep, MemberDeletion};
use tidegate_applicationset::deletion_progress::{
    DeletionAction, DeletionState, next_deletion_action, split_skipped,
};
use tidegate_applicationset::foreign_deletions::ForeignDeletions;
use tidegate_applicationset::ownership::{Owner, owner_of};
use tidegate_applicationset::reconcile_schedule::{RETRY_DELAY, ScheduleInput};
use tidegate_applicationset::rollout::{ROLLOUT_REQUESTER, qualified_name};
use tidegate_applicationset::status::ConditionReason;
use tidegate_applicationset::teardown_steps::{
    NewestTeardown, OrderedDeletions, TeardownStepDue, kept_by, next_teardown_step, regenerated_members,
};
use tidegate_applicationset::triggers::ReconcileTrigger;
use tidegate_executor::{MachineError, RunningMachine};
use tidegate_lifecycle::fleet::Scope;
use tidegate_lifecycle::teardown::{Event, Input, OrderedDeletion, Request, State, Teardown, UserRequest};
use tidegate_model::argo::Application;
use tidegate_model::{StreamId, StreamKind};
use tidegate_oplog::Lookup;

use super::milestones::EmittedMilestones;
use super::unordered_deletion::UnorderedDeletion;
use super::{ActorState, StartError};
use crate::live_inputs::LiveInputs;
use crate::member_status::member_key;
use crate::messages::AppSetMessage;
use crate::teardown_effects::{RequiredUpdates, TeardownContext, TeardownEffects};
use crate::writes::{self, WriteSummary};
use crate::{members, write_failure};

/// An ApplicationSet's teardowns.
#[derive(Default)]
pub(super) struct Teardowns {
    /// The running teardown.
    pub running: Option<RunningMachine<OrderedDeletion>>,
    /// ID and state of the newest teardown, running or finished.
    pub id: Option<StreamId>,
    pub last: Option<State>,
    /// Emitted Events of the newest teardown.
    pub emitted: EmittedMilestones,
    /// Updates that Applications need before their deletion.
    pub deletions: RequiredUpdates,
    /// Record of the ApplicationSet's deletion, if it has no deletion order.
    pub unordered: Option<UnorderedDeletion>,
    /// Deletions requested by other clients.
    pub foreign: ForeignDeletions,
}

impl Teardowns {
    /// Returns the newest teardown.
    pub fn newest(&self) -> NewestTeardown<'_> {
        let teardown = self.last.as_ref().and_then(State::teardown);
        NewestTeardown { teardown, is_running: self.running.is_some() }
    }
}

impl ActorState {
    /// Resumes the teardown in the log, if any.
    pub(super) async fn recall_teardown(&mut self) -> Result<(), ActorProcessingErr> {
        let engine = self.shared.applications.engine.clone();
        let lookup = Lookup::of_appset(qualified_name(&self.set)).and_kind(StreamKind::TEARDOWN);
        let mut all = engine.list_machines::<Event>(lookup).await?;
        let Some(newest) = self.resume_unordered_deletion(&mut all).await? else { return Ok(()) };
        self.teardowns.id = Some(newest.stream);
        if newest.summary.is_open() {
            // A resumed teardown starts deleting immediately, so determine the required updates first.
            let known = self.shared.applications.as_ref();
            let all = self.members.values().filter(|one| owner_of(&self.set, one) == Owner::AppSet);
            let all: Vec<_> = all.map(|one| MemberDeletion::for_member(&self.set, one, known)).collect();
            self.teardowns.deletions.set(&all, DeletionRequester::from_metadata(&self.set.metadata));
            let running = self.run_teardown(newest.stream, None).await?;
            self.teardowns.last = Some(running.state().await?);
            self.teardowns.running = Some(running);
        } else {
            self.teardowns.last = engine.machine_state::<OrderedDeletion>(newest.stream).await?;
        }
        Ok(())
    }

    pub(super) async fn run_teardown(
        &self,
        id: StreamId,
        begin: Option<Input>,
    ) -> Result<RunningMachine<OrderedDeletion>, MachineError> {
        let engine = &self.shared.applications.engine;
        let notify = self.change_notifier(|| AppSetMessage::TeardownChanged);
        let parts = TeardownContext {
            shared: Arc::clone(&self.shared.applications),
            store: Arc::clone(&self.shared.store),
            set: self.key.clone(),
            appset_cache: self.shared.cache.clone(),
            required_updates: self.teardowns.deletions.clone(),
            on_change: Arc::new(move |_| notify()),
        };
        let running = engine.run_machine(id, begin, move || TeardownEffects::new(parts.clone())).await?;
        self.report_machine_end(running.clone(), || AppSetMessage::TeardownChanged);
        Ok(running)
    }

    /// Deletes Applications in order, in the running teardown or a new one.
    pub(super) async fn tear_down(&mut self, wanted: OrderedDeletions<'_>, reason: &str) {
        if self.schedule.is_recall_pending() {
            return;
        }
        let requester = DeletionRequester::from_metadata(&self.set.metadata);
        self.teardowns.deletions.set(wanted.deletions, requester);
        let (newest, retry) = (self.teardowns.newest(), self.requested_retry.as_ref());
        match next_teardown_step(&self.set, wanted, newest, retry, self.now()) {
            TeardownStepDue::Nothing => {}
            TeardownStepDue::SendInputs(inputs) => {
                if let Some(running) = &self.teardowns.running {
                    inputs.into_iter().for_each(|input| running.send_input(input));
                }
            }
            TeardownStepDue::Start(request) => self.start_teardown(request, reason).await,
        }
    }

    async fn start_teardown(&mut self, request: Box<Request>, reason: &str) {
        let begun = async {
            let id = self.shared.applications.engine.next_id().await.map_err(StartError::Engine)?;
            let running = self.run_teardown(id.into(), Some(Input::Begin(request))).await?;
            let state = running.state().await?;
            Ok::<_, StartError>((running, state))
        };
        match begun.await {
            Ok((running, state)) => {
                tracing::info!(set = %self.key, teardown = %running.id(), reason, "ordered deletion of Applications started");
                self.teardowns.id = Some(running.id());
                (self.teardowns.running, self.teardowns.last) = (Some(running), Some(state));
                self.remove_retry().await;
                self.emit_teardown_milestones(false);
            }
            Err(error) => {
                self.recall_after_failed_start(&error);
                let message = format!("cannot start the ordered deletion: {error}");
                let failure = write_failure(ConditionReason::DeleteApplicationError, &message);
                self.results.failure.get_or_insert(failure);
            }
        }
    }

    /// Returns true if the last teardown kept the Application with this name and UID.
    pub(super) fn was_skipped(&self, name: &str, uid: &str) -> bool {
        self.own_teardown().is_some_and(|last| kept_by(last, name, uid).is_some())
    }

    /// Returns the newest teardown if its UID matches this ApplicationSet's.
    pub(super) fn own_teardown(&self) -> Option<&Teardown> {
        self.teardowns.newest().of_appset(&self.set)
    }

    /// Keeps Applications that are generated again, unless their deletion has started.
    pub(super) async fn keep_generated(&mut self) {
        let (Some(running), Some(generated)) = (&self.teardowns.running, &self.results.generated) else {
            return;
        };
        let Some(teardown) = self.teardowns.newest().teardown else { return };
        for name in regenerated_members(teardown, generated) {
            let request = UserRequest::Skip(Scope::Member(name.to_owned()));
            let reason = "it is generated again".to_owned();
            if let Err(error) = running
                .request(Input::UserRequest { request, by: ROLLOUT_REQUESTER.to_owned(), reason })
                .await
            {
                tracing::info!(set = %self.key, application = name, %error, "failed to skip an Application that is generated again; it will be deleted");
            }
        }
    }

    /// Handles a change in the teardown's state.
    pub(super) async fn handle_teardown_change(&mut self) {
        self.handle_unordered_change().await;
        let Some(running) = &self.teardowns.running else { return };
        match running.state().await {
            Ok(state) => {
                if state.is_finished() {
                    self.teardowns.running = None;
                    self.trigger(ReconcileTrigger::Status);
                }
                self.teardowns.last = Some(state);
                self.emit_teardown_milestones(false);
            }
            Err(error) => {
                tracing::warn!(set = %self.key, %error, "failed to resume the ordered deletion");
                self.teardowns.running = None;
                self.apply(ScheduleInput::MachineLost);
            }
        }
    }

    /// Performs the next step of the ApplicationSet's deletion.
    pub(super) async fn progress_deletion(&mut self, myself: &ActorRef<AppSetMessage>) {
        let existing = members::existing_members(&self.shared, &self.set, None);
        match self.next_deletion_action(&existing) {
            DeletionAction::EndRollout => {
                return self.end_rollout("the ApplicationSet is being deleted").await;
            }
            action => {
                self.results.failure = None;
                self.perform_deletion(myself, action, &existing).await;
            }
        }
        if self.results.failure.is_some() {
            let again = self.now() + RETRY_DELAY;
            self.set_alarm(myself, again);
        }
    }

    fn next_deletion_action(&self, existing: &[Application]) -> DeletionAction {
        let applications = self.shared.applications.as_ref();
        let state = DeletionState {
            is_rollout_running: self.rollouts.running.is_some(),
            newest: self.teardowns.newest(),
            existing,
            is_waiting: &|one| applications.deletion_queue.wait_reason(one).is_some(),
            exists: &|name, uid| {
                let live = applications.application_cache.get(&member_key(&self.key, name));
                live.is_some_and(|live| live.metadata.uid == uid)
            },
        };
        next_deletion_action(&self.set, &state, applications, &self.shared.options)
    }

    async fn perform_deletion(
        &mut self,
        myself: &ActorRef<AppSetMessage>,
        action: DeletionAction,
        existing: &[Application],
    ) {
        match action {
            DeletionAction::EndRollout | DeletionAction::AwaitTeardown => {}
            DeletionAction::ReleaseSkipped(free) => self.release_applications(myself, free).await,
            DeletionAction::Step(AppSetDeletionStep::Release(free)) => {
                if self.record_deletion().await {
                    self.release_applications(myself, free).await;
                }
            }
            DeletionAction::Step(AppSetDeletionStep::TearDown { order, members }) => {
                let wanted = OrderedDeletions { order, deletions: &members, permit: None };
                self.tear_down(wanted, "the ApplicationSet is being deleted").await;
                if self.teardowns.running.is_none() && self.results.failure.is_none() {
                    let reason = self
                        .describe_incomplete_deletion()
                        .unwrap_or_else(|| "the ordered deletion was not started".to_owned());
                    self.results.failure =
                        Some(write_failure(ConditionReason::DeleteApplicationError, &reason));
                }
            }
            DeletionAction::Step(AppSetDeletionStep::Finish { members }) => {
                let (_, others) = split_skipped(&self.set, self.teardowns.newest(), existing);
                if self.record_deletion().await {
                    self.finish_deletion(myself, &others, members).await;
                }
            }
            DeletionAction::Step(AppSetDeletionStep::InvalidOrder(invalid)) => {
                self.results.failure =
                    Some(write_failure(ConditionReason::DeleteApplicationError, &invalid.to_string()));
            }
        }
    }

    /// Writes Applications that outlive the ApplicationSet.
    async fn release_applications(&mut self, myself: &ActorRef<AppSetMessage>, free: Vec<Application>) {
        let changes = AppSetChanges { update: free, ..AppSetChanges::default() };
        let writes = writes::write_changes(&self.shared, &changes, &[]).await;
        self.handle_writes(myself, writes);
    }

    /// Deletes the remaining Applications, and then the ApplicationSet.
    async fn finish_deletion(
        &mut self,
        myself: &ActorRef<AppSetMessage>,
        existing: &[Application],
        members: Vec<MemberDeletion>,
    ) {
        if self.shared.store.has_garbage_collector() {
            // Make the required updates first: Kubernetes deletes the Applications right after their
            // ApplicationSet.
            let update = members.iter().filter_map(orphan_application).collect();
            let writes = writes::write_changes(
                &self.shared,
                &AppSetChanges { update, ..AppSetChanges::default() },
                &[],
            )
            .await;
            if self.handle_writes(myself, writes) {
                return;
            }
        } else {
            let writes = writes::write_changes(&self.shared, &AppSetChanges::default(), &members).await;
            self.handle_writes(myself, writes);
            let is_remaining = existing.iter().any(|one| owner_of(&self.set, one) == Owner::AppSet);
            if is_remaining {
                return;
            }
        }
        self.remove_finalizer().await;
    }

    /// Removes the ApplicationSet's own finalizer.
    async fn remove_finalizer(&mut self) {
        let released = match deletion::without_finalizer(&self.set) {
            Some(finalizers) => {
                let mut set = self.set.clone();
                set.metadata.finalizers = finalizers;
                self.shared.store.write_finalizer(&set).await.map(|()| self.set.metadata = set.metadata)
            }
            None => Ok(()),
        };
        let collects = self.shared.store.has_garbage_collector();
        let released = match released {
            Ok(()) if !collects => self.shared.store.remove_state(&self.key).await,
            other => other,
        };
        match released {
            Ok(()) if collects && !self.set.metadata.finalizers.is_empty() => {}
            Ok(()) => self.status.end(),
            Err(error) => {
                self.results.failure =
                    Some(write_failure(ConditionReason::RefreshApplicationError, &error.to_string()))
            }
        }
    }

    /// Handles the results of writes. Returns true if the deletion needs another step first.
    fn handle_writes(&mut self, myself: &ActorRef<AppSetMessage>, writes: WriteSummary) -> bool {
        let WriteSummary { has_written, is_outdated, failures, .. } = writes;
        self.results.failure = failures.into_values().next_back();
        let again = has_written || is_outdated || self.results.failure.is_some();
        if again {
            let at = self.now() + RETRY_DELAY;
            self.set_alarm(myself, at);
        }
        again
    }

    /// Stops all machines of an ApplicationSet that is gone from the store.
    pub(super) async fn handle_removal(&mut self) {
        self.status.end();
        self.end_waiting();
        self.apply(ScheduleInput::Abort);
        if self.schedule.is_recall_pending() {
            drop((self.recall_rollout().await, self.recall_teardown().await));
        }
        self.end_rollout("the ApplicationSet no longer exists").await;
        if self.teardowns.running.is_none() {
            self.record_removal().await;
        }
        if let Some(running) = &self.teardowns.running {
            let request = Input::UserRequest {
                request: UserRequest::Terminate,
                by: ROLLOUT_REQUESTER.to_owned(),
                reason: "the ApplicationSet no longer exists".to_owned(),
            };
            drop(running.request(request).await);
            running.wait_until_over().await;
            self.handle_teardown_change().await;
        }
        if let Some(running) = &self.rollouts.running {
            running.wait_until_over().await;
            self.handle_rollout_change().await;
        }
        LiveInputs::release(&self.shared.applications, self.key.clone());
    }
}

/// Returns an Application with the finalizers that keep its objects, or `None` if its finalizers don't
/// change.
fn orphan_application(deletion: &MemberDeletion) -> Option<Application> {
    let mut application = deletion.application.clone();
    application.metadata.finalizers.clone_from(&deletion.orphaning.as_ref()?.finalizers);
    Some(application)
}
