//! Both definitions accept the same resources, and Tidegate reads them without loss.

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde::Serialize;
use serde_json::{Value, json};
use tidegate_model::argo::{self, AppProject, Application, ApplicationSet, Resource};

use super::server::{accepts, drop_nulls, field, validation_errors};
use super::values::{Fields, Tape, ValueGenerator};
use super::{INT_OR_STRING, PAIRS, Pair, accepts_anything, schema};

/// Fields in which zero and absence have different meanings.
const PRESERVED_ZERO_FIELDS: [&str; 9] = [
    ".automated.enabled",
    ".automated.prune",
    ".automated.selfHeal",
    ".automated.allowEmpty",
    ".revisionHistoryLimit",
    ".backoff.factor",
    ".maxUpdate",
    ".requeueAfterSeconds",
    ".namespaceResourceWhitelist",
];

/// Returns true if a value is equivalent to an absent field.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(entries) => entries.is_empty(),
        Value::Object(fields) => fields.values().all(is_zero),
    }
}

/// Collects values that are lost or added by reading.
fn collect_losses(path: &str, schema: &Value, written: &Value, read: &Value, found: &mut Vec<String>) {
    if accepts_anything(schema) {
        if written != read {
            found.push(format!("{path}: {written} is read as {read}"));
        }
        return;
    }
    match (written, read) {
        (Value::Object(before), Value::Object(after)) => {
            for (name, value) in before {
                let path = format!("{path}.{name}");
                match (after.get(name), field(schema, name)) {
                    (Some(read), Some(schema)) => collect_losses(&path, schema, value, read, found),
                    (Some(read), None) if value == read => {}
                    (None, Some(_))
                        if is_zero(value)
                            && !PRESERVED_ZERO_FIELDS.iter().any(|kept| path.ends_with(kept)) => {}
                    (read, _) => found.push(format!("{path}: {value} is read as {read:?}")),
                }
            }
            let more = after.iter().filter(|(name, value)| !before.contains_key(*name) && !is_zero(value));
            // Argo CD omits a health status that is unknown.
            let is_health = |name: &str, value: &Value| name == "status" && value == "Unknown";
            found.extend(
                more.filter(|(name, value)| !is_health(name, value))
                    .map(|(name, value)| format!("{path}.{name}: {value}, which was not written")),
            );
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            for (at, (written, read)) in before.iter().zip(after).enumerate() {
                collect_losses(&format!("{path}[{at}]"), &schema["items"], written, read, found);
            }
        }
        (Value::String(before), Value::String(after)) if schema.get("format").is_some() => {
            let second = |text: &str| text.parse::<jiff::Timestamp>().unwrap().as_second();
            if second(before) != second(after) {
                found.push(format!("{path}: {before} is read as {after}"));
            }
        }
        // An empty sync status means that no comparison has run yet.
        (Value::String(before), Value::String(after)) if before.is_empty() && after == "Unknown" => {}
        _ if written == read => {}
        _ => found.push(format!("{path}: {written} is read as {read}")),
    }
}

fn assert_read_as<T: Resource + Serialize>(written: &Value, kept: &Value, strict: &Value) {
    let read = argo::read_resource::<T>(kept).unwrap_or_else(|error| panic!("{error}, of {kept:#}"));
    let back = serde_json::to_value(&read).unwrap();
    let mut lost = Vec::new();
    collect_losses("", strict, kept, &back, &mut lost);
    assert!(lost.is_empty(), "{lost:#?}");
    // Reading the file gives the same result as reading the resource that a server creates from it.
    let file = argo::read_resource::<T>(written).unwrap_or_else(|error| panic!("{error}, of {written:#}"));
    let mut file = serde_json::to_value(&file).unwrap();
    drop_nulls(strict, &mut file);
    assert_eq!(file, back);
}

/// Asserts that an accepted resource is read without loss.
fn assert_read(pair: &Pair, written: &Value) {
    let mut kept = written.clone();
    drop_nulls(&pair.strict, &mut kept);
    match pair.kind {
        "Application" => assert_read_as::<Application>(written, &kept, &pair.strict),
        "ApplicationSet" => assert_read_as::<ApplicationSet>(written, &kept, &pair.strict),
        _ => assert_read_as::<AppProject>(written, &kept, &pair.strict),
    }
}

fn assert_both_accept(pair: &Pair, value: &Value) {
    for (whose, definition) in [("Argo CD's", &pair.theirs), ("Tidegate's", &pair.ours)] {
        let refusals = validation_errors(schema(definition), value);
        assert!(refusals.is_empty(), "{whose} definition rejects {value:#}: {refusals:#?}");
    }
    assert_read(pair, value);
}

/// Replaces the value at a random location with an invalid or different value. Returns a description of the
/// change.
fn corrupt_value(tape: &mut Tape<'_>, path: &mut String, schema: &Value, value: &mut Value) {
    let inner = match &*value {
        Value::Object(fields) if !accepts_anything(schema) => fields.len(),
        Value::Array(entries) if !accepts_anything(schema) => entries.len(),
        _ => 0,
    };
    if inner > 0 && tape.next_below(8) > 0 {
        let at = tape.next_below(inner);
        match value {
            Value::Object(fields) => {
                let name = fields.keys().nth(at).unwrap().clone();
                if let Some(schema) = field(schema, &name) {
                    path.push_str(&format!(".{name}"));
                    if tape.next_below(6) == 5 {
                        fields.remove(&name);
                        return;
                    }
                    corrupt_value(tape, path, schema, &mut fields[&name]);
                }
            }
            Value::Array(entries) => {
                path.push_str("[]");
                corrupt_value(tape, path, &schema["items"], &mut entries[at]);
            }
            _ => {}
        }
        return;
    }
    let others = [
        json!(null),
        json!("wrong"),
        json!(""),
        json!(7),
        json!(true),
        json!([]),
        json!({}),
        json!("x".repeat(256)),
    ];
    *value = others[tape.next_below(others.len())].clone();
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, max_shrink_iters: 512, failure_persistence: None, ..ProptestConfig::default() }
}

fn tapes() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..1500)
}

fn generate_resource(pair: &Pair, from: &Value, tape: &[u8], fields: Fields, unknown: bool) -> Value {
    ValueGenerator { tape: Tape::new(tape), fields, unknown }.resource(pair.kind, from)
}

/// Resources with all fields, and resources with only the required fields.
#[test]
fn resources_with_all_fields_and_none_are_accepted_and_read() {
    for pair in PAIRS.iter() {
        for of in [&pair.theirs, &pair.ours] {
            for fields in [Fields::All, Fields::Some(4)] {
                assert_both_accept(pair, &generate_resource(pair, schema(of), &[], fields, false));
            }
        }
    }
}

/// Number of resources for each verdict.
#[derive(Default)]
struct Verdicts {
    accepted: usize,
    rejected: usize,
}

fn compare_verdicts(pair: &Pair, tape: &[u8], verdicts: &mut Verdicts) {
    let mut value = generate_resource(pair, &pair.shared, tape, Fields::Some(3), false);
    let backwards: Vec<u8> = tape.iter().rev().copied().collect();
    let mut path = String::new();
    corrupt_value(&mut Tape::new(&backwards), &mut path, &pair.shared, &mut value);
    let by_them = validation_errors(schema(&pair.theirs), &value);
    // Validates without the values that are accepted only for Kubernetes 1.20.
    let by_us = validation_errors(&pair.strict, &value);
    let is_same = by_them.is_empty() == by_us.is_empty();
    assert!(is_same, "{path}: Argo CD finds {by_them:#?} and Tidegate finds {by_us:#?} in {value:#}");
    match by_them.is_empty() {
        true => verdicts.accepted += 1,
        false => verdicts.rejected += 1,
    }
    assert!(!by_us.is_empty() || accepts(schema(&pair.ours), &value), "{path}: {value:#}");
}

/// Both definitions accept and reject the same values.
#[test]
fn both_give_the_same_verdict() {
    for pair in PAIRS.iter() {
        let mut runner = TestRunner::new(cases(1024));
        let verdicts = std::cell::RefCell::new(Verdicts::default());
        runner
            .run(&tapes(), |tape| {
                compare_verdicts(pair, &tape, &mut verdicts.borrow_mut());
                Ok(())
            })
            .unwrap();
        let Verdicts { accepted: taken, rejected: refused } = verdicts.into_inner();
        assert!(taken > 50 && refused > 50, "{}: {taken} accepted, {refused} rejected", pair.kind);
    }
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn what_argo_cd_takes_we_take_and_read(tape in tapes()) {
        for pair in PAIRS.iter() {
            assert_both_accept(pair, &generate_resource(pair, schema(&pair.theirs), &tape, Fields::Some(4), false));
        }
    }

    #[test]
    fn what_we_take_argo_cd_takes(tape in tapes()) {
        for pair in PAIRS.iter() {
            assert_both_accept(pair, &generate_resource(pair, schema(&pair.ours), &tape, Fields::Some(4), true));
        }
    }
}

/// Tests the validator with examples from the Kubernetes documentation.
#[test]
fn the_judge_is_as_strict_as_a_server() {
    let schema = json!({
        "type": "object", "required": ["name"], "properties": {
            "name": {"type": "string", "maxLength": 3},
            "word": {"type": "string", "enum": ["a", "b"]},
            "count": {INT_OR_STRING: true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            "none": {"type": "string", "nullable": true},
            "list": {"type": "array", "items": {"type": "string"}},
            "at": {"type": "string", "format": "date-time"},
        },
    });
    for (value, is_taken) in [
        (json!({"name": "abc", "more": 1}), true),
        (json!({"name": "abcd"}), false),
        (json!({}), false),
        (json!({"name": null}), false),
        (json!({"name": "a", "word": null, "none": null, "count": null, "list": null}), true),
        (json!({"name": "a", "word": "c"}), false),
        (json!({"name": "a", "count": "1", "list": []}), true),
        (json!({"name": "a", "count": true}), false),
        (json!({"name": "a", "list": [null]}), false),
        (json!({"name": "a", "list": {}}), false),
        (json!({"name": "a", "at": "soon"}), false),
        (json!({"name": "a", "at": "2026-01-02T03:04:05Z"}), true),
    ] {
        assert_eq!(accepts(&schema, &value), is_taken, "{value}");
    }
}
