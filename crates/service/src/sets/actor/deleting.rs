//! The end of Applications: of those that are not generated any more, in their order; and of all, when the set goes.

use std::collections::BTreeMap;
use std::sync::Arc;

use ractor::{ActorProcessingErr, ActorRef};
use tidegate_application::deletion::Asker;
use tidegate_applicationset::changes::Changes;
use tidegate_applicationset::deletion::{self, Deletion, Next, deleting, outliving};
use tidegate_applicationset::guard::{DELETIONS_APPROVED_ANNOTATION, Permit};
use tidegate_applicationset::ownership::{Owner, owner};
use tidegate_applicationset::rollout::{BY, full_name};
use tidegate_applicationset::status::Reason;
use tidegate_applicationset::wake::Wake;
use tidegate_executor::{MachineError, Running};
use tidegate_lifecycle::fleet::{Said, Scope};
use tidegate_lifecycle::teardown::{
    Approval, End, Fact, Input, Member, MemberSpec, Options, Order, OrderedDeletion, Progress, Request,
    State, Teardown, Wish,
};
use tidegate_model::argo::Application;
use tidegate_model::{StreamId, StreamKind, Timestamp};
use tidegate_oplog::Lookup;

use super::milestones::Told;
use super::witnessing::Witnessed;
use super::{AGAIN_AFTER, SetState, Unbegun};
use crate::sets::left::spec;
use crate::sets::messages::SetMessage;
use crate::sets::standing::member;
use crate::sets::tearing::{Deletions, Tearing, TearingParts};
use crate::sets::world::LiveWorld;
use crate::sets::writing::{self, Writes};
use crate::sets::{members, wrote};

/// The teardowns of a set.
#[derive(Default)]
pub(super) struct Teardowns {
    /// The one that is at work.
    pub running: Option<Running<OrderedDeletion>>,
    /// The newest one, and how it stands, at work or over.
    pub id: Option<StreamId>,
    pub last: Option<State>,
    /// What was told of it.
    pub told: Told,
    /// What is to be done before Applications are deleted.
    pub deletions: Deletions,
    /// The record of the deletion of the set, where that has no order.
    pub witnessed: Option<Witnessed>,
}

impl SetState {
    /// Goes on with the teardown that the log has of it.
    pub(super) async fn recall_teardown(&mut self) -> Result<(), ActorProcessingErr> {
        let engine = self.shared.applications.engine.clone();
        let lookup = Lookup::of_set(full_name(&self.set)).and_kind(StreamKind::TEARDOWN);
        let mut all = engine.machines::<Fact>(lookup).await?;
        let Some(newest) = self.recall_witnessed(&mut all).await? else { return Ok(()) };
        self.teardowns.id = Some(newest.stream);
        if newest.summary.is_open() {
            // What is to be done before a deletion is known before the first of them goes on.
            let known = self.shared.applications.as_ref();
            let all = self.members.values().filter(|one| owner(&self.set, one) == Owner::Set);
            let all: Vec<_> = all.map(|one| Deletion::of(&self.set, one, known)).collect();
            self.teardowns.deletions.set(&all, Asker::of(&self.set.metadata));
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
    ) -> Result<Running<OrderedDeletion>, MachineError> {
        let engine = &self.shared.applications.engine;
        let tell = self.teller(|| SetMessage::TeardownMoved);
        let parts = TearingParts {
            shared: Arc::clone(&self.shared.applications),
            store: Arc::clone(&self.shared.store),
            set: self.key.clone(),
            sets: self.shared.board.clone(),
            deletions: self.teardowns.deletions.clone(),
            moved: Arc::new(move |_| tell()),
        };
        let running = engine.run_machine(id, begin, move || Tearing::new(parts.clone())).await?;
        self.hear_the_end(running.clone(), || SetMessage::TeardownMoved);
        Ok(running)
    }

    /// These are to be deleted in this order: by the teardown that is at work, or by a new one. One that a person has ended,
    /// or that was too late, is not begun again before somebody asks for it.
    pub(super) async fn tear_down(
        &mut self,
        order: Order,
        (deletions, permit): (Vec<Deletion>, Option<Permit>),
        why: &str,
    ) {
        if self.recall_at.is_some() {
            return;
        }
        let approved = permit.map(|permit| approval(permit, self.now()));
        let asker = Asker::of(&self.set.metadata);
        self.teardowns.deletions.set(&deletions, asker.clone());
        let mut specs: Vec<MemberSpec> = deletions.iter().map(|one| spec(&one.application)).collect();
        if let Some(running) = &self.teardowns.running {
            let known = self.teardowns.last.as_ref().and_then(State::teardown);
            let is_new = |one: &MemberSpec| {
                known.is_none_or(|known| known.members.get(&one.name).is_none_or(|old| old.uid != one.uid))
            };
            specs.retain(is_new);
            if !specs.is_empty() {
                approved.into_iter().for_each(|approved| running.tell(Input::Approved(approved)));
            }
            specs.into_iter().for_each(|member| running.tell(Input::Joined { member: Box::new(member) }));
            return;
        }
        let kept: BTreeMap<String, Said> = match self.asked {
            // All that has ended is begun again.
            Some(_) => BTreeMap::new(),
            None => specs
                .iter()
                .filter_map(|one| Some((one.name.clone(), self.kept_by(&one.name, &one.uid)?)))
                .collect(),
        };
        if kept.len() == specs.len() {
            return;
        }
        let by = match (&self.asked, &asker) {
            (Some(asked), _) => asked.recorded(),
            (None, Some(asker)) => asker.recorded(),
            // Whoever has deleted the set in the store has left no name.
            (None, None) if self.is_deleting() => String::new(),
            (None, None) => BY.to_owned(),
        };
        let request = Request {
            set: full_name(&self.set),
            uid: self.set.metadata.uid.clone(),
            by,
            order,
            members: specs,
            kept,
            options: Options::default(),
            approved,
        };
        let begun = async {
            let id = self.shared.applications.engine.next_id().await.map_err(Unbegun::Engine)?;
            let begin = Some(Input::Begin(Box::new(request)));
            let running = self.run_teardown(id.into(), begin).await?;
            let state = running.state().await?;
            Ok::<_, Unbegun>((running, state))
        };
        match begun.await {
            Ok((running, state)) => {
                tracing::info!(set = %self.key, teardown = %running.id(), why, "Applications are deleted in order");
                self.teardowns.id = Some(running.id());
                (self.teardowns.running, self.teardowns.last) = (Some(running), Some(state));
                self.end_retry().await;
                self.tell_teardown(false);
            }
            Err(error) => {
                self.doubt(&error);
                let message = format!("the ordered deletion could not be begun: {error}");
                self.failure.get_or_insert(wrote(Reason::DeleteApplicationError, &message));
            }
        }
    }

    /// Whether the last teardown has left an Application of this name and UID.
    pub(super) fn is_left_behind(&self, name: &str, uid: &str) -> bool {
        self.kept_by(name, uid).is_some()
    }

    /// Who has kept an Application from the last teardown, and why: a person has skipped it, or ended all before. Those that it has
    /// kept from one before are among its members.
    fn kept_by(&self, name: &str, uid: &str) -> Option<Said> {
        let last = self.own_teardown()?;
        let member = last.members.get(name).filter(|member| member.uid == uid)?;
        let ended = || {
            let outcome = last.outcome.as_ref().filter(|outcome| outcome.end != End::Completed)?;
            let by_itself = || {
                let by = "the deletion before".to_owned();
                Said { by, why: outcome.message.clone(), at: outcome.at }
            };
            Some(last.terminated.clone().unwrap_or_else(by_itself))
        };
        skipped_by(member).cloned().or_else(ended)
    }

    /// The newest teardown, if it is one of this very set.
    pub(super) fn own_teardown(&self) -> Option<&Teardown> {
        let last = self.teardowns.last.as_ref().and_then(State::teardown);
        last.filter(|last| last.uid == self.set.metadata.uid)
    }

    /// Applications that are generated again, and were to be deleted, are kept, if their turn has not come.
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
            let wish = Wish::Skip(Scope::Member(name.clone()));
            let why = "it is generated again".to_owned();
            if let Err(error) = running.wish(Input::Wish { wish, by: BY.to_owned(), why }).await {
                tracing::info!(set = %self.key, application = name, %error, "it is deleted though it is generated again");
            }
        }
    }

    /// It stands in another way.
    pub(super) async fn teardown_moved(&mut self) {
        self.witnessed_moved().await;
        let Some(running) = &self.teardowns.running else { return };
        match running.state().await {
            Ok(state) => {
                if state.is_finished() {
                    self.teardowns.running = None;
                    self.wake = self.wake.max(Wake::Status);
                }
                self.teardowns.last = Some(state);
                self.tell_teardown(false);
            }
            Err(error) => {
                tracing::warn!(set = %self.key, %error, "the ordered deletion could not go on");
                self.teardowns.running = None;
                self.recall_later();
            }
        }
    }

    /// What is due for a set that is being deleted.
    pub(super) async fn delete(&mut self, myself: &ActorRef<SetMessage>) {
        self.give_up_look();
        if self.rollouts.running.is_some() {
            return self.end_rollout("the ApplicationSet is being deleted").await;
        }
        self.failure = None;
        let now = self.now();
        let (skipped, existing) = self.without_skipped();
        // What a person has kept from being deleted outlives the set.
        let turns = &self.shared.applications.turns;
        let stays = |one: &&Application| !one.is_deleting() || turns.awaited(one).is_some();
        let free: Vec<_> = skipped.iter().filter(stays).collect();
        if self.teardowns.running.is_none() && !free.is_empty() {
            let update = free.into_iter().map(|one| outliving(&self.set, one)).collect();
            let writes = writing::write(&self.shared, &Changes { update, ..Changes::default() }, &[]).await;
            self.written(myself, writes);
            return;
        }
        let known = self.shared.applications.as_ref();
        match deleting(&self.set, &existing, known, &self.shared.options) {
            Next::Release(free) => {
                if !self.witness().await {
                    return self.set_alarm(myself, now + AGAIN_AFTER);
                }
                let changes = Changes { update: free, ..Changes::default() };
                let writes = writing::write(&self.shared, &changes, &[]).await;
                self.written(myself, writes);
            }
            Next::TearDown { order, members } => {
                self.tear_down(order, (members, None), "the ApplicationSet is being deleted").await;
                if self.teardowns.running.is_none() && self.failure.is_none() {
                    let why =
                        self.cut_short().unwrap_or_else(|| "its ordered deletion was not begun".to_owned());
                    self.failure = Some(wrote(Reason::DeleteApplicationError, &why));
                }
            }
            // That it is over is recorded, and told, before the set goes.
            Next::Finish { .. } if self.teardown_ends() => {}
            Next::Finish { .. } if !self.witness().await => {}
            Next::Finish { members } => self.finish(myself, &existing, members).await,
            Next::Stay(invalid) => {
                self.failure = Some(wrote(Reason::DeleteApplicationError, &invalid.to_string()));
            }
        }
        if self.failure.is_some() {
            self.set_alarm(myself, now + AGAIN_AFTER);
        }
    }

    /// Whether the ordered deletion that is at work ends by itself: all that it awaits is gone, and nobody has paused it.
    fn teardown_ends(&self) -> bool {
        let last = self.teardowns.last.as_ref().and_then(State::teardown);
        let Some(teardown) = last.filter(|_| self.teardowns.running.is_some()) else { return false };
        let board = &self.shared.applications.board;
        let is_there = |name: &str, uid: &str| {
            board.get(&member(&self.key, name)).is_some_and(|live| live.metadata.uid == uid)
        };
        let mut open = teardown.members.iter().filter(|(_, member)| !member.progress.is_settled());
        teardown.paused.is_none() && open.all(|(name, member)| !is_there(name, &member.uid))
    }

    /// The Applications that a person does not await, and the others.
    pub(super) fn without_skipped(&self) -> (Vec<Application>, Vec<Application>) {
        let all = members::existing(&self.shared, &self.set, None);
        let is_skipped = |one: &Application| {
            let old = self.own_teardown().and_then(|last| last.members.get(&one.metadata.name));
            old.is_some_and(|old| old.uid == one.metadata.uid && skipped_by(old).is_some())
        };
        all.into_iter().partition(is_skipped)
    }

    /// All that is left goes, and then the set.
    async fn finish(
        &mut self,
        myself: &ActorRef<SetMessage>,
        existing: &[Application],
        members: Vec<Deletion>,
    ) {
        if self.shared.store.collects_garbage() {
            // Kubernetes deletes them when their set is gone; what is to be done before is done now.
            let update = members.iter().filter_map(orphaned).collect();
            let writes = writing::write(&self.shared, &Changes { update, ..Changes::default() }, &[]).await;
            if self.written(myself, writes) {
                return;
            }
        } else {
            let writes = writing::write(&self.shared, &Changes::default(), &members).await;
            self.written(myself, writes);
            let is_left = existing.iter().any(|one| owner(&self.set, one) == Owner::Set);
            if is_left {
                return;
            }
        }
        self.release().await;
    }

    /// The set itself goes.
    async fn release(&mut self) {
        let released = match deletion::finished(&self.set) {
            Some(finalizers) => {
                let mut set = self.set.clone();
                set.metadata.finalizers = finalizers;
                self.shared.store.mark(&set).await.map(|()| self.set.metadata = set.metadata)
            }
            None => Ok(()),
        };
        let collects = self.shared.store.collects_garbage();
        let released = match released {
            Ok(()) if !collects => self.shared.store.forget(&self.key).await,
            other => other,
        };
        match released {
            Ok(()) => self.is_released = self.set.metadata.finalizers.is_empty() || !collects,
            Err(error) => self.failure = Some(wrote(Reason::RefreshApplicationError, &error.to_string())),
        }
    }

    /// What was written; whether it is to be looked at again before anything else.
    fn written(&mut self, myself: &ActorRef<SetMessage>, writes: Writes) -> bool {
        let Writes { done, outdated, failed, .. } = writes;
        self.failure = failed.into_values().next_back();
        let again = done || outdated || self.failure.is_some();
        if again {
            let at = self.now() + AGAIN_AFTER;
            self.set_alarm(myself, at);
        }
        again
    }

    /// The set is not written down any more: what is at work for it ends.
    pub(super) async fn gone(&mut self) {
        self.is_released = true;
        self.end_calling();
        self.give_up_look();
        if self.recall_at.take().is_some() {
            drop((self.recall_rollout().await, self.recall_teardown().await));
        }
        self.end_rollout("the ApplicationSet is gone").await;
        if self.teardowns.running.is_none() {
            self.witness_gone().await;
        }
        if let Some(running) = &self.teardowns.running {
            let wish = Input::Wish {
                wish: Wish::Terminate,
                by: BY.to_owned(),
                why: "the ApplicationSet is gone".to_owned(),
            };
            drop(running.wish(wish).await);
            running.over().await;
            self.teardown_moved().await;
        }
        if let Some(running) = &self.rollouts.running {
            running.over().await;
            self.rollout_moved().await;
        }
        LiveWorld::forget(&self.shared.applications, self.key.clone());
    }
}

/// The person who has said that it is not awaited. That it was generated again is said by us, and counts for that deletion alone.
fn skipped_by(member: &Member) -> Option<&Said> {
    match &member.progress {
        Progress::Left(said) if said.by != BY => Some(said),
        _ => None,
    }
}

/// Who has let deletions be done. Who has written the annotation by hand nobody knows.
fn approval(permit: Permit, now: Timestamp) -> Approval {
    let by_hand = || Said {
        by: format!("the annotation {DELETIONS_APPROVED_ANNOTATION}"),
        why: String::new(),
        at: now,
    };
    let said = permit.given.map(|given| Said { by: given.by, why: given.reason, at: given.at.moment() });
    Approval { token: permit.token, said: said.unwrap_or_else(by_hand) }
}

/// An Application with the finalizers that let its objects stay, where it has others.
fn orphaned(deletion: &Deletion) -> Option<Application> {
    let mut application = deletion.application.clone();
    application.metadata.finalizers.clone_from(&deletion.before.as_ref()?.finalizers);
    Some(application)
}
