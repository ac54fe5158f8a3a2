//! Health scripts: Argo CD's contract, script selection, and the sandbox.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod contract;
mod idioms;
mod limits;
mod patterns;
mod selection;
mod widget;

use serde_json::{Value, json};
use tidegate_health::{HealthError, HealthRules, Script};
use tidegate_model::{Health, HealthStatus};

use crate::widget::{NOW, widget};

/// Returns the result of a script for a widget.
fn run(script: &str, fields: Value) -> Result<Health, HealthError> {
    let script = Script::new("example.org/Widget", "widget.lua", script).unwrap();
    let rules = HealthRules::with_scripts([script]).unwrap();
    let object = widget(fields);
    let verdict = rules.assess(&object, NOW).expect("there is a script for widgets");
    assert_eq!(Some(&verdict), rules.assess(&object, NOW).as_ref(), "the same object gets the same verdict");
    verdict
}

/// Returns the message of a script that returns `tostring(…)` as its message.
fn script_message(expression: &str) -> String {
    let script = format!("return {{ status = 'Healthy', message = tostring({expression}) }}");
    match run(&script, json!({})) {
        Ok(health) => health.message,
        Err(error) => error.to_string(),
    }
}

fn verdict(status: HealthStatus, message: &str) -> Result<Health, HealthError> {
    Ok(Health::new(status, message))
}
