//! Deletions without an order of which a process has died when the set was gone already: what becomes of its Applications is
//! recorded to the end, and from the beginning where not even that was recorded.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_applicationset::ownership::{owner_uid, set_of};
use tidegate_applicationset::rollout::full_name;
use tidegate_executor::{EngineError, MachineError, Running};
use tidegate_lifecycle::teardown::{
    Fact, Input, MemberSpec, Options, Order, OrderedDeletion, Request, Teardown,
};
use tidegate_model::argo::{Application, ApplicationSet};
use tidegate_model::{StreamId, StreamKind};
use tidegate_oplog::Lookup;

use super::shared::SetShared;
use super::tearing::{Deletions, Tearing, TearingParts};
use crate::applications::store::AppKey;
use crate::error::ServiceError;

#[derive(Debug, thiserror::Error)]
enum Unrecorded {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Machine(#[from] MachineError),
    #[error(transparent)]
    Store(#[from] ServiceError),
}

/// What is asked of a request for the record of a deletion that has no order.
pub(crate) fn request(
    set: String,
    uid: String,
    by: String,
    order: Order,
    members: Vec<MemberSpec>,
) -> Request {
    let (options, kept) = (Options::default(), BTreeMap::new());
    Request { set, uid, by, order, members, kept, options, approved: None }
}

/// An Application that is to be deleted, or let go.
pub(crate) fn spec(application: &Application) -> MemberSpec {
    let metadata = &application.metadata;
    MemberSpec { name: metadata.name.clone(), uid: metadata.uid.clone(), labels: metadata.labels.clone() }
}

/// Goes on with all of them. `is_told`: whether there is a set with this UID, whose actor sees to it.
pub(crate) async fn go_on(shared: &SetShared, is_told: impl Fn(&AppKey, &str) -> bool) {
    if let Err(error) = begun(shared, &is_told).await {
        tracing::warn!(%error, "deletions of ApplicationSets that are gone are not recorded to their end");
    }
    for ((set, uid), members) in without_set(shared, &is_told) {
        if let Err(error) = begin(shared, &set, &uid, members).await {
            tracing::warn!(%set, %error, "the deletion of an ApplicationSet that is gone is not recorded");
        }
    }
}

async fn run(
    shared: &SetShared,
    id: StreamId,
    set: &AppKey,
    begin: Option<Input>,
) -> Result<Running<OrderedDeletion>, MachineError> {
    let parts = TearingParts {
        shared: Arc::clone(&shared.applications),
        store: Arc::clone(&shared.store),
        set: set.clone(),
        sets: shared.board.clone(),
        deletions: Deletions::default(),
        moved: Arc::new(|_| {}),
    };
    shared.applications.engine.run_machine(id, begin, move || Tearing::new(parts.clone())).await
}

/// A teardown that was begun, where it only records.
async fn witnessed(shared: &SetShared, id: StreamId) -> Result<Option<Teardown>, EngineError> {
    let state = shared.applications.engine.machine_state::<OrderedDeletion>(id).await?;
    let teardown = state.as_ref().and_then(|state| state.teardown()).cloned();
    Ok(teardown.filter(|teardown| teardown.order.is_witnessed()))
}

async fn begun(shared: &SetShared, is_told: impl Fn(&AppKey, &str) -> bool) -> Result<(), Unrecorded> {
    let open = Lookup::all().and_kind(StreamKind::TEARDOWN).and_open();
    for entry in shared.applications.engine.machines::<Fact>(open).await? {
        let Some(teardown) = witnessed(shared, entry.stream).await? else { continue };
        let set = AppKey::named(&teardown.set);
        if !is_told(&set, &teardown.uid) {
            run(shared, entry.stream, &set, None).await?;
        }
    }
    Ok(())
}

/// The Applications of sets that nobody tells of, by the set and its UID.
fn without_set(
    shared: &SetShared,
    is_told: impl Fn(&AppKey, &str) -> bool,
) -> BTreeMap<(AppKey, String), Vec<MemberSpec>> {
    let mut found: BTreeMap<_, Vec<MemberSpec>> = BTreeMap::new();
    for (key, application) in shared.applications.board.all() {
        let Some((name, uid)) = set_of(&application).zip(owner_uid(&application)) else { continue };
        let set = AppKey { namespace: key.namespace, name: name.to_owned() };
        if !is_told(&set, uid) {
            found.entry((set, uid.to_owned())).or_default().push(spec(&application));
        }
    }
    found
}

/// Nobody has seen the set go, or has died before that was recorded.
async fn begin(
    shared: &SetShared,
    key: &AppKey,
    uid: &str,
    members: Vec<MemberSpec>,
) -> Result<(), Unrecorded> {
    let engine = &shared.applications.engine;
    let mut set = ApplicationSet::default();
    (set.metadata.namespace, set.metadata.name) = (key.namespace.clone(), key.name.clone());
    uid.clone_into(&mut set.metadata.uid);
    let all = Lookup::of_set(full_name(&set)).and_kind(StreamKind::TEARDOWN);
    for entry in engine.machines::<Fact>(all).await? {
        // Of one that is compacted only that it was is known.
        let known = engine.machine_state::<OrderedDeletion>(entry.stream).await.ok().flatten();
        if known.as_ref().and_then(|state| state.teardown()).is_some_and(|known| known.uid == uid) {
            return Ok(());
        }
    }
    if shared.store.is_there(&set).await? {
        return Ok(());
    }
    let id = engine.next_id().await?;
    let request = request(full_name(&set), uid.to_owned(), String::new(), Order::Collected, members);
    run(shared, id.into(), key, Some(Input::Begin(Box::new(request)))).await?;
    Ok(())
}
