//! One table per family of kinds: every row is one rule, an object in and a verdict out.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail by panicking"
)]

mod batch;
mod general;
mod others;
mod pod;
mod pods;
mod texts;
mod workloads;

use serde_json::Value;
use tidegate_health::assess;
use tidegate_model::{HealthStatus, Object};

/// What a row expects: a status with its message, or the text of the error.
#[derive(Clone, Copy)]
enum Expected {
    Verdict(HealthStatus, &'static str),
    Error(&'static str),
}

fn healthy(message: &'static str) -> Expected {
    Expected::Verdict(HealthStatus::Healthy, message)
}

fn suspended(message: &'static str) -> Expected {
    Expected::Verdict(HealthStatus::Suspended, message)
}

fn progressing(message: &'static str) -> Expected {
    Expected::Verdict(HealthStatus::Progressing, message)
}

fn degraded(message: &'static str) -> Expected {
    Expected::Verdict(HealthStatus::Degraded, message)
}

fn unknown(message: &'static str) -> Expected {
    Expected::Verdict(HealthStatus::Unknown, message)
}

/// An object named `x` of a kind, with the given fields.
fn object(api_version: &str, kind: &str, fields: Value) -> Object {
    let mut all = fields.as_object().cloned().unwrap_or_default();
    all.insert("apiVersion".to_owned(), api_version.into());
    all.insert("kind".to_owned(), kind.into());
    let mut object = Object::try_from(Value::Object(all)).unwrap();
    object.set_name("x");
    object
}

fn check(api_version: &str, kind: &str, rows: Vec<(Value, Expected)>) {
    for (fields, expected) in rows {
        let described = fields.to_string();
        let verdict = assess(&object(api_version, kind, fields)).expect("the kind has a rule");
        match (verdict, expected) {
            (Ok(found), Expected::Verdict(status, message)) => {
                assert_eq!((found.status, found.message.as_str()), (status, message), "{kind} {described}");
            }
            (Err(found), Expected::Error(message)) => {
                assert_eq!(found.to_string(), message, "{kind} {described}");
            }
            (found, _) => panic!("{kind} {described}: {found:?}"),
        }
    }
}
