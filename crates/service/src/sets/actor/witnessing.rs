//! The deletion of a set that has no order: its Applications go all at once, or outlive it. Nothing waits for anything then, and
//! in a cluster it is Kubernetes that deletes them, when the set is gone. What is done for it is done as ever; a machine that asks
//! for nothing records what becomes of each Application, also when the actor of the set is not there any more.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_application::deletion::Asker;
use tidegate_applicationset::deletion::{departing, witnessed};
use tidegate_applicationset::rollout::full_name;
use tidegate_applicationset::status::Reason;
use tidegate_executor::{EngineError, Running};
use tidegate_lifecycle::teardown::{Fact, Input, Member, MemberSpec, Order, OrderedDeletion, State};
use tidegate_model::StreamId;
use tidegate_model::argo::Application;
use tidegate_oplog::EntryOf;

use super::{SetState, Unbegun};
use crate::sets::left::{request, spec};
use crate::sets::{members, wrote};

/// The record of a deletion that has no order.
pub(super) struct Witnessed {
    pub id: StreamId,
    /// While it is not over.
    pub running: Option<Running<OrderedDeletion>>,
    pub state: State,
}

impl Witnessed {
    fn of(running: Running<OrderedDeletion>, state: State) -> Self {
        Self { id: running.id(), running: Some(running).filter(|_| !state.is_finished()), state }
    }

    fn knows(&self, application: &Application) -> bool {
        let known = self.state.teardown().and_then(|all| all.members.get(&application.metadata.name));
        known.is_some_and(|known| is_it(known, application))
    }
}

fn is_it(member: &Member, application: &Application) -> bool {
    member.uid == application.metadata.uid
}

impl SetState {
    /// Goes on with the record of its deletion, and takes from all there are, oldest first, the newest that is none such.
    pub(super) async fn recall_witnessed(
        &mut self,
        all: &mut Vec<EntryOf<Fact>>,
    ) -> Result<Option<EntryOf<Fact>>, EngineError> {
        let engine = self.shared.applications.engine.clone();
        while let Some(newest) = all.pop() {
            let state = engine.machine_state::<OrderedDeletion>(newest.stream).await?.unwrap_or_default();
            let Some(teardown) = state.teardown().filter(|teardown| teardown.order.is_witnessed()) else {
                return Ok(Some(newest));
            };
            let is_own = teardown.uid == self.set.metadata.uid && self.teardowns.witnessed.is_none();
            match (is_own, newest.summary.is_open()) {
                (true, true) => self.go_on_witnessing(newest.stream).await,
                (true, false) if self.is_deleting() => {
                    self.teardowns.witnessed = Some(Witnessed { id: newest.stream, running: None, state });
                }
                _ => {}
            }
        }
        Ok(None)
    }

    async fn go_on_witnessing(&mut self, id: StreamId) {
        let gone_on = async {
            let running = self.run_teardown(id, None).await?;
            if !self.is_deleting() {
                let reason = "the ApplicationSet is there, and is not being deleted".to_owned();
                running.wish(Input::Abort { reason }).await?;
                return Ok(None);
            }
            let state = running.state().await?;
            Ok::<_, Unbegun>(Some(Witnessed::of(running, state)))
        };
        match gone_on.await {
            Ok(witnessed) => self.teardowns.witnessed = witnessed,
            Err(error) => {
                tracing::warn!(set = %self.key, %error, "what becomes of its Applications is not recorded");
            }
        }
    }

    /// Its deletion is in the record before anything is done of it. Whether that is so.
    pub(super) async fn witness(&mut self) -> bool {
        let all = members::of(&self.shared, &self.set, self.generated.as_deref());
        let new = self.unrecorded(&all);
        if let Some(Witnessed { running: Some(running), .. }) = &self.teardowns.witnessed {
            let join = |member| running.tell(Input::Joined { member: Box::new(member) });
            new.into_iter().map(spec).for_each(join);
            return true;
        }
        // That there are none is recorded, too, where nothing else is about this set.
        let is_recorded = self.teardowns.witnessed.is_some() || self.own_teardown().is_some();
        if is_recorded && new.is_empty() {
            return true;
        }
        let members = new.into_iter().map(spec).collect();
        let order = witnessed(&self.set, &self.shared.options);
        match self.begin_witnessing(order, members).await {
            Ok(witnessed) => {
                tracing::info!(set = %self.key, teardown = %witnessed.id, "what becomes of its Applications is recorded");
                self.teardowns.witnessed = Some(witnessed);
                true
            }
            Err(error) => {
                let message = format!("its deletion could not be recorded: {error}");
                self.failure.get_or_insert(wrote(Reason::DeleteApplicationError, &message));
                false
            }
        }
    }

    /// The set is not told any more, which may be all that is ever seen of its deletion.
    pub(super) async fn witness_gone(&mut self) {
        if self.teardowns.witnessed.is_some() {
            return;
        }
        if !self.is_deleting() {
            match self.shared.store.is_there(&self.set).await {
                Ok(false) => {}
                // It is another's now.
                Ok(true) => return,
                Err(error) => {
                    tracing::warn!(set = %self.key, %error, "it is not known whether the ApplicationSet was deleted");
                }
            }
            self.set.metadata.deletion_timestamp = Some(self.now().into());
        }
        if !self.witness().await
            && let Some(failure) = &self.failure
        {
            tracing::error!(set = %self.key, "{}", failure.message);
        }
    }

    /// Those whose end neither record is about.
    fn unrecorded<'a>(&self, all: &'a BTreeMap<String, Arc<Application>>) -> Vec<&'a Application> {
        let is_in_order = |one: &Application| {
            let member = self.own_teardown().and_then(|last| last.members.get(&one.metadata.name));
            member.is_some_and(|member| is_it(member, one) && member.progress.is_settled())
        };
        let is_known =
            |one: &Application| self.teardowns.witnessed.as_ref().is_some_and(|all| all.knows(one));
        let all = departing(&self.set, all.values().map(Arc::as_ref), &self.shared.options).into_iter();
        all.filter(|one| !is_known(one) && !is_in_order(one)).collect()
    }

    async fn begin_witnessing(&self, order: Order, members: Vec<MemberSpec>) -> Result<Witnessed, Unbegun> {
        // Whoever has taken the set away in the store has left no name.
        let by = Asker::of(&self.set.metadata).map(|asker| asker.recorded()).unwrap_or_default();
        let request = request(full_name(&self.set), self.set.metadata.uid.clone(), by, order, members);
        let id = self.shared.applications.engine.next_id().await.map_err(Unbegun::Engine)?;
        let running = self.run_teardown(id.into(), Some(Input::Begin(Box::new(request)))).await?;
        let state = running.state().await?;
        Ok(Witnessed::of(running, state))
    }

    /// More of it is recorded.
    pub(super) async fn witnessed_moved(&mut self) {
        let Some(Witnessed { running, state, id }) = &mut self.teardowns.witnessed else { return };
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
                tracing::warn!(set = %self.key, %error, "what becomes of its Applications is not recorded any more");
                *running = None;
            }
        }
    }
}
