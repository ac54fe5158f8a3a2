//! Whose is an Application? Its owner reference says it, as for all of Kubernetes: only what a set owns is changed or
//! deleted by it. Each has a mark besides, which stays where the reference is lost: by that it is taken back.

use serde_json::{Value, json};
use tidegate_model::argo::{API_VERSION, Application, ApplicationSet, ObjectMeta};

/// The set that an Application is of. On one that nobody owns: the set that may take it over, or take it back.
pub const SET_ANNOTATION: &str = "tidegate.dev/application-set";
const REFERENCES: &str = "ownerReferences";
const KIND: &str = "ApplicationSet";

/// Who answers for an Application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The set.
    Set,
    /// Something else: its kind and name.
    Other(String),
    /// Nobody.
    Nobody,
}

/// Who answers for an Application that is in the namespace of the set. A set that was made again under its name is the
/// same.
pub fn owner(set: &ApplicationSet, application: &Application) -> Owner {
    let Some(controller) = controller(application) else { return Owner::Nobody };
    if names(set, controller) {
        return Owner::Set;
    }
    let text = |field| controller.get(field).and_then(Value::as_str).unwrap_or("?");
    Owner::Other(format!("{} {}", text("kind"), text("name")))
}

/// The name of the set that answers for an Application, whichever that is.
pub fn set_of(application: &Application) -> Option<&str> {
    let text = |field| controller(application)?.get(field)?.as_str();
    let is_set = group(text("apiVersion")?) == group(API_VERSION) && text("kind") == Some(KIND);
    text("name").filter(|_| is_set)
}

/// The UID of whoever answers for an Application, as that is written down there.
pub fn owner_uid(application: &Application) -> Option<&str> {
    controller(application)?.get("uid")?.as_str()
}

fn controller(application: &Application) -> Option<&Value> {
    references(&application.metadata).find(|one| one.get("controller") == Some(&Value::Bool(true)))
}

/// Whether a set may take over an Application that nobody owns.
pub(crate) fn may_adopt(set: &ApplicationSet, application: &Application) -> bool {
    application.annotation(SET_ANNOTATION) == Some(set.metadata.name.as_str())
}

/// Makes the set the owner, beside whatever else refers to it, and marks it as the set's.
pub(crate) fn claim(set: &ApplicationSet, metadata: &mut ObjectMeta) {
    mark(set, metadata);
    let mut own = json!({
        "apiVersion": API_VERSION, "kind": KIND, "name": set.metadata.name, "controller": true,
        "blockOwnerDeletion": true,
    });
    if let (false, Some(fields)) = (set.metadata.uid.is_empty(), own.as_object_mut()) {
        fields.insert("uid".to_owned(), json!(set.metadata.uid));
    }
    let mut all: Vec<Value> = references(metadata).cloned().collect();
    match all.iter_mut().find(|one| names(set, one)) {
        Some(before) => *before = own,
        None => all.push(own),
    }
    metadata.rest.insert(REFERENCES.to_owned(), Value::Array(all));
}

fn mark(set: &ApplicationSet, metadata: &mut ObjectMeta) {
    metadata.annotations.insert(SET_ANNOTATION.to_owned(), set.metadata.name.clone());
}

/// An Application that is let go, so that it outlives its set: the set is its owner no more. Another set of the same name
/// may take it over.
pub fn released(set: &ApplicationSet, application: &Application) -> Application {
    let mut free = application.clone();
    let others: Vec<Value> =
        references(&application.metadata).filter(|one| !names(set, one)).cloned().collect();
    match others.is_empty() {
        true => free.metadata.rest.remove(REFERENCES),
        false => free.metadata.rest.insert(REFERENCES.to_owned(), Value::Array(others)),
    };
    mark(set, &mut free.metadata);
    free
}

/// The Applications that are in the namespace of the set.
pub(crate) fn beside<'a>(
    set: &ApplicationSet,
    applications: &'a [Application],
) -> impl Iterator<Item = &'a Application> {
    let home = set.metadata.home().to_owned();
    applications.iter().filter(move |one| one.metadata.home() == home)
}

/// The Applications that the set owns.
pub fn members<'a>(
    set: &'a ApplicationSet,
    applications: &'a [Application],
) -> impl Iterator<Item = &'a Application> {
    beside(set, applications).filter(|one| owner(set, one) == Owner::Set)
}

fn references(metadata: &ObjectMeta) -> impl Iterator<Item = &Value> {
    metadata.rest.get(REFERENCES).and_then(Value::as_array).into_iter().flatten()
}

fn names(set: &ApplicationSet, reference: &Value) -> bool {
    let text = |field| reference.get(field).and_then(Value::as_str).unwrap_or_default();
    group(text("apiVersion")) == group(API_VERSION)
        && text("kind") == KIND
        && text("name") == set.metadata.name
}

fn group(version: &str) -> &str {
    version.split('/').next().unwrap_or_default()
}
