//! Comparison of Tidegate's custom resource definitions with those of Argo CD v3.5.1: both accept the same
//! resources, and Tidegate can read all of them.

mod comparison;
mod properties;
mod server;
mod values;

use std::fs;
use std::sync::LazyLock;

use serde_json::{Value, json};
use tidegate_model::argo::all_crds;

/// JSON pointer to the schema within a definition.
const SCHEMA: &str = "/spec/versions/0/schema/openAPIV3Schema";
const PRESERVE_UNKNOWN_FIELDS: &str = "x-kubernetes-preserve-unknown-fields";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";

/// Definitions of one kind by Argo CD and by Tidegate.
struct Pair {
    kind: &'static str,
    theirs: Value,
    ours: Value,
    /// Tidegate's schema without the parts that are relaxed for Kubernetes 1.20.
    strict: Value,
    /// Fields that both definitions contain.
    shared: Value,
}

/// Kinds with an Argo CD definition in a folder next to the repository.
static PAIRS: LazyLock<Vec<Pair>> = LazyLock::new(|| {
    let own = all_crds();
    let files = [
        ("Application", "application-crd.yaml"),
        ("ApplicationSet", "applicationset-crd.yaml"),
        ("AppProject", "appproject-crd.yaml"),
    ];
    let pair = |(kind, file)| {
        let path = format!("{}/../../../shared/data/crds/{file}", env!("CARGO_MANIFEST_DIR"));
        let Ok(text) = fs::read_to_string(path) else {
            eprintln!("not tested: {file} is not on this machine");
            return None;
        };
        let ours = own.iter().find(|one| one["spec"]["names"]["kind"] == kind).unwrap();
        let (theirs, mut ours) = (crate::yaml(&text), ours.clone());
        close_numbers(ours.pointer_mut(SCHEMA).unwrap());
        let (strict, shared) =
            (without_nullable(schema(&ours)), shared_fields(schema(&theirs), schema(&ours)));
        Some(Pair { kind, theirs, ours, strict, shared })
    };
    files.into_iter().filter_map(pair).collect()
});

fn schema(definition: &Value) -> &Value {
    definition.pointer(SCHEMA).unwrap()
}

/// Restricts integer-or-string fields to these two types. Tidegate's definition leaves them unrestricted for
/// Kubernetes 1.20.
fn close_numbers(schema: &mut Value) {
    let fields = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (name, field) in fields.into_iter().flatten() {
        let is_open = field.get(PRESERVE_UNKNOWN_FIELDS).is_some() && field.get("type").is_none();
        if is_open && ["count", "maxUpdate"].contains(&name.as_str()) {
            let description = field["description"].take();
            *field = json!({
                "description": description, INT_OR_STRING: true, "anyOf": [{"type": "integer"}, {"type": "string"}],
            });
        }
        close_numbers(field);
    }
    for word in ["items", "additionalProperties"] {
        schema.get_mut(word).into_iter().for_each(close_numbers);
    }
}

fn without_nullable(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(word, _)| *word != "nullable");
            fields.map(|(word, inner)| (word.clone(), without_nullable(inner))).collect()
        }
        other => other.clone(),
    }
}

/// Returns the fields of one schema that also exist in the other.
fn shared_fields(one: &Value, other: &Value) -> Value {
    let mut both = one.clone();
    if let Some(fields) = both.get_mut("properties").and_then(Value::as_object_mut) {
        let of_other = |name: &String| other.get("properties").and_then(|fields| fields.get(name));
        fields.retain(|name, _| of_other(name).is_some());
        for (name, field) in fields {
            *field = shared_fields(field, of_other(name).unwrap());
        }
    }
    for word in ["items", "additionalProperties"] {
        if let (Some(one), Some(other)) = (one.get(word), other.get(word)) {
            both[word] = shared_fields(one, other);
        }
    }
    both
}

/// Returns true if a schema accepts any value or any object.
fn accepts_anything(schema: &Value) -> bool {
    let says = |word: &str| schema.get(word).is_some();
    says(PRESERVE_UNKNOWN_FIELDS)
        && !says(INT_OR_STRING)
        && ["properties", "items", "additionalProperties"].iter().all(|word| !says(word))
}
