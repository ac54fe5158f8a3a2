//! Comparison of rendered templates with the results of Go's `text/template` and sprig.
//!
//! `tests/table/cases.jsonl` contains one case per line: a template, its data (by default, `data.json`), and
//! Go's output or error. Only `scripts/template-table/make` writes this file, and it requires a Go toolchain.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use serde_json::Value;
use tidegate_gotmpl::{Engine, MissingKey};

const CASES: &str = include_str!("table/cases.jsonl");
const DATA: &str = include_str!("table/data.json");

fn field<'v>(case: &'v Value, name: &str) -> Option<&'v str> {
    case.get(name).and_then(Value::as_str)
}

fn render(case: &Value, data: &Value) -> Result<String, String> {
    let option = field(case, "missingkey").unwrap_or("default");
    let missing_key = MissingKey::from_option(&format!("missingkey={option}")).unwrap();
    let engine = Engine::with_sprig().missing_key(missing_key);
    let template =
        engine.parse("base", field(case, "template").unwrap()).map_err(|error| error.to_string())?;
    template.render(case.get("data").unwrap_or(data)).map_err(|error| error.to_string())
}

#[test]
fn templates_render_as_in_go() {
    let data: Value = serde_json::from_str(DATA).unwrap();
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in CASES.lines() {
        count += 1;
        let case: Value = serde_json::from_str(line).unwrap();
        let expected = match field(&case, "error") {
            Some(error) => Err(error.to_owned()),
            None => Ok(field(&case, "output").unwrap().to_owned()),
        };
        let found = render(&case, &data);
        if found != expected {
            wrong.push(format!("{line}\n      Go: {expected:?}\n    here: {found:?}"));
        }
    }
    assert!(count >= 500, "only {count} cases");
    assert!(wrong.is_empty(), "{} of {count} cases differ:\n{}", wrong.len(), wrong.join("\n"));
}
