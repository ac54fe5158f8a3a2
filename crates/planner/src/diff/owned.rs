//! Who wrote which field of a live object?
//!
//! The server notes it: `f:name` is a field, `k:{…}` the item of a list with these keys, `v:…` an item of a set, `.` the
//! thing itself. These notes are a map, or the JSON text of one: they are large, and not often asked for.

use std::borrow::Cow;

use serde_json::{Map, Value};
use tidegate_model::{HandOver, Object, annotations, managed_fields};

use super::compare::same_item;
use super::is_ours;
use super::path::{Path, Step};

/// What the entries of managers that pass the test say they own, outside the status.
fn trees(
    live: &Object,
    is_meant: impl Fn(&Value) -> bool,
) -> impl Iterator<Item = Cow<'_, Map<String, Value>>> {
    let entries = live.pointer("/metadata/managedFields").and_then(Value::as_array).into_iter().flatten();
    entries.filter(move |entry| is_meant(entry)).filter_map(managed_fields)
}

/// What a manager wrote by updates, as it is divided when Tidegate takes that over.
fn divided(live: &Object, manager: &str) -> Vec<HandOver> {
    trees(live, |entry| is(entry, manager, "Update")).map(|tree| HandOver::of(live, manager, &tree)).collect()
}

fn text<'v>(entry: &'v Value, field: &str) -> &'v str {
    entry.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn is(entry: &Value, manager: &str, operation: &str) -> bool {
    text(entry, "manager") == manager
        && text(entry, "operation") == operation
        && text(entry, "subresource").is_empty()
}

/// What Tidegate owns by server-side apply.
fn our_trees(live: &Object) -> impl Iterator<Item = Cow<'_, Map<String, Value>>> {
    trees(live, |entry| is(entry, annotations::FIELD_MANAGER, "Apply"))
}

/// The places in a value of the fields that only this manager owns, by updates, and does not keep. Once Tidegate has taken
/// them over, its apply removes them.
pub(super) fn only_of(manager: &str, predicted: &Object, value: &Value) -> Vec<Path> {
    let others: Vec<_> = trees(predicted, |entry| !is(entry, manager, "Update")).collect();
    let divided = divided(predicted, manager);
    let kept = divided.iter().map(|parts| &parts.left);
    let others: Vec<&Map<String, Value>> = others.iter().map(Cow::as_ref).chain(kept).collect();
    let mut found = Vec::new();
    for parts in &divided {
        alone(&parts.taken, &others, value, &mut Path::default(), &mut found);
    }
    found
}

fn alone(
    tree: &Map<String, Value>,
    others: &[&Map<String, Value>],
    value: &Value,
    path: &mut Path,
    found: &mut Vec<Path>,
) {
    for (name, below) in tree {
        let Some((step, value)) = find(name, value) else { continue };
        let others: Vec<_> = others.iter().filter_map(|other| other.get(name)?.as_object()).collect();
        path.0.push(step);
        if others.is_empty() {
            found.push(path.clone());
        } else if let Some(below) = below.as_object()
            && others.iter().all(|other| !other.is_empty())
        {
            alone(below, &others, value, path, found);
        }
        path.0.pop();
    }
}

/// The places in the live object that the target no longer gives and Tidegate wrote, or `taken`, the manager whose
/// fields it takes over.
pub(super) fn dropped(target: &Value, live: &Object, taken: Option<&str>) -> Vec<Path> {
    let mut walk = Dropped { path: Path::default(), found: Vec::new() };
    let taken = taken.map(|manager| divided(live, manager)).unwrap_or_default();
    let taken = taken.into_iter().map(|parts| Cow::Owned(parts.taken));
    for tree in our_trees(live).chain(taken) {
        walk.fields(tree.iter().filter(|(name, _)| name.as_str() != "f:status"), target, live.as_value());
    }
    walk.found
}

/// The places in a value of the live object of all that Tidegate wrote, by applies or by updates, where manifests write. After
/// an update the server's defaults are among them: it notes them as ours.
pub(super) fn written(live: &Object, value: &Value) -> Vec<Path> {
    let updated = divided(live, annotations::FIELD_MANAGER).into_iter();
    let mut places = Vec::new();
    for tree in our_trees(live).chain(updated.map(|parts| Cow::Owned(parts.taken))) {
        leaves(&tree, value, &mut Path::default(), &mut places);
    }
    places.retain(is_of_manifests);
    places
}

/// Of the metadata people write labels and annotations; finalizers and owners come from controllers as well.
fn is_of_manifests(path: &Path) -> bool {
    let name = |step: &Step| match step {
        Step::Field(name) => name.clone(),
        Step::Item(_) => String::new(),
    };
    let names: Vec<String> = path.0.iter().map(name).collect();
    let mut start = names.iter().map(String::as_str);
    match (start.next(), start.next()) {
        (Some("status"), _) => false,
        (Some("metadata"), below) => {
            matches!(below, Some("labels" | "annotations")) && !names.iter().any(|name| is_ours(name))
        }
        _ => true,
    }
}

struct Dropped {
    path: Path,
    found: Vec<Path>,
}

impl Dropped {
    fn fields<'v>(
        &mut self,
        tree: impl Iterator<Item = (&'v String, &'v Value)>,
        target: &Value,
        live: &Value,
    ) {
        for (name, below) in tree {
            let Some(below) = below.as_object() else { continue };
            let Some((step, in_live)) = find(name, live) else { continue };
            if matches!(&step, Step::Field(name) if is_ours(name)) {
                continue;
            }
            self.path.0.push(step);
            match find(name, target) {
                None => self.found.push(self.path.clone()),
                // Where the target has another type than before, comparing the values finds that.
                Some((_, wanted)) if wanted.is_object() || wanted.is_array() => {
                    self.fields(below.iter(), wanted, in_live);
                }
                Some(_) => {}
            }
            self.path.0.pop();
        }
    }
}

/// What a name of the notes stands for in a value, and where.
fn find<'v>(name: &str, value: &'v Value) -> Option<(Step, &'v Value)> {
    match name.split_once(':')? {
        ("f", name) => value.as_object()?.get(name).map(|below| (Step::Field(name.to_owned()), below)),
        ("k", keys) => {
            let keys: Map<String, Value> = serde_json::from_str(keys).ok()?;
            let names: Vec<&str> = keys.keys().map(String::as_str).collect();
            let same = |item: &&Value| same_item(&names, item, |key| keys.get(key));
            item(value, same)
        }
        ("v", wanted) => {
            let wanted: Value = serde_json::from_str(wanted).ok()?;
            item(value, |item| **item == wanted)
        }
        _ => None,
    }
}

fn item<'v>(list: &'v Value, is_meant: impl Fn(&&'v Value) -> bool) -> Option<(Step, &'v Value)> {
    let items = list.as_array()?.iter().enumerate();
    items.map(|(index, item)| (Step::Item(index), item)).find(|(_, item)| is_meant(item))
}

/// The places in a value of the fields that a manager owns in the live object.
pub(super) fn places_of(manager: &str, live: &Object, value: &Value) -> Vec<Path> {
    let mut places = Vec::new();
    for tree in trees(live, |entry| text(entry, "manager") == manager) {
        leaves(&tree, value, &mut Path::default(), &mut places);
    }
    places
}

fn leaves(tree: &Map<String, Value>, value: &Value, path: &mut Path, places: &mut Vec<Path>) {
    if tree.is_empty() && !path.0.is_empty() {
        places.push(path.clone());
    }
    for (name, below) in tree {
        if let (Some((step, value)), Some(below)) = (find(name, value), below.as_object()) {
            path.0.push(step);
            leaves(below, value, path, places);
            path.0.pop();
        }
    }
}

/// Whether Tidegate owns what is at a place, something above it as a whole, or something inside. `value` is the live or
/// predicted object, as far as it is compared.
pub(super) fn is_owned(object: &Object, value: &Value, path: &Path) -> bool {
    our_trees(object).any(|tree| reaches(&tree, value, &path.0))
}

fn reaches(tree: &Map<String, Value>, value: &Value, path: &[Step]) -> bool {
    let Some((step, rest)) = path.split_first() else { return true };
    tree.is_empty() || tree.iter().any(|(name, below)| {
        let found = find(name, value).filter(|(found, _)| found == step);
        matches!((found, below.as_object()), (Some((_, value)), Some(below)) if reaches(below, value, rest))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::path::find_pointer;
    use super::*;

    fn live(manager: &str, operation: &str) -> Object {
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

    /// The same object, with the notes as text.
    fn in_text(live: &Object) -> Object {
        let mut value = live.as_value().clone();
        for entry in value["metadata"]["managedFields"].as_array_mut().unwrap() {
            entry["fieldsV1"] = entry["fieldsV1"].to_string().into();
        }
        Object::try_from(value).unwrap()
    }

    fn texts(paths: &[Path]) -> Vec<String> {
        paths.iter().map(Path::to_string).collect()
    }

    fn paths(target: &Value, live: &Object) -> Vec<String> {
        let found = texts(&dropped(target, live, None));
        assert_eq!(texts(&dropped(target, &in_text(live), None)), found);
        found
    }

    #[test]
    fn ownership_is_of_places() {
        let live = live("tidegate", "Apply");
        let owned = |pointer: &str| {
            let path = find_pointer(pointer, live.as_value()).unwrap();
            let owned = is_owned(&live, live.as_value(), &path);
            assert_eq!(is_owned(&in_text(&live), live.as_value(), &path), owned, "{pointer}");
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
        let mut places = texts(&places_of("tidegate", &live, &target()));
        assert_eq!(texts(&places_of("tidegate", &in_text(&live), &target())), places);
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
    fn fields_that_are_gone_from_the_target_are_found() {
        let live = live("tidegate", "Apply");
        assert_eq!(paths(&target(), &live), [""; 0]);
        for (pointer, field, path) in [
            ("/metadata/labels", "app", "/metadata/labels/app"),
            ("/spec", "replicas", "/spec/replicas"),
            ("/spec/template/spec/containers/0", "image", "/spec/template/spec/containers/1/image"),
            ("/spec/template/spec", "containers", "/spec/template/spec/containers"),
        ] {
            let mut target = target();
            target.pointer_mut(pointer).unwrap().as_object_mut().unwrap().remove(field);
            assert_eq!(paths(&target, &live), [path]);
        }
        for (pointer, path) in [
            ("/metadata/finalizers", "/metadata/finalizers/1"),
            ("/spec/template/spec/containers", "/spec/template/spec/containers/1"),
        ] {
            let mut target = target();
            *target.pointer_mut(pointer).unwrap() = json!([]);
            assert_eq!(paths(&target, &live), [path]);
        }
    }

    #[test]
    fn what_others_wrote_is_theirs() {
        let mut target = target();
        target["spec"].as_object_mut().unwrap().clear();
        assert_eq!(paths(&target, &live("kubectl", "Apply")), [""; 0]);
        assert_eq!(paths(&target, &live("tidegate", "Update")), [""; 0]);
    }
}
