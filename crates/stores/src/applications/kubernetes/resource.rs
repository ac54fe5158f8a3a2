//! Applications as resources: their events, and the objects to write.

use serde_json::Value;
use tidegate_application::AppKey;
use tidegate_application::deletion::is_own_finalizer;
use tidegate_application::hook_finalizers::{self, is_hook_finalizer};
use tidegate_application::operation::{self as requests, remove_controller_infos};
use tidegate_application::refresh::{REFRESH_ANNOTATION, SKIP_RECONCILE_ANNOTATION};
use tidegate_applicationset::ownership;
use tidegate_model::Object;
use tidegate_model::argo::{self, Application, ObjectMeta, OperationRequest};
use tidegate_state::owned_shards::OwnedShards;

use super::MANAGED_LABEL;
use super::object_fields::{finalizers, operation, set_field};
use super::observed_resources::{ManagedKind, ObservedResources, OperationOrigin, Overwrite, ResourceState};
use super::status_size::{APPLICATION_LISTS, SHORTENED_CONDITION, STATUS_BYTES_MAX, shorten_status};
use crate::applications::{ExternalTermination, StoreEvent, StoredApplication};

/// Fields in `metadata` controlled by the Application's owner.
const OWNER_FIELDS: [&str; 4] = ["labels", "annotations", "finalizers", "ownerReferences"];

/// Maximum number of unreadable status fields to drop individually. Beyond that, the whole status is dropped.
const DROPPED_FIELDS_MAX: usize = 64;

/// The Application kind.
pub enum ApplicationKind {}

impl ManagedKind for ApplicationKind {
    type Event = StoreEvent;
    const KIND: &'static str = "Application";
    const NOUN: &'static str = "application";
    const REFRESH_ANNOTATION: &'static str = REFRESH_ANNOTATION;

    fn log_key(object: &Object) -> String {
        let metadata = object.pointer("/metadata").cloned().unwrap_or_default();
        match serde_json::from_value::<ObjectMeta>(metadata) {
            Ok(metadata) => ownership::log_key(&metadata),
            // Unreadable metadata names no ApplicationSet.
            Err(_) => AppKey::of_object(object).instance_name(),
        }
    }

    fn is_own_finalizer(finalizer: &str) -> bool {
        is_own_finalizer(finalizer)
    }

    fn applied_event(
        object: &Object,
        _: Option<&Object>,
        origin: OperationOrigin,
    ) -> Result<StoreEvent, String> {
        let mut stored = stored_application(object);
        match origin {
            OperationOrigin::Initial => {}
            // Other clients must not choose an operation's ID or turn an operation into a deletion.
            OperationOrigin::NewRequest => {
                stored.application.operation.iter_mut().for_each(remove_controller_infos)
            }
            // The actor already has this operation.
            OperationOrigin::Known => stored.application.operation = None,
        }
        Ok(StoreEvent::Applied(Box::new(stored)))
    }

    /// Returns true for an operation with an ID, or a deletion that has started.
    fn has_running_work(object: &Object) -> bool {
        let request = |path| {
            let request = object.pointer(path)?.clone();
            serde_json::from_value::<OperationRequest>(request).ok()
        };
        let asked = request("/operation").and_then(|asked| requests::engine_id(&asked));
        let last = || request("/status/operationState/operation");
        asked.is_some()
            || object.is_deleting() && last().is_some_and(|last| requests::deletion_cascade(&last).is_some())
    }

    /// Skips reconciliation, so that no new operation starts.
    fn finishing_event(mut event: StoreEvent) -> StoreEvent {
        if let StoreEvent::Applied(stored) = &mut event
            && !stored.application.is_deleting()
        {
            stored
                .application
                .metadata
                .annotations
                .insert(SKIP_RECONCILE_ANNOTATION.to_owned(), "true".to_owned());
        }
        event
    }

    fn overwritten_event(key: AppKey, what: Overwrite) -> Option<StoreEvent> {
        let termination = what.terminating_operation.map(|operation| {
            let operation = serde_json::from_value::<OperationRequest>(operation).ok();
            ExternalTermination { operation: operation.as_ref().and_then(requests::engine_id) }
        });
        Some(StoreEvent::Overwritten { key, termination })
    }

    fn other_replica_event(object: &Object) -> Option<StoreEvent> {
        Some(StoreEvent::OtherReplica(Box::new(stored_application(object).application)))
    }

    fn owned_shards_event(owned: OwnedShards) -> StoreEvent {
        StoreEvent::OwnedShards(owned)
    }

    fn gone_event(key: AppKey) -> StoreEvent {
        StoreEvent::Gone(key)
    }

    fn problems_event(problems: Vec<String>) -> StoreEvent {
        StoreEvent::Problems(problems)
    }

    fn settled_event() -> StoreEvent {
        StoreEvent::Settled
    }
}

impl ObservedResources<ApplicationKind> {
    /// Returns the resource with an Application's current state, or `None` if nothing changes.
    pub fn with_state(&mut self, key: &AppKey, application: &Application) -> Option<Object> {
        let state = self.resources.get_mut(key)?;
        let merged = merge_state(state, application);
        // If `application` has no operation, an operation in the resource is another client's request, which
        // isn't part of this write.
        state.operation_in_write = application.operation.as_ref().and_then(|_| operation(&merged));
        let is_news = merged != state.object;
        state.status_in_write = merged.pointer("/status").filter(|_| is_news).cloned();
        is_news.then_some(merged)
    }

    /// Returns the resource with an Application's spec and metadata, or `None` if other clients have changed
    /// it since the last event.
    pub fn with_spec(&self, key: &AppKey, application: &Application) -> Option<Object> {
        let desired = &application.metadata;
        let mut object = self.unchanged_object(key, &desired.uid, &desired.resource_version)?;
        let mut given = serde_json::to_value(application).ok()?;
        let (refresh, managed) = (
            object.annotation(REFRESH_ANNOTATION).map(str::to_owned),
            object.label(MANAGED_LABEL).map(str::to_owned),
        );
        object.fields_mut().insert("spec".to_owned(), given.get_mut("spec")?.take());
        for field in OWNER_FIELDS {
            let value = given.pointer_mut(&format!("/metadata/{field}")).map(Value::take);
            set_field(object.metadata_mut(), field, value.as_ref());
        }
        // Keep the refresh request and the label, which other clients set.
        match refresh {
            Some(refresh) => object.set_annotation(REFRESH_ANNOTATION, refresh),
            None => object.remove_annotation(REFRESH_ANNOTATION),
        }
        if let Some(managed) = managed.filter(|_| self.scope.is_label_required) {
            object.set_label(MANAGED_LABEL, managed);
        }
        Some(object)
    }

    /// Returns a new resource for this store.
    pub fn new_resource(&self, application: &Application) -> serde_json::Result<Object> {
        let mut fresh = application.clone();
        (fresh.operation, fresh.status) = (None, Default::default());
        let metadata = &mut fresh.metadata;
        metadata.namespace = AppKey::of(application).namespace;
        (metadata.creation_timestamp, metadata.deletion_timestamp) = (None, None);
        metadata.uid.clear();
        metadata.resource_version.clear();
        if self.scope.is_label_required {
            metadata.labels.insert(MANAGED_LABEL.to_owned(), "true".to_owned());
        }
        serde_json::from_value(serde_json::to_value(fresh)?)
    }
}

fn merge_state(state: &ResourceState, application: &Application) -> Object {
    let mut merged = state.object.clone();
    let metadata = &application.metadata;
    let is_answered = !metadata.annotations.contains_key(REFRESH_ANNOTATION);
    // A refresh request that hasn't reached the actor is still open.
    if is_answered && state.has_emitted_refresh(&metadata.resource_version) {
        state.remove_refresh::<ApplicationKind>(&mut merged);
    }
    if application.operation.is_some() || !state.has_new_operation() {
        set_field(merged.fields_mut(), "operation", application.operation.as_ref());
    }
    let status = Some(&application.status).filter(|status| !status.is_empty());
    set_field(merged.fields_mut(), "status", status);
    let written = merged.fields_mut().get_mut("status");
    written.into_iter().for_each(|status| shorten_status(status, STATUS_BYTES_MAX, &APPLICATION_LISTS));
    set_hook_finalizers(&mut merged, &application.metadata.finalizers);
    merged
}

/// Replaces the hook finalizers. Does nothing during a deletion, when finalizers can't be added.
fn set_hook_finalizers(object: &mut Object, desired: &[String]) {
    if object.is_deleting() {
        return;
    }
    let found = finalizers(object);
    let mut now = found.clone();
    now.retain(|one| !is_hook_finalizer(one) || desired.contains(one));
    hook_finalizers::retain_hook_finalizers(&mut now, desired);
    if now == found {
        return;
    }
    let metadata = object.metadata_mut();
    match now.is_empty() {
        true => drop(metadata.remove("finalizers")),
        false => drop(metadata.insert("finalizers".to_owned(), now.into())),
    }
}

fn stored_application(object: &Object) -> StoredApplication {
    let (mut application, problem) = parse_application(object);
    // This condition is about the stored resource, not the Application.
    application.status.conditions.retain(|one| one.kind.to_string() != SHORTENED_CONDITION);
    StoredApplication { application, problem, lost_state: None }
}

/// Removes a field from a status, or a single list entry if `field` is one. Returns true if it existed.
fn drop_field(object: &mut Object, field: &str) -> bool {
    let Some(path) = field.strip_prefix("status.") else { return false };
    let (name, below) = path.find(['.', '[']).map_or((path, ""), |at| path.split_at(at));
    let Some(Value::Object(status)) = object.fields_mut().get_mut("status") else { return false };
    let index = below.strip_prefix('[').and_then(|below| below.split(']').next()?.parse::<usize>().ok());
    if let (Some(Value::Array(entries)), Some(index)) = (status.get_mut(name), index)
        && index < entries.len()
    {
        entries.remove(index);
        return true;
    }
    status.remove(name).is_some()
}

/// Parses a resource. If it is unreadable or invalid, also returns the reason why the result may be
/// incomplete.
pub fn parse_application(object: &Object) -> (Application, Option<String>) {
    let read = |object: &Object| argo::read_resource::<Application>(object.as_value());
    let error = match read(object) {
        Ok(application) => return (application, None),
        Err(error) => error,
    };
    // Another program may have written the unreadable parts of the status, which are recomputed.
    let (mut readable, mut wrong) = (object.clone(), error.clone());
    for _ in 0..DROPPED_FIELDS_MAX {
        if !drop_field(&mut readable, &wrong.field) {
            break;
        }
        match read(&readable) {
            Ok(application) => return (application, None),
            Err(error) => wrong = error,
        }
    }
    readable.fields_mut().remove("status");
    if let Ok(application) = read(&readable) {
        return (application, None);
    }
    let metadata = object.pointer("/metadata").cloned().unwrap_or_default();
    let metadata = serde_json::from_value(metadata).unwrap_or_else(|_| ObjectMeta {
        name: object.name().to_owned(),
        namespace: object.namespace().to_owned(),
        ..ObjectMeta::default()
    });
    (Application { metadata, ..Application::default() }, Some(error.to_string()))
}
