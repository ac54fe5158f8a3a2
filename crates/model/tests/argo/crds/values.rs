//! Generation of values that a schema allows, driven by a tape of choices. At the end of the tape, the
//! generator always makes the smallest choice.

use serde_json::{Map, Value, json};

use super::{INT_OR_STRING, accepts_anything};

/// Sequence of choices.
pub(super) struct Tape<'t>(&'t [u8]);

impl<'t> Tape<'t> {
    pub(super) const fn new(choices: &'t [u8]) -> Self {
        Self(choices)
    }

    /// Returns a number below `most`. Returns 0 at the end of the tape.
    pub(super) fn next_below(&mut self, most: usize) -> usize {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(*first) % most
    }

    fn choose<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.next_below(of.len())].clone()
    }
}

/// Selection of the optional fields to generate.
#[derive(Clone, Copy)]
pub(super) enum Fields {
    All,
    /// One in N fields, some of them null.
    Some(usize),
}

const HEALTH: [&str; 6] = ["Healthy", "Progressing", "Degraded", "Suspended", "Missing", "Unknown"];
const SYNC: [&str; 4] = ["Synced", "OutOfSync", "Unknown", ""];

/// Values for fields that are plain strings in Argo CD's definition, although its implementation recognizes
/// only these values and recomputes any other.
const KNOWN_TEXTS: [(&str, &[&str]); 5] = [
    (".health.status", &HEALTH),
    (".status.sync.status", &SYNC),
    // Argo CD omits an empty status.
    (".status.resources.status", &["Synced", "OutOfSync", "Unknown"]),
    (".operationState.phase", &["Running", "Terminating", "Failed", "Error", "Succeeded"]),
    (".currentOperation.phase", &["Hydrating"]),
];
const TEXTS: [&str; 8] = ["", "a", "true", "10%", "{{ .name }}", "*", "Zürich \u{1f30a}", "a: b\n- c"];
const TIMES: [&str; 3] = ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.678901Z", "2026-01-02T03:04:05+02:00"];
const NUMBERS: [i64; 5] = [0, 1, -1, i64::MAX, i64::MIN];

/// Generator of values that match a schema.
pub(super) struct ValueGenerator<'t> {
    pub(super) tape: Tape<'t>,
    pub(super) fields: Fields,
    /// True if unknown fields are added to objects that preserve them.
    pub(super) unknown: bool,
}

impl ValueGenerator<'_> {
    /// Generates a resource of a kind.
    pub(super) fn resource(&mut self, kind: &str, schema: &Value) -> Value {
        let mut made = self.value("", schema);
        made["apiVersion"] = json!("argoproj.io/v1alpha1");
        made["kind"] = json!(kind);
        made["metadata"] = json!({"name": "a"});
        made
    }

    fn value(&mut self, path: &str, schema: &Value) -> Value {
        if schema.get(INT_OR_STRING).is_some() {
            return self.tape.choose(&[json!(0), json!(3), json!("10%"), json!("")]);
        }
        match schema.get("type").and_then(Value::as_str) {
            // Generators at this depth are not validated, but Tidegate reads them.
            None if path.ends_with(".generators.matrix") || path.ends_with(".generators.merge") => {
                let of = [json!([]), json!([{"list": {"elements": [{"a": null}]}}, {"terraform": {}}])];
                json!({"generators": self.tape.choose(&of), "mergeKeys": ["a"]})
            }
            None => self.any_value(),
            Some("object") if accepts_anything(schema) => json!({"a": self.any_value()}),
            Some("object") => self.object(path, schema),
            Some("array") => {
                let many = if matches!(self.fields, Fields::All) { 1 } else { self.tape.next_below(3) };
                (0..many).map(|_| self.value(path, &schema["items"])).collect()
            }
            Some("string") => self.text(path, schema),
            Some("integer") => json!(self.tape.choose(&NUMBERS)),
            Some("boolean") => json!(self.includes_all_fields() || self.tape.next_below(2) == 1),
            Some(other) => panic!("unsupported type {other}"),
        }
    }

    const fn includes_all_fields(&self) -> bool {
        matches!(self.fields, Fields::All)
    }

    fn object(&mut self, path: &str, schema: &Value) -> Value {
        let mut made = Map::new();
        let is_required = |name: &String| {
            let required = schema.get("required").and_then(Value::as_array);
            required.is_some_and(|names| names.contains(&json!(name)))
        };
        for (name, inner) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let is_there = match self.fields {
                _ if is_required(name) => 1,
                Fields::All => 1,
                // The last choice omits the field, so the end of the tape omits all fields.
                Fields::Some(of) => match self.tape.next_below(of * 8) {
                    choice if choice + 8 < of * 8 => 0,
                    choice if choice + 1 == of * 8 => 2,
                    _ => 1,
                },
            };
            match is_there {
                0 => {}
                1 => drop(made.insert(name.clone(), self.value(&format!("{path}.{name}"), inner))),
                _ => drop(made.insert(name.clone(), Value::Null)),
            }
        }
        if let Some(inner) = schema.get("additionalProperties") {
            for name in ["a", "example.com/b"].iter().take(1 + self.tape.next_below(2)) {
                made.insert((*name).to_owned(), self.value(path, inner));
            }
        }
        if self.unknown
            && schema.get(super::PRESERVE_UNKNOWN_FIELDS).is_some()
            && self.tape.next_below(8) == 7
        {
            made.insert("fieldOfTomorrow".to_owned(), self.any_value());
        }
        made.into()
    }

    fn text(&mut self, path: &str, schema: &Value) -> Value {
        if let Some(words) = schema.get("enum").and_then(Value::as_array) {
            return self.tape.choose(words);
        }
        if let Some((_, words)) = KNOWN_TEXTS.iter().find(|(place, _)| path.ends_with(place)) {
            return json!(self.tape.choose(words));
        }
        if schema.get("format").is_some() {
            return json!(self.tape.choose(&TIMES));
        }
        if schema.get("pattern").is_some() || schema.get("minLength").is_some() {
            return json!(self.tape.choose(&["a", "apps/shop"]));
        }
        match schema.get("maxLength").and_then(Value::as_u64) {
            Some(most) if self.includes_all_fields() || self.tape.next_below(2) == 1 => {
                json!("ü".repeat(most.try_into().unwrap()))
            }
            _ if self.includes_all_fields() => json!("text"),
            _ => json!(self.tape.choose(&TEXTS)),
        }
    }

    /// Generates a value where the schema accepts anything.
    fn any_value(&mut self) -> Value {
        let all =
            [json!({"b": {"c": [null, 1.5, false, ""]}}), json!([]), json!(null), json!("x"), json!({})];
        self.tape.choose(&all)
    }
}
