//! Tests for generating Applications from whole ApplicationSets.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]
#![allow(missing_docs, reason = "tests may panic")]

mod failed_generators;
mod invalid;
mod limits;
mod names;
mod patches;
mod templates;

use serde_json::{Value, json};
use tidegate_generate::{GenerateOutcome, GenerateOutput, NoInputs, Options, generate};
use tidegate_model::argo::ApplicationSet;

/// Returns an ApplicationSet with a list generator and a template, modified by `change`.
fn appset(elements: Value, change: impl FnOnce(&mut Value)) -> Value {
    let mut set = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
        "metadata": {"name": "shops", "namespace": "argocd"},
        "spec": {
            "goTemplate": true,
            "generators": [{"list": {"elements": elements}}],
            "template": {
                "metadata": {"name": "{{ .name }}-shop"},
                "spec": {
                    "project": "default",
                    "source": {"repoURL": "https://git.example.com/shop.git", "path": "apps/{{ .name }}"},
                    "destination": {"name": "in-cluster", "namespace": "shop"},
                },
            },
        },
    });
    change(&mut set);
    set
}

fn generate_all(set: &Value) -> Result<GenerateOutput, String> {
    let set: ApplicationSet = serde_json::from_value(set.clone()).unwrap();
    match generate(&set, &mut NoInputs, &Options::default()) {
        Ok(GenerateOutcome::Done(generated)) => Ok(generated),
        Ok(GenerateOutcome::Incomplete) => panic!("the ApplicationSet needs no external data"),
        Err(errors) => Err(errors.to_string()),
    }
}

/// Returns the generated Applications as JSON. Fails if there is an error.
#[track_caller]
fn applications(set: &Value) -> Vec<Value> {
    let generated = generate_all(set).unwrap();
    assert_eq!(generated.rejected, []);
    generated.applications.iter().map(|made| serde_json::to_value(&made.application).unwrap()).collect()
}
