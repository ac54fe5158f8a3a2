//! Templates with what Go's `text/template` and sprig made of them.
//!
//! `tests/table/cases.jsonl` holds a case a line: a template, its data (`data.json` where it says none), and the output or
//! the error of Go. `scripts/template-table/make` writes it again with a Go toolchain; nothing else does.
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
fn templates_say_what_go_says() {
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
