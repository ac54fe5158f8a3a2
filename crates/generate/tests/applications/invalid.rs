//! Tests for Applications that the service or the API server would reject.

use serde_json::json;

use super::*;

fn rejection_text(change: impl FnOnce(&mut Value)) -> String {
    let generated = generate_all(&appset(json!([{"name": "web"}]), change)).unwrap();
    assert_eq!(generated.applications, []);
    assert_eq!(generated.rejected.len(), 1);
    assert_eq!(generated.rejected[0].name(), "web-shop");
    generated.rejected[0].to_string()
}

/// The rules come from `ValidateObjectMeta` in Kubernetes, and from `ValidateDestination` and `ValidateRepo`
/// in Argo CD.
#[test]
fn an_invalid_application_is_rejected_with_its_name() {
    let long = "x".repeat(64);
    for (pointer, value, said) in [
        ("/spec/destination", json!({"namespace": "shop"}), "spec.destination has neither server nor name"),
        ("/spec/source", json!(null), "spec.source is missing"),
        ("/spec/source/repoURL", json!("{{ .url }}"), "spec.source.repoURL is empty"),
        ("/spec/source/path", json!("{{ .url }}"), "spec.source.path is missing"),
        ("/spec/source/path", json!("/{{ .name }}"), "spec.source.path \"/web\" is absolute"),
        ("/metadata/labels", json!({"a b": "1"}), "label key \"a b\": "),
        ("/metadata/labels", json!({"team": "{{ .name }} shop"}), "label team = \"web shop\": "),
        ("/metadata/labels", json!({"team": long}), "label team = "),
        ("/metadata/annotations", json!({"on-{{ .values }}": ""}), "annotation key \"on-{{ .x }}\": "),
        ("/metadata/finalizers", json!(["a/b/c"]), "finalizer \"a/b/c\": "),
    ] {
        let message = rejection_text(|set| {
            set["spec"]["generators"] =
                json!([{"list": {"elements": [{"name": "web", "url": "", "values": "{{ .x }}"}]}}]);
            set["spec"]["template"]["metadata"]["labels"] = json!({});
            set["spec"]["template"]["metadata"]["annotations"] = json!({});
            set["spec"]["template"]["metadata"]["finalizers"] = json!([]);
            *set.pointer_mut(&format!("/spec/template{pointer}")).unwrap() = value;
        });
        let start = format!("generates invalid Application web-shop: {said}");
        assert!(message.starts_with(&start), "{pointer}: {message}");
        assert!(message.ends_with(" (from generators[0].list, element 1)"), "{message}");
    }
}

#[test]
fn the_line_of_the_patch_is_named() {
    let message = rejection_text(|set| {
        set["spec"]["templatePatch"] = json!(
            "metadata:\n  labels:\n    ok: '1'\n{{- if .name }}\nspec:\n  destination: null\n{{- end }}\n"
        );
    });
    let line = "; set one of them (line 6 of templatePatch, \"destination: null\") (from ";
    assert!(message.contains(line), "{message}");
    let message = rejection_text(|set| {
        set["spec"]["templatePatch"] = json!("metadata:\n  labels:\n    t: '{{ .name }} x'\n")
    });
    assert!(message.contains("(line 3 of the rendered templatePatch, \"t: 'web x'\")"), "{message}");
    let message = rejection_text(|set| {
        set["spec"]["templatePatch"] = json!(
            "spec:\n  source: null\n  sources:\n  - repoURL: https://a\n    path: b\n  - repoURL: https://c\n    path: ../d\n"
        );
    });
    assert!(message.contains("spec.sources[1].path \"../d\" is outside the repository"), "{message}");
    assert!(message.contains("(line 7 of templatePatch, \"path: ../d\")"), "{message}");
}

/// `serve` checks Applications with the same function, so this test contains only one case per kind of
/// problem.
#[test]
fn a_specification_that_serve_refuses_is_rejected_with_the_line() {
    for (patch, said) in [
        ("destination: {server: 'https://a'}", "spec.destination has both a name and a server"),
        ("destination: {namespace: \"a\\nb\"}", "spec.destination.namespace contains a line break"),
        (
            "destination: {namespace: Bad NS}",
            "spec.destination.namespace \"Bad NS\" is not a valid namespace name",
        ),
        ("syncPolicy: {syncOptions: [prune=false]}", "spec.syncPolicy.syncOptions: unknown sync option"),
        ("syncPolicy: {syncOptions: [PruneLast]}", "spec.syncPolicy.syncOptions: unknown sync option"),
        (
            "syncPolicy: {retry: {backoff: {duration: soon}}}",
            "spec.syncPolicy: invalid retry.backoff.duration",
        ),
        (
            "syncPolicy: {retry: {backoff: {maxDuration: 3x}}}",
            "spec.syncPolicy: invalid retry.backoff.maxDuration",
        ),
        ("syncPolicy: {retry: {backoff: {factor: 0}}}", "spec.syncPolicy: invalid retry.backoff.factor 0"),
        ("ignoreDifferences: [{kind: A, jsonPointers: [a]}]", "spec.ignoreDifferences: entry 1: "),
        ("ignoreDifferences: [{kind: A, jqPathExpressions: ['.a[']}]", "spec.ignoreDifferences: entry 1: "),
        ("source: {path: /apps}", "spec.source.path \"/apps\" is absolute"),
        ("source: {ref: values}", "spec.source.ref has no effect"),
        (
            "sources: [{repoURL: 'https://a', path: b}]",
            "spec.source and spec.sources are both set; remove one of them",
        ),
        ("sourceHydrator: {drySource: {}}", "spec.sourceHydrator is not supported yet"),
    ] {
        let message = rejection_text(|set| {
            set["spec"]["templatePatch"] = json!(format!("spec:\n  {patch}\n"));
        });
        let start = format!("generates invalid Application web-shop: {said}");
        assert!(message.starts_with(&start), "{patch}: {message}");
        let line = format!("(line 2 of templatePatch, {patch:?})");
        assert!(message.contains(&line), "{patch}: {message}");
    }
}

/// The value for a number field is a string, so the Application can't be parsed.
#[test]
fn a_retry_limit_that_is_not_a_number_is_an_error_with_the_line() {
    let error = generate_all(&appset(json!([{"name": "web"}]), |set| {
        set["spec"]["templatePatch"] = json!("spec:\n  syncPolicy:\n    retry: {limit: many}\n");
    }))
    .unwrap_err();
    assert!(error.contains("Application \"web-shop\" is invalid: spec.syncPolicy"), "{error}");
    assert!(error.contains("(line 3 of templatePatch, \"retry: {limit: many}\")"), "{error}");
}

#[test]
fn the_others_are_generated() {
    let generated =
        generate_all(&appset(json!([{"name": "a"}, {"name": "b", "server": ""}, {"name": "c"}]), |set| {
            set["spec"]["template"]["spec"]["destination"] =
                json!({"name": "{{ if eq .name \"b\" }}{{ else }}in-cluster{{ end }}"});
        }))
        .unwrap();
    let names: Vec<_> = generated.applications.iter().map(|made| &made.application.metadata.name).collect();
    assert_eq!(names, ["a-shop", "c-shop"]);
    assert_eq!(generated.rejected.len(), 1);
    assert_eq!(generated.rejected[0].name(), "b-shop");
}

#[test]
fn a_tag_without_a_name_is_an_error() {
    for template in ["{{ }}-shop", "{{}}"] {
        let error = generate_all(&appset(json!([{"name": "web"}]), |set| {
            set["spec"]["goTemplate"] = json!(false);
            set["spec"]["template"]["metadata"]["name"] = json!(template);
        }));
        let error = error.unwrap_err();
        assert!(error.contains("template.metadata.name: failed to parse template"), "{error}");
        assert!(error.contains("is empty; add the name of a parameter"), "{error}");
    }
}
