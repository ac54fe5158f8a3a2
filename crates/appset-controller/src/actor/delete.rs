//! Deletes Applications: those that are no longer generated, in order, and all of them with their
//! ApplicationSet.

use std::collections::BTreeMap;
use std::sync::Arc;

use ractor::{ActorProcessingErr, ActorRef};
use tidegate_application::deletion::DeletionRequester;
use tidegate_applicationset::changes::AppSetChanges;
use tidegate_applicationset::deletion::{
    self, AppSetDeletionStep, MemberDeletion, next_deletion_step, without_ownership,
};
use tidegate_applicationset::deletion_limit::{DELETIONS_APPROVED_ANNOTATION, DeletionPermit};
use tidegate_applicationset::ownership::{Owner, owner_of};
use tidegate_applicationset::rollout::{ROLLOUT_REQUESTER, qualified_name};
use tidegate_applicationset::status::ConditionReason;
use tidegate_applicationset::triggers::ReconcileTrigger;
use tidegate_executor::{MachineError, RunningMachine};
use tidegate_lifecycle::fleet::{Attribution, Scope};
use tidegate_lifecycle::teardown::{
    Approval, End, Event, Input, Member, MemberSpec, Options, Order, OrderedDeletion, Progress, Request,
    State, Teardown, UserRequest,
};
use tidegate_model::argo::Application;
use tidegate_model::{StreamId, StreamKind, Timestamp};
use tidegate_oplog::Lookup;

use super::milestones::EmittedMilestones;
use super::unordered_deletion::UnorderedDeletion;
use super::{ActorState, RETRY_DELAY, StartError};
use crate::live_inputs::LiveInputs;
use crate::member_status::member_key;
use crate::messages::AppSetMessage;
use crate::orphaned_deletions::member_spec;
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

    /// Deletes Applications in order, in the running teardown or a new one. A teardown that a user terminated
    /// or that missed its deadline restarts only on request.
    pub(super) async fn tear_down(
        &mut self,
        order: Order,
        deletions: Vec<MemberDeletion>,
        permit: Option<DeletionPermit>,
        reason: &str,
    ) {
        if self.recall_at.is_some() {
            return;
        }
        let approved = permit.map(|permit| deletion_approval(permit, self.now()));
        let requester = DeletionRequester::from_metadata(&self.set.metadata);
        self.teardowns.deletions.set(&deletions, requester.clone());
        let mut specs: Vec<MemberSpec> = deletions.iter().map(|one| member_spec(&one.application)).collect();
        if let Some(running) = &self.teardowns.running {
            let known = self.teardowns.last.as_ref().and_then(State::teardown);
            let is_new = |one: &MemberSpec| {
                known.is_none_or(|known| known.members.get(&one.name).is_none_or(|old| old.uid != one.uid))
            };
            specs.retain(is_new);
            if !specs.is_empty() {
                approved.into_iter().for_each(|approved| running.send_input(Input::Approved(approved)));
            }
            specs
                .into_iter()
                .for_each(|member| running.send_input(Input::Joined { member: Box::new(member) }));
            return;
        }
        let kept_members: BTreeMap<String, Attribution> = match self.requested_retry {
            // A retry also deletes the Applications that an earlier teardown kept.
            Some(_) => BTreeMap::new(),
            None => specs
                .iter()
                .filter_map(|one| Some((one.name.clone(), self.skipped_by(&one.name, &one.uid)?)))
                .collect(),
        };
        if kept_members.len() == specs.len() {
            return;
        }
        let by = match (&self.requested_retry, &requester) {
            (Some(retry), _) => retry.requester_text(),
            (None, Some(requester)) => requester.to_log_text(),
            // The store doesn't record who deleted the ApplicationSet.
            (None, None) if self.is_deleting() => String::new(),
            (None, None) => ROLLOUT_REQUESTER.to_owned(),
        };
        let request = Request {
            set: qualified_name(&self.set),
            uid: self.set.metadata.uid.clone(),
            by,
            order,
            members: specs,
            kept_members,
            options: Options::default(),
            approved,
        };
        let begun = async {
            let id = self.shared.applications.engine.next_id().await.map_err(StartError::Engine)?;
            let begin = Some(Input::Begin(Box::new(request)));
            let running = self.run_teardown(id.into(), begin).await?;
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
                self.failure.get_or_insert(write_failure(ConditionReason::DeleteApplicationError, &message));
            }
        }
    }

    /// Returns true if the last teardown kept the Application with this name and UID.
    pub(super) fn was_skipped(&self, name: &str, uid: &str) -> bool {
        self.skipped_by(name, uid).is_some()
    }

    /// Returns the attribution for an Application that the last teardown kept: the user who skipped it or
    /// terminated the teardown, or else the teardown that ended early. The members of the last teardown
    /// include the Applications that earlier teardowns kept.
    fn skipped_by(&self, name: &str, uid: &str) -> Option<Attribution> {
        let last = self.own_teardown()?;
        let member = last.members.get(name).filter(|member| member.uid == uid)?;
        let ended = || {
            let outcome = last.outcome.as_ref().filter(|outcome| outcome.end != End::Completed)?;
            let by_itself = || {
                let by = "the previous deletion".to_owned();
                Attribution { by, why: outcome.message.clone(), at: outcome.at }
            };
            Some(last.terminated.clone().unwrap_or_else(by_itself))
        };
        skipped_by(member).cloned().or_else(ended)
    }

    /// Returns the newest teardown if its UID matches this ApplicationSet's.
    pub(super) fn own_teardown(&self) -> Option<&Teardown> {
        let last = self.teardowns.last.as_ref().and_then(State::teardown);
        last.filter(|last| last.uid == self.set.metadata.uid)
    }

    /// Keeps Applications that are generated again, unless their deletion has started.
    pub(super) async fn keep_generated(&mut self) {
        let (Some(running), Some(generated)) = (&self.teardowns.running, &self.generated) else { return };
        let Some(teardown) = self.teardowns.last.as_ref().and_then(State::teardown) else { return };
        let again: Vec<&String> = teardown
            .members
            .iter()
            .filter(|(name, member)| {
                matches!(member.progress, Progress::Waiting) && generated.applications.contains_key(*name)
            })
            .map(|(name, _)| name)
            .collect();
        for name in again {
            let request = UserRequest::Skip(Scope::Member(name.clone()));
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
                    self.trigger = self.trigger.max(ReconcileTrigger::Status);
                }
                self.teardowns.last = Some(state);
                self.emit_teardown_milestones(false);
            }
            Err(error) => {
                tracing::warn!(set = %self.key, %error, "failed to resume the ordered deletion");
                self.teardowns.running = None;
                self.schedule_recall();
            }
        }
    }

    /// Performs the next step of the ApplicationSet's deletion.
    pub(super) async fn progress_deletion(&mut self, myself: &ActorRef<AppSetMessage>) {
        self.abort_pass();
        if self.rollouts.running.is_some() {
            return self.end_rollout("the ApplicationSet is being deleted").await;
        }
        self.failure = None;
        let now = self.now();
        let (skipped, existing) = self.split_skipped();
        // A skipped Application outlives the ApplicationSet.
        let turns = &self.shared.applications.deletion_queue;
        let stays = |one: &&Application| !one.is_deleting() || turns.wait_reason(one).is_some();
        let free: Vec<_> = skipped.iter().filter(stays).collect();
        if self.teardowns.running.is_none() && !free.is_empty() {
            let update = free.into_iter().map(|one| without_ownership(&self.set, one)).collect();
            let writes = writes::write_changes(
                &self.shared,
                &AppSetChanges { update, ..AppSetChanges::default() },
                &[],
            )
            .await;
            self.handle_writes(myself, writes);
            return;
        }
        let known = self.shared.applications.as_ref();
        match next_deletion_step(&self.set, &existing, known, &self.shared.options) {
            AppSetDeletionStep::Release(free) => {
                if !self.record_deletion().await {
                    return self.set_alarm(myself, now + RETRY_DELAY);
                }
                let changes = AppSetChanges { update: free, ..AppSetChanges::default() };
                let writes = writes::write_changes(&self.shared, &changes, &[]).await;
                self.handle_writes(myself, writes);
            }
            AppSetDeletionStep::TearDown { order, members } => {
                self.tear_down(order, members, None, "the ApplicationSet is being deleted").await;
                if self.teardowns.running.is_none() && self.failure.is_none() {
                    let reason = self
                        .describe_incomplete_deletion()
                        .unwrap_or_else(|| "the ordered deletion was not started".to_owned());
                    self.failure = Some(write_failure(ConditionReason::DeleteApplicationError, &reason));
                }
            }
            // Record and report the end of the teardown before deleting the ApplicationSet.
            AppSetDeletionStep::Finish { .. } if self.will_teardown_end() => {}
            AppSetDeletionStep::Finish { .. } if !self.record_deletion().await => {}
            AppSetDeletionStep::Finish { members } => self.finish_deletion(myself, &existing, members).await,
            AppSetDeletionStep::InvalidOrder(invalid) => {
                self.failure =
                    Some(write_failure(ConditionReason::DeleteApplicationError, &invalid.to_string()));
            }
        }
        if self.failure.is_some() {
            self.set_alarm(myself, now + RETRY_DELAY);
        }
    }

    /// Returns true if the running ordered deletion will finish on its own: it isn't paused, and all
    /// Applications that it is waiting for are gone.
    fn will_teardown_end(&self) -> bool {
        let last = self.teardowns.last.as_ref().and_then(State::teardown);
        let Some(teardown) = last.filter(|_| self.teardowns.running.is_some()) else { return false };
        let cache = &self.shared.applications.application_cache;
        let is_there = |name: &str, uid: &str| {
            cache.get(&member_key(&self.key, name)).is_some_and(|live| live.metadata.uid == uid)
        };
        let mut open = teardown.members.iter().filter(|(_, member)| !member.progress.is_settled());
        teardown.paused.is_none() && open.all(|(name, member)| !is_there(name, &member.uid))
    }

    /// Separates the Applications that a user skipped from all others.
    pub(super) fn split_skipped(&self) -> (Vec<Application>, Vec<Application>) {
        let all = members::existing_members(&self.shared, &self.set, None);
        let is_skipped = |one: &Application| {
            let old = self.own_teardown().and_then(|last| last.members.get(&one.metadata.name));
            old.is_some_and(|old| old.uid == one.metadata.uid && skipped_by(old).is_some())
        };
        all.into_iter().partition(is_skipped)
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
            Ok(()) => self.is_released = self.set.metadata.finalizers.is_empty() || !collects,
            Err(error) => {
                self.failure =
                    Some(write_failure(ConditionReason::RefreshApplicationError, &error.to_string()))
            }
        }
    }

    /// Handles the results of writes. Returns true if the deletion needs another step first.
    fn handle_writes(&mut self, myself: &ActorRef<AppSetMessage>, writes: WriteSummary) -> bool {
        let WriteSummary { has_written, is_outdated, failures, .. } = writes;
        self.failure = failures.into_values().next_back();
        let again = has_written || is_outdated || self.failure.is_some();
        if again {
            let at = self.now() + RETRY_DELAY;
            self.set_alarm(myself, at);
        }
        again
    }

    /// Stops all machines of an ApplicationSet that is gone from the store.
    pub(super) async fn handle_removal(&mut self) {
        self.is_released = true;
        self.end_waiting();
        self.abort_pass();
        if self.recall_at.take().is_some() {
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

/// Returns the user who skipped a member. Returns `None` if the member was kept because it is generated
/// again, since a later deletion may delete it.
fn skipped_by(member: &Member) -> Option<&Attribution> {
    match &member.progress {
        Progress::Left(said) if said.by != ROLLOUT_REQUESTER => Some(said),
        _ => None,
    }
}

/// Returns the approval of deletions. The author of an annotation that a user wrote directly is unknown.
fn deletion_approval(permit: DeletionPermit, now: Timestamp) -> Approval {
    let by_hand = || Attribution {
        by: format!("the {DELETIONS_APPROVED_ANNOTATION} annotation"),
        why: String::new(),
        at: now,
    };
    let said = permit.approval.map(|given| Attribution {
        by: given.by,
        why: given.reason,
        at: given.at.timestamp(),
    });
    Approval { token: permit.token, said: said.unwrap_or_else(by_hand) }
}

/// Returns an Application with the finalizers that keep its objects, or `None` if its finalizers don't
/// change.
fn orphan_application(deletion: &MemberDeletion) -> Option<Application> {
    let mut application = deletion.application.clone();
    application.metadata.finalizers.clone_from(&deletion.orphaning.as_ref()?.finalizers);
    Some(application)
}
