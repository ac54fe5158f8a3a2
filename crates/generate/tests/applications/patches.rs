//! Section 3.6 of the specification.

use serde_json::json;

use super::*;

fn patched(patch: &str) -> Result<Value, String> {
    let set = set(json!([{"name": "web", "prune": true, "files": ["a", "b"]}]), |set| {
        set["spec"]["template"]["metadata"]["labels"] = json!({"l": "1"});
        set["spec"]["templatePatch"] = json!(patch);
    });
    run(&set).map(|generated| serde_json::to_value(&generated.applications[0].application).unwrap())
}

#[test]
fn a_patch_changes_what_is_no_text() {
    let yaml = "\
spec:
  source:
    helm:
      valueFiles:
      {{- range .files }}
      - {{ . }}.yaml
      {{- end }}
{{- if .prune }}
  syncPolicy:
    automated:
      prune: {{ .prune }}
{{- end }}
metadata:
  labels: {m: '2'}
";
    let found = patched(yaml).unwrap();
    assert_eq!(found["spec"]["source"]["helm"], json!({"valueFiles": ["a.yaml", "b.yaml"]}));
    assert_eq!(found["spec"]["source"]["path"], "apps/web");
    assert_eq!(found["spec"]["syncPolicy"], json!({"automated": {"prune": true}}));
    assert_eq!(found["metadata"]["labels"], json!({"l": "1", "m": "2"}));
    let found = patched(r#"{"spec": {"revisionHistoryLimit": 3}}"#).unwrap();
    assert_eq!(found["spec"]["revisionHistoryLimit"], 3);
}

#[test]
fn a_patch_that_says_nothing_changes_nothing() {
    let without = applications(&set(json!([{"name": "web"}]), |set| {
        set["spec"]["template"]["metadata"]["labels"] = json!({"l": "1"});
    }));
    for patch in ["", " \n", "{}", "null", "# nothing", "{{ if .missing }}spec: {}{{ end }}", "spec: {}"] {
        assert_eq!(patched(patch).as_ref(), Ok(&without[0]), "{patch}");
    }
}

/// Whoever writes a patch need not be who may choose project and namespace.
#[test]
fn project_and_namespace_stay_and_the_name_may_change() {
    let found =
        patched("metadata: {name: other, namespace: elsewhere}\nspec: {project: admin}\nkind: Secret")
            .unwrap();
    assert_eq!(found["metadata"]["name"], "other");
    assert_eq!(found["metadata"]["namespace"], "argocd");
    assert_eq!(found["spec"]["project"], "default");
    assert_eq!(found["kind"], "Application");
    let found = patched("spec: null").unwrap();
    assert_eq!(found["spec"], json!({"project": "default", "destination": {}}));
}

/// In Argo CD a patch that has finalizers gets the one that is added as well.
#[test]
fn a_patch_decides_about_finalizers() {
    for (patch, expected) in [
        ("metadata: {finalizers: [a.io/b]}", json!(["a.io/b"])),
        ("metadata: {finalizers: null}", json!(null)),
        ("metadata: {finalizers: []}", json!(["resources-finalizer.argocd.argoproj.io"])),
        ("metadata: {labels: {a: b}}", json!(["resources-finalizer.argocd.argoproj.io"])),
    ] {
        let found = patched(patch).unwrap();
        assert_eq!(found["metadata"].get("finalizers").unwrap_or(&Value::Null), &expected, "{patch}");
    }
}

#[test]
fn a_patch_that_makes_no_application_is_named() {
    let place = "generators[0].list, element 1, template";
    for (patch, words) in [
        ("text", "Patch: invalid templatePatch: it is the text \"text\""),
        ("- a", "Patch: invalid templatePatch: it is a list"),
        ("spec: {", "Patch: invalid templatePatch: "),
        ("spec: text", "Patch: invalid templatePatch: metadata and spec are objects"),
        ("metadata: []", "Patch: invalid templatePatch: metadata and spec are objects"),
        ("spec: {destination: text}", ": what it makes is no Application: "),
        ("spec: {syncPolicy: {automated: {prune: 'yes'}}}", ": what it makes is no Application: "),
        ("spec: {source: {repoURL: null}}", ": what it makes is no Application: "),
        ("{{ .name", "Patch: failed to parse template"),
        ("spec: {$patch: swap}", "Patch: invalid templatePatch: $patch of \".spec\""),
    ] {
        let error = patched(patch).unwrap_err();
        assert!(error.starts_with(&format!("{place}{words}")), "{patch}: {error}");
    }
}
