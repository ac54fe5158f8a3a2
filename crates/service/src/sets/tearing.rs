//! The hands of an ordered deletion: Applications are deleted in the store, and awaited by what they show. Of a deletion that has
//! no order they only look on.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_application::deletion::{Asker, HELD};
use tidegate_application::operation;
use tidegate_applicationset::deletion::{Deletion, Orphaned};
use tidegate_applicationset::ownership::{owner_uid, set_of};
use tidegate_executor::{Post, SummaryOf, Work};
use tidegate_lifecycle::operation::CallError;
use tidegate_lifecycle::teardown::{Command, Details, Found, Input, OrderedDeletion, Sight, State};
use tidegate_model::Timestamp;
use tidegate_model::argo::{Application, ConditionType};

use super::board::SetBoard;
use super::standing::member;
use super::store::{self, SetStore, Written};
use super::watched::Watched;
use crate::applications::Shared;
use crate::applications::store::AppKey;

/// What is to be done before Applications are deleted, by their names.
#[derive(Clone, Default)]
pub(crate) struct Deletions(Arc<Mutex<Wanted>>);

#[derive(Default)]
struct Wanted {
    before: BTreeMap<String, Orphaned>,
    /// Who has deleted the set with which they go.
    asker: Option<Asker>,
}

impl Deletions {
    /// These are to be deleted now, as somebody has asked who deletes the set with which they go.
    pub fn set<'a>(&self, deletions: impl IntoIterator<Item = &'a Deletion>, asker: Option<Asker>) {
        let before = |one: &Deletion| Some((one.application.metadata.name.clone(), one.before.clone()?));
        let before = deletions.into_iter().filter_map(before).collect();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Wanted { before, asker };
    }

    /// The Application as it is to be before it is deleted; nothing where it is so.
    fn before(&self, live: &Application, set: &str, now: Timestamp) -> Option<Application> {
        let wanted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = live.clone();
        let metadata = &mut before.metadata;
        let orphaned = wanted.before.get(&metadata.name);
        if let Some(orphaned) = orphaned.filter(|orphaned| metadata.finalizers != orphaned.finalizers) {
            let application = &metadata.name;
            tracing::info!(application, why = orphaned.why, "its objects stay when it is deleted");
            metadata.finalizers.clone_from(&orphaned.finalizers);
        }
        if let Some(asker) = wanted.asker.as_ref().filter(|_| !live.is_deleting()) {
            asker.with_set(set, now.into()).annotate(&mut metadata.annotations);
        }
        (before != *live).then_some(before)
    }
}

/// What the hands of a teardown work with.
#[derive(Clone)]
pub(crate) struct TearingParts {
    /// What the Applications share.
    pub shared: Arc<Shared>,
    pub store: Arc<dyn SetStore>,
    /// The set.
    pub set: AppKey,
    /// All sets: one that was made again under the name of this one may have taken its Applications.
    pub sets: SetBoard,
    pub deletions: Deletions,
    /// Told whenever what is durable of the teardown has changed. It must not wait.
    pub moved: Arc<dyn Fn(&State) + Send + Sync>,
}

impl TearingParts {
    /// Whether an Application is still of the set with this UID.
    fn is_own(&self, uid: &str, application: &Application) -> bool {
        let taken_by = owner_uid(application).filter(|owner| *owner != uid);
        let is_taken = taken_by.is_some_and(|owner| {
            self.sets.get(&self.set).is_some_and(|another| another.metadata.uid == owner)
        });
        set_of(application) == Some(self.set.name.as_str()) && !is_taken
    }
}

/// The hands of a teardown.
pub(crate) struct Tearing {
    parts: TearingParts,
    /// Which Application of its name is meant.
    uids: Arc<Mutex<BTreeMap<AppKey, String>>>,
    watched: Watched,
}

impl Tearing {
    pub fn new(parts: TearingParts) -> Self {
        Self { parts, uids: Arc::default(), watched: Watched::default() }
    }
}

impl Work for Tearing {
    type Machine = OrderedDeletion;

    fn summary(state: &State) -> Option<SummaryOf<OrderedDeletion>> {
        let (teardown, details) = state.teardown().zip(Details::of(state))?;
        Some(tidegate_oplog::Summary {
            application: None,
            set: Some(teardown.set.clone()),
            started_at: teardown.started_at,
            finished_at: teardown.outcome.as_ref().map(|outcome| outcome.at),
            details,
        })
    }

    fn carry_out(&mut self, _: &State, command: Command, now: Timestamp, post: Post<OrderedDeletion>) {
        let (parts, about, to) = (self.parts.clone(), command.subject(), post.clone());
        post.spawn(async move {
            let (name, uid, found) = match command {
                Command::Delete { member, uid } => {
                    let found = delete(&parts, &member, &uid, now).await;
                    (member, uid, found)
                }
                Command::Look { member: name, uid } => {
                    let found = parts.store.look(&member(&parts.set, &name), &uid).await;
                    (name, uid, found.map(seen).map_err(|error| error.to_string()))
                }
                // It is kept up.
                Command::Watch { .. } => return,
            };
            let found = found.map_err(CallError::transient);
            to.answer(about, Input::Answered { member: name, uid, found });
        });
    }

    fn begin(&mut self, state: &State, standing: &Command, _: Timestamp, post: Post<OrderedDeletion>) {
        let Command::Watch { member: name, uid } = standing else { return };
        let key = member(&self.parts.set, name);
        let (parts, uids, tell) = (self.parts.clone(), Arc::clone(&self.uids), post.clone());
        let witnessed = state.teardown().filter(|teardown| teardown.order.is_witnessed());
        let witnessed = witnessed.map(|teardown| teardown.uid.clone());
        uids.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), uid.clone());
        let look = move |key: &AppKey| {
            let uid = uids.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned();
            let Some(uid) = uid else { return };
            let live = parts.shared.board.get(key).filter(|live| live.metadata.uid == uid);
            let sight = match (live, &witnessed) {
                (None, _) => Sight::Gone,
                (Some(live), Some(set)) if !live.is_deleting() => match parts.is_own(set, &live) {
                    // Nothing has become of it yet.
                    true => return,
                    false => Sight::Released,
                },
                (Some(live), _) => Sight::There { kept_by: kept_by(&live) },
            };
            tell.tell(Input::Sighted { member: key.name.clone(), uid, sight });
        };
        self.watched.begin(key, || self.parts.shared.board.changes(), &post, look);
    }

    fn end(&mut self, _: &State, standing: &Command) {
        if let Command::Watch { member: name, .. } = standing {
            let key = member(&self.parts.set, name);
            self.watched.end(&key);
            self.uids.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
        }
    }

    fn announce(&mut self, state: &State) {
        (self.parts.moved)(state);
    }
}

fn seen(found: store::Found) -> Found {
    match found {
        store::Found::There => Found::There,
        store::Found::Gone => Found::Gone,
    }
}

/// Deletes an Application. One whose objects are to stay has no finalizer that deletes them by then.
async fn delete(parts: &TearingParts, name: &str, uid: &str, now: Timestamp) -> Result<Found, String> {
    let key = member(&parts.set, name);
    // One that others have deleted waits for its turn, and what is done before is done all the same.
    let is_untouched = |live: &Application| !live.is_deleting() || parts.shared.turns.awaited(live).is_some();
    let live = parts.shared.board.get(&key).filter(|live| live.metadata.uid == uid && is_untouched(live));
    if let Some(application) = live.and_then(|live| parts.deletions.before(&live, &parts.set.name, now)) {
        match parts.store.update(&application).await.map_err(|error| error.to_string())? {
            Written::Done => {}
            Written::Outdated(why) => return Err(why),
        }
    }
    parts.store.delete_application(&key, uid).await.map(seen).map_err(|error| error.to_string())
}

/// What keeps an Application that is to go, in words that follow "waits for".
fn kept_by(live: &Application) -> String {
    let said = |kind: &ConditionType| {
        let found = live.status.conditions.iter().find(|condition| condition.kind == *kind);
        found.map(|condition| condition.message.clone())
    };
    let at_work = || {
        let asked = live.operation.as_ref()?;
        let state = live.status.operation_state.as_ref();
        let message = state.filter(|state| !state.phase.is_completed()).map(|state| state.message.as_str());
        let what =
            if operation::cascade(asked).is_some() { "the deletion of its objects" } else { "its operation" };
        Some(match message.filter(|message| !message.is_empty()) {
            Some(message) => format!("{what}: {message}"),
            None => what.to_owned(),
        })
    };
    let finalizers = || match live.metadata.finalizers.as_slice() {
        [] => String::new(),
        [one] => format!("its finalizer {one}"),
        all => format!("its finalizers {}", all.join(", ")),
    };
    let failed = |words: String| match words.strip_prefix("deleting it has failed: ") {
        Some(why) => format!("its deletion, which has failed: {why}"),
        None => words,
    };
    said(&ConditionType::DeletionError)
        .map(failed)
        .or_else(at_work)
        .or_else(|| said(&ConditionType::Other(HELD.to_owned())))
        .unwrap_or_else(finalizers)
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]
mod tests;
