//! Field ownership in live objects.
//!
//! The server records owners in `managedFields`: `f:name` is a field, `k:{…}` is the list item with these
//! keys, `v:…` is an item of a set, and `.` is the node itself. We keep the records either as a map or as
//! JSON text, since they are large and rarely needed.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Map, Value};
use tidegate_model::{FieldHandover, Object, annotations, can_be_taken_over, managed_fields};

use super::compare::is_same_item;
use super::path::{Path, Step};
use super::{is_tracking_annotation, normalize};

/// Returns the fields that the selected managers own outside the status.
fn managed_field_trees(
    live: &Object,
    is_meant: impl Fn(&Value) -> bool,
) -> impl Iterator<Item = Cow<'_, Map<String, Value>>> {
    let entries = live.pointer("/metadata/managedFields").and_then(Value::as_array).into_iter().flatten();
    entries.filter(move |entry| is_meant(entry)).filter_map(managed_fields)
}

/// Splits the fields of a manager's updates into those that Tidegate takes over and those that the manager
/// keeps.
fn split_update_fields(live: &Object, manager: &str) -> Vec<FieldHandover> {
    managed_field_trees(live, |entry| is_entry_of(entry, manager, "Update"))
        .map(|tree| FieldHandover::split(live, manager, &tree))
        .collect()
}

/// One manager's fields that Tidegate takes over.
pub(super) struct TakenOverPart {
    fields: FieldHandover,
    origin: ManifestOrigin,
}

/// Origin of a manager's fields: the part that came from a manifest.
enum ManifestOrigin {
    /// All fields came from a manifest: they were written by server-side apply.
    All,
    /// Only the fields in the last-applied annotation came from a manifest.
    LastApplied(Arc<Value>),
    /// Unknown: some of the fields may be server defaults.
    Unknown,
}

impl TakenOverPart {
    /// Returns true if the origin of every field is known.
    pub fn is_exact(&self) -> bool {
        !matches!(self.origin, ManifestOrigin::Unknown)
    }

    fn last_applied(&self) -> Option<&Value> {
        match &self.origin {
            ManifestOrigin::LastApplied(manifest) => Some(manifest),
            ManifestOrigin::All | ManifestOrigin::Unknown => None,
        }
    }
}

/// Returns the fields that Tidegate takes over from these managers.
pub(super) fn taken_over_parts(live: &Object, managers: &[String]) -> Vec<TakenOverPart> {
    if managers.is_empty() {
        return Vec::new();
    }
    let noted = last_applied(live).map(Arc::new);
    let entries = live.pointer("/metadata/managedFields").and_then(Value::as_array).into_iter().flatten();
    let parts = entries.filter_map(|entry| {
        let manager = managers.iter().find(|manager| can_be_taken_over(entry, manager))?;
        let tree = managed_fields(entry)?;
        let applies = [annotations::KUBECTL_MANAGER, annotations::FIELD_MANAGER].contains(&manager.as_str())
            || annotations::ARGO_CD_MANAGERS.contains(&manager.as_str())
            || owns_last_applied(&tree);
        let given = match &noted {
            _ if text_field(entry, "operation") == "Apply" => ManifestOrigin::All,
            Some(noted) if applies => ManifestOrigin::LastApplied(Arc::clone(noted)),
            _ => ManifestOrigin::Unknown,
        };
        Some(TakenOverPart { fields: FieldHandover::split(live, manager, &tree), origin: given })
    });
    parts.collect()
}

/// Returns the manifest of the last client-side apply, as the server would store it.
fn last_applied(live: &Object) -> Option<Value> {
    let text = live.annotation(annotations::LAST_APPLIED)?;
    let manifest = Object::try_from(serde_json::from_str::<Value>(text).ok()?).ok()?;
    Some(normalize::normalize_target(&manifest).into_owned())
}

fn owns_last_applied(tree: &Map<String, Value>) -> bool {
    let annotations = tree.get("f:metadata").and_then(|metadata| metadata.get("f:annotations"));
    let note = format!("f:{}", annotations::LAST_APPLIED);
    annotations.is_some_and(|annotations| annotations.get(&note).is_some())
}

fn text_field<'v>(entry: &'v Value, field: &str) -> &'v str {
    entry.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn is_entry_of(entry: &Value, manager: &str, operation: &str) -> bool {
    text_field(entry, "manager") == manager
        && text_field(entry, "operation") == operation
        && text_field(entry, "subresource").is_empty()
}

/// Returns the fields that Tidegate owns through server-side apply.
fn own_field_trees(live: &Object) -> impl Iterator<Item = Cow<'_, Map<String, Value>>> {
    managed_field_trees(live, |entry| is_entry_of(entry, annotations::FIELD_MANAGER, "Apply"))
}

/// Returns the paths in `value` that only these managers own. After the takeover, Tidegate's apply removes
/// these fields. Excludes fields that the managers keep or that didn't come from a manifest.
pub(super) fn exclusive_fields(managers: &[String], predicted: &Object, value: &Value) -> Vec<Path> {
    let is_taken = |entry: &Value| managers.iter().any(|manager| can_be_taken_over(entry, manager));
    let others: Vec<_> = managed_field_trees(predicted, |entry| !is_taken(entry)).collect();
    let parts = taken_over_parts(predicted, managers);
    let kept = parts.iter().map(|part| &part.fields.retained);
    let others: Vec<&Map<String, Value>> = others.iter().map(Cow::as_ref).chain(kept).collect();
    let mut found = Vec::new();
    for part in &parts {
        let noted = part.last_applied();
        collect_exclusive(&part.fields.transferred, &others, value, noted, &mut Path::default(), &mut found);
    }
    found
}

fn collect_exclusive(
    tree: &Map<String, Value>,
    others: &[&Map<String, Value>],
    value: &Value,
    noted: Option<&Value>,
    path: &mut Path,
    found: &mut Vec<Path>,
) {
    for (name, below) in tree {
        let Some((step, value)) = resolve_field(name, value) else { continue };
        let Some(noted) = find_in_last_applied(name, noted) else { continue };
        let others: Vec<_> = others.iter().filter_map(|other| other.get(name)?.as_object()).collect();
        path.0.push(step);
        if others.is_empty() {
            found.push(path.clone());
        } else if let Some(below) = below.as_object()
            && others.iter().all(|other| !other.is_empty())
        {
            collect_exclusive(below, &others, value, noted, path, found);
        }
        path.0.pop();
    }
}

/// Looks up a name in a recorded manifest. Returns `None` if it isn't in the manifest, and `Some(None)` if no
/// manifest was recorded.
#[expect(clippy::option_option, reason = "an absent record and an absent field are different")]
fn find_in_last_applied<'v>(name: &str, noted: Option<&'v Value>) -> Option<Option<&'v Value>> {
    match noted {
        None => Some(None),
        Some(noted) => resolve_field(name, noted).map(|(_, below)| Some(below)),
    }
}

/// Returns the live paths that are gone from the target. Considers only fields written by Tidegate, or by a
/// manager that it takes over from.
pub(super) fn dropped_fields(target: &Value, live: &Object, taken: &[String]) -> Vec<Path> {
    let mut walk = DroppedFields { path: Path::default(), found: Vec::new() };
    let is_spec = |(name, _): &(&String, &Value)| name.as_str() != "f:status";
    for tree in own_field_trees(live) {
        walk.visit_fields(tree.iter().filter(is_spec), target, live.as_value(), None);
    }
    for part in taken_over_parts(live, taken) {
        let tree = part.fields.transferred.iter().filter(is_spec);
        walk.visit_fields(tree, target, live.as_value(), part.last_applied());
    }
    walk.found
}

/// Returns the paths of all fields in `value` that Tidegate wrote with applies or updates, except those that
/// manifests can't contain. After an update, this includes server defaults, because the server attributes
/// them to Tidegate.
pub(super) fn written_fields(live: &Object, value: &Value) -> Vec<Path> {
    let updated = split_update_fields(live, annotations::FIELD_MANAGER).into_iter();
    let mut places = Vec::new();
    for tree in own_field_trees(live).chain(updated.map(|parts| Cow::Owned(parts.transferred))) {
        collect_leaves(&tree, value, &mut Path::default(), &mut places);
    }
    places.retain(is_manifest_field);
    places
}

/// Returns true if a field is controlled by manifests. In `metadata`, only labels and annotations are:
/// finalizers and owner references may come from controllers.
fn is_manifest_field(path: &Path) -> bool {
    let name = |step: &Step| match step {
        Step::Field(name) => name.clone(),
        Step::Item(_) => String::new(),
    };
    let names: Vec<String> = path.0.iter().map(name).collect();
    let mut start = names.iter().map(String::as_str);
    match (start.next(), start.next()) {
        (Some("status"), _) => false,
        (Some("metadata"), below) => {
            matches!(below, Some("labels" | "annotations"))
                && !names.iter().any(|name| is_tracking_annotation(name))
        }
        _ => true,
    }
}

struct DroppedFields {
    path: Path,
    found: Vec<Path>,
}

impl DroppedFields {
    fn visit_fields<'v>(
        &mut self,
        tree: impl Iterator<Item = (&'v String, &'v Value)>,
        target: &Value,
        live: &Value,
        noted: Option<&Value>,
    ) {
        for (name, below) in tree {
            let Some(below) = below.as_object() else { continue };
            let Some((step, in_live)) = resolve_field(name, live) else { continue };
            let Some(noted) = find_in_last_applied(name, noted) else { continue };
            if matches!(&step, Step::Field(name) if is_tracking_annotation(name)) {
                continue;
            }
            self.path.0.push(step);
            match resolve_field(name, target) {
                None => self.found.push(self.path.clone()),
                // If the target has a value of a different type here, the value comparison catches it.
                Some((_, wanted)) if wanted.is_object() || wanted.is_array() => {
                    self.visit_fields(below.iter(), wanted, in_live, noted);
                }
                Some(_) => {}
            }
            self.path.0.pop();
        }
    }
}

/// Resolves a name from `managedFields` in a value.
fn resolve_field<'v>(name: &str, value: &'v Value) -> Option<(Step, &'v Value)> {
    match name.split_once(':')? {
        ("f", name) => value.as_object()?.get(name).map(|below| (Step::Field(name.to_owned()), below)),
        ("k", keys) => {
            let keys: Map<String, Value> = serde_json::from_str(keys).ok()?;
            let names: Vec<&str> = keys.keys().map(String::as_str).collect();
            let same = |item: &&Value| is_same_item(&names, item, |key| keys.get(key));
            find_item(value, same)
        }
        ("v", wanted) => {
            let wanted: Value = serde_json::from_str(wanted).ok()?;
            find_item(value, |item| **item == wanted)
        }
        _ => None,
    }
}

fn find_item<'v>(list: &'v Value, is_meant: impl Fn(&&'v Value) -> bool) -> Option<(Step, &'v Value)> {
    let items = list.as_array()?.iter().enumerate();
    items.map(|(index, item)| (Step::Item(index), item)).find(|(_, item)| is_meant(item))
}

/// Returns the paths of a manager's fields in a value.
pub(super) fn field_places(manager: &str, live: &Object, value: &Value) -> Vec<Path> {
    let mut places = Vec::new();
    for tree in managed_field_trees(live, |entry| text_field(entry, "manager") == manager) {
        collect_leaves(&tree, value, &mut Path::default(), &mut places);
    }
    places
}

fn collect_leaves(tree: &Map<String, Value>, value: &Value, path: &mut Path, places: &mut Vec<Path>) {
    if tree.is_empty() && !path.0.is_empty() {
        places.push(path.clone());
    }
    for (name, below) in tree {
        if let (Some((step, value)), Some(below)) = (resolve_field(name, value), below.as_object()) {
            path.0.push(step);
            collect_leaves(below, value, path, places);
            path.0.pop();
        }
    }
}

/// Returns true if Tidegate owns the field at a path, part of it, or a parent that is owned as a whole.
/// `value` is the compared part of the live or predicted object.
pub(super) fn is_owned(object: &Object, value: &Value, path: &Path) -> bool {
    own_field_trees(object).any(|tree| covers_path(&tree, value, &path.0))
}

fn covers_path(tree: &Map<String, Value>, value: &Value, path: &[Step]) -> bool {
    let Some((step, rest)) = path.split_first() else { return true };
    tree.is_empty() || tree.iter().any(|(name, below)| {
        let found = resolve_field(name, value).filter(|(found, _)| found == step);
        matches!((found, below.as_object()), (Some((_, value)), Some(below)) if covers_path(below, value, rest))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::path::find_pointer;
    use super::*;

    fn live_object(manager: &str, operation: &str) -> Object {
        Object::try_from(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a",
        "labels": {"app": "a"}, "finalizers": ["w", "x"], "annotations": {"tidegate.dev/operation-id": "o"},
        "managedFields": [{"manager": manager, "operation": operation, "fieldsV1": {
            "f:metadata": {"f:labels": {"f:app": {}}, "f:finalizers": {".": {}, "v:\"x\"": {}},
                "f:annotations": {"f:tidegate.dev/operation-id": {}}},
            "f:spec": {"f:replicas": {}, "f:template": {"f:spec": {"f:containers": {
                "k:{\"name\":\"api\"}": {".": {}, "f:name": {}, "f:image": {}, "f:ports": {
                    "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}}}}}}},
            "f:status": {"f:replicas": {}}
        }}]}, "spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "other"},
            {"name": "api", "image": "i", "ports": [{"containerPort": 80, "protocol": "TCP"}]}]}}},
            "status": {"replicas": 1}}))
        .unwrap()
    }

    /// Returns the object with its `managedFields` entries as JSON text.
    fn with_fields_as_text(live: &Object) -> Object {
        let mut value = live.as_value().clone();
        for entry in value["metadata"]["managedFields"].as_array_mut().unwrap() {
            entry["fieldsV1"] = entry["fieldsV1"].to_string().into();
        }
        Object::try_from(value).unwrap()
    }

    fn path_texts(paths: &[Path]) -> Vec<String> {
        paths.iter().map(Path::to_string).collect()
    }

    fn dropped_paths(target: &Value, live: &Object) -> Vec<String> {
        let found = path_texts(&dropped_fields(target, live, &[]));
        assert_eq!(path_texts(&dropped_fields(target, &with_fields_as_text(live), &[])), found);
        found
    }

    #[test]
    fn ownership_is_checked_for_each_place() {
        let live = live_object("tidegate", "Apply");
        let owned = |pointer: &str| {
            let path = find_pointer(pointer, live.as_value()).unwrap();
            let owned = is_owned(&live, live.as_value(), &path);
            assert_eq!(is_owned(&with_fields_as_text(&live), live.as_value(), &path), owned, "{pointer}");
            owned
        };
        for (pointer, expected) in [
            ("/spec/replicas", true),
            ("/spec/template", true),
            ("/spec/template/spec/containers/1/image", true),
            ("/spec/template/spec/containers/1/ports/0/protocol", false),
            ("/spec/template/spec/containers/0", false),
            ("/metadata/finalizers/1", true),
            ("/metadata/finalizers/0", false),
        ] {
            assert_eq!(owned(pointer), expected, "{pointer}");
        }
        let mut places = path_texts(&field_places("tidegate", &live, &target()));
        assert_eq!(path_texts(&field_places("tidegate", &with_fields_as_text(&live), &target())), places);
        places.sort();
        assert!(places.contains(&"/spec/template/spec/containers/0/image".to_owned()), "{places:?}");
        assert!(!places.contains(&"/spec/template/spec/containers/0".to_owned()), "{places:?}");
    }

    fn target() -> Value {
        json!({"metadata": {"labels": {"app": "a"}, "finalizers": ["x"], "annotations": {}},
            "spec": {"replicas": 1, "template": {"spec": {"containers": [
                {"name": "api", "image": "i", "ports": [{"containerPort": 80}]}]}}}})
    }

    #[test]
    fn fields_dropped_from_the_target_are_found() {
        let live = live_object("tidegate", "Apply");
        assert_eq!(dropped_paths(&target(), &live), [""; 0]);
        for (pointer, field, path) in [
            ("/metadata/labels", "app", "/metadata/labels/app"),
            ("/spec", "replicas", "/spec/replicas"),
            ("/spec/template/spec/containers/0", "image", "/spec/template/spec/containers/1/image"),
            ("/spec/template/spec", "containers", "/spec/template/spec/containers"),
        ] {
            let mut target = target();
            target.pointer_mut(pointer).unwrap().as_object_mut().unwrap().remove(field);
            assert_eq!(dropped_paths(&target, &live), [path]);
        }
        for (pointer, path) in [
            ("/metadata/finalizers", "/metadata/finalizers/1"),
            ("/spec/template/spec/containers", "/spec/template/spec/containers/1"),
        ] {
            let mut target = target();
            *target.pointer_mut(pointer).unwrap() = json!([]);
            assert_eq!(dropped_paths(&target, &live), [path]);
        }
    }

    #[test]
    fn fields_of_other_managers_are_not_owned() {
        let mut target = target();
        target["spec"].as_object_mut().unwrap().clear();
        assert_eq!(dropped_paths(&target, &live_object("kubectl", "Apply")), [""; 0]);
        assert_eq!(dropped_paths(&target, &live_object("tidegate", "Update")), [""; 0]);
    }
}
