//! Unordered deletions that a crash interrupted after the ApplicationSet was gone. Completes the record of
//! what happens to the Applications, or creates a missing one.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_application::AppKey;
use tidegate_applicationset::ownership::{owner_uid, owning_appset};
use tidegate_applicationset::rollout::qualified_name;
use tidegate_applicationset::teardown_steps::member_spec;
use tidegate_executor::{EngineError, MachineError, RunningMachine};
use tidegate_lifecycle::teardown::{
    Event, Input, MemberSpec, Options, Order, OrderedDeletion, Request, Teardown,
};
use tidegate_model::argo::ApplicationSet;
use tidegate_model::{StreamId, StreamKind};
use tidegate_oplog::Lookup;
use tidegate_state::error::ServiceError;

use super::shared::AppSetShared;
use super::teardown_effects::{RequiredUpdates, TeardownContext, TeardownEffects};

#[derive(Debug, thiserror::Error)]
enum RecordError {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Machine(#[from] MachineError),
    #[error(transparent)]
    Store(#[from] ServiceError),
}

/// Builds the request that records an unordered deletion.
pub fn deletion_request(
    set: String,
    uid: String,
    by: String,
    order: Order,
    members: Vec<MemberSpec>,
) -> Request {
    let (options, kept_members) = (Options::default(), BTreeMap::new());
    Request { set, uid, by, order, members, kept_members, options, approved: None }
}

/// Resumes all orphaned deletions, except those for which `must_skip` returns true: the ApplicationSet with that UID
/// still exists, so its actor resumes the deletion, or another replica does.
pub async fn resume_all(shared: &AppSetShared, must_skip: impl Fn(&AppKey, &str) -> bool) {
    if let Err(error) = record_unrecorded(shared, &must_skip).await {
        tracing::warn!(%error, "failed to finish recording the deletions of removed ApplicationSets");
    }
    for ((set, uid), members) in applications_without_appset(shared, &must_skip) {
        if let Err(error) = start_record(shared, &set, &uid, members).await {
            tracing::warn!(%set, %error, "failed to record the deletion of a removed ApplicationSet");
        }
    }
}

async fn run_deletion(
    shared: &AppSetShared,
    id: StreamId,
    set: &AppKey,
    begin: Option<Input>,
) -> Result<RunningMachine<OrderedDeletion>, MachineError> {
    let parts = TeardownContext {
        shared: Arc::clone(&shared.applications),
        store: Arc::clone(&shared.store),
        set: set.clone(),
        appset_cache: shared.cache.clone(),
        required_updates: RequiredUpdates::default(),
        on_change: Arc::new(|_| {}),
    };
    shared.applications.engine.run_machine(id, begin, move || TeardownEffects::new(parts.clone())).await
}

/// Returns a teardown's state if the teardown only keeps a record.
async fn read_unordered(shared: &AppSetShared, id: StreamId) -> Result<Option<Teardown>, EngineError> {
    let state = shared.applications.engine.machine_state::<OrderedDeletion>(id).await?;
    let teardown = state.as_ref().and_then(|state| state.teardown()).cloned();
    Ok(teardown.filter(|teardown| teardown.order.is_witnessed()))
}

async fn record_unrecorded(
    shared: &AppSetShared,
    must_skip: impl Fn(&AppKey, &str) -> bool,
) -> Result<(), RecordError> {
    let open = Lookup::all().and_kind(StreamKind::TEARDOWN).and_open();
    for entry in shared.applications.engine.list_machines::<Event>(open).await? {
        let is_other = |set: &String| !shared.is_managed(&AppKey::parse(set));
        if entry.summary.set.as_ref().is_some_and(is_other) {
            continue;
        }
        let Some(teardown) = read_unordered(shared, entry.stream).await? else { continue };
        let set = AppKey::parse(&teardown.set);
        if !must_skip(&set, &teardown.uid) {
            run_deletion(shared, entry.stream, &set, None).await?;
        }
    }
    Ok(())
}

/// Returns the Applications of deleted ApplicationSets, by ApplicationSet and UID.
fn applications_without_appset(
    shared: &AppSetShared,
    must_skip: impl Fn(&AppKey, &str) -> bool,
) -> BTreeMap<(AppKey, String), Vec<MemberSpec>> {
    let mut found: BTreeMap<_, Vec<MemberSpec>> = BTreeMap::new();
    for (key, application) in shared.applications.application_cache.all() {
        let Some((name, uid)) = owning_appset(&application).zip(owner_uid(&application)) else { continue };
        let set = AppKey { namespace: key.namespace, name: name.to_owned() };
        if !must_skip(&set, uid) {
            found.entry((set, uid.to_owned())).or_default().push(member_spec(&application));
        }
    }
    found
}

/// Starts the record of a deletion that no process noticed.
async fn start_record(
    shared: &AppSetShared,
    key: &AppKey,
    uid: &str,
    members: Vec<MemberSpec>,
) -> Result<(), RecordError> {
    let engine = &shared.applications.engine;
    let mut set = ApplicationSet::default();
    (set.metadata.namespace, set.metadata.name) = (key.namespace.clone(), key.name.clone());
    uid.clone_into(&mut set.metadata.uid);
    let all = Lookup::of_appset(qualified_name(&set)).and_kind(StreamKind::TEARDOWN);
    for entry in engine.list_machines::<Event>(all).await? {
        // The log shows that a compacted machine existed, but its state is gone.
        let known = engine.machine_state::<OrderedDeletion>(entry.stream).await.ok().flatten();
        if known.as_ref().and_then(|state| state.teardown()).is_some_and(|known| known.uid == uid) {
            return Ok(());
        }
    }
    if shared.store.exists(&set).await? {
        return Ok(());
    }
    let id = engine.next_id().await?;
    let request =
        deletion_request(qualified_name(&set), uid.to_owned(), String::new(), Order::Collected, members);
    run_deletion(shared, id.into(), key, Some(Input::Begin(Box::new(request)))).await?;
    Ok(())
}
