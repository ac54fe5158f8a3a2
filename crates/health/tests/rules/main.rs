//! One table per family of kinds. Each row is one rule, with an object and its expected health.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

mod batch;
mod general;
mod grace_period;
mod others;
mod pod;
mod pod_problems;
mod texts;
mod workloads;

use serde_json::Value;
use tidegate_health::HealthRules;
use tidegate_model::{HealthStatus, Object, Timestamp};

/// Expected result: a status with its message, or an error message.
#[derive(Clone, Copy)]
enum ExpectedResult {
    Verdict(HealthStatus, &'static str),
    Error(&'static str),
}

fn healthy(message: &'static str) -> ExpectedResult {
    ExpectedResult::Verdict(HealthStatus::Healthy, message)
}

fn suspended(message: &'static str) -> ExpectedResult {
    ExpectedResult::Verdict(HealthStatus::Suspended, message)
}

fn progressing(message: &'static str) -> ExpectedResult {
    ExpectedResult::Verdict(HealthStatus::Progressing, message)
}

fn degraded(message: &'static str) -> ExpectedResult {
    ExpectedResult::Verdict(HealthStatus::Degraded, message)
}

fn unknown(message: &'static str) -> ExpectedResult {
    ExpectedResult::Verdict(HealthStatus::Unknown, message)
}

/// Returns an object named `x` of a kind, with the given fields.
fn object(api_version: &str, kind: &str, fields: Value) -> Object {
    let mut all = fields.as_object().cloned().unwrap_or_default();
    all.insert("apiVersion".to_owned(), api_version.into());
    all.insert("kind".to_owned(), kind.into());
    let mut object = Object::try_from(Value::Object(all)).unwrap();
    object.set_name("x");
    object
}

/// Returns the health at noon on 1 January 2026.
fn at_noon(object: &Object) -> Option<Result<tidegate_model::Health, tidegate_health::HealthError>> {
    HealthRules::built_in().assess(object, noon())
}

fn noon() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

/// Checks the health of objects after their grace period.
fn check(api_version: &str, kind: &str, rows: Vec<(Value, ExpectedResult)>) {
    for (fields, expected) in rows {
        let described = fields.to_string();
        let mut object = object(api_version, kind, fields);
        object.section_mut("metadata").insert("creationTimestamp".to_owned(), "2026-01-01T00:00:00Z".into());
        let verdict = at_noon(&object).expect("the kind has a rule");
        match (verdict, expected) {
            (Ok(found), ExpectedResult::Verdict(status, message)) => {
                assert_eq!((found.status, found.message.as_str()), (status, message), "{kind} {described}");
            }
            (Err(found), ExpectedResult::Error(message)) => {
                assert_eq!(found.to_string(), message, "{kind} {described}");
            }
            (found, _) => panic!("{kind} {described}: {found:?}"),
        }
    }
}
