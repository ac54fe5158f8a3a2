//! Source overrides in files in the source's folder: `.argocd-source.yaml` for all Applications, and then
//! `.argocd-source-NAME.yaml` for the Application NAME. They contain fields of `spec.source` and are applied
//! as merge patches (RFC 7396).

use serde_json::{Map, Value};
use tidegate_model::argo::ApplicationSource;

use crate::SourceError;
use crate::tree::{CommitReader, join_paths};

/// Name prefix of these files.
const PREFIX: &str = ".argocd-source";

/// Returns true if a file holds source overrides and thus isn't a manifest.
pub(crate) fn is_overrides_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let rest = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(".yaml"));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Applies the overrides in a source's folder to the source. They can't change its repository, path or
/// revision. `folder` is the path of the folder and `names` are its entries.
pub(crate) fn apply_overrides(
    source: &ApplicationSource,
    reader: &CommitReader<'_>,
    folder: &str,
    names: &[String],
    application: &str,
) -> Result<ApplicationSource, SourceError> {
    let mut merged = source.clone();
    let files = [format!("{PREFIX}.yaml"), format!("{PREFIX}-{application}.yaml")];
    for name in files.into_iter().filter(|name| names.contains(name)) {
        let file = join_paths(folder, &name);
        let Some(entry) = reader.lookup(&file)? else { continue };
        let Some(content) = reader.content(&file, &entry)? else { continue };
        merged =
            apply_content(&merged, &content).map_err(|reason| SourceError::Overrides { file, reason })?;
    }
    let ApplicationSource { repo_url, path, chart, target_revision, reference, .. } = source.clone();
    Ok(ApplicationSource { repo_url, path, chart, target_revision, reference, ..merged })
}

fn apply_content(source: &ApplicationSource, content: &[u8]) -> Result<ApplicationSource, String> {
    let text = std::str::from_utf8(content).map_err(|_| "the file is not UTF-8 text".to_owned())?;
    if text.trim().is_empty() {
        return Ok(source.clone());
    }
    let plain = |error: String| crate::error::to_line(&error);
    let patch: Value = serde_saphyr::from_str(text).map_err(|error| plain(error.to_string()))?;
    if !patch.is_object() {
        return Err("not a map of fields".to_owned());
    }
    let mut value = serde_json::to_value(source).map_err(|error| plain(error.to_string()))?;
    merge_patch(&mut value, patch);
    serde_json::from_value(value).map_err(|error| plain(error.to_string()))
}

fn merge_patch(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(fields) = target.as_object_mut() else { return };
    for (name, value) in patch {
        if value.is_null() {
            fields.remove(&name);
        } else {
            merge_patch(fields.entry(name).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use serde_json::json;

    use super::*;

    /// The examples come from appendix A of RFC 7396.
    #[test]
    fn patches_are_merged_as_the_rfc_says() {
        for (target, patch, expected) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ] {
            let mut merged = target.clone();
            merge_patch(&mut merged, patch.clone());
            assert_eq!(merged, expected, "{target} {patch}");
        }
    }

    #[test]
    fn unknown_fields_of_overrides_are_rejected() {
        let source = ApplicationSource { path: "app".to_owned(), ..ApplicationSource::default() };
        for (content, part) in [
            ("helm: [a]", ""),
            ("- a", "not a map"),
            ("a", "not a map"),
            ("helm: {parameters: {name: a}}", ""),
            ("helm: {", ""),
        ] {
            let error = apply_content(&source, content.as_bytes()).unwrap_err();
            assert!(error.contains(part), "{content}: {error}");
        }
        assert!(apply_content(&source, b"\xff").is_err());
        assert_eq!(apply_content(&source, b" \n").unwrap(), source);
        for (path, expected) in [
            (".argocd-source.yaml", true),
            ("deep/.argocd-source-shop.yaml", true),
            (".argocd-sources.yaml", false),
            ("argocd-source.yaml", false),
            (".argocd-source.yml", false),
        ] {
            assert_eq!(is_overrides_file(path), expected, "{path}");
        }
    }
}
