//! Applications as resources: what is told of one, and what is written into it.

use serde_json::Value;
use tidegate_application::deletion::is_own_finalizer;
use tidegate_application::hook_finalizers::{self, is_hook_finalizer};
use tidegate_application::operation::{self as requests, disown};
use tidegate_application::refresh::{REFRESH_ANNOTATION, SKIP_ANNOTATION};
use tidegate_model::Object;
use tidegate_model::argo::{self, Application, ObjectMeta, OperationRequest};

use super::MANAGED_LABEL;
use super::seen::{All, Asked, Overwritten, Seen, Served, finalizers, operation, set};
use super::shortened::{OF_APPLICATION, SHORTENED, STATUS_BYTES_MAX, shorten};
use crate::applications::store::{AppKey, Ended, StoreEvent, Stored};

/// What of `metadata` is written by whoever answers for an application.
const GIVEN: [&str; 4] = ["labels", "annotations", "finalizers", "ownerReferences"];

/// So much of a status may be unreadable before nothing of it counts.
const STRUCK_MAX: usize = 64;

/// The kind.
pub(crate) enum Applications {}

impl Served for Applications {
    type Event = StoreEvent;
    const KIND: &'static str = "Application";
    const NOUN: &'static str = "application";
    const REFRESH: &'static str = REFRESH_ANNOTATION;

    fn is_own_finalizer(finalizer: &str) -> bool {
        is_own_finalizer(finalizer)
    }

    fn applied(object: &Object, _: Option<&Object>, asked: Asked) -> Result<StoreEvent, String> {
        let mut stored = stored(object);
        match asked {
            Asked::AtFirst => {}
            // Nobody else says which operation that is, or that it deletes.
            Asked::Anew => stored.application.operation.iter_mut().for_each(disown),
            // Its actor knows that one better.
            Asked::Before => stored.application.operation = None,
        }
        Ok(StoreEvent::Applied(Box::new(stored)))
    }

    /// An operation that has its id, or the deletion that was begun by one.
    fn is_under_way(object: &Object) -> bool {
        let request = |path| {
            let request = object.pointer(path)?.clone();
            serde_json::from_value::<OperationRequest>(request).ok()
        };
        let asked = request("/operation").and_then(|asked| requests::id(&asked));
        let last = || request("/status/operationState/operation");
        asked.is_some()
            || object.is_deleting() && last().is_some_and(|last| requests::cascade(&last).is_some())
    }

    /// Nothing new is begun of it.
    fn ending(mut event: StoreEvent) -> StoreEvent {
        if let StoreEvent::Applied(stored) = &mut event
            && !stored.application.is_deleting()
        {
            stored.application.metadata.annotations.insert(SKIP_ANNOTATION.to_owned(), "true".to_owned());
        }
        event
    }

    fn overwritten(key: AppKey, what: Overwritten) -> Option<StoreEvent> {
        let ended = what.ended.map(|operation| {
            let operation = serde_json::from_value::<OperationRequest>(operation).ok();
            Ended { operation: operation.as_ref().and_then(requests::id) }
        });
        Some(StoreEvent::Overwritten { key, ended })
    }

    fn gone(key: AppKey) -> StoreEvent {
        StoreEvent::Gone(key)
    }

    fn problems(problems: Vec<String>) -> StoreEvent {
        StoreEvent::Problems(problems)
    }

    fn settled() -> StoreEvent {
        StoreEvent::Settled
    }
}

impl All<Applications> {
    /// The resource with what is known of it now. `None` where there is nothing to write.
    pub fn merged(&mut self, key: &AppKey, application: &Application) -> Option<Object> {
        let seen = self.seen.get_mut(key)?;
        let merged = merged(seen, application);
        // What others have asked for stays there, and is theirs.
        seen.writing = application.operation.as_ref().and_then(|_| operation(&merged));
        let is_news = merged != seen.object;
        seen.writing_status = merged.pointer("/status").filter(|_| is_news).cloned();
        is_news.then_some(merged)
    }

    /// The resource with what is given of an application, if it is still as it was told with its version. `None` where
    /// somebody has changed it since.
    pub fn updated(&self, key: &AppKey, application: &Application) -> Option<Object> {
        let seen = self.seen.get(key)?;
        let wanted = &application.metadata;
        let is_same = seen.object.uid() == wanted.uid && !wanted.resource_version.is_empty();
        if !is_same || !seen.is_as_told::<Applications>(&wanted.resource_version) {
            return None;
        }
        let mut given = serde_json::to_value(application).ok()?;
        let mut object = seen.object.clone();
        let (refresh, managed) = (
            object.annotation(REFRESH_ANNOTATION).map(str::to_owned),
            object.label(MANAGED_LABEL).map(str::to_owned),
        );
        object.fields_mut().insert("spec".to_owned(), given.get_mut("spec")?.take());
        for field in GIVEN {
            let value = given.pointer_mut(&format!("/metadata/{field}")).map(Value::take);
            set(object.metadata_mut(), field, value.as_ref());
        }
        // These are for others to write.
        match refresh {
            Some(refresh) => object.set_annotation(REFRESH_ANNOTATION, refresh),
            None => object.remove_annotation(REFRESH_ANNOTATION),
        }
        if let Some(managed) = managed.filter(|_| self.reach.only_labelled) {
            object.set_label(MANAGED_LABEL, managed);
        }
        Some(object)
    }

    /// A new resource, which is served as this store serves others.
    pub fn made(&self, application: &Application) -> serde_json::Result<Object> {
        let mut fresh = application.clone();
        (fresh.operation, fresh.status) = (None, Default::default());
        let metadata = &mut fresh.metadata;
        metadata.namespace = AppKey::of(application).namespace;
        (metadata.creation_timestamp, metadata.deletion_timestamp) = (None, None);
        metadata.uid.clear();
        metadata.resource_version.clear();
        if self.reach.only_labelled {
            metadata.labels.insert(MANAGED_LABEL.to_owned(), "true".to_owned());
        }
        serde_json::from_value(serde_json::to_value(fresh)?)
    }
}

fn merged(seen: &Seen, application: &Application) -> Object {
    let mut merged = seen.object.clone();
    let metadata = &application.metadata;
    let is_answered = !metadata.annotations.contains_key(REFRESH_ANNOTATION);
    // What was not taken in yet is not answered.
    if is_answered && seen.has_told_refresh(&metadata.resource_version) {
        seen.strike_refresh::<Applications>(&mut merged);
    }
    if application.operation.is_some() || !seen.is_asked_by_others() {
        set(merged.fields_mut(), "operation", application.operation.as_ref());
    }
    let status = Some(&application.status).filter(|status| !status.is_empty());
    set(merged.fields_mut(), "status", status);
    let written = merged.fields_mut().get_mut("status");
    written.into_iter().for_each(|status| shorten(status, STATUS_BYTES_MAX, &OF_APPLICATION));
    set_hook_finalizers(&mut merged, &application.metadata.finalizers);
    merged
}

/// Those for hooks are now these, unless it is being deleted: then nobody may add one.
fn set_hook_finalizers(object: &mut Object, wanted: &[String]) {
    if object.is_deleting() {
        return;
    }
    let found = finalizers(object);
    let mut now = found.clone();
    now.retain(|one| !is_hook_finalizer(one) || wanted.contains(one));
    hook_finalizers::keep(&mut now, wanted);
    if now == found {
        return;
    }
    let metadata = object.metadata_mut();
    match now.is_empty() {
        true => drop(metadata.remove("finalizers")),
        false => drop(metadata.insert("finalizers".to_owned(), now.into())),
    }
}

fn stored(object: &Object) -> Stored {
    let (mut application, problem) = read(object);
    // That is about the resource, and not about the application.
    application.status.conditions.retain(|one| one.kind.to_string() != SHORTENED);
    Stored { application, problem, lost: None }
}

/// Takes a field of a status out of it, or of a list that one entry. Whether it was there.
fn strike(object: &mut Object, field: &str) -> bool {
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

/// An application as its resource has it, and why that may not be what is written there: it cannot be read, or is wrong.
pub(crate) fn read(object: &Object) -> (Application, Option<String>) {
    let read = |object: &Object| argo::read::<Application>(object.as_value());
    let error = match read(object) {
        Ok(application) => return (application, None),
        Err(error) => error,
    };
    // What is known of it may be what another program wrote, and is found out anew where it cannot be read.
    let (mut readable, mut wrong) = (object.clone(), error.clone());
    for _ in 0..STRUCK_MAX {
        if !strike(&mut readable, &wrong.field) {
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
