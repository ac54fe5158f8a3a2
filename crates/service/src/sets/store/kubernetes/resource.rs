//! ApplicationSets as resources: what is told of one, and what is written into it.

use serde_json::Value;
use tidegate_application::deletion::RESOURCES_FINALIZER;
use tidegate_applicationset::wake::REFRESH_ANNOTATION;
use tidegate_model::Object;
use tidegate_model::argo::{self, ApplicationSet};

use crate::applications::store::kubernetes::seen::{All, Asked, Served, set as set_field};
use crate::applications::store::kubernetes::shortened::{
    Lists, SHORTENED, STATUS_BYTES_MAX, is_resource_well, shorten,
};
use crate::applications::store::{AppKey, left_alone};
use crate::sets::store::{SetEvent, StoredSet};

/// What of a status may be long.
const LISTS: Lists = Lists {
    lists: &[("/applicationStatus", 5, is_member_well), ("/resources", 3, is_resource_well)],
    has_reasons: true,
    command: "tidegate appset get",
};

fn is_member_well(one: &Value) -> bool {
    one.get("status").and_then(Value::as_str) == Some("Healthy")
}

/// The kind.
pub(crate) enum Sets {}

impl Served for Sets {
    type Event = SetEvent;
    const KIND: &'static str = "ApplicationSet";
    const NOUN: &'static str = "ApplicationSet";
    const REFRESH: &'static str = REFRESH_ANNOTATION;

    fn is_own_finalizer(finalizer: &str) -> bool {
        finalizer == RESOURCES_FINALIZER
    }

    fn applied(object: &Object, good: Option<&Object>, _: Asked) -> Result<SetEvent, String> {
        let (set, problem) = match (read(object), good.map(read)) {
            (Ok(set), _) => (set, None),
            // What is wanted of it is what was there before; how it stands is what is there now.
            (Err(problem), Some(Ok(before))) => {
                let mut set = before;
                if let Ok(metadata) = serde_json::from_value(metadata(object)) {
                    set.metadata = metadata;
                }
                (set, Some(left_alone("it cannot be read", &problem)))
            }
            (Err(problem), _) => {
                return Err(format!("ApplicationSet {}: {problem}", AppKey::of_object(object)));
            }
        };
        Ok(SetEvent::Applied(Box::new(StoredSet { set, problem, lost: None })))
    }

    fn gone(key: AppKey) -> SetEvent {
        SetEvent::Gone(key)
    }

    fn problems(problems: Vec<String>) -> SetEvent {
        SetEvent::Problems(problems)
    }

    fn settled() -> SetEvent {
        SetEvent::Settled
    }
}

impl All<Sets> {
    /// The resource with the status of a set. `None` where it has that, or is another one.
    pub fn with_status(&self, key: &AppKey, set: &ApplicationSet) -> Option<Object> {
        let seen = self.object(key).filter(|object| is_of(object, set))?;
        let mut object = seen.clone();
        set_field(object.fields_mut(), "status", Some(&set.status).filter(|status| !status.is_empty()));
        let status = object.fields_mut().get_mut("status");
        status.into_iter().for_each(|status| shorten(status, STATUS_BYTES_MAX, &LISTS));
        (object != *seen).then_some(object)
    }

    /// The resource with our finalizer as a set has it, and without the refresh that is answered. `None` where it is so, or is
    /// another one.
    pub fn marked(&self, key: &AppKey, set: &ApplicationSet) -> Option<Object> {
        let seen = self.object(key).filter(|object| is_of(object, set))?;
        let finalizers = self.with_finalizers(key, &set.metadata.finalizers);
        let mut object = finalizers.unwrap_or_else(|| seen.clone());
        if !set.metadata.annotations.contains_key(REFRESH_ANNOTATION) {
            self.strike_refresh(key, &mut object);
        }
        (object != *seen).then_some(object)
    }

    /// The resource with these annotations as a set has them. `None` where it has them so, or is another one.
    pub fn annotated(&self, key: &AppKey, set: &ApplicationSet, names: &[&str]) -> Option<Object> {
        let seen = self.object(key).filter(|object| is_of(object, set))?;
        let mut object = seen.clone();
        for name in names {
            match set.metadata.annotations.get(*name) {
                Some(value) => object.set_annotation(name, value.as_str()),
                None => object.remove_annotation(name),
            }
        }
        (object != *seen).then_some(object)
    }
}

fn is_of(object: &Object, set: &ApplicationSet) -> bool {
    object.uid() == set.metadata.uid
}

fn metadata(object: &Object) -> Value {
    object.pointer("/metadata").cloned().unwrap_or_default()
}

/// Kubernetes 1.20 may give back null for a text that is empty.
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

fn read(object: &Object) -> Result<ApplicationSet, String> {
    let mut object = object.clone();
    object.fields_mut().get_mut("status").into_iter().for_each(without_nulls);
    let read = |object: &Object| argo::read::<ApplicationSet>(object.as_value());
    let error = match read(&object) {
        Ok(mut set) => {
            // That is about the resource, and not about the set.
            set.status.conditions.retain(|one| one.kind != SHORTENED);
            return Ok(set);
        }
        Err(error) => error,
    };
    // What is known of it may be what another program wrote, and is found out anew.
    object.fields_mut().remove("status");
    read(&object).map_err(|_| error.to_string())
}
