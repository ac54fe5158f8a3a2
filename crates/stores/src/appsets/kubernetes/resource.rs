//! Conversion of ApplicationSets from and to resources.

use serde_json::Value;
use tidegate_application::AppKey;
use tidegate_application::deletion::RESOURCES_FINALIZER;
use tidegate_applicationset::triggers::REFRESH_ANNOTATION;
use tidegate_model::Object;
use tidegate_model::argo::{self, ApplicationSet};
use tidegate_state::owned_shards::OwnedShards;

use crate::applications::kubernetes::object_fields::set_field;
use crate::applications::kubernetes::observed_resources::{ManagedKind, ObservedResources, OperationOrigin};
use crate::applications::kubernetes::status_size::{
    LongLists, SHORTENED_CONDITION, STATUS_BYTES_MAX, is_resource_healthy, shorten_status,
};
use crate::applications::unreconciled_message;
use crate::appsets::{AppSetEvent, StoredAppSet};

/// Status fields that may be long.
const LONG_STATUS_FIELDS: LongLists = LongLists {
    lists: &[("/applicationStatus", 5, is_member_healthy), ("/resources", 3, is_resource_healthy)],
    has_reasons: true,
    command: "tidegate appset get",
};

fn is_member_healthy(one: &Value) -> bool {
    one.get("status").and_then(Value::as_str) == Some("Healthy")
}

/// The kind `ApplicationSet`.
pub enum ApplicationSets {}

impl ManagedKind for ApplicationSets {
    type Event = AppSetEvent;
    const KIND: &'static str = "ApplicationSet";
    const NOUN: &'static str = "ApplicationSet";
    const REFRESH_ANNOTATION: &'static str = REFRESH_ANNOTATION;

    fn log_key(object: &Object) -> String {
        AppKey::of_object(object).qualified_name()
    }

    fn is_own_finalizer(finalizer: &str) -> bool {
        finalizer == RESOURCES_FINALIZER
    }

    fn applied_event(
        object: &Object,
        good: Option<&Object>,
        _: OperationOrigin,
    ) -> Result<AppSetEvent, String> {
        let (appset, problem) = match (parse_appset(object), good.map(parse_appset)) {
            (Ok(set), _) => (set, None),
            // Keep the previous desired state, with the current metadata and status.
            (Err(problem), Some(Ok(before))) => {
                let mut set = before;
                if let Ok(metadata) = serde_json::from_value(metadata(object)) {
                    set.metadata = metadata;
                }
                (set, Some(unreconciled_message("it is invalid", &problem)))
            }
            (Err(problem), _) => {
                return Err(format!("ApplicationSet {}: {problem}", AppKey::of_object(object)));
            }
        };
        Ok(AppSetEvent::Applied(Box::new(StoredAppSet { appset, problem, lost: None })))
    }

    fn other_replica_event(object: &Object) -> Option<AppSetEvent> {
        Some(AppSetEvent::OtherReplica(Box::new(parse_appset(object).ok()?)))
    }

    fn owned_shards_event(owned: OwnedShards) -> AppSetEvent {
        AppSetEvent::OwnedShards(owned)
    }

    fn gone_event(key: AppKey) -> AppSetEvent {
        AppSetEvent::Gone(key)
    }

    fn problems_event(problems: Vec<String>) -> AppSetEvent {
        AppSetEvent::Problems(problems)
    }

    fn settled_event() -> AppSetEvent {
        AppSetEvent::Settled
    }
}

impl ObservedResources<ApplicationSets> {
    /// Returns the resource with the status of `set`, or `None` if the status hasn't changed or the resource
    /// is a different ApplicationSet.
    pub fn with_status(&self, key: &AppKey, set: &ApplicationSet) -> Option<Object> {
        let current = self.object(key).filter(|object| is_same_appset(object, set))?;
        let mut object = current.clone();
        set_field(object.fields_mut(), "status", Some(&set.status).filter(|status| !status.is_empty()));
        let status = object.fields_mut().get_mut("status");
        status.into_iter().for_each(|status| shorten_status(status, STATUS_BYTES_MAX, &LONG_STATUS_FIELDS));
        (object != *current).then_some(object)
    }

    /// Returns the resource with the engine's finalizer as in `set`, without the annotation of the completed
    /// refresh. Returns `None` if nothing changes or the resource is a different ApplicationSet.
    pub fn with_finalizer(&self, key: &AppKey, set: &ApplicationSet) -> Option<Object> {
        let current = self.object(key).filter(|object| is_same_appset(object, set))?;
        let finalizers = self.with_finalizers(key, &set.metadata.finalizers);
        let mut object = finalizers.unwrap_or_else(|| current.clone());
        if !set.metadata.annotations.contains_key(REFRESH_ANNOTATION) {
            self.remove_refresh(key, &mut object);
        }
        (object != *current).then_some(object)
    }

    /// Returns the resource with the annotations in `names` as in `set`. Returns `None` if nothing changes or
    /// the resource is a different ApplicationSet.
    pub fn with_annotations(&self, key: &AppKey, set: &ApplicationSet, names: &[&str]) -> Option<Object> {
        let current = self.object(key).filter(|object| is_same_appset(object, set))?;
        let mut object = current.clone();
        for name in names {
            match set.metadata.annotations.get(*name) {
                Some(value) => object.set_annotation(name, value.as_str()),
                None => object.remove_annotation(name),
            }
        }
        (object != *current).then_some(object)
    }
}

fn is_same_appset(object: &Object, set: &ApplicationSet) -> bool {
    object.uid() == set.metadata.uid
}

fn metadata(object: &Object) -> Value {
    object.pointer("/metadata").cloned().unwrap_or_default()
}

/// Removes nulls. Kubernetes 1.20 may return them instead of empty strings.
fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(without_nulls);
        }
        Value::Array(entries) => entries.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

fn parse_appset(object: &Object) -> Result<ApplicationSet, String> {
    let mut object = object.clone();
    object.fields_mut().get_mut("status").into_iter().for_each(without_nulls);
    let read = |object: &Object| argo::read_resource::<ApplicationSet>(object.as_value());
    let error = match read(&object) {
        Ok(mut set) => {
            // This condition is about the resource's status, not the ApplicationSet.
            set.status.conditions.retain(|one| one.kind != SHORTENED_CONDITION);
            return Ok(set);
        }
        Err(error) => error,
    };
    // Another program may have written an invalid status, which is recomputed from scratch.
    object.fields_mut().remove("status");
    read(&object).map_err(|_| error.to_string())
}
