//! Custom resource definitions (CRDs), generated from the Rust types.

use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::{AppProject, Application, ApplicationSet};

/// JSON pointer to the schema within a definition.
const SCHEMA_POINTER: &str = "/spec/versions/0/schema/openAPIV3Schema";
/// Generators that contain other generators.
const NESTING_GENERATORS: [&str; 2] = ["matrix", "merge"];
const PRESERVE_UNKNOWN_FIELDS: &str = "x-kubernetes-preserve-unknown-fields";

/// Formats that Kubernetes supports. The other formats that schemars emits are specific to Rust.
const FORMATS: [&str; 3] = ["date-time", "int64", "int32"];

static ALL_CRDS: LazyLock<Vec<Value>> = LazyLock::new(all_crds);

/// Returns the schema of a kind. The kind must be one of [`all_crds`].
pub(super) fn crd_schema(kind: &str) -> &'static Value {
    let is_of_kind = |one: &&Value| one.pointer("/spec/names/kind").is_some_and(|name| name == kind);
    ALL_CRDS.iter().find(is_of_kind).and_then(|one| one.pointer(SCHEMA_POINTER)).unwrap_or(&Value::Null)
}

/// Returns the definitions of all supported custom resources, ordered by name.
pub fn all_crds() -> Vec<Value> {
    let column = |name: &str, path: &str, priority: u32| json!({"name": name, "type": "string", "jsonPath": path, "priority": priority});
    // Same columns as in Argo CD, so that `kubectl get` output looks familiar.
    let columns = [
        column("Sync Status", ".status.sync.status", 0),
        column("Health Status", ".status.health.status", 0),
        column("Revision", ".status.sync.revision", 10),
        column("Project", ".spec.project", 10),
    ];
    let application = build_crd::<Application>("Application", "applications", &["app", "apps"], &columns);
    let mut set =
        build_crd::<ApplicationSet>("ApplicationSet", "applicationsets", &["appset", "appsets"], &[]);
    // As in Argo CD, only the ApplicationSet has a status subresource.
    if let Some(version) = set.pointer_mut("/spec/versions/0").and_then(Value::as_object_mut) {
        version.insert("subresources".to_owned(), json!({"status": {}}));
    }
    let generators = format!("{SCHEMA_POINTER}/properties/spec/properties/generators/items");
    if let Some(generator) = set.pointer_mut(&generators) {
        add_nested_generator_schemas(generator);
    }
    let project = build_crd::<AppProject>("AppProject", "appprojects", &["appproj", "appprojs"], &[]);
    vec![application, set, project]
}

fn build_crd<T: JsonSchema>(kind: &str, plural: &str, short: &[&str], columns: &[Value]) -> Value {
    let version = json!({
        "name": "v1alpha1",
        "served": true,
        "storage": true,
        "additionalPrinterColumns": columns,
        "schema": {"openAPIV3Schema": structural_schema::<T>()},
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

/// Adds the schemas of nested generators. Matrix and merge generators may contain any generator, but matrix
/// and merge generators at that level are not validated further. Repeated schemas omit descriptions, because
/// the API server limits the size of a definition.
fn add_nested_generator_schemas(generator: &mut Value) {
    let all = generator.pointer_mut("/properties").and_then(Value::as_object_mut);
    for one in all.into_iter().flat_map(Map::values_mut) {
        one.pointer_mut("/properties/template").into_iter().for_each(remove_descriptions);
    }
    let mut inner = generator.clone();
    remove_descriptions(&mut inner);
    for name in NESTING_GENERATORS {
        if let Some(deep) = inner.pointer_mut(&format!("/properties/{name}")) {
            *deep = json!({PRESERVE_UNKNOWN_FIELDS: true});
        }
    }
    for name in NESTING_GENERATORS {
        let place = format!("/properties/{name}/properties/generators/items");
        if let Some(items) = generator.pointer_mut(&place) {
            *items = inner.clone();
        }
    }
}

fn remove_descriptions(schema: &mut Value) {
    for_each_schema(schema, &mut |fields| drop(fields.remove("description")));
}

/// Calls a function for a schema and all schemas nested in it.
fn for_each_schema(schema: &mut Value, change: &mut dyn FnMut(&mut Map<String, Value>)) {
    let Some(fields) = schema.as_object_mut() else { return };
    change(fields);
    let properties = fields.get_mut("properties").and_then(Value::as_object_mut);
    properties.into_iter().flat_map(Map::values_mut).for_each(|inner| for_each_schema(inner, change));
    for name in ["items", "additionalProperties"] {
        fields.get_mut(name).into_iter().for_each(|inner| for_each_schema(inner, change));
    }
}

/// Returns the structural schema of a resource, as Kubernetes requires.
fn structural_schema<T: JsonSchema>() -> Value {
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
    // Other controllers may also write the status, with values that Tidegate doesn't know.
    if let Some(status) = schema.pointer_mut("/properties/status") {
        for_each_schema(status, &mut |fields| drop(fields.remove("enum")));
    }
    for section in ["/properties/spec", "/properties/operation", "/properties/status"] {
        if let Some(section) = schema.pointer_mut(section) {
            allow_empty_texts(section, false);
        }
    }
    // If an operation is rejected, the revisions in its new sync result are empty strings.
    if let Some(result) =
        schema.pointer_mut("/properties/status/properties/operationState/properties/syncResult")
    {
        allow_empty_texts(result, true);
    }
    // The API server validates these fields itself.
    if let Some(required) = schema.pointer_mut("/required").and_then(Value::as_array_mut) {
        required.retain(|name| name != "apiVersion" && name != "kind");
    }
    schema
}

/// Makes strings nullable where Kubernetes 1.20 reads an empty string as null: in list items, and in fields
/// missing from the stored object.
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

/// Removes keywords that Kubernetes does not support, and marks schemas that preserve unknown fields.
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
    flatten_string_choice(fields);
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
    // Every type preserves unknown fields.
    let is_open =
        fields.get("additionalProperties").is_some_and(|more| more == &json!(true) || more == &json!({}));
    if is_open || !fields.contains_key("type") {
        fields.remove("additionalProperties");
        fields.insert(PRESERVE_UNKNOWN_FIELDS.to_owned(), json!(true));
    }
}

/// Replaces string alternatives with an `enum`, or with a plain string if other values are accepted too.
fn flatten_string_choice(fields: &mut Map<String, Value>) {
    let text = permitted_strings(fields);
    let is_choice =
        ["oneOf", "anyOf", "enum", "const"].into_iter().filter_map(|name| fields.remove(name)).count() > 0;
    if is_choice {
        fields.insert("type".to_owned(), json!("string"));
    }
    if let Some(text) = text.filter(|_| is_choice) {
        fields.insert("enum".to_owned(), text.into());
    }
}

/// Returns the strings that a schema permits, or `None` if it also accepts other values.
fn permitted_strings(fields: &Map<String, Value>) -> Option<Vec<Value>> {
    let listed = fields.get("enum").and_then(Value::as_array).cloned();
    let single = fields.get("const").map(|word| vec![word.clone()]);
    let choices = ["oneOf", "anyOf"].iter().find_map(|name| fields.get(*name)?.as_array());
    let of_all =
        || choices?.iter().map(|one| permitted_strings(one.as_object()?)).collect::<Option<Vec<_>>>();
    let mut text = listed.or(single).or_else(|| Some(of_all()?.concat()))?;
    text.retain(|word| !word.is_null());
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Collects every node of a schema with its path.
    fn collect_nodes<'s>(
        schema: &'s Value,
        place: String,
        found: &mut Vec<(String, &'s Map<String, Value>)>,
    ) {
        let Some(fields) = schema.as_object() else { panic!("{place} is not a schema: {schema}") };
        found.push((place.clone(), fields));
        let named = fields.get("properties").and_then(Value::as_object);
        for (name, inner) in named.into_iter().flatten() {
            collect_nodes(inner, format!("{place}.{name}"), found);
        }
        for name in ["items", "additionalProperties"] {
            if let Some(inner) = fields.get(name) {
                collect_nodes(inner, format!("{place}[]"), found);
            }
        }
    }

    /// Kubernetes accepts only structural schemas: every node has a type, and alternatives and references are
    /// not allowed.
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
        for definition in all_crds() {
            let schema = definition.pointer("/spec/versions/0/schema/openAPIV3Schema").unwrap();
            let mut found = Vec::new();
            collect_nodes(schema, String::new(), &mut found);
            assert!(found.len() > 10, "{} nodes", found.len());
            for (place, fields) in found {
                let unknown: Vec<_> = fields.keys().filter(|key| !KNOWN.contains(&key.as_str())).collect();
                assert!(unknown.is_empty(), "{place}: {unknown:?}");
                let is_open = fields.contains_key("x-kubernetes-preserve-unknown-fields");
                assert!(fields.contains_key("type") || is_open, "{place} has no type");
                let is_checked = fields.contains_key("properties") && place.starts_with(".spec");
                assert!(!is_checked || is_open || place.contains("info"), "{place} loses unknown fields");
                // Other controllers may also write an Application's status.
                assert!(!(place.starts_with(".status") && fields.contains_key("enum")), "{place}");
            }
        }
    }

    #[test]
    fn mandatory_fields_of_an_application_are_required() {
        let definitions = all_crds();
        let of = |place: &str| {
            let schema = "/spec/versions/0/schema/openAPIV3Schema";
            definitions[0].pointer(&format!("{schema}{place}/required")).cloned()
        };
        assert_eq!(of(""), Some(json!(["metadata", "spec"])));
        assert_eq!(of("/properties/spec"), Some(json!(["destination", "project"])));
        assert_eq!(of("/properties/spec/properties/source"), Some(json!(["repoURL"])));
    }
}
