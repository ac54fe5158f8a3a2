//! Strategic merge patches of Applications.

use serde_json::{Map, Value};

const DIRECTIVE: &str = "$patch";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const ORDER: &str = "$setElementOrder/";
const RETAIN: &str = "$retainKeys";

/// Patches an object: objects are merged, null deletes, and lists are replaced, but for finalizers and owners.
pub(crate) fn apply(object: &mut Map<String, Value>, patch: &Map<String, Value>) -> Result<(), String> {
    merge(object, patch, "")
}

fn merge(object: &mut Map<String, Value>, patch: &Map<String, Value>, path: &str) -> Result<(), String> {
    match patch.get(DIRECTIVE).map(Value::as_str) {
        None | Some(Some("merge")) => {}
        Some(Some("replace")) => object.clear(),
        Some(Some("delete")) => {
            object.clear();
            return Ok(());
        }
        Some(_) => return Err(format!("{DIRECTIVE} of {path:?} is merge, replace or delete")),
    }
    if let Some(kept) = patch.get(RETAIN) {
        let kept = kept.as_array().ok_or_else(|| format!("{RETAIN} of {path:?} is a list of fields"))?;
        object.retain(|name, _| kept.iter().any(|one| one.as_str() == Some(name)));
    }
    for (name, value) in patch {
        if name == DIRECTIVE || name == RETAIN || name.starts_with(ORDER) {
            continue;
        }
        if let Some(list) = name.strip_prefix(DELETE_FROM) {
            let gone = value.as_array().ok_or_else(|| format!("{name} is a list"))?;
            if let Some(Value::Array(items)) = object.get_mut(list) {
                items.retain(|item| !gone.contains(item));
            }
            continue;
        }
        let path = format!("{path}.{name}");
        match (object.get_mut(name), value) {
            (_, Value::Null) => {
                object.remove(name);
            }
            (Some(Value::Object(there)), Value::Object(patch)) => merge(there, patch, &path)?,
            (Some(Value::Array(there)), Value::Array(more)) if path == ".metadata.finalizers" => {
                let new: Vec<_> = more.iter().filter(|item| !there.contains(item)).cloned().collect();
                there.extend(new);
            }
            (Some(Value::Array(there)), Value::Array(more)) if path == ".metadata.ownerReferences" => {
                merge_by(there, more, "uid", &path)?;
            }
            (_, Value::Object(patch)) => {
                let mut new = Map::new();
                merge(&mut new, patch, &path)?;
                object.insert(name.clone(), Value::Object(new));
            }
            (_, value) => {
                object.insert(name.clone(), value.clone());
            }
        }
    }
    Ok(())
}

/// Merges lists whose entries are told apart by a field.
fn merge_by(there: &mut Vec<Value>, more: &[Value], key: &str, path: &str) -> Result<(), String> {
    for entry in more {
        let fields = entry.as_object().ok_or_else(|| format!("entries of {path:?} are objects"))?;
        let same = there.iter_mut().find(|one| one.get(key) == entry.get(key)).and_then(Value::as_object_mut);
        match same {
            Some(same) => merge(same, fields, path)?,
            None => there.push(entry.clone()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patched(object: Value, patch: Value) -> Result<Value, String> {
        let mut object = object.as_object().cloned().unwrap();
        apply(&mut object, patch.as_object().unwrap())?;
        Ok(Value::Object(object))
    }

    #[test]
    fn objects_are_merged_and_lists_replaced() {
        let application = json!({
            "metadata": {"finalizers": ["a"], "ownerReferences": [{"uid": "1", "name": "x"}], "labels": {"l": "1"}},
            "spec": {"source": {"helm": {"valueFiles": ["a"], "values": "v"}}, "info": [{"name": "a", "value": "b"}]},
        });
        for (patch, expected) in [
            (json!({}), application.clone()),
            (
                json!({"metadata": {"labels": {"m": "2"}, "finalizers": ["b", "a"]}}),
                json!({
                    "metadata": {
                        "finalizers": ["a", "b"], "ownerReferences": [{"uid": "1", "name": "x"}],
                        "labels": {"l": "1", "m": "2"},
                    },
                    "spec": application["spec"],
                }),
            ),
            (
                json!({"metadata": {
                    "finalizers": null, "labels": null,
                    "ownerReferences": [{"uid": "1", "name": "y"}, {"uid": "2", "name": "z"}],
                }}),
                json!({
                    "metadata": {"ownerReferences": [{"uid": "1", "name": "y"}, {"uid": "2", "name": "z"}]},
                    "spec": application["spec"],
                }),
            ),
            (
                json!({"spec": {"source": {"helm": {"valueFiles": ["b"], "values": null}}, "info": []}}),
                json!({
                    "metadata": application["metadata"],
                    "spec": {"source": {"helm": {"valueFiles": ["b"]}}, "info": []},
                }),
            ),
            (
                json!({"spec": {"$patch": "replace", "syncPolicy": {"automated": {"prune": null, "selfHeal": true}}}}),
                json!({
                    "metadata": application["metadata"],
                    "spec": {"syncPolicy": {"automated": {"selfHeal": true}}},
                }),
            ),
            (
                json!({"spec": {"$retainKeys": ["info"]}, "metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}),
                json!({
                    "metadata": {
                        "finalizers": [], "ownerReferences": [{"uid": "1", "name": "x"}], "labels": {"l": "1"},
                    },
                    "spec": {"info": [{"name": "a", "value": "b"}]},
                }),
            ),
        ] {
            assert_eq!(patched(application.clone(), patch.clone()), Ok(expected), "{patch}");
        }
        assert!(patched(application, json!({"spec": {"$patch": "swap"}})).is_err());
    }
}
