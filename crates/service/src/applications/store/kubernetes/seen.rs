//! What was seen and written of each application, and what of that is news.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use tidegate_application::deletion::is_own_finalizer;
use tidegate_application::operation::disown;
use tidegate_application::refresh::REFRESH_ANNOTATION;
use tidegate_model::Object;
use tidegate_model::argo::{Application, ObjectMeta};

use super::shortened::{SHORTENED, STATUS_BYTES_MAX, shorten};
use super::{MANAGED_LABEL, Reach};
use crate::applications::store::{AppKey, StoreEvent, Stored};

/// What servers write into metadata by themselves.
const BY_SERVERS: [&str; 3] = ["resourceVersion", "generation", "managedFields"];

/// All applications.
pub(super) struct All {
    reach: Reach,
    seen: BTreeMap<AppKey, Seen>,
    /// The namespaces whose list has not come yet; empty for the one of all namespaces.
    pending: BTreeSet<Option<String>>,
    settled: bool,
}

/// One application.
struct Seen {
    /// As it was last read or written, without what each field's manager is.
    object: Object,
    /// The part that others write, as its actor was told.
    told: Object,
    /// The refresh that is asked for, as its actor was told.
    refresh: Option<String>,
    /// The operation, as its actor was told or has written it.
    operation: Option<Value>,
    /// The operation that is on its way there: the watch may show it before that is answered.
    writing: Option<Value>,
}

impl All {
    pub fn new(reach: Reach) -> Self {
        let pending = match reach.namespaces.is_empty() {
            true => BTreeSet::from([None]),
            false => reach.namespaces.iter().cloned().map(Some).collect(),
        };
        Self { reach, seen: BTreeMap::new(), pending, settled: false }
    }

    /// These are all there are in a namespace, or in all.
    pub fn listed(&mut self, namespace: Option<String>, objects: Vec<Object>) -> Vec<StoreEvent> {
        let listed: BTreeSet<AppKey> = objects.iter().map(key).collect();
        let is_meant = |key: &&AppKey| namespace.as_ref().is_none_or(|namespace| key.namespace == *namespace);
        let gone: Vec<AppKey> =
            self.seen.keys().filter(is_meant).filter(|key| !listed.contains(*key)).cloned().collect();
        let mut events: Vec<StoreEvent> = gone.into_iter().flat_map(|key| self.gone(key)).collect();
        events.extend(objects.into_iter().flat_map(|object| self.applied(object)));
        self.pending.remove(&namespace);
        if self.pending.is_empty() && !self.settled {
            self.settled = true;
            events.push(StoreEvent::Settled);
        }
        events
    }

    pub fn applied(&mut self, mut object: Object) -> Vec<StoreEvent> {
        let key = key(&object);
        if self.reach.only_labelled && object.label(MANAGED_LABEL) != Some("true") {
            return self.gone(key);
        }
        object.metadata_mut().remove("managedFields");
        let mut events = Vec::new();
        if let Some(seen) = self.seen.get_mut(&key) {
            if seen.object.uid() == object.uid() {
                return seen.changed(object).into_iter().collect();
            }
            // Another one of its name.
            events = self.gone(key.clone());
        }
        events.push(StoreEvent::Applied(Box::new(stored(&object))));
        let (told, refresh, operation) = (others(&object), refresh(&object), operation(&object));
        self.seen.insert(key, Seen { object, told, refresh, operation, writing: None });
        events
    }

    pub fn deleted(&mut self, object: &Object) -> Vec<StoreEvent> {
        let key = key(object);
        // It may have been made again already.
        let is_known = self.seen.get(&key).is_some_and(|seen| seen.object.uid() == object.uid());
        if is_known { self.gone(key) } else { Vec::new() }
    }

    fn gone(&mut self, key: AppKey) -> Vec<StoreEvent> {
        self.seen.remove(&key).map(|_| StoreEvent::Gone(key)).into_iter().collect()
    }

    /// The resource with what is known of it now. `None` where there is nothing to write.
    pub fn merged(&mut self, key: &AppKey, application: &Application) -> Option<Object> {
        let seen = self.seen.get_mut(key)?;
        let merged = seen.merged(application);
        // What others have asked for stays there, and is theirs.
        seen.writing = application.operation.as_ref().and_then(|_| operation(&merged));
        (merged != seen.object).then_some(merged)
    }

    /// The resource with these of our finalizers, and those that others have put there. `None` where it has them.
    pub fn with_finalizers(&self, key: &AppKey, wanted: &[String]) -> Option<Object> {
        let seen = self.seen.get(key)?;
        let found = seen.object.pointer("/metadata/finalizers").and_then(Value::as_array);
        let found: Vec<String> =
            found.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
        let mut finalizers = found.clone();
        finalizers.retain(|one| !is_own_finalizer(one) || wanted.contains(one));
        // Nobody may add one to what is being deleted.
        let new = wanted.iter().filter(|one| is_own_finalizer(one) && !found.contains(one));
        finalizers.extend(new.filter(|_| !seen.object.is_deleting()).cloned());
        if finalizers == found {
            return None;
        }
        let mut object = seen.object.clone();
        object.metadata_mut().insert("finalizers".to_owned(), finalizers.into());
        Some(object)
    }

    /// It has been written, and is so now.
    pub fn written(&mut self, key: &AppKey, application: &Application, mut object: Object) {
        object.metadata_mut().remove("managedFields");
        if let Some(seen) = self.seen.get_mut(key).filter(|seen| seen.object.uid() == object.uid()) {
            if application.operation.is_some() || seen.operation == operation(&seen.object) {
                seen.operation = operation(&object);
            }
            if refresh(&object).is_none() {
                seen.refresh = None;
            }
            seen.take(object);
        }
    }

    /// Somebody else has written it, and it is so now. What is news in it comes by the watch.
    pub fn read_anew(&mut self, key: &AppKey, mut object: Object) {
        object.metadata_mut().remove("managedFields");
        if let Some(seen) = self.seen.get_mut(key).filter(|seen| seen.object.uid() == object.uid()) {
            seen.take(object);
        }
    }
}

impl Seen {
    /// Watches may show what is older than what was written.
    fn take(&mut self, object: Object) {
        if version(&object) >= version(&self.object) {
            self.object = object;
        }
    }

    /// What is news in an object that the cluster shows.
    fn changed(&mut self, object: Object) -> Option<StoreEvent> {
        if version(&object) < version(&self.object) {
            return None;
        }
        let (told, asked) = (others(&object), operation(&object));
        if asked.is_some() && asked == self.writing {
            self.operation.clone_from(&asked);
        }
        let is_asked = asked.is_some() && asked != self.operation;
        let refresh = refresh(&object);
        let is_news = told != self.told || is_asked || refresh.is_some() && refresh != self.refresh;
        let mut stored = stored(&object);
        if is_asked {
            self.operation = asked;
            // Nobody else says which operation that is, or that it deletes.
            stored.application.operation.iter_mut().for_each(disown);
        } else {
            // Its actor knows that one better.
            stored.application.operation = None;
        }
        (self.told, self.refresh, self.object) = (told, refresh, object);
        is_news.then(|| StoreEvent::Applied(Box::new(stored)))
    }

    fn merged(&self, application: &Application) -> Object {
        let mut merged = self.object.clone();
        let is_answered = !application.metadata.annotations.contains_key(REFRESH_ANNOTATION);
        // One that has come since asks again.
        if is_answered && self.refresh == refresh(&merged) {
            merged.remove_annotation(REFRESH_ANNOTATION);
        }
        let is_others = operation(&self.object) != self.operation;
        if application.operation.is_some() || !is_others {
            set(merged.fields_mut(), "operation", application.operation.as_ref());
        }
        let status = Some(&application.status).filter(|status| !status.is_empty());
        set(merged.fields_mut(), "status", status);
        let written = merged.fields_mut().get_mut("status");
        written.into_iter().for_each(|status| shorten(status, STATUS_BYTES_MAX));
        merged
    }
}

fn set(fields: &mut Map<String, Value>, name: &str, value: Option<&impl serde::Serialize>) {
    match value.and_then(|value| serde_json::to_value(value).ok()) {
        Some(value) => drop(fields.insert(name.to_owned(), value)),
        None => drop(fields.remove(name)),
    }
}

fn key(object: &Object) -> AppKey {
    AppKey { namespace: object.namespace().to_owned(), name: object.name().to_owned() }
}

/// Versions of one object are compared as numbers, which all servers give.
fn version(object: &Object) -> u64 {
    object.resource_version().parse().unwrap_or(u64::MAX)
}

fn refresh(object: &Object) -> Option<String> {
    object.annotation(REFRESH_ANNOTATION).map(str::to_owned)
}

fn operation(object: &Object) -> Option<Value> {
    object.pointer("/operation").cloned()
}

/// What others write: everything but what is known of it, what is asked, and what servers count.
fn others(object: &Object) -> Object {
    let mut object = object.clone();
    object.fields_mut().remove("status");
    object.fields_mut().remove("operation");
    object.remove_annotation(REFRESH_ANNOTATION);
    let metadata = object.metadata_mut();
    BY_SERVERS.iter().for_each(|field| drop(metadata.remove(*field)));
    if metadata.get("annotations").and_then(Value::as_object).is_some_and(Map::is_empty) {
        metadata.remove("annotations");
    }
    object
}

fn stored(object: &Object) -> Stored {
    let read = |object: &Object| serde_json::from_value::<Application>(object.as_value().clone());
    let error = match read(object) {
        Ok(mut application) => {
            // That is about the resource, and not about the application.
            application.status.conditions.retain(|one| one.kind.to_string() != SHORTENED);
            return Stored { application, problem: None, lost: None };
        }
        Err(error) => error,
    };
    // What is known of it may be what another program wrote, and is found out anew.
    let mut without = object.clone();
    without.fields_mut().remove("status");
    if let Ok(application) = read(&without) {
        return Stored { application, problem: None, lost: None };
    }
    let metadata = object.pointer("/metadata").cloned().unwrap_or_default();
    let metadata = serde_json::from_value(metadata).unwrap_or_else(|_| ObjectMeta {
        name: object.name().to_owned(),
        namespace: object.namespace().to_owned(),
        ..ObjectMeta::default()
    });
    let application = Application { metadata, ..Application::default() };
    Stored { application, problem: Some(error.to_string()), lost: None }
}
