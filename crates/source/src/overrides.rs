//! What files in the folder of a source change of it: `.argocd-source.yaml`, and then `.argocd-source-NAME.yaml` for the
//! application of that name. They hold parts of `spec.source`, merged into it as a merge patch is (RFC 7396).

use serde_json::{Map, Value};
use tidegate_model::argo::ApplicationSource;

use crate::SourceError;
use crate::tree::{Reader, full};

/// How their names begin.
const PREFIX: &str = ".argocd-source";

/// Whether a file of a folder is one of them, and so no manifest.
pub(crate) fn is_one(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let rest = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(".yaml"));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// A source with what the files of its folder change. Where it is from, they cannot change. `folder` is its path, and the
/// names of what is in it.
pub(crate) fn applied(
    source: &ApplicationSource,
    reader: &Reader<'_>,
    (folder, names): (&str, &[String]),
    application: &str,
) -> Result<ApplicationSource, SourceError> {
    let mut merged = source.clone();
    let files = [format!("{PREFIX}.yaml"), format!("{PREFIX}-{application}.yaml")];
    for name in files.into_iter().filter(|name| names.contains(name)) {
        let file = full(folder, &name);
        let Some(entry) = reader.lookup(&file)? else { continue };
        let Some(content) = reader.content(&file, &entry)? else { continue };
        merged = changed(&merged, &content).map_err(|reason| SourceError::Overrides { file, reason })?;
    }
    let ApplicationSource { repo_url, path, chart, target_revision, reference, .. } = source.clone();
    Ok(ApplicationSource { repo_url, path, chart, target_revision, reference, ..merged })
}

fn changed(source: &ApplicationSource, content: &[u8]) -> Result<ApplicationSource, String> {
    let text = std::str::from_utf8(content).map_err(|_| "it is not UTF-8 text".to_owned())?;
    if text.trim().is_empty() {
        return Ok(source.clone());
    }
    let plain = |error: String| crate::error::plain(&error);
    let patch: Value = serde_saphyr::from_str(text).map_err(|error| plain(error.to_string()))?;
    if !patch.is_object() {
        return Err("it is no map of fields".to_owned());
    }
    let mut value = serde_json::to_value(source).map_err(|error| plain(error.to_string()))?;
    merge(&mut value, patch);
    serde_json::from_value(value).map_err(|error| plain(error.to_string()))
}

fn merge(target: &mut Value, patch: Value) {
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
            merge(fields.entry(name).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use serde_json::json;

    use super::*;

    /// Examples of RFC 7396, appendix A.
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
            merge(&mut merged, patch.clone());
            assert_eq!(merged, expected, "{target} {patch}");
        }
    }

    #[test]
    fn what_is_no_part_of_a_source_is_refused() {
        let source = ApplicationSource { path: "app".to_owned(), ..ApplicationSource::default() };
        for (content, part) in [
            ("helm: [a]", ""),
            ("- a", "no map"),
            ("a", "no map"),
            ("helm: {parameters: {name: a}}", ""),
            ("helm: {", ""),
        ] {
            let error = changed(&source, content.as_bytes()).unwrap_err();
            assert!(error.contains(part), "{content}: {error}");
        }
        assert!(changed(&source, b"\xff").is_err());
        assert_eq!(changed(&source, b" \n").unwrap(), source);
        for (path, expected) in [
            (".argocd-source.yaml", true),
            ("deep/.argocd-source-shop.yaml", true),
            (".argocd-sources.yaml", false),
            ("argocd-source.yaml", false),
            (".argocd-source.yml", false),
        ] {
            assert_eq!(is_one(path), expected, "{path}");
        }
    }
}
