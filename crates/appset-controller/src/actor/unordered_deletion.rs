//! Deletion of an ApplicationSet without a deletion order. Its Applications are deleted all at once or
//! outlive it, without waiting for each other. In a cluster, Kubernetes deletes them after the
//! ApplicationSet. A machine without commands records what happens to each of them, even after the
//! ApplicationSet's actor has stopped.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_application::deletion::DeletionRequester;
use tidegate_applicationset::deletion::{recorded_members, recorded_order};
use tidegate_applicationset::rollout::qualified_name;
use tidegate_applicationset::status::ConditionReason;
use tidegate_applicationset::teardown_steps::member_spec;
use tidegate_executor::{EngineError, RunningMachine};
use tidegate_lifecycle::teardown::{Event, Input, Member, MemberSpec, Order, OrderedDeletion, State};
use tidegate_model::StreamId;
use tidegate_model::argo::Application;
use tidegate_oplog::EntryOf;

use super::{ActorState, StartError};
use crate::orphaned_deletions::deletion_request;
use crate::{members, write_failure};

/// Record of an unordered deletion.
pub(super) struct UnorderedDeletion {
    pub id: StreamId,
    /// The running machine, or `None` once it has finished.
    pub running: Option<RunningMachine<OrderedDeletion>>,
    pub state: State,
}

impl UnorderedDeletion {
    fn new(running: RunningMachine<OrderedDeletion>, state: State) -> Self {
        Self { id: running.id(), running: Some(running).filter(|_| !state.is_finished()), state }
    }

    fn has_member(&self, application: &Application) -> bool {
        let known = self.state.teardown().and_then(|all| all.members.get(&application.metadata.name));
        known.is_some_and(|known| is_member(known, application))
    }
}

fn is_member(member: &Member, application: &Application) -> bool {
    member.uid == application.metadata.uid
}

impl ActorState {
    /// Resumes the record of a deletion. `all` holds the ApplicationSet's machines, oldest first. Removes and
    /// returns the newest ordered deletion.
    pub(super) async fn resume_unordered_deletion(
        &mut self,
        all: &mut Vec<EntryOf<Event>>,
    ) -> Result<Option<EntryOf<Event>>, EngineError> {
        let engine = self.shared.applications.engine.clone();
        while let Some(newest) = all.pop() {
            let state = engine.machine_state::<OrderedDeletion>(newest.stream).await?.unwrap_or_default();
            let Some(teardown) = state.teardown().filter(|teardown| teardown.order.is_witnessed()) else {
                return Ok(Some(newest));
            };
            let is_own = teardown.uid == self.set.metadata.uid && self.teardowns.unordered.is_none();
            match (is_own, newest.summary.is_open()) {
                (true, true) => self.continue_unordered_deletion(newest.stream).await,
                (true, false) if self.is_deleting() => {
                    self.teardowns.unordered =
                        Some(UnorderedDeletion { id: newest.stream, running: None, state });
                }
                _ => {}
            }
        }
        Ok(None)
    }

    async fn continue_unordered_deletion(&mut self, id: StreamId) {
        let resumed = async {
            let running = self.run_teardown(id, None).await?;
            if !self.is_deleting() {
                let reason = "the ApplicationSet exists and is not being deleted".to_owned();
                running.request(Input::Abort { reason }).await?;
                return Ok(None);
            }
            let state = running.state().await?;
            Ok::<_, StartError>(Some(UnorderedDeletion::new(running, state)))
        };
        match resumed.await {
            Ok(witnessed) => self.teardowns.unordered = witnessed,
            Err(error) => {
                tracing::warn!(set = %self.key, %error, "failed to record the deletion of Applications");
            }
        }
    }

    /// Records the deletion before it starts. Returns true if the record exists.
    pub(super) async fn record_deletion(&mut self) -> bool {
        let all = members::cached_members(&self.shared, &self.set, self.results.generated.as_deref());
        let new = self.unrecorded_applications(&all);
        if let Some(UnorderedDeletion { running: Some(running), .. }) = &self.teardowns.unordered {
            let join = |member| running.send_input(Input::Joined { member: Box::new(member) });
            new.into_iter().map(member_spec).for_each(join);
            return true;
        }
        // A deletion without Applications is recorded, too, unless this ApplicationSet already has another
        // record.
        let is_recorded = self.teardowns.unordered.is_some() || self.own_teardown().is_some();
        if is_recorded && new.is_empty() {
            return true;
        }
        let members = new.into_iter().map(member_spec).collect();
        let order = recorded_order(&self.set, &self.shared.options);
        match self.start_unordered_deletion(order, members).await {
            Ok(witnessed) => {
                tracing::info!(set = %self.key, teardown = %witnessed.id, "recording the deletion of Applications");
                self.teardowns.unordered = Some(witnessed);
                true
            }
            Err(error) => {
                let message = format!("cannot record the deletion of the ApplicationSet: {error}");
                let failure = write_failure(ConditionReason::DeleteApplicationError, &message);
                self.results.failure.get_or_insert(failure);
                false
            }
        }
    }

    /// Records the deletion of an ApplicationSet that is gone from the store. Its absence may be the only
    /// sign of the deletion.
    pub(super) async fn record_removal(&mut self) {
        if self.teardowns.unordered.is_some() {
            return;
        }
        if !self.is_deleting() {
            match self.shared.store.exists(&self.set).await {
                Ok(false) => {}
                // The ApplicationSet still exists, but outside this controller's scope.
                Ok(true) => return,
                Err(error) => {
                    tracing::warn!(set = %self.key, %error, "failed to check whether the ApplicationSet was deleted");
                }
            }
            self.set.metadata.deletion_timestamp = Some(self.now().into());
        }
        if !self.record_deletion().await
            && let Some(failure) = &self.results.failure
        {
            tracing::error!(set = %self.key, "{}", failure.message);
        }
    }

    /// Returns the Applications without a recorded deletion.
    fn unrecorded_applications<'a>(
        &self,
        all: &'a BTreeMap<String, Arc<Application>>,
    ) -> Vec<&'a Application> {
        let is_in_order = |one: &Application| {
            let member = self.own_teardown().and_then(|last| last.members.get(&one.metadata.name));
            member.is_some_and(|member| is_member(member, one) && member.progress.is_settled())
        };
        let is_known =
            |one: &Application| self.teardowns.unordered.as_ref().is_some_and(|all| all.has_member(one));
        let all =
            recorded_members(&self.set, all.values().map(Arc::as_ref), &self.shared.options).into_iter();
        all.filter(|one| !is_known(one) && !is_in_order(one)).collect()
    }

    async fn start_unordered_deletion(
        &self,
        order: Order,
        members: Vec<MemberSpec>,
    ) -> Result<UnorderedDeletion, StartError> {
        // The store doesn't record who deleted the ApplicationSet.
        let by = DeletionRequester::from_metadata(&self.set.metadata)
            .map(|requester| requester.to_log_text())
            .unwrap_or_default();
        let request =
            deletion_request(qualified_name(&self.set), self.set.metadata.uid.clone(), by, order, members);
        let id = self.shared.applications.engine.next_id().await.map_err(StartError::Engine)?;
        let running = self.run_teardown(id.into(), Some(Input::Begin(Box::new(request)))).await?;
        let state = running.state().await?;
        Ok(UnorderedDeletion::new(running, state))
    }

    /// Handles a change in the record's state.
    pub(super) async fn handle_unordered_change(&mut self) {
        let Some(UnorderedDeletion { running, state, id }) = &mut self.teardowns.unordered else { return };
        let Some(at_work) = running else { return };
        match at_work.state().await {
            Ok(now) => {
                *state = now;
                if let Some(outcome) = state.teardown().and_then(|teardown| teardown.outcome.as_ref()) {
                    tracing::info!(set = %self.key, teardown = %id, "{:?}: {}", outcome.end, outcome.message);
                    *running = None;
                }
            }
            Err(error) => {
                tracing::warn!(set = %self.key, %error, "stopped recording the deletion of Applications");
                *running = None;
            }
        }
    }
}
