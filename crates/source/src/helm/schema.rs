//! Schemas of values, which Helm follows wherever they refer to: to files of this machine and to servers. They are looked into before
//! Helm reads them, also those in packed charts.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::charts::Archive;
use crate::tools::each_file;

/// The file of a chart that says what its values may be.
const SCHEMA: &str = "values.schema.json";
/// How the name of a packed chart ends.
const PACKED: &str = ".tgz";
/// Charts inside of packed charts are looked into so deeply.
const DEPTH_MAX: usize = 4;
/// Fields that refer to other schemas.
const REFERRING: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];
/// Fields by which a schema is known.
const KNOWN_AS: [&str; 2] = ["$id", "id"];
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

/// Looks into one file of a chart.
fn look(path: &str, content: &[u8], depth: usize) -> Result<(), String> {
    let name = path.rsplit('/').next().unwrap_or_default();
    if name == SCHEMA {
        // What is no JSON is Helm's to tell.
        let schema = serde_json::from_slice(content).unwrap_or_default();
        return outside(&schema).map_or(Ok(()), |(field, to)| Err(refused(path, &field, &to)));
    }
    let (true, Some(depth)) = (name.ends_with(PACKED), depth.checked_sub(1)) else { return Ok(()) };
    let Ok(archive) = Archive::unpack(path.to_owned(), content) else { return Ok(()) };
    archive.files.iter().try_for_each(|(inside, content)| look(&format!("{path}/{inside}"), content, depth))
}

fn refused(path: &str, field: &str, to: &str) -> String {
    let to = crate::error::plain(&crate::kustomize::shown(to));
    format!(
        "{path} refers to {to} ({field}), and schemas are read of nowhere else than themselves; write what it refers to into its $defs, or set source.helm.skipSchemaValidation: true"
    )
}

/// What a schema refers to outside of itself, and by which field.
fn outside(schema: &Value) -> Option<(String, String)> {
    let mut known = BTreeSet::new();
    each_text(schema, &mut |field, text| {
        if KNOWN_AS.contains(&field) {
            known.insert(text.trim_end_matches('#').to_owned());
        }
    });
    let mut found = None;
    each_text(schema, &mut |field, text| {
        let (to, _) = text.split_once('#').unwrap_or((text, ""));
        let is_outside = match field {
            LANGUAGE => !LANGUAGES.iter().any(|language| text.starts_with(language)) && !known.contains(to),
            _ => REFERRING.contains(&field) && !to.is_empty() && !known.contains(to),
        };
        if is_outside && found.is_none() {
            found = Some((field.to_owned(), text.to_owned()));
        }
    });
    found
}

/// Every text of a schema, with the field it is the value of.
fn each_text(value: &Value, with: &mut impl FnMut(&str, &str)) {
    match value {
        Value::Array(all) => all.iter().for_each(|one| each_text(one, with)),
        Value::Object(fields) => {
            for (field, value) in fields {
                match value {
                    Value::String(text) => with(field, text),
                    _ => each_text(value, with),
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
}
