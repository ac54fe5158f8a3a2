//! The definitions of the custom resources (CRDs), made from the types that read them.

use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::{AppProject, Application, ApplicationSet};

/// Where the schema of a definition is.
const SCHEMA: &str = "/spec/versions/0/schema/openAPIV3Schema";
/// The generators that have generators of their own.
const NESTING: [&str; 2] = ["matrix", "merge"];
const OPEN: &str = "x-kubernetes-preserve-unknown-fields";

/// Formats that Kubernetes knows; others are Rust's.
const FORMATS: [&str; 3] = ["date-time", "int64", "int32"];

static DEFINITIONS: LazyLock<Vec<Value>> = LazyLock::new(definitions);

/// The schema of a kind, which is one of [`definitions`].
pub(super) fn schema_of(kind: &str) -> &'static Value {
    let is_of_kind = |one: &&Value| one.pointer("/spec/names/kind").is_some_and(|name| name == kind);
    DEFINITIONS.iter().find(is_of_kind).and_then(|one| one.pointer(SCHEMA)).unwrap_or(&Value::Null)
}

/// The definitions of all custom resources that are known here, in the order of their names.
pub fn definitions() -> Vec<Value> {
    let column = |name: &str, path: &str, priority: u32| json!({"name": name, "type": "string", "jsonPath": path, "priority": priority});
    // Those of Argo CD, so that `kubectl get` shows what people are used to.
    let columns = [
        column("Sync Status", ".status.sync.status", 0),
        column("Health Status", ".status.health.status", 0),
        column("Revision", ".status.sync.revision", 10),
        column("Project", ".spec.project", 10),
    ];
    let application = definition::<Application>("Application", "applications", &["app", "apps"], &columns);
    let mut set =
        definition::<ApplicationSet>("ApplicationSet", "applicationsets", &["appset", "appsets"], &[]);
    // Its status is written by itself, as Argo CD does it; that of an application is not.
    if let Some(version) = set.pointer_mut("/spec/versions/0").and_then(Value::as_object_mut) {
        version.insert("subresources".to_owned(), json!({"status": {}}));
    }
    let generators = format!("{SCHEMA}/properties/spec/properties/generators/items");
    if let Some(generator) = set.pointer_mut(&generators) {
        nest(generator);
    }
    let project = definition::<AppProject>("AppProject", "appprojects", &["appproj", "appprojs"], &[]);
    vec![application, set, project]
}

fn definition<T: JsonSchema>(kind: &str, plural: &str, short: &[&str], columns: &[Value]) -> Value {
    let version = json!({
        "name": "v1alpha1",
        "served": true,
        "storage": true,
        "additionalPrinterColumns": columns,
        "schema": {"openAPIV3Schema": schema::<T>()},
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{plural}.argoproj.io"),
            "labels": {"app.kubernetes.io/name": format!("{plural}.argoproj.io")},
        },
        "spec": {
            "group": "argoproj.io",
            "names": {
                "kind": kind,
                "listKind": format!("{kind}List"),
                "plural": plural,
                "shortNames": short,
                "singular": kind.to_lowercase(),
            },
            "scope": "Namespaced",
            "versions": [version],
        },
    })
}

/// A matrix and a merge hold generators with all that those of the set have, and these hold generators of which nothing is
/// checked. What is described elsewhere is not described again: a server takes a definition of so many bytes only.
fn nest(generator: &mut Value) {
    let all = generator.pointer_mut("/properties").and_then(Value::as_object_mut);
    for one in all.into_iter().flat_map(Map::values_mut) {
        one.pointer_mut("/properties/template").into_iter().for_each(describe_nothing);
    }
    let mut inner = generator.clone();
    describe_nothing(&mut inner);
    for name in NESTING {
        if let Some(deep) = inner.pointer_mut(&format!("/properties/{name}")) {
            *deep = json!({OPEN: true});
        }
    }
    for name in NESTING {
        let place = format!("/properties/{name}/properties/generators/items");
        if let Some(items) = generator.pointer_mut(&place) {
            *items = inner.clone();
        }
    }
}

fn describe_nothing(schema: &mut Value) {
    on_each(schema, &mut |fields| drop(fields.remove("description")));
}

/// Calls for a schema and for each that is inside of it.
fn on_each(schema: &mut Value, change: &mut dyn FnMut(&mut Map<String, Value>)) {
    let Some(fields) = schema.as_object_mut() else { return };
    change(fields);
    let properties = fields.get_mut("properties").and_then(Value::as_object_mut);
    properties.into_iter().flat_map(Map::values_mut).for_each(|inner| on_each(inner, change));
    for name in ["items", "additionalProperties"] {
        fields.get_mut(name).into_iter().for_each(|inner| on_each(inner, change));
    }
}

/// The schema of a resource, structural as Kubernetes wants it.
fn schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::openapi3().with(|settings| settings.inline_subschemas = true);
    let mut schema = SchemaGenerator::new(settings).into_root_schema_for::<T>().to_value();
    make_structural(&mut schema);
    for field in ["/properties/apiVersion", "/properties/kind"] {
        if let Some(field) = schema.pointer_mut(field) {
            *field = json!({"type": "string"});
        }
    }
    if let Some(metadata) = schema.pointer_mut("/properties/metadata") {
        *metadata = json!({"type": "object"});
    }
    // Those who serve a resource write it, and may be others, who know more words.
    if let Some(status) = schema.pointer_mut("/properties/status") {
        on_each(status, &mut |fields| drop(fields.remove("enum")));
    }
    for section in ["/properties/spec", "/properties/operation", "/properties/status"] {
        if let Some(section) = schema.pointer_mut(section) {
            allow_empty_texts(section, false);
        }
    }
    // An operation that was refused has synced to nothing.
    if let Some(result) =
        schema.pointer_mut("/properties/status/properties/operationState/properties/syncResult")
    {
        allow_empty_texts(result, true);
    }
    // The server sees to these itself.
    if let Some(required) = schema.pointer_mut("/required").and_then(Value::as_array_mut) {
        required.retain(|name| name != "apiVersion" && name != "kind");
    }
    schema
}

/// Kubernetes 1.20 takes an empty text for null, in entries of lists and in what it has not seen before.
fn allow_empty_texts(schema: &mut Value, in_list: bool) {
    let Some(fields) = schema.as_object_mut() else { return };
    if in_list && fields.get("type").is_some_and(|kind| kind == "string") {
        fields.insert("nullable".to_owned(), json!(true));
    }
    for inner in
        fields.get_mut("properties").and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut)
    {
        allow_empty_texts(inner, in_list);
    }
    for (name, in_list) in [("items", true), ("additionalProperties", in_list)] {
        if let Some(inner) = fields.get_mut(name) {
            allow_empty_texts(inner, in_list);
        }
    }
}

/// Leaves out what Kubernetes does not know, and says in its words that unknown fields are kept.
fn make_structural(schema: &mut Value) {
    if schema == &json!(true) {
        *schema = json!({});
    }
    let Some(fields) = schema.as_object_mut() else { return };
    for other in ["$schema", "title", "components", "default", "nullable", "minimum", "maximum"] {
        fields.remove(other);
    }
    if fields.get("format").and_then(Value::as_str).is_some_and(|format| !FORMATS.contains(&format)) {
        fields.remove("format");
    }
    flatten_choice(fields);
    for field in ["properties", "patternProperties"] {
        if let Some(properties) = fields.get_mut(field).and_then(Value::as_object_mut) {
            properties.values_mut().for_each(make_structural);
        }
    }
    for field in ["items", "additionalProperties"] {
        if let Some(inner) = fields.get_mut(field).filter(|inner| inner.is_object()) {
            make_structural(inner);
        }
    }
    // Every type keeps what it does not know.
    let is_open =
        fields.get("additionalProperties").is_some_and(|more| more == &json!(true) || more == &json!({}));
    if is_open || !fields.contains_key("type") {
        fields.remove("additionalProperties");
        fields.insert(OPEN.to_owned(), json!(true));
    }
}

/// One of several words is a text: one of these, where no others are read.
fn flatten_choice(fields: &mut Map<String, Value>) {
    let words = words(fields);
    let is_choice =
        ["oneOf", "anyOf", "enum", "const"].into_iter().filter_map(|name| fields.remove(name)).count() > 0;
    if is_choice {
        fields.insert("type".to_owned(), json!("string"));
    }
    if let Some(words) = words.filter(|_| is_choice) {
        fields.insert("enum".to_owned(), words.into());
    }
}

/// The words that a schema allows, where it allows nothing else.
fn words(fields: &Map<String, Value>) -> Option<Vec<Value>> {
    let listed = fields.get("enum").and_then(Value::as_array).cloned();
    let single = fields.get("const").map(|word| vec![word.clone()]);
    let choices = ["oneOf", "anyOf"].iter().find_map(|name| fields.get(*name)?.as_array());
    let of_all = || choices?.iter().map(|one| words(one.as_object()?)).collect::<Option<Vec<_>>>();
    let mut words = listed.or(single).or_else(|| Some(of_all()?.concat()))?;
    words.retain(|word| !word.is_null());
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every node of a schema, with where it is.
    fn nodes<'s>(schema: &'s Value, place: String, found: &mut Vec<(String, &'s Map<String, Value>)>) {
        let Some(fields) = schema.as_object() else { panic!("{place} is no schema: {schema}") };
        found.push((place.clone(), fields));
        let named = fields.get("properties").and_then(Value::as_object);
        for (name, inner) in named.into_iter().flatten() {
            nodes(inner, format!("{place}.{name}"), found);
        }
        for name in ["items", "additionalProperties"] {
            if let Some(inner) = fields.get(name) {
                nodes(inner, format!("{place}[]"), found);
            }
        }
    }

    /// Kubernetes takes structural schemas only: a type for every node, and no choices or references.
    #[test]
    fn schemas_are_structural_and_lose_nothing() {
        const KNOWN: [&str; 13] = [
            "type",
            "enum",
            "maxLength",
            "x-kubernetes-list-type",
            "x-kubernetes-map-type",
            "format",
            "required",
            "properties",
            "items",
            "description",
            "additionalProperties",
            "x-kubernetes-preserve-unknown-fields",
            "nullable",
        ];
        for definition in definitions() {
            let schema = definition.pointer("/spec/versions/0/schema/openAPIV3Schema").unwrap();
            let mut found = Vec::new();
            nodes(schema, String::new(), &mut found);
            assert!(found.len() > 10, "{} nodes", found.len());
            for (place, fields) in found {
                let unknown: Vec<_> = fields.keys().filter(|key| !KNOWN.contains(&key.as_str())).collect();
                assert!(unknown.is_empty(), "{place}: {unknown:?}");
                let is_open = fields.contains_key("x-kubernetes-preserve-unknown-fields");
                assert!(fields.contains_key("type") || is_open, "{place} has no type");
                let is_checked = fields.contains_key("properties") && place.starts_with(".spec");
                assert!(!is_checked || is_open || place.contains("info"), "{place} loses unknown fields");
                // Those who serve an application write it, and may be others.
                assert!(!(place.starts_with(".status") && fields.contains_key("enum")), "{place}");
            }
        }
    }

    #[test]
    fn what_an_application_cannot_do_without_is_required() {
        let definitions = definitions();
        let of = |place: &str| {
            let schema = "/spec/versions/0/schema/openAPIV3Schema";
            definitions[0].pointer(&format!("{schema}{place}/required")).cloned()
        };
        assert_eq!(of(""), Some(json!(["metadata", "spec"])));
        assert_eq!(of("/properties/spec"), Some(json!(["destination", "project"])));
        assert_eq!(of("/properties/spec/properties/source"), Some(json!(["repoURL"])));
    }
}
