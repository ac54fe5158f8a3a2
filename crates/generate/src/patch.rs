//! Strategic merge patches for Applications, and the lookup of the line that sets a field.

use serde_json::{Map, Value};
use tidegate_yaml::{Content, Limits};

use crate::error::PatchLine;

const DIRECTIVE: &str = "$patch";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const ORDER: &str = "$setElementOrder/";
const RETAIN: &str = "$retainKeys";
/// Maximum number of characters of a line to show in an error message.
const SHOWN_MAX: usize = 200;

/// Applies a patch to an object. Objects are merged, nulls delete fields, and lists are replaced, except for
/// finalizers and owner references, which are merged.
pub(crate) fn apply_patch(object: &mut Map<String, Value>, patch: &Map<String, Value>) -> Result<(), String> {
    merge_objects(object, patch, "")
}

fn merge_objects(
    object: &mut Map<String, Value>,
    patch: &Map<String, Value>,
    path: &str,
) -> Result<(), String> {
    match patch.get(DIRECTIVE).map(Value::as_str) {
        None | Some(Some("merge")) => {}
        Some(Some("replace")) => object.clear(),
        Some(Some("delete")) => {
            object.clear();
            return Ok(());
        }
        Some(_) => return Err(format!("{DIRECTIVE} in {path:?} must be merge, replace or delete")),
    }
    if let Some(kept) = patch.get(RETAIN) {
        let kept = kept.as_array().ok_or_else(|| format!("{RETAIN} in {path:?} must be a list of fields"))?;
        object.retain(|name, _| kept.iter().any(|one| one.as_str() == Some(name)));
    }
    for (name, value) in patch {
        if name == DIRECTIVE || name == RETAIN || name.starts_with(ORDER) {
            continue;
        }
        if let Some(list) = name.strip_prefix(DELETE_FROM) {
            let gone = value.as_array().ok_or_else(|| format!("{name} must be a list"))?;
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
            (Some(Value::Object(there)), Value::Object(patch)) => merge_objects(there, patch, &path)?,
            (Some(Value::Array(there)), Value::Array(more)) if path == ".metadata.finalizers" => {
                let new: Vec<_> = more.iter().filter(|item| !there.contains(item)).cloned().collect();
                there.extend(new);
            }
            (Some(Value::Array(there)), Value::Array(more)) if path == ".metadata.ownerReferences" => {
                merge_lists_by_key(there, more, "uid", &path)?;
            }
            (_, Value::Object(patch)) => {
                let mut new = Map::new();
                merge_objects(&mut new, patch, &path)?;
                object.insert(name.clone(), Value::Object(new));
            }
            (_, value) => {
                object.insert(name.clone(), value.clone());
            }
        }
    }
    Ok(())
}

/// Merges two lists of objects, matching them by the field `key`.
fn merge_lists_by_key(there: &mut Vec<Value>, more: &[Value], key: &str, path: &str) -> Result<(), String> {
    for entry in more {
        let fields = entry.as_object().ok_or_else(|| format!("entries in {path:?} must be objects"))?;
        let same = there.iter_mut().find(|one| one.get(key) == entry.get(key)).and_then(Value::as_object_mut);
        match same {
            Some(same) => merge_objects(same, fields, path)?,
            None => there.push(entry.clone()),
        }
    }
    Ok(())
}

/// Returns the line of the patch that sets a field, if any. `path` lists the keys that lead to it, with list
/// indexes as in `sources[0]`.
pub(crate) fn find_patch_line(written: &str, rendered: &str, path: &[&str]) -> Option<PatchLine> {
    let document = tidegate_yaml::parse_document(rendered, &Limits::default()).ok()?;
    let mut node = &document.node;
    let mut key = *path.first()?;
    for segment in path {
        let Content::Map(fields) = &node.content else { break };
        // List indexes are part of the list's segment.
        let name = segment.split('[').next().unwrap_or(segment);
        let index = segment.strip_prefix(name).map(|index| index.trim_matches(['[', ']']).parse::<usize>());
        match node.get(segment).or_else(|| node.get(name)) {
            Some(field) => (node, key) = (field, name),
            // Lists are replaced as a whole, so an entry also decides the fields that it omits.
            None if key.is_empty() => break,
            None => {
                let directive = fields.iter().find(|(name, _)| name == DIRECTIVE || name == RETAIN)?;
                (node, key) = (&directive.1, directive.0.as_str());
                break;
            }
        }
        if let (Content::List(entries), Some(Ok(index))) = (&node.content, index)
            && let Some(entry) = entries.get(index)
        {
            // The entry's first line doesn't contain the list's name, so accept any line.
            (node, key) = (entry, "");
        }
    }
    let lines: Vec<&str> = rendered.lines().collect();
    let end = usize::try_from(node.line).ok()?.min(lines.len());
    // The value may start below the line of its key, so search upward for the key.
    let at = lines.get(..end)?.iter().rposition(|line| line.contains(key)).or(end.checked_sub(1))?;
    let text = lines.get(at)?;
    let mut same = (1..).zip(written.lines()).filter(|(_, line)| line == text);
    let (number, is_rendered) = match (same.next(), same.next()) {
        (Some((number, _)), None) => (number, false),
        _ => (at + 1, true),
    };
    Some(PatchLine { number, is_rendered, text: text.trim().chars().take(SHOWN_MAX).collect() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn apply_to(object: Value, patch: Value) -> Result<Value, String> {
        let mut object = object.as_object().cloned().unwrap();
        apply_patch(&mut object, patch.as_object().unwrap())?;
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
            assert_eq!(apply_to(application.clone(), patch.clone()), Ok(expected), "{patch}");
        }
        assert!(apply_to(application, json!({"spec": {"$patch": "swap"}})).is_err());
    }

    #[test]
    fn the_line_that_decides_a_field_is_found() {
        let written = "{{ if .a }}\nspec:\n  destination: null\n  source:\n    path: {{ .p }}\n{{ end }}";
        let rendered = "\nspec:\n  destination: null\n  source:\n    path: x\n";
        let found = |rendered: &str, path: &[&str]| {
            find_patch_line(written, rendered, path).map(|line| line.to_string())
        };
        for (path, expected) in [
            (&["spec", "destination"][..], Some("line 3 of templatePatch, \"destination: null\"")),
            (&["spec", "destination", "server"], Some("line 3 of templatePatch, \"destination: null\"")),
            (&["spec", "source", "path"], Some("line 5 of the rendered templatePatch, \"path: x\"")),
            (&["spec", "source"], Some("line 4 of templatePatch, \"source:\"")),
            (&["spec", "sources"], None),
            (&["metadata", "labels", "a"], None),
        ] {
            assert_eq!(found(rendered, path).as_deref(), expected, "{path:?}");
        }
        let listed = "spec:\n  sources:\n  - repoURL: a\n    path: x\n  - repoURL: b\n\n    path: y\n";
        for (path, expected) in [
            (&["spec", "sources[0]", "path"][..], Some("line 4 of the rendered templatePatch, \"path: x\"")),
            (&["spec", "sources[1]", "path"], Some("line 7 of the rendered templatePatch, \"path: y\"")),
            (&["spec", "sources[1]"], Some("line 5 of the rendered templatePatch, \"- repoURL: b\"")),
            (
                &["spec", "sources[1]", "chart"],
                Some("line 5 of the rendered templatePatch, \"- repoURL: b\""),
            ),
            (&["spec", "sources"], Some("line 2 of the rendered templatePatch, \"sources:\"")),
        ] {
            assert_eq!(found(listed, path).as_deref(), expected, "{path:?}");
        }
        let replaced = found("spec:\n  $patch: replace\n  project: a\n", &["spec", "destination"]);
        assert_eq!(replaced.as_deref(), Some("line 2 of the rendered templatePatch, \"$patch: replace\""));
        let json = found(r#"{"spec": {"destination": null}}"#, &["spec", "destination"]);
        assert!(json.unwrap().starts_with("line 1 of the rendered templatePatch"));
        assert_eq!(found("", &["spec"]), None);
    }
}
