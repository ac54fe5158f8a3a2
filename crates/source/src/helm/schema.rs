//! Schemas of values, which Helm follows wherever they refer to: to files of this machine and to servers. They are looked into before
//! Helm reads them, also those in packed charts.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::dependencies::{FOLDER, PACKED};
use crate::charts::Archive;
use crate::tools::each_file;

/// The file of a chart that says what its values may be.
const SCHEMA: &str = "values.schema.json";
/// What some programs write before the text of a file.
const MARK: &[u8] = "\u{feff}".as_bytes();
/// Fields whose values are data, unless something refers to them.
const DATA: [&str; 5] = ["default", "examples", "example", "const", "enum"];
/// Charts inside of packed charts are looked into so deeply.
const DEPTH_MAX: usize = 4;
/// Fields that refer to other schemas.
const REFERRING: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];
/// Fields by which a schema is known.
const KNOWN_AS: [&str; 2] = ["$id", "id"];
/// Fields that hold schemas by names, in lists, or by themselves.
const NAMED: [&str; 6] =
    ["$defs", "definitions", "properties", "patternProperties", "dependentSchemas", "dependencies"];
const LISTED: [&str; 5] = ["allOf", "anyOf", "oneOf", "prefixItems", "items"];
const SINGLE: [&str; 11] = [
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
/// Says what language a schema is in.
const LANGUAGE: &str = "$schema";
/// The languages that Helm knows by itself.
const LANGUAGES: [&str; 2] = ["http://json-schema.org/", "https://json-schema.org/"];

/// Why the chart in a folder must not be read by Helm.
pub(super) fn check(chart: &Path) -> Result<(), String> {
    let mut found = Ok(());
    each_file(
        chart,
        |name| name == SCHEMA || name.ends_with(PACKED),
        |path, content| {
            if found.is_ok() {
                found = look(path, content, DEPTH_MAX);
            }
        },
    );
    found
}

/// Looks into one file of a chart. What cannot be read as Helm reads it is refused: nobody knows what it refers to.
fn look(path: &str, content: &[u8], depth: usize) -> Result<(), String> {
    // Helm tells no slashes from the other ones.
    let path = &path.replace('\\', "/");
    let mut names = path.rsplit('/');
    let (name, folder) = (names.next().unwrap_or_default(), names.next());
    if name == SCHEMA {
        if !is_of_chart(path) {
            return Ok(());
        }
        let text = content.strip_prefix(MARK).unwrap_or(content);
        let schema = serde_json::from_slice(text).map_err(|error| unread(path, &error.to_string()))?;
        return outside(&schema).map_or(Ok(()), |(field, to)| Err(refused(path, &field, &to)));
    }
    if !name.ends_with(PACKED) || folder != Some(FOLDER) {
        return Ok(());
    }
    let depth = depth.checked_sub(1).ok_or_else(|| unread(path, "it is too deep in other charts"))?;
    let archive =
        Archive::unpack(path.to_owned(), content).map_err(|problem| unread(path, &problem.to_string()))?;
    archive.files.iter().try_for_each(|(inside, content)| look(&format!("{path}/{inside}"), content, depth))
}

/// Whether a file is at the top of the chart, or of one that it has.
fn is_of_chart(path: &str) -> bool {
    let mut parts: Vec<&str> = path.split('/').collect();
    while let [FOLDER, _, rest @ ..] = parts.as_slice() {
        parts = rest.to_vec();
    }
    parts.len() == 1
}

fn unread(path: &str, why: &str) -> String {
    let why = crate::error::plain(why);
    format!(
        "what schemas of values {path} has cannot be looked at: {why}; mend it, or set source.helm.skipSchemaValidation: true"
    )
}

fn refused(path: &str, field: &str, to: &str) -> String {
    let to = crate::error::plain(&crate::kustomize::shown(to));
    format!(
        "{path} refers to {to} ({field}), and schemas are read of nowhere else than themselves; write what it refers to into its $defs, or set source.helm.skipSchemaValidation: true"
    )
}

/// What a schema refers to outside of itself, and by which field.
fn outside(schema: &Value) -> Option<(String, String)> {
    let (mut known, base) = (BTreeSet::from([SCHEMA.to_owned()]), own_name(schema).unwrap_or_default());
    add_names(schema, base, &mut known);
    let mut refers_to_data = false;
    each_text(schema, (false, true), &mut |field, text| {
        let is_data = |part: &str| DATA.contains(&part);
        refers_to_data |= REFERRING.contains(&field) && text.split('/').any(is_data);
    });
    let mut found = None;
    each_text(schema, (false, refers_to_data), &mut |field, text| {
        let (to, _) = text.split_once('#').unwrap_or((text, ""));
        let is_known = to.is_empty()
            || known.contains(to)
            || known.contains(&joined(base, to))
            || LANGUAGES.iter().any(|language| text.starts_with(language));
        if !is_known && (field == LANGUAGE || REFERRING.contains(&field)) && found.is_none() {
            found = Some((field.to_owned(), text.to_owned()));
        }
    });
    found
}

/// By what a schema is known.
fn own_name(schema: &Value) -> Option<&str> {
    let name = KNOWN_AS.iter().find_map(|field| schema.get(*field)?.as_str())?;
    Some(name.split('#').next().unwrap_or_default())
}

/// The names of a schema and of those in it, where there are schemas: what stands elsewhere is not found by its name.
fn add_names(schema: &Value, base: &str, known: &mut BTreeSet<String>) {
    if let Some(name) = own_name(schema).filter(|name| !name.is_empty()) {
        known.extend([name.to_owned(), joined(base, name)]);
    }
    let named = NAMED.iter().filter_map(|field| schema.get(*field)?.as_object());
    let listed = LISTED.iter().filter_map(|field| schema.get(*field)?.as_array());
    let single = SINGLE.iter().filter_map(|field| schema.get(*field));
    named.flat_map(|all| all.values()).chain(listed.flatten()).chain(single).for_each(|one| {
        if one.is_object() {
            add_names(one, base, known);
        }
    });
}

/// A name as it is meant beside another one.
fn joined(base: &str, name: &str) -> String {
    let folder = base.rsplit_once('/').map_or("", |(folder, _)| folder);
    if folder.is_empty() || name.contains(':') || name.starts_with('/') {
        return name.to_owned();
    }
    format!("{folder}/{name}")
}

/// Every text of a schema, with the field it is the value of; `has_names` where fields are names of schemas, `with_data` also in data.
fn each_text(value: &Value, (has_names, with_data): (bool, bool), with: &mut impl FnMut(&str, &str)) {
    match value {
        Value::Array(all) => all.iter().for_each(|one| each_text(one, (false, with_data), with)),
        Value::Object(fields) => {
            for (field, value) in fields {
                let is = |names: &[&str]| !has_names && names.contains(&field.as_str());
                match value {
                    Value::String(text) if !has_names => with(field, text),
                    _ if is(&DATA) && !with_data => {}
                    _ => each_text(value, (is(&NAMED), with_data), with),
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
    fn what_a_schema_refers_to() {
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
            // Of these nothing is known by a name.
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
            assert_eq!(outside(&schema).map(|(_, to)| to).as_deref(), expected, "{schema}");
        }
    }

    #[test]
    fn what_cannot_be_looked_at_is_refused() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        for (path, content) in [
            ("values.schema.json", deep.as_str()),
            ("values.schema.json", "{\"title\": \"\\ud800\"}"),
            ("charts\\sub\\values.schema.json", "{\"$ref\": \"file:///etc/a\"}"),
            ("charts/a.tgz", "no archive"),
            ("charts/b/charts/a.tgz", "no archive"),
        ] {
            assert!(look(path, content.as_bytes(), DEPTH_MAX).is_err(), "{path}");
        }
        for (path, content) in [
            ("files/a.tgz", "no archive"),
            ("values.yaml", "{"),
            ("values.schema.json", "\u{feff}{}"),
            ("tests/values.schema.json", "{"),
        ] {
            assert_eq!(look(path, content.as_bytes(), DEPTH_MAX), Ok(()), "{path}");
        }
    }
}
