//! An ApplicationSet of 5,000 elements.

use std::time::Instant;

use serde_json::json;
use tidegate_generate::{GenerateOutcome, NoInputs, Options, generate};
use tidegate_model::argo::ApplicationSet;

use crate::Line;
use crate::fixtures::{format_millis, median};

const ELEMENTS: usize = 5_000;
const RUNS: usize = 5;

pub fn measure() -> Vec<Line> {
    [(false, "{{name}}"), (true, "{{ .name }}")].map(|(of_go, tag)| result_line(of_go, tag)).into()
}

fn result_line(of_go: bool, tag: &str) -> Line {
    let elements: Vec<_> =
        (0..ELEMENTS).map(|at| json!({"name": format!("shop-{at}"), "env": "prod"})).collect();
    let set = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "metadata": {"name": "shops"},
        "spec": {
            "goTemplate": of_go,
            "generators": [{"list": {"elements": elements}}],
            "template": {
                "metadata": {"name": tag, "labels": {"shop": tag}, "annotations": {"of": tag}},
                "spec": {
                    "project": "default",
                    "source": {
                        "repoURL": "https://git.example.com/shops.git", "targetRevision": "main", "path": tag,
                        "helm": {"releaseName": tag, "valuesObject": {"shop": {"name": tag, "replicas": 3}}},
                    },
                    "destination": {"name": "in-cluster", "namespace": tag},
                    "syncPolicy": {"automated": {"prune": true}},
                },
            },
            "templatePatch": format!("metadata: {{annotations: {{patched: '{tag}'}}}}"),
        },
    });
    let set: ApplicationSet = serde_json::from_value(set).unwrap();
    let runs = (0..RUNS).map(|_| {
        let begin = Instant::now();
        let Ok(GenerateOutcome::Done(generated)) = generate(&set, &mut NoInputs, &Options::default()) else {
            panic!("it makes no requests");
        };
        assert_eq!(generated.applications.len(), ELEMENTS);
        begin.elapsed()
    });
    let kind = if of_go { "templates of Go" } else { "{{name}} templates" };
    let what = format!("generate {ELEMENTS} Applications of a list, {kind} and a patch");
    Line::new(what, format_millis(median(runs.collect())), "≤ 2 s")
}
