//! Edits to a kustomization from its source, like `kustomize edit`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tidegate_model::argo::{KustomizeReplicas, KustomizeSource};

use super::remote_entry::is_address;
use super::{Kustomization, invalid_kustomization};
use crate::SourceError;
use crate::file_access::resolve_path;
use crate::render_target::Variables;
use crate::tree::CommitReader;

/// Placeholder for the current value in an image.
const CURRENT_VALUE: &str = "*";

/// Applies `source.kustomize` to a kustomization.
pub(super) fn apply_edits(
    found: &mut Kustomization,
    said: &KustomizeSource,
    path: &str,
    reader: &CommitReader<'_>,
    variables: &Variables,
) -> Result<(), SourceError> {
    let Kustomization { file, value } = found;
    let Some(fields) = value.as_object_mut() else { return Ok(()) };
    if !said.version.is_empty() {
        return Err(invalid_kustomization(
            file,
            format!(
                "source.kustomize.version {:?} is not available: only one Kustomize program is configured",
                said.version
            ),
        ));
    }
    for (field, text) in
        [("namePrefix", &said.name_prefix), ("nameSuffix", &said.name_suffix), ("namespace", &said.namespace)]
    {
        if !text.is_empty() {
            fields.insert(field.to_owned(), json!(text));
        }
    }
    let invalid = |reason: String| invalid_kustomization(file, reason);
    if !said.images.is_empty() {
        let images = said.images.iter().map(|image| variables.replace(image));
        set_images(fields, images).map_err(invalid)?;
    }
    if !said.replicas.is_empty() {
        set_replicas(fields, &said.replicas).map_err(invalid)?;
    }
    if !said.common_labels.is_empty() {
        let labels = said.common_labels.iter().map(|(name, value)| (name.clone(), variables.replace(value)));
        add_labels(fields, labels.collect(), said).map_err(invalid)?;
    }
    if !said.common_annotations.is_empty() {
        let value = |value: &String| {
            if said.common_annotations_envsubst { variables.replace(value) } else { value.clone() }
        };
        let all = said.common_annotations.iter().map(|(name, text)| (name.clone(), value(text))).collect();
        let known = map_field(fields, "commonAnnotations").map_err(invalid)?;
        add_entries(known, all, said.force_common_annotations, "annotation", "forceCommonAnnotations")
            .map_err(invalid)?;
    }
    if !said.patches.is_empty() {
        let patches = list_field(fields, "patches").map_err(invalid)?;
        for patch in &said.patches {
            patches.push(serde_json::to_value(patch).map_err(|error| invalid(error.to_string()))?);
        }
    }
    for component in &said.components {
        let is_there = is_address(component) || reader.lookup(&resolve_path(path, component)?)?.is_some();
        let known = list_field(fields, "components").map_err(invalid)?;
        if (is_there || !said.ignore_missing_components) && !known.contains(&json!(component)) {
            known.push(json!(component));
        }
    }
    Ok(())
}

/// Returns a list in the kustomization, creating it if necessary.
fn list_field<'f>(fields: &'f mut Map<String, Value>, name: &str) -> Result<&'f mut Vec<Value>, String> {
    let field = fields.entry(name).or_insert(Value::Null);
    if field.is_null() {
        *field = json!([]);
    }
    field.as_array_mut().ok_or_else(|| format!("{name} is not a list"))
}

fn map_field<'f>(
    fields: &'f mut Map<String, Value>,
    name: &str,
) -> Result<&'f mut Map<String, Value>, String> {
    let field = fields.entry(name).or_insert(Value::Null);
    if field.is_null() {
        *field = json!({});
    }
    field.as_object_mut().ok_or_else(|| format!("{name} is not a map"))
}

/// Adds entries to a map. Without `force`, overwriting an entry is an error.
fn add_entries(
    known: &mut Map<String, Value>,
    all: BTreeMap<String, String>,
    force: bool,
    what: &str,
    option: &str,
) -> Result<(), String> {
    for (name, value) in all {
        if known.contains_key(&name) && !force {
            return Err(format!(
                "the {what} {name} already exists; set source.kustomize.{option} to replace the existing value"
            ));
        }
        known.insert(name, json!(value));
    }
    Ok(())
}

fn add_labels(
    fields: &mut Map<String, Value>,
    labels: BTreeMap<String, String>,
    said: &KustomizeSource,
) -> Result<(), String> {
    let option = "forceCommonLabels";
    if !said.label_without_selector {
        return add_entries(
            map_field(fields, "commonLabels")?,
            labels,
            said.force_common_labels,
            "label",
            option,
        );
    }
    let lists = list_field(fields, "labels")?;
    let flag = |entry: &Value, name: &str| entry.get(name).and_then(Value::as_bool).unwrap_or_default();
    let is_meant = |entry: &&mut Value| {
        !flag(entry, "includeSelectors") && flag(entry, "includeTemplates") == said.label_include_templates
    };
    if let Some(entry) = lists.iter_mut().find(is_meant).and_then(Value::as_object_mut) {
        return add_entries(map_field(entry, "pairs")?, labels, said.force_common_labels, "label", option);
    }
    let mut entry = json!({"pairs": labels});
    if said.label_include_templates
        && let Some(entry) = entry.as_object_mut()
    {
        entry.insert("includeTemplates".to_owned(), json!(true));
    }
    lists.push(entry);
    Ok(())
}

fn set_replicas(fields: &mut Map<String, Value>, replicas: &[KustomizeReplicas]) -> Result<(), String> {
    let mut all = entries_by_name(list_field(fields, "replicas")?);
    for KustomizeReplicas { name, count, .. } in replicas {
        let number = count.as_i64().or_else(|| count.as_str()?.parse().ok()).filter(|number| *number >= 0);
        let number =
            number.ok_or_else(|| format!("invalid replica count {count} for {name}: use a number"))?;
        all.insert(name.clone(), json!({"name": name, "count": number}));
    }
    *list_field(fields, "replicas")? = all.into_values().collect();
    Ok(())
}

fn entries_by_name(entries: &[Value]) -> BTreeMap<String, Value> {
    let named = |entry: &Value| Some((entry.get("name")?.as_str()?.to_owned(), entry.clone()));
    entries.iter().filter_map(named).collect()
}

/// A new name, tag or digest for an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Image {
    name: String,
    new_name: String,
    tag: String,
    digest: String,
}

/// Parses `name=other:tag`, `name=other@digest`, `name=other`, `name:tag` or `name@digest`.
fn parse_image(text: &str) -> Option<Image> {
    let overwrite = |text: &str| {
        if let Some((name, digest)) = text.split_once('@') {
            return (name.to_owned(), String::new(), digest.to_owned());
        }
        let is_tag = |tag: &str| {
            tag == CURRENT_VALUE || tag.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
        };
        match text.rsplit_once(':').filter(|(_, tag)| is_tag(tag)) {
            Some((name, tag)) => (name.to_owned(), tag.to_owned(), String::new()),
            None => (text.to_owned(), String::new(), String::new()),
        }
    };
    match text.split('=').collect::<Vec<_>>().as_slice() {
        [name, other] if !name.is_empty() && !other.is_empty() => {
            let (new_name, tag, digest) = overwrite(other);
            Some(Image { name: (*name).to_owned(), new_name, tag, digest })
        }
        [only] => {
            let (name, tag, digest) = overwrite(only);
            let has_version = !tag.is_empty() || !digest.is_empty();
            (has_version && !name.is_empty()).then_some(Image { name, new_name: String::new(), tag, digest })
        }
        _ => None,
    }
}

fn set_images(fields: &mut Map<String, Value>, images: impl Iterator<Item = String>) -> Result<(), String> {
    let mut all = entries_by_name(list_field(fields, "images")?);
    for text in images {
        let Some(Image { name, new_name, tag, digest }) = parse_image(&text) else {
            return Err(format!(
                "invalid entry {text:?} in source.kustomize.images: use name=other:tag, name=other@digest, \
                 name=other, name:tag or name@digest"
            ));
        };
        let before = all.remove(&name).unwrap_or_default();
        let mut entry = Map::new();
        entry.insert("name".to_owned(), json!(name));
        for (field, new) in [("newName", new_name), ("newTag", tag), ("digest", digest)] {
            let same = before.get(field).and_then(Value::as_str).unwrap_or_default();
            let new = if new == CURRENT_VALUE { same } else { new.as_str() };
            if !new.is_empty() {
                entry.insert(field.to_owned(), json!(new));
            }
        }
        all.insert(name, Value::Object(entry));
    }
    *list_field(fields, "images")? = all.into_values().collect();
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use super::*;

    fn map_of(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    /// The expected results are those of `kustomize edit set image`.
    #[test]
    fn images() {
        for (before, text, expected) in [
            (
                json!([]),
                vec!["nginx=reg:5000/nginx"],
                json!([{"name": "nginx", "newName": "reg:5000/nginx"}]),
            ),
            (json!([]), vec!["nginx:1.2"], json!([{"name": "nginx", "newTag": "1.2"}])),
            (
                json!([]),
                vec!["nginx=other:1.2"],
                json!([{"name": "nginx", "newName": "other", "newTag": "1.2"}]),
            ),
            (json!([]), vec!["nginx@sha256:abc"], json!([{"name": "nginx", "digest": "sha256:abc"}])),
            (
                json!([]),
                vec!["a=b@sha256:abc", "0:1"],
                json!([{"name": "0", "newTag": "1"}, {"name": "a", "newName": "b", "digest": "sha256:abc"}]),
            ),
            (
                json!([{"name": "nginx", "newName": "mine", "newTag": "1"}, {"name": "a", "newTag": "2"}]),
                vec!["nginx=*:2"],
                json!([{"name": "a", "newTag": "2"}, {"name": "nginx", "newName": "mine", "newTag": "2"}]),
            ),
            (json!([{"name": "a", "newTag": "1"}]), vec!["a=b"], json!([{"name": "a", "newName": "b"}])),
        ] {
            let mut found = map_of(json!({"images": before}));
            set_images(&mut found, text.iter().map(|word| (*word).to_owned())).unwrap();
            assert_eq!(found["images"], expected, "{text:?}");
        }
        for word in ["nginx", "", "a=b=c", "=b", "a=", ":1"] {
            let error = set_images(&mut map_of(json!({})), [word.to_owned()].into_iter()).unwrap_err();
            assert!(error.contains("name=other:tag"), "{word}: {error}");
        }
    }

    #[test]
    fn labels_go_where_their_options_say() {
        let labels = || BTreeMap::from([("team".to_owned(), "a".to_owned())]);
        let said = |without, templates, force| KustomizeSource {
            label_without_selector: without,
            label_include_templates: templates,
            force_common_labels: force,
            ..KustomizeSource::default()
        };
        for (before, said, expected) in [
            (json!({}), said(false, false, false), json!({"commonLabels": {"team": "a"}})),
            (
                json!({"commonLabels": {"team": "b"}}),
                said(false, false, true),
                json!({"commonLabels": {"team": "a"}}),
            ),
            (json!({}), said(true, false, false), json!({"labels": [{"pairs": {"team": "a"}}]})),
            (
                json!({}),
                said(true, true, false),
                json!({"labels": [{"pairs": {"team": "a"}, "includeTemplates": true}]}),
            ),
            (
                json!({"labels": [{"pairs": {"b": "c"}, "includeSelectors": true}, {"pairs": {"d": "e"}}]}),
                said(true, false, false),
                json!({"labels": [{"pairs": {"b": "c"}, "includeSelectors": true}, {"pairs": {"d": "e", "team": "a"}}]}),
            ),
        ] {
            let mut found = map_of(before);
            add_labels(&mut found, labels(), &said).unwrap();
            assert_eq!(Value::Object(found), expected);
        }
        let mut found = map_of(json!({"commonLabels": {"team": "b"}}));
        let error = add_labels(&mut found, labels(), &said(false, false, false)).unwrap_err();
        assert!(error.contains("forceCommonLabels"), "{error}");
    }
}
