//! Values that a schema allows, from a tape of choices: one that has ended chooses the least.

use serde_json::{Map, Value, json};

use super::{EITHER, is_free};

/// Choices, one after the other.
pub(super) struct Tape<'t>(&'t [u8]);

impl<'t> Tape<'t> {
    pub(super) const fn new(choices: &'t [u8]) -> Self {
        Self(choices)
    }

    /// A number below another; 0 at the end.
    pub(super) fn below(&mut self, most: usize) -> usize {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(*first) % most
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }
}

/// Which optional fields there are.
#[derive(Clone, Copy)]
pub(super) enum Fields {
    All,
    /// One of so many, and some of them null.
    Some(usize),
}

const HEALTH: [&str; 6] = ["Healthy", "Progressing", "Degraded", "Suspended", "Missing", "Unknown"];
const SYNC: [&str; 4] = ["Synced", "OutOfSync", "Unknown", ""];

/// The words that Argo CD writes where its definition allows any text, and we know these only: what is written in other words
/// is found out anew.
const WORDS: [(&str, &[&str]); 5] = [
    (".health.status", &HEALTH),
    (".status.sync.status", &SYNC),
    // Argo CD leaves an empty one out.
    (".status.resources.status", &["Synced", "OutOfSync", "Unknown"]),
    (".operationState.phase", &["Running", "Terminating", "Failed", "Error", "Succeeded"]),
    (".currentOperation.phase", &["Hydrating"]),
];
const TEXTS: [&str; 8] = ["", "a", "true", "10%", "{{ .name }}", "*", "Zürich \u{1f30a}", "a: b\n- c"];
const TIMES: [&str; 3] = ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.678901Z", "2026-01-02T03:04:05+02:00"];
const NUMBERS: [i64; 5] = [0, 1, -1, i64::MAX, i64::MIN];

/// Makes values of schemas.
pub(super) struct Maker<'t> {
    pub(super) tape: Tape<'t>,
    pub(super) fields: Fields,
    /// Objects that keep what they do not know have such fields.
    pub(super) unknown: bool,
}

impl Maker<'_> {
    /// A resource of a kind.
    pub(super) fn resource(&mut self, kind: &str, schema: &Value) -> Value {
        let mut made = self.value("", schema);
        made["apiVersion"] = json!("argoproj.io/v1alpha1");
        made["kind"] = json!(kind);
        made["metadata"] = json!({"name": "a"});
        made
    }

    fn value(&mut self, path: &str, schema: &Value) -> Value {
        if schema.get(EITHER).is_some() {
            return self.tape.one(&[json!(0), json!(3), json!("10%"), json!("")]);
        }
        match schema.get("type").and_then(Value::as_str) {
            // Nothing is checked of generators that deep, but they are read.
            None if path.ends_with(".generators.matrix") || path.ends_with(".generators.merge") => {
                let of = [json!([]), json!([{"list": {"elements": [{"a": null}]}}, {"terraform": {}}])];
                json!({"generators": self.tape.one(&of), "mergeKeys": ["a"]})
            }
            None => self.anything(),
            Some("object") if is_free(schema) => json!({"a": self.anything()}),
            Some("object") => self.object(path, schema),
            Some("array") => {
                let many = if matches!(self.fields, Fields::All) { 1 } else { self.tape.below(3) };
                (0..many).map(|_| self.value(path, &schema["items"])).collect()
            }
            Some("string") => self.text(path, schema),
            Some("integer") => json!(self.tape.one(&NUMBERS)),
            Some("boolean") => json!(self.is_full() || self.tape.below(2) == 1),
            Some(other) => panic!("a type {other}"),
        }
    }

    const fn is_full(&self) -> bool {
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
                // The last of the choices, so that a tape that has ended leaves them out.
                Fields::Some(of) => match self.tape.below(of * 8) {
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
            for name in ["a", "example.com/b"].iter().take(1 + self.tape.below(2)) {
                made.insert((*name).to_owned(), self.value(path, inner));
            }
        }
        if self.unknown && schema.get(super::OPEN).is_some() && self.tape.below(8) == 7 {
            made.insert("fieldOfTomorrow".to_owned(), self.anything());
        }
        made.into()
    }

    fn text(&mut self, path: &str, schema: &Value) -> Value {
        if let Some(words) = schema.get("enum").and_then(Value::as_array) {
            return self.tape.one(words);
        }
        if let Some((_, words)) = WORDS.iter().find(|(place, _)| path.ends_with(place)) {
            return json!(self.tape.one(words));
        }
        if schema.get("format").is_some() {
            return json!(self.tape.one(&TIMES));
        }
        if schema.get("pattern").is_some() || schema.get("minLength").is_some() {
            return json!(self.tape.one(&["a", "apps/shop"]));
        }
        match schema.get("maxLength").and_then(Value::as_u64) {
            Some(most) if self.is_full() || self.tape.below(2) == 1 => {
                json!("ü".repeat(most.try_into().unwrap()))
            }
            _ if self.is_full() => json!("text"),
            _ => json!(self.tape.one(&TEXTS)),
        }
    }

    /// Where anything may be.
    fn anything(&mut self) -> Value {
        let all =
            [json!({"b": {"c": [null, 1.5, false, ""]}}), json!([]), json!(null), json!("x"), json!({})];
        self.tape.one(&all)
    }
}
