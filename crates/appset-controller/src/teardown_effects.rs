//! Effects of an ordered deletion: it deletes Applications in the store and observes them in the application
//! cache. An unordered deletion only observes them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_app_controller::SharedState;
use tidegate_application::AppKey;
use tidegate_application::deletion::DeletionRequester;
use tidegate_application::operation;
use tidegate_applicationset::deletion::{MemberDeletion, Orphaning};
use tidegate_applicationset::ownership::{owner_uid, owning_appset};
use tidegate_executor::{MachineEffects, MachineSender, SummaryOf};
use tidegate_lifecycle::operation::CallError;
use tidegate_lifecycle::teardown::{
    Command, Details, Input, MemberObservation, ObjectPresence, OrderedDeletion, State,
};
use tidegate_model::Timestamp;
use tidegate_model::argo::{Application, ConditionType};
use tidegate_oplog::Summary;
use tidegate_stores::appsets::{AppSetStore, Existence, WriteResult};

use super::appset_cache::AppSetCache;
use super::member_status::member_key;
use super::subscriptions::WatchedApplications;

/// Updates that Applications need before their deletion, by Application name.
#[derive(Clone, Default)]
pub struct RequiredUpdates(Arc<Mutex<PendingDeletions>>);

#[derive(Default)]
struct PendingDeletions {
    updates: BTreeMap<String, Orphaning>,
    /// Requester of the ApplicationSet's deletion.
    requester: Option<DeletionRequester>,
}

impl RequiredUpdates {
    /// Sets the updates for the Applications that may be deleted now, and the requester of the
    /// ApplicationSet's deletion.
    pub fn set<'a>(
        &self,
        deletions: impl IntoIterator<Item = &'a MemberDeletion>,
        requester: Option<DeletionRequester>,
    ) {
        let before =
            |one: &MemberDeletion| Some((one.application.metadata.name.clone(), one.orphaning.clone()?));
        let updates = deletions.into_iter().filter_map(before).collect();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = PendingDeletions { updates, requester };
    }

    /// Returns an Application with the updates required before its deletion, or `None` if it doesn't need
    /// any.
    fn required_update(&self, live: &Application, set: &str, now: Timestamp) -> Option<Application> {
        let wanted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = live.clone();
        let metadata = &mut before.metadata;
        let orphaned = wanted.updates.get(&metadata.name);
        if let Some(orphaned) = orphaned.filter(|orphaned| metadata.finalizers != orphaned.finalizers) {
            let application = &metadata.name;
            tracing::info!(
                application,
                why = orphaned.reason,
                "the Application's objects will be kept when it is deleted"
            );
            metadata.finalizers.clone_from(&orphaned.finalizers);
        }
        if let Some(requester) = wanted.requester.as_ref().filter(|_| !live.is_deleting()) {
            requester.for_member_of(set, now.into()).annotate(&mut metadata.annotations);
        }
        (before != *live).then_some(before)
    }
}

/// Dependencies of a teardown's effects.
#[derive(Clone)]
pub struct TeardownContext {
    /// State shared by all Applications.
    pub shared: Arc<SharedState>,
    pub store: Arc<dyn AppSetStore>,
    /// The ApplicationSet.
    pub set: AppKey,
    /// All ApplicationSets. A recreated ApplicationSet of the same name may have taken over Applications.
    pub appset_cache: AppSetCache,
    pub required_updates: RequiredUpdates,
    /// Callback for changes to the teardown's durable state. Must not block.
    pub on_change: Arc<dyn Fn(&State) + Send + Sync>,
}

impl TeardownContext {
    /// Returns true if the ApplicationSet with this UID still owns an Application.
    fn is_own(&self, uid: &str, application: &Application) -> bool {
        let taken_by = owner_uid(application).filter(|owner| *owner != uid);
        let is_taken = taken_by.is_some_and(|owner| {
            self.appset_cache.get(&self.set).is_some_and(|another| another.metadata.uid == owner)
        });
        owning_appset(application) == Some(self.set.name.as_str()) && !is_taken
    }
}

/// Effects of a teardown.
pub struct TeardownEffects {
    context: TeardownContext,
    /// UIDs of the Applications to delete.
    uids: Arc<Mutex<BTreeMap<AppKey, String>>>,
    watched: WatchedApplications,
}

impl TeardownEffects {
    pub fn new(context: TeardownContext) -> Self {
        Self { context, uids: Arc::default(), watched: WatchedApplications::default() }
    }
}

impl MachineEffects for TeardownEffects {
    type Machine = OrderedDeletion;

    fn summary(state: &State) -> Option<SummaryOf<OrderedDeletion>> {
        let (teardown, details) = state.teardown().zip(Details::from_state(state))?;
        let ended_at = teardown.outcome.as_ref().map(|outcome| outcome.at);
        Some(Summary::of_appset(&teardown.set, teardown.started_at, ended_at, details))
    }

    fn execute(&mut self, _: &State, command: Command, now: Timestamp, post: MachineSender<OrderedDeletion>) {
        let (parts, about, to) = (self.context.clone(), command.subject(), post.clone());
        post.spawn(async move {
            let (name, uid, found) = match command {
                Command::Delete { member, uid } => {
                    let found = delete_application(&parts, &member, &uid, now).await;
                    (member, uid, found)
                }
                Command::Read { member: name, uid } => {
                    let found = parts.store.application_existence(&member_key(&parts.set, &name), &uid).await;
                    (name, uid, found.map(to_observation).map_err(|error| error.to_string()))
                }
                // `WatchMember` is a subscription.
                Command::WatchMember { .. } => return,
            };
            let presence = found.map_err(CallError::transient);
            to.answer(about, Input::Answered { member: name, uid, presence });
        });
    }

    fn start_subscription(
        &mut self,
        state: &State,
        command: &Command,
        _: Timestamp,
        post: MachineSender<OrderedDeletion>,
    ) {
        let Command::WatchMember { member: name, uid } = command else { return };
        let key = member_key(&self.context.set, name);
        let (parts, uids, sender) = (self.context.clone(), Arc::clone(&self.uids), post.clone());
        let witnessed = state.teardown().filter(|teardown| teardown.order.is_witnessed());
        let witnessed = witnessed.map(|teardown| teardown.uid.clone());
        uids.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), uid.clone());
        let observe = move |key: &AppKey| {
            let uid = uids.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned();
            let Some(uid) = uid else { return };
            let live = parts.shared.application_cache.get(key).filter(|live| live.metadata.uid == uid);
            let observation = match (live, &witnessed) {
                (None, _) => MemberObservation::Gone,
                (Some(live), Some(set)) if !live.is_deleting() => match parts.is_own(set, &live) {
                    // The Application may still be deleted or released.
                    true => return,
                    false => MemberObservation::Released,
                },
                (Some(live), _) => MemberObservation::Exists { kept_by: describe_blocker(&live) },
            };
            sender.send_input(Input::Observed { member: key.name.clone(), uid, observation });
        };
        self.watched.watch(key, || self.context.shared.application_cache.subscribe(), &post, observe);
    }

    fn end_subscription(&mut self, _: &State, command: &Command) {
        if let Command::WatchMember { member: name, .. } = command {
            let key = member_key(&self.context.set, name);
            self.watched.unwatch(&key);
            self.uids.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
        }
    }

    fn publish_state(&mut self, state: &State) {
        (self.context.on_change)(state);
    }
}

fn to_observation(found: Existence) -> ObjectPresence {
    match found {
        Existence::Exists => ObjectPresence::Exists,
        Existence::Gone => ObjectPresence::Gone,
    }
}

/// Deletes an Application. If its objects must be kept, first removes the finalizer that deletes them.
async fn delete_application(
    parts: &TeardownContext,
    name: &str,
    uid: &str,
    now: Timestamp,
) -> Result<ObjectPresence, String> {
    let key = member_key(&parts.set, name);
    // An Application deleted by another client may be waiting for its release. It needs the required updates,
    // too.
    let is_untouched =
        |live: &Application| !live.is_deleting() || parts.shared.deletion_queue.wait_reason(live).is_some();
    let live = parts
        .shared
        .application_cache
        .get(&key)
        .filter(|live| live.metadata.uid == uid && is_untouched(live));
    if let Some(application) =
        live.and_then(|live| parts.required_updates.required_update(&live, &parts.set.name, now))
    {
        match parts.store.update(&application).await.map_err(|error| error.to_string())? {
            WriteResult::Done => {}
            WriteResult::Outdated(reason) => return Err(reason),
        }
    }
    parts.store.delete_application(&key, uid).await.map(to_observation).map_err(|error| error.to_string())
}

/// Describes what blocks an Application's deletion. The text can follow "waiting for".
fn describe_blocker(live: &Application) -> String {
    let at_work = || {
        let request = live.operation.as_ref()?;
        let state = live.status.operation_state.as_ref();
        let message = state.filter(|state| !state.phase.is_completed()).map(|state| state.message.as_str());
        let what = if operation::deletion_cascade(request).is_some() {
            "the deletion of its objects"
        } else {
            "its operation"
        };
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
    let failed = || {
        let mut conditions = live.status.conditions.iter();
        let text = &conditions.find(|condition| condition.kind == ConditionType::DeletionError)?.message;
        Some(match text.strip_prefix("deletion failed: ") {
            Some(reason) => format!("the next attempt to delete it; the previous attempt failed: {reason}"),
            None => text.clone(),
        })
    };
    failed().or_else(at_work).unwrap_or_else(finalizers)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]
mod tests;
