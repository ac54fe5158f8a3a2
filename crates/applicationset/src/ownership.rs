//! Ownership of Applications. As elsewhere in Kubernetes, the owner reference decides: an ApplicationSet
//! changes and deletes only its own Applications. An annotation also names the ApplicationSet, so it can
//! adopt Applications that lost the reference.

use serde_json::{Value, json};
use tidegate_application::AppKey;
use tidegate_model::argo::{API_VERSION, Application, ApplicationSet, ObjectMeta};

/// Annotation with the name of an Application's ApplicationSet, which may adopt the Application if it has no
/// owner.
pub const APPSET_ANNOTATION: &str = "tidegate.dev/application-set";
const OWNER_REFERENCES: &str = "ownerReferences";
const KIND: &str = "ApplicationSet";

/// Owner of an Application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The ApplicationSet itself.
    AppSet,
    /// Another object, identified by kind and name.
    Other(String),
    /// The Application has no owner.
    Unowned,
}

/// Returns the owner of an Application in the ApplicationSet's namespace. A recreated ApplicationSet of the
/// same name counts as the same owner.
pub fn owner_of(set: &ApplicationSet, application: &Application) -> Owner {
    let Some(controller) = controller_reference(&application.metadata) else { return Owner::Unowned };
    if refers_to(set, controller) {
        return Owner::AppSet;
    }
    let text = |field| controller.get(field).and_then(Value::as_str).unwrap_or("?");
    Owner::Other(format!("{} {}", text("kind"), text("name")))
}

/// Returns the name of the ApplicationSet that owns an Application.
pub fn owning_appset(application: &Application) -> Option<&str> {
    appset_in(&application.metadata)
}

/// Returns the key that determines an Application's shard in the operation log: the name of its ApplicationSet in the
/// log or, without one, its own name.
pub fn log_key(metadata: &ObjectMeta) -> String {
    let key =
        |name: &str| AppKey { namespace: metadata.namespace_or_default().to_owned(), name: name.to_owned() };
    match appset_in(metadata) {
        Some(set) => key(set).qualified_name(),
        None => key(&metadata.name).instance_name(),
    }
}

fn appset_in(metadata: &ObjectMeta) -> Option<&str> {
    let text = |field| controller_reference(metadata)?.get(field)?.as_str();
    let is_set =
        group_of_version(text("apiVersion")?) == group_of_version(API_VERSION) && text("kind") == Some(KIND);
    text("name").filter(|_| is_set)
}

/// Returns the UID in an Application's owner reference.
pub fn owner_uid(application: &Application) -> Option<&str> {
    controller_reference(&application.metadata)?.get("uid")?.as_str()
}

fn controller_reference(metadata: &ObjectMeta) -> Option<&Value> {
    owner_references(metadata).find(|one| one.get("controller") == Some(&Value::Bool(true)))
}

/// Returns true if the ApplicationSet may adopt an Application without an owner.
pub(crate) fn may_adopt(set: &ApplicationSet, application: &Application) -> bool {
    application.annotation(APPSET_ANNOTATION) == Some(set.metadata.name.as_str())
}

/// Makes the ApplicationSet the controlling owner, alongside other owner references, and adds the annotation.
pub(crate) fn set_owner(set: &ApplicationSet, metadata: &mut ObjectMeta) {
    add_appset_annotation(set, metadata);
    let mut own = json!({
        "apiVersion": API_VERSION, "kind": KIND, "name": set.metadata.name, "controller": true,
        "blockOwnerDeletion": true,
    });
    if let (false, Some(fields)) = (set.metadata.uid.is_empty(), own.as_object_mut()) {
        fields.insert("uid".to_owned(), json!(set.metadata.uid));
    }
    let mut all: Vec<Value> = owner_references(metadata).cloned().collect();
    match all.iter_mut().find(|one| refers_to(set, one)) {
        Some(before) => *before = own,
        None => all.push(own),
    }
    metadata.rest.insert(OWNER_REFERENCES.to_owned(), Value::Array(all));
}

fn add_appset_annotation(set: &ApplicationSet, metadata: &mut ObjectMeta) {
    metadata.annotations.insert(APPSET_ANNOTATION.to_owned(), set.metadata.name.clone());
}

/// Removes an Application's owner reference to its ApplicationSet, so that it outlives the ApplicationSet. An
/// ApplicationSet of the same name may adopt it later.
pub fn without_owner(set: &ApplicationSet, application: &Application) -> Application {
    let mut free = application.clone();
    let others: Vec<Value> =
        owner_references(&application.metadata).filter(|one| !refers_to(set, one)).cloned().collect();
    match others.is_empty() {
        true => free.metadata.rest.remove(OWNER_REFERENCES),
        false => free.metadata.rest.insert(OWNER_REFERENCES.to_owned(), Value::Array(others)),
    };
    add_appset_annotation(set, &mut free.metadata);
    free
}

/// Returns the Applications in the ApplicationSet's namespace.
pub(crate) fn applications_in_namespace<'a>(
    set: &ApplicationSet,
    applications: &'a [Application],
) -> impl Iterator<Item = &'a Application> {
    let home = set.metadata.namespace_or_default().to_owned();
    applications.iter().filter(move |one| one.metadata.namespace_or_default() == home)
}

/// Returns the Applications that the ApplicationSet owns.
pub fn owned_applications<'a>(
    set: &'a ApplicationSet,
    applications: &'a [Application],
) -> impl Iterator<Item = &'a Application> {
    applications_in_namespace(set, applications).filter(|one| owner_of(set, one) == Owner::AppSet)
}

fn owner_references(metadata: &ObjectMeta) -> impl Iterator<Item = &Value> {
    metadata.rest.get(OWNER_REFERENCES).and_then(Value::as_array).into_iter().flatten()
}

fn refers_to(set: &ApplicationSet, reference: &Value) -> bool {
    let text = |field| reference.get(field).and_then(Value::as_str).unwrap_or_default();
    group_of_version(text("apiVersion")) == group_of_version(API_VERSION)
        && text("kind") == KIND
        && text("name") == set.metadata.name
}

fn group_of_version(version: &str) -> &str {
    version.split('/').next().unwrap_or_default()
}
