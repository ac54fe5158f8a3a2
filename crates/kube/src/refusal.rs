//! Details of refused manifests: immutable fields, and refusals specific to server-side apply.

use serde_json::{Map, Value};
use tidegate_cluster::{ImmutableField, Refusal};

/// Prefix of the server's message for a manifest that server-side apply can't process.
pub(crate) const TYPED_PATCH: &str = "failed to create typed patch object";
/// Prefix of the server's error list from strict decoding.
const STRICT_DECODING: &str = "strict decoding error: ";
const STRICT_UNKNOWN_FIELD: &str = "unknown field ";
const UNKNOWN_FIELD: &str = ": field not declared in schema";
const DUPLICATE_FIELD: &str = ": duplicate entries for key ";

/// Phrases that servers use for immutable fields. The first phrase is also common in the validation rules of
/// custom resource definitions.
const IMMUTABLE_PHRASES: [&str; 5] =
    ["immutable", "may not change", "cannot change", "cannot be changed", "updates to "];

/// Returns the details of a refused server-side apply. A server reports unknown fields one level at a time,
/// and repeated keys only if all fields are known.
pub(crate) fn parse_typed_patch(message: &str) -> Option<Refusal> {
    if !message.contains(TYPED_PATCH) && !message.contains("failed to create manager for existing fields") {
        return None;
    }
    if message.contains(DUPLICATE_FIELD) {
        return Some(Refusal::DuplicateItems);
    }
    let errors = message.split_once(": errors:\n").map_or_else(
        || message.split_once(": .").map(|(_, path)| vec![format!(".{path}")]),
        |(_, lines)| Some(lines.lines().map(|line| line.trim().to_owned()).collect()),
    )?;
    let paths: Option<Vec<String>> =
        errors.iter().map(|error| error.strip_suffix(UNKNOWN_FIELD).map(str::to_owned)).collect();
    paths.map(Refusal::UnknownFields)
}

/// Returns true if a server found unknown fields in a create, update or patch request with strict validation.
pub(crate) fn has_unknown_fields(message: &str) -> bool {
    message.split_once(STRICT_DECODING).is_some_and(|(_, errors)| errors.contains(STRICT_UNKNOWN_FIELD))
}

/// Joins errors on separate lines.
pub(crate) fn join_lines(message: &str) -> String {
    message.replace("errors:\n  ", "").replace("\n  ", "; ")
}

/// Returns the field if the message calls it immutable.
pub(crate) fn parse_immutable_field(field: &str, message: &str) -> Option<ImmutableField> {
    let text = strip_values(message);
    let lower = text.to_lowercase();
    let is_immutable = IMMUTABLE_PHRASES.iter().any(|sign| lower.contains(sign))
        && (!lower.contains("updates to ") || lower.contains("forbidden"));
    is_immutable
        .then(|| ImmutableField { field: field.to_owned(), mutable_subfields: excepted_fields(field, text) })
}

/// Returns the server's message about a field, without the values, which servers print as a dump or a diff of
/// internal types.
pub(crate) fn strip_values(message: &str) -> &str {
    let line = message.split('\n').next().unwrap_or_default();
    match line.strip_prefix("Invalid value: ") {
        Some(rest) => rest.rsplit_once(": ").map_or(rest, |(_, text)| text),
        None => line.strip_prefix("Forbidden: ").unwrap_or(line),
    }
}

/// Returns the exceptions in the server's message: fields in quotes or backticks, or after "except".
fn excepted_fields(field: &str, text: &str) -> Vec<String> {
    let Some((_, excepted)) = text.split_once("other than").or_else(|| text.split_once(" except ")) else {
        return Vec::new();
    };
    let quoted = |sign: char| excepted.split(sign).skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let mut names = [quoted('\''), quoted('`')].concat();
    if names.is_empty() {
        let plain = excepted.split_once(" for ").map_or(excepted, |(names, _)| names);
        names = plain.split(" and ").map(|name| name.trim().to_owned()).collect();
    }
    let whole = |name: String| {
        let is_whole = name.split(['.', '[']).next() == field.split('.').next();
        if is_whole { name } else { format!("{field}.{name}") }
    };
    names.into_iter().map(whole).collect()
}

/// Removes the field at a path reported by the server, such as `.spec.containers[name="a"].colour`. Returns
/// false if the field doesn't exist.
pub(crate) fn remove_path(object: &mut Map<String, Value>, path: &str) -> bool {
    let Some(steps) = parse_path(path) else { return false };
    let Some((PathStep::Field(last), parents)) = steps.split_last() else { return false };
    let Some((PathStep::Field(first), rest)) = parents.split_first() else {
        return object.remove(last).is_some();
    };
    let Some(mut at) = object.get_mut(first) else { return false };
    for step in rest {
        let below = match (step, at) {
            (PathStep::Field(name), Value::Object(fields)) => fields.get_mut(name),
            (PathStep::Index(index), Value::Array(items)) => items.get_mut(*index),
            (PathStep::Item(keys), Value::Array(items)) => items.iter_mut().find(|item| {
                keys.iter().all(|(name, value)| item.get(name).unwrap_or(&Value::Null) == value)
            }),
            _ => None,
        };
        let Some(below) = below else { return false };
        at = below;
    }
    at.as_object_mut().is_some_and(|fields| fields.remove(last).is_some())
}

enum PathStep {
    Field(String),
    Index(usize),
    Item(Vec<(String, Value)>),
}

/// Parses a path in the server's format.
fn parse_path(path: &str) -> Option<Vec<PathStep>> {
    let (mut rest, mut steps) = (path, Vec::new());
    while !rest.is_empty() {
        if let Some(field) = rest.strip_prefix('.') {
            let end = field.find(['.', '[']).unwrap_or(field.len());
            let (name, after) = field.split_at_checked(end)?;
            steps.push(PathStep::Field(name.to_owned()));
            rest = after;
        } else {
            let (inside, after) = split_bracket(rest)?;
            steps.push(match inside.parse() {
                Ok(index) => PathStep::Index(index),
                Err(_) => PathStep::Item(parse_keys(inside)?),
            });
            rest = after;
        }
    }
    Some(steps)
}

/// Returns the content of the leading brackets, and the rest of the text. Values are quoted.
fn split_bracket(text: &str) -> Option<(&str, &str)> {
    let inside = text.strip_prefix('[')?;
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, sign) in inside.char_indices() {
        match sign {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            ']' if !is_quoted => return Some((inside.get(..at)?, inside.get(at.checked_add(1)?..)?)),
            _ => {}
        }
    }
    None
}

/// Parses keys such as `containerPort=80,protocol="TCP"`.
fn parse_keys(text: &str) -> Option<Vec<(String, Value)>> {
    let (mut rest, mut keys) = (text, Vec::new());
    while !rest.is_empty() {
        let (name, value) = rest.split_once('=')?;
        let mut values = serde_json::Deserializer::from_str(value).into_iter::<Value>();
        keys.push((name.to_owned(), values.next()?.ok()?));
        rest = value.get(values.byte_offset()..)?;
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
    Some(keys)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Messages from servers of versions 1.20 and 1.36.
    #[test]
    fn refusals_specific_to_server_side_apply_are_recognized() {
        let undeclared = |paths: &[&str]| {
            Some(Refusal::UnknownFields(paths.iter().map(|path| (*path).to_owned()).collect()))
        };
        let of = " (/dup; apps/v1, Kind=Deployment)";
        let repeated =
            ".spec.template.spec.containers[name=\"c\"].env: duplicate entries for key [name=\"R\"]";
        for (message, expected) in [
            (
                format!("{TYPED_PATCH}{of}: .spec.colour: field not declared in schema"),
                undeclared(&[".spec.colour"]),
            ),
            (
                format!("{TYPED_PATCH}: .spec.colour: field not declared in schema"),
                undeclared(&[".spec.colour"]),
            ),
            (
                format!(
                    "{TYPED_PATCH}{of}: errors:\n  .spec.colour: field not declared in schema\n  .bogus: field not declared in schema"
                ),
                undeclared(&[".spec.colour", ".bogus"]),
            ),
            (
                format!("{TYPED_PATCH}{of}: errors:\n  {repeated}\n  {repeated}"),
                Some(Refusal::DuplicateItems),
            ),
            (format!("{TYPED_PATCH}: {repeated}"), Some(Refusal::DuplicateItems)),
            (
                format!(
                    "failed to create manager for existing fields: failed to convert new object (apps/v1, Kind=Deployment) to smd typed: errors:\n  {repeated}"
                ),
                Some(Refusal::DuplicateItems),
            ),
            (format!("{TYPED_PATCH}{of}: .spec.replicas: expected numeric (int or float), got string"), None),
            ("admission webhook refused: field not declared in schema".to_owned(), None),
        ] {
            assert_eq!(parse_typed_patch(&message), expected, "{message}");
        }
        assert_eq!(join_lines(&format!("{TYPED_PATCH}: errors:\n  a\n  b")), format!("{TYPED_PATCH}: a; b"));
    }

    /// Messages from a server of version 1.36 for a merge patch, a create, and a manifest with duplicate
    /// keys.
    #[test]
    fn strict_decoding_errors_are_recognized() {
        let decoding =
            "Deployment in version \"v1\" cannot be handled as a Deployment: strict decoding error";
        for (message, expected) in [
            (r#" "" is invalid: patch: Invalid value: "{}": strict decoding error: unknown field "spec.replicaz""#.to_owned(), true),
            (format!("{decoding}: unknown field \"spec.replicaz\", unknown field \"bogus\""), true),
            (format!("{decoding}: duplicate field \"spec.replicas\""), false),
            ("admission webhook refused: unknown field \"spec.replicaz\"".to_owned(), false),
        ] {
            assert_eq!(has_unknown_fields(&message), expected, "{message}");
        }
    }

    #[test]
    fn immutable_fields_are_reported_without_their_values() {
        let sts = "Forbidden: updates to statefulset spec for fields other than 'replicas', 'template', and 'updateStrategy' are forbidden";
        let pvc = "Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n@@ -10,7 +10,7 @@\n- \"StorageClassName\": \"a\",\n";
        let pod = "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.tolerations` (only additions)\n@@ -6 @@";
        for (field, message, text, except) in [
            (
                "spec.template",
                "Invalid value: core.PodTemplateSpec{Image:\"x: y\"}: field is immutable",
                "field is immutable",
                &[][..],
            ),
            (
                "data",
                "Forbidden: field is immutable when `immutable` is set",
                "field is immutable when `immutable` is set",
                &[],
            ),
            (
                "provisioner",
                "Forbidden: updates to provisioner are forbidden.",
                "updates to provisioner are forbidden.",
                &[],
            ),
            (
                "roleRef",
                "Invalid value: {\"Name\":\"b\"}: cannot change roleRef",
                "cannot change roleRef",
                &[],
            ),
            (
                "spec.clusterIPs[0]",
                "Invalid value: [\"10.0.0.56\"]: may not change once set",
                "may not change once set",
                &[],
            ),
            (
                "spec",
                sts,
                &sts["Forbidden: ".len()..],
                &["spec.replicas", "spec.template", "spec.updateStrategy"],
            ),
            (
                "spec",
                pvc,
                "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
                &["spec.resources.requests", "spec.volumeAttributesClassName"],
            ),
            (
                "spec",
                pod,
                "pod updates may not change fields other than `spec.containers[*].image`,`spec.tolerations` (only additions)",
                &["spec.containers[*].image", "spec.tolerations"],
            ),
        ] {
            assert_eq!(strip_values(message), text);
            let found = parse_immutable_field(field, message).unwrap();
            assert_eq!(
                (found.field.as_str(), &found.mutable_subfields[..]),
                (field, &except.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>()[..])
            );
        }
        for message in [
            "Required value",
            "Invalid value: -1: must be greater than or equal to 0",
            "Invalid value: \"immutable\": is no name",
        ] {
            assert_eq!(parse_immutable_field("spec.x", message), None, "{message}");
        }
    }

    #[test]
    fn fields_are_removed_at_the_path_that_the_server_reports() {
        let whole = json!({"bogus": 1, "spec": {"colour": 1, "items": [{"a": 1}], "containers": [
            {"name": "a]\"", "x": 1}, {"name": "b", "x": 1, "ports": [{"containerPort": 80, "protocol": "TCP", "x": 1}]}]}});
        for (path, place) in [
            (".bogus", Some("/bogus")),
            (".spec.colour", Some("/spec/colour")),
            (".spec.items[0].a", Some("/spec/items/0/a")),
            (".spec.containers[name=\"a]\\\"\"].x", Some("/spec/containers/0/x")),
            (
                ".spec.containers[name=\"b\"].ports[containerPort=80,protocol=\"TCP\"].x",
                Some("/spec/containers/1/ports/0/x"),
            ),
            (".spec.containers[name=\"c\"].x", None),
            (".spec.none", None),
            (".spec[", None),
            ("", None),
        ] {
            let mut object = whole.as_object().unwrap().clone();
            assert_eq!(remove_path(&mut object, path), place.is_some(), "{path}");
            let after = Value::Object(object);
            match place {
                Some(place) => assert_eq!(after.pointer(place), None, "{path}"),
                None => assert_eq!(after, whole, "{path}"),
            }
        }
    }
}
