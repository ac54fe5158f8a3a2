//! From ApplicationSets as they are written down to the Applications they make.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests stop at the first surprise"
)]

mod failed;
mod limits;
mod names;
mod patches;
mod templates;

use serde_json::{Value, json};
use tidegate_generate::{Generated, NoWorld, Options, Outcome, generate};
use tidegate_model::argo::ApplicationSet;

/// An ApplicationSet of a list, with a template that can be changed.
fn set(elements: Value, change: impl FnOnce(&mut Value)) -> Value {
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

fn run(set: &Value) -> Result<Generated, String> {
    let set: ApplicationSet = serde_json::from_value(set.clone()).unwrap();
    match generate(&set, &mut NoWorld, &Options::default()) {
        Ok(Outcome::Done(generated)) => Ok(generated),
        Ok(Outcome::Unknown) => panic!("it asks nobody"),
        Err(errors) => Err(errors.to_string()),
    }
}

/// The Applications as documents.
#[track_caller]
fn applications(set: &Value) -> Vec<Value> {
    let generated = run(set).unwrap();
    assert_eq!(generated.refused, []);
    generated.applications.iter().map(|made| serde_json::to_value(&made.application).unwrap()).collect()
}
