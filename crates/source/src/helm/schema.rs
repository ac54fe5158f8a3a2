//! Checks of charts' JSON schemas. Helm follows their references to local files and servers, so Tidegate
//! checks every schema first, including those in packaged charts.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::dependencies::{DEPENDENCIES_FOLDER, PACKED_EXTENSION};
use crate::charts::Archive;
use crate::tools::visit_files;

/// Name of a chart's schema file.
const SCHEMA_FILE: &str = "values.schema.json";
/// UTF-8 byte order mark, which Helm ignores.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
/// Keywords that hold data rather than schemas, unless a reference points to them.
const DATA_KEYWORDS: [&str; 5] = ["default", "examples", "example", "const", "enum"];
/// Maximum nesting depth of packaged charts.
const DEPTH_MAX: usize = 4;
/// Keywords that refer to other schemas.
const REFERENCE_KEYWORDS: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];
/// Keywords that define the name of a schema.
const NAME_KEYWORDS: [&str; 2] = ["$id", "id"];
/// Keywords that hold schemas by name, followed by those that hold a list of schemas or a single schema.
const NAMED_SCHEMA_KEYWORDS: [&str; 6] =
    ["$defs", "definitions", "properties", "patternProperties", "dependentSchemas", "dependencies"];
const SCHEMA_LIST_KEYWORDS: [&str; 5] = ["allOf", "anyOf", "oneOf", "prefixItems", "items"];
const SINGLE_SCHEMA_KEYWORDS: [&str; 11] = [
    "items",
    "additionalItems",
    "additionalProperties",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contains",
    "propertyNames",
    "not",
    "if",
    "then",
    "else",
];
/// Keyword that specifies the dialect of a schema.
const DIALECT_KEYWORD: &str = "$schema";
/// Prefixes of the dialects built into Helm.
const DIALECTS: [&str; 2] = ["http://json-schema.org/", "https://json-schema.org/"];

/// Fails if a schema in the chart is unsafe for Helm to read.
pub(super) fn check_schemas(chart: &Path) -> Result<(), String> {
    let mut found = Ok(());
    visit_files(
        chart,
        |name| name == SCHEMA_FILE || name.ends_with(PACKED_EXTENSION),
        |path, content| {
            if found.is_ok() {
                found = check_file(path, content, DEPTH_MAX);
            }
        },
    );
    found
}

/// Checks one file of a chart. Rejects a schema that can't be parsed, because Helm might still parse it and
/// follow its references.
fn check_file(path: &str, content: &[u8], depth: usize) -> Result<(), String> {
    // Helm treats backslashes in archive paths as slashes.
    let path = &path.replace('\\', "/");
    let mut names = path.rsplit('/');
    let (name, folder) = (names.next().unwrap_or_default(), names.next());
    if name == SCHEMA_FILE {
        if !is_of_chart(path) {
            return Ok(());
        }
        let text = content.strip_prefix(BYTE_ORDER_MARK).unwrap_or(content);
        let schema =
            serde_json::from_slice(text).map_err(|error| unreadable_schema(path, &error.to_string()))?;
        return find_outside_reference(&schema)
            .map_or(Ok(()), |(field, to)| Err(outside_reference_error(path, &field, &to)));
    }
    if !name.ends_with(PACKED_EXTENSION) || folder != Some(DEPENDENCIES_FOLDER) {
        return Ok(());
    }
    let depth = depth
        .checked_sub(1)
        .ok_or_else(|| unreadable_schema(path, "the chart is nested too deeply in other charts"))?;
    let archive = Archive::unpack(path.to_owned(), content)
        .map_err(|problem| unreadable_schema(path, &problem.to_string()))?;
    archive
        .files
        .iter()
        .try_for_each(|(inside, content)| check_file(&format!("{path}/{inside}"), content, depth))
}

/// Returns true if a file is in the top-level folder of the chart or of a subchart.
fn is_of_chart(path: &str) -> bool {
    let mut parts: Vec<&str> = path.split('/').collect();
    while let [DEPENDENCIES_FOLDER, _, rest @ ..] = parts.as_slice() {
        parts = rest.to_vec();
    }
    parts.len() == 1
}

fn unreadable_schema(path: &str, reason: &str) -> String {
    let reason = crate::error::to_line(reason);
    format!(
        "cannot check the values schemas of {path}: {reason}; fix the file, or set source.helm.skipSchemaValidation: true"
    )
}

fn outside_reference_error(path: &str, field: &str, to: &str) -> String {
    let to = crate::error::to_line(&crate::kustomize::without_secrets(to));
    format!(
        "{path} refers to {to} ({field}), but references outside the schema are not allowed; move the definition \
         into the schema's $defs, or set source.helm.skipSchemaValidation: true"
    )
}

/// Returns the first reference outside the schema, preceded by its keyword.
fn find_outside_reference(schema: &Value) -> Option<(String, String)> {
    let (mut known, base) =
        (BTreeSet::from([SCHEMA_FILE.to_owned()]), schema_name(schema).unwrap_or_default());
    collect_names(schema, base, &mut known);
    let mut refers_to_data = false;
    visit_texts(schema, false, true, &mut |field, text| {
        let is_data = |part: &str| DATA_KEYWORDS.contains(&part);
        refers_to_data |= REFERENCE_KEYWORDS.contains(&field) && text.split('/').any(is_data);
    });
    let mut found = None;
    visit_texts(schema, false, refers_to_data, &mut |field, text| {
        let (to, _) = text.split_once('#').unwrap_or((text, ""));
        let is_known = to.is_empty()
            || known.contains(to)
            || known.contains(&resolve_name(base, to))
            || DIALECTS.iter().any(|language| text.starts_with(language));
        if !is_known && (field == DIALECT_KEYWORD || REFERENCE_KEYWORDS.contains(&field)) && found.is_none() {
            found = Some((field.to_owned(), text.to_owned()));
        }
    });
    found
}

/// Returns the name of a schema, without a fragment.
fn schema_name(schema: &Value) -> Option<&str> {
    let name = NAME_KEYWORDS.iter().find_map(|field| schema.get(*field)?.as_str())?;
    Some(name.split('#').next().unwrap_or_default())
}

/// Collects the names of a schema and its subschemas. References can't use names defined elsewhere in the
/// document.
fn collect_names(schema: &Value, base: &str, known: &mut BTreeSet<String>) {
    if let Some(name) = schema_name(schema).filter(|name| !name.is_empty()) {
        known.extend([name.to_owned(), resolve_name(base, name)]);
    }
    let named = NAMED_SCHEMA_KEYWORDS.iter().filter_map(|field| schema.get(*field)?.as_object());
    let listed = SCHEMA_LIST_KEYWORDS.iter().filter_map(|field| schema.get(*field)?.as_array());
    let single = SINGLE_SCHEMA_KEYWORDS.iter().filter_map(|field| schema.get(*field));
    named.flat_map(|all| all.values()).chain(listed.flatten()).chain(single).for_each(|one| {
        if one.is_object() {
            collect_names(one, base, known);
        }
    });
}

/// Resolves a subschema's name against the schema's.
fn resolve_name(base: &str, name: &str) -> String {
    let folder = base.rsplit_once('/').map_or("", |(folder, _)| folder);
    if folder.is_empty() || name.contains(':') || name.starts_with('/') {
        return name.to_owned();
    }
    format!("{folder}/{name}")
}

/// Visits each string in a schema along with its field. `has_names` is true if the fields of `value` are
/// schema names rather than keywords; `with_data` includes data.
fn visit_texts(value: &Value, has_names: bool, with_data: bool, with: &mut impl FnMut(&str, &str)) {
    match value {
        Value::Array(all) => all.iter().for_each(|one| visit_texts(one, false, with_data, with)),
        Value::Object(fields) => {
            for (field, value) in fields {
                let is = |names: &[&str]| !has_names && names.contains(&field.as_str());
                match value {
                    Value::String(text) if !has_names => with(field, text),
                    _ if is(&DATA_KEYWORDS) && !with_data => {}
                    _ => visit_texts(value, is(&NAMED_SCHEMA_KEYWORDS), with_data, with),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_of_schemas() {
        for (schema, expected) in [
            (json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}}), None),
            (json!({"$schema": "http://json-schema.org/draft-07/schema#"}), None),
            (json!({"$id": "https://a/b.json", "properties": {"c": {"$ref": "https://a/b.json#/x"}}}), None),
            (json!({"properties": {"$ref": {"type": "string"}}}), None),
            (json!({"$id": "https://a/s/b.json", "$ref": "b.json#/$defs/p"}), None),
            (
                json!({"$id": "https://a/b.json", "$defs": {"c": {"$id": "c.json"}}, "$ref": "https://a/c.json"}),
                None,
            ),
            (json!({"properties": {"schema": {"$ref": "http://json-schema.org/draft-07/schema#"}}}), None),
            (json!({"default": {"$ref": "other.yaml"}}), None),
            (json!({"$ref": "values.schema.json#/definitions/a"}), None),
            (json!({"properties": {"default": {"$ref": "file:///etc/a"}}}), Some("file:///etc/a")),
            (json!({"default": {"$ref": "file:///etc/a"}, "$ref": "#/default"}), Some("file:///etc/a")),
            // In these positions, `$id` doesn't define a name.
            (json!({"const": {"$id": "file:///etc/a"}, "$ref": "file:///etc/a"}), Some("file:///etc/a")),
            (
                json!({"x": {"$id": "file:///etc/a"}, "allOf": [{"$ref": "file:///etc/a"}]}),
                Some("file:///etc/a"),
            ),
            (json!({"$ref": "file:///etc/passwd"}), Some("file:///etc/passwd")),
            (
                json!({"properties": {"a": {"allOf": [{"$ref": "http://127.0.0.1/a"}]}}}),
                Some("http://127.0.0.1/a"),
            ),
            (json!({"$dynamicRef": "other.json#a"}), Some("other.json#a")),
            (json!({"$schema": "http://127.0.0.1/a"}), Some("http://127.0.0.1/a")),
        ] {
            assert_eq!(find_outside_reference(&schema).map(|(_, to)| to).as_deref(), expected, "{schema}");
        }
    }

    #[test]
    fn unreadable_schemas_are_rejected() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        for (path, content) in [
            ("values.schema.json", deep.as_str()),
            ("values.schema.json", "{\"title\": \"\\ud800\"}"),
            ("charts\\sub\\values.schema.json", "{\"$ref\": \"file:///etc/a\"}"),
            ("charts/a.tgz", "damaged or not a chart"),
            ("charts/b/charts/a.tgz", "damaged or not a chart"),
        ] {
            assert!(check_file(path, content.as_bytes(), DEPTH_MAX).is_err(), "{path}");
        }
        for (path, content) in [
            ("files/a.tgz", "damaged or not a chart"),
            ("values.yaml", "{"),
            ("values.schema.json", "\u{feff}{}"),
            ("tests/values.schema.json", "{"),
        ] {
            assert_eq!(check_file(path, content.as_bytes(), DEPTH_MAX), Ok(()), "{path}");
        }
    }
}
