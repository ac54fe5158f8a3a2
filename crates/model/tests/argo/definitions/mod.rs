//! Our definitions of the custom resources, held against those of Argo CD v3.5.1: what one takes the other takes too, and what
//! is taken is read.

mod comparison;
mod properties;
mod server;
mod values;

use std::fs;
use std::sync::LazyLock;

use serde_json::{Value, json};
use tidegate_model::argo::definitions;

/// The schema of a definition.
const SCHEMA: &str = "/spec/versions/0/schema/openAPIV3Schema";
const OPEN: &str = "x-kubernetes-preserve-unknown-fields";
const EITHER: &str = "x-kubernetes-int-or-string";

/// A kind as Argo CD defines it, and as we do.
struct Pair {
    kind: &'static str,
    theirs: Value,
    ours: Value,
    /// Our schema without what is there for the sake of 1.20.
    strict: Value,
    /// What both have.
    shared: Value,
}

/// Those of which Argo CD's is here: beside the repository, not in it.
static PAIRS: LazyLock<Vec<Pair>> = LazyLock::new(|| {
    let own = definitions();
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
        let (strict, shared) = (without_nullable(schema(&ours)), shared(schema(&theirs), schema(&ours)));
        Some(Pair { kind, theirs, ours, strict, shared })
    };
    files.into_iter().filter_map(pair).collect()
});

fn schema(definition: &Value) -> &Value {
    definition.pointer(SCHEMA).unwrap()
}

/// Numbers that may be texts are open in ours, for the sake of 1.20; what is read is compared as what it is meant to be.
fn close_numbers(schema: &mut Value) {
    let fields = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (name, field) in fields.into_iter().flatten() {
        let is_open = field.get(OPEN).is_some() && field.get("type").is_none();
        if is_open && ["count", "maxUpdate"].contains(&name.as_str()) {
            let description = field["description"].take();
            *field = json!({
                "description": description, EITHER: true, "anyOf": [{"type": "integer"}, {"type": "string"}],
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

/// The fields of a schema that another has too.
fn shared(one: &Value, other: &Value) -> Value {
    let mut both = one.clone();
    if let Some(fields) = both.get_mut("properties").and_then(Value::as_object_mut) {
        let of_other = |name: &String| other.get("properties").and_then(|fields| fields.get(name));
        fields.retain(|name, _| of_other(name).is_some());
        for (name, field) in fields {
            *field = shared(field, of_other(name).unwrap());
        }
    }
    for word in ["items", "additionalProperties"] {
        if let (Some(one), Some(other)) = (one.get(word), other.get(word)) {
            both[word] = shared(one, other);
        }
    }
    both
}

/// Whether a schema checks nothing of a value, or nothing but that it is an object.
fn is_free(schema: &Value) -> bool {
    let says = |word: &str| schema.get(word).is_some();
    says(OPEN)
        && !says(EITHER)
        && ["properties", "items", "additionalProperties"].iter().all(|word| !says(word))
}
