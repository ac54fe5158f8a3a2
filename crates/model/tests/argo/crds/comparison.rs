//! Keyword-by-keyword comparison of Tidegate's and Argo CD's definitions.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{PAIRS, PRESERVE_UNKNOWN_FIELDS, schema};

/// Difference between the definitions at one path.
struct Difference {
    path: String,
    /// Schema keyword, or `field` if only one of the definitions has the field.
    keyword: String,
    theirs: Value,
    ours: Value,
}

type DifferencePredicate = fn(&Difference) -> bool;

/// Intended differences, and the reasons for them.
const INTENDED_DIFFERENCES: [(&str, DifferencePredicate); 6] = [
    ("Tidegate preserves and reports unknown fields, which an API server would otherwise drop", |one| {
        one.keyword == PRESERVE_UNKNOWN_FIELDS && one.theirs.is_null() && one.ours == json!(true)
    }),
    ("Kubernetes 1.20 servers that were built with a newer Go version read an empty string as null", |one| {
        one.keyword == "nullable" && one.theirs.is_null() && is_taken_for_null(&one.path)
    }),
    ("Tidegate doesn't support source hydration", |one| is_only_in_argo_cd(one, ".sourceHydrator")),
    ("Tidegate doesn't read project roles or the settings for orphaned-resource warnings", |one| {
        is_only_in_argo_cd(one, ".spec.roles") || is_only_in_argo_cd(one, ".spec.orphanedResources")
    }),
    ("Tidegate doesn't write the tokens of project roles", |one| {
        one.path == "AppProject.status" && is_only_in_argo_cd(one, ".status")
    }),
    ("Argo CD has proposed deletion steps but not implemented them", |one| {
        one.keyword == "field"
            && one.theirs.is_null()
            && one.path == "ApplicationSet.spec.strategy.deletionSync"
    }),
];

fn is_taken_for_null(path: &str) -> bool {
    path.contains("[]") || path.contains(".status.operationState.syncResult.")
}

fn is_only_in_argo_cd(one: &Difference, place: &str) -> bool {
    one.keyword == "field" && one.ours.is_null() && one.path.ends_with(place)
}

/// Returns true if a value equals the default of its keyword.
fn is_default(word: &str, value: &Value) -> bool {
    match word {
        "additionalPrinterColumns" | "required" => value == &json!([]),
        "subresources" => value == &json!({}),
        "priority" => value == &json!(0),
        _ => false,
    }
}

/// Returns a value in canonical order, unless the order is significant.
fn canonical_value(word: &str, value: &Value) -> Value {
    let Some(entries) = value.as_array().filter(|_| ["required", "enum", "anyOf"].contains(&word)) else {
        return value.clone();
    };
    let texts: BTreeSet<String> = entries.iter().map(Value::to_string).collect();
    json!(texts)
}

fn compare_keywords(path: &str, theirs: &Value, ours: &Value, without: &[&str], found: &mut Vec<Difference>) {
    let names = |one: &Value| one.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
    for word in names(theirs).union(&names(ours)).filter(|word| !without.contains(&word.as_str())) {
        let of = |one: &Value| match one.get(word) {
            Some(value) if !is_default(word, value) => canonical_value(word, value),
            _ => Value::Null,
        };
        let (theirs, ours) = (of(theirs), of(ours));
        if theirs != ours {
            found.push(Difference { path: path.to_owned(), keyword: word.clone(), theirs, ours });
        }
    }
}

fn compare_schemas(path: &str, theirs: &Value, ours: &Value, found: &mut Vec<Difference>) {
    let inside = ["description", "properties", "items", "additionalProperties"];
    compare_keywords(path, theirs, ours, &inside, found);
    let mut go_on = |path: String, theirs: Option<&Value>, ours: Option<&Value>| match (theirs, ours) {
        (Some(theirs), Some(ours)) => compare_schemas(&path, theirs, ours, found),
        (None, None) => {}
        (theirs, ours) => {
            let of = |one: Option<&Value>| one.cloned().unwrap_or_default();
            found.push(Difference { path, keyword: "field".to_owned(), theirs: of(theirs), ours: of(ours) });
        }
    };
    let fields = |one: &Value| {
        let fields = one.get("properties").and_then(Value::as_object);
        fields.into_iter().flat_map(|fields| fields.keys().cloned()).collect::<BTreeSet<_>>()
    };
    for name in fields(theirs).union(&fields(ours)) {
        let of = |one| Value::get(one, "properties").and_then(|fields| fields.get(name));
        go_on(format!("{path}.{name}"), of(theirs), of(ours));
    }
    go_on(format!("{path}[]"), theirs.get("items"), ours.get("items"));
    go_on(format!("{path}{{}}"), theirs.get("additionalProperties"), ours.get("additionalProperties"));
}

/// Compares the definitions in both directions.
#[test]
fn definitions_differ_only_where_intended() {
    let mut used = BTreeSet::new();
    for pair in PAIRS.iter() {
        let mut found = Vec::new();
        let (theirs, ours) = (&pair.theirs["spec"], &pair.ours["spec"]);
        compare_keywords(pair.kind, theirs, ours, &["versions"], &mut found);
        let [theirs, ours] = [theirs, ours].map(|spec| {
            assert_eq!(spec["versions"].as_array().unwrap().len(), 1, "{}", pair.kind);
            let mut version = spec["versions"][0].clone();
            let columns = version["additionalPrinterColumns"].as_array_mut();
            for column in columns.into_iter().flatten() {
                column.as_object_mut().unwrap().retain(|word, value| !is_default(word, value));
            }
            version
        });
        compare_keywords(pair.kind, &theirs, &ours, &["schema"], &mut found);
        compare_schemas(pair.kind, schema(&pair.theirs), schema(&pair.ours), &mut found);
        for one in &found {
            let reason = INTENDED_DIFFERENCES.iter().position(|(_, holds)| holds(one));
            let Difference { path, keyword: word, theirs, ours } = one;
            let Some(reason) = reason else {
                panic!("{path}: {word} is {theirs} in Argo CD's definition and {ours} in Tidegate's")
            };
            used.insert(reason);
        }
    }
    if PAIRS.len() == 3 {
        let unused: Vec<_> = (0..INTENDED_DIFFERENCES.len())
            .filter(|at| !used.contains(at))
            .map(|at| INTENDED_DIFFERENCES[at].0)
            .collect();
        assert!(unused.is_empty(), "these intended differences don't exist anymore: {unused:?}");
    }
}

/// Every field missing in Tidegate's definition is inside an object that preserves unknown fields.
#[test]
fn fields_that_only_argo_cd_defines_are_preserved() {
    fn walk(path: &str, theirs: &Value, ours: &Value, count: &mut usize) {
        for (name, inner) in theirs.get("properties").and_then(Value::as_object).into_iter().flatten() {
            match ours.get("properties").and_then(|fields| fields.get(name)) {
                Some(ours) => walk(&format!("{path}.{name}"), inner, ours, count),
                None => {
                    assert_eq!(ours.get(PRESERVE_UNKNOWN_FIELDS), Some(&json!(true)), "{path} loses {name}");
                    *count += 1;
                }
            }
        }
        for word in ["items", "additionalProperties"] {
            if let (Some(theirs), Some(ours)) = (theirs.get(word), ours.get(word)) {
                walk(path, theirs, ours, count);
            }
        }
    }
    for pair in PAIRS.iter() {
        let mut count = 0;
        walk(pair.kind, schema(&pair.theirs), schema(&pair.ours), &mut count);
        assert!(count > 0, "{}", pair.kind);
    }
}
