//! Tests for `templatePatch`.

use serde_json::json;

use super::*;

fn render_with_patch(patch: &str) -> Result<Value, String> {
    let set = appset(json!([{"name": "web", "prune": true, "files": ["a", "b"]}]), |set| {
        set["spec"]["template"]["metadata"]["labels"] = json!({"l": "1"});
        set["spec"]["templatePatch"] = json!(patch);
    });
    generate_all(&set).map(|generated| serde_json::to_value(&generated.applications[0].application).unwrap())
}

#[test]
fn a_patch_changes_values_that_are_not_texts() {
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
    let found = render_with_patch(yaml).unwrap();
    assert_eq!(found["spec"]["source"]["helm"], json!({"valueFiles": ["a.yaml", "b.yaml"]}));
    assert_eq!(found["spec"]["source"]["path"], "apps/web");
    assert_eq!(found["spec"]["syncPolicy"], json!({"automated": {"prune": true}}));
    assert_eq!(found["metadata"]["labels"], json!({"l": "1", "m": "2"}));
    let found = render_with_patch(r#"{"spec": {"revisionHistoryLimit": 3}}"#).unwrap();
    assert_eq!(found["spec"]["revisionHistoryLimit"], 3);
}

#[test]
fn an_empty_patch_changes_nothing() {
    let without = applications(&appset(json!([{"name": "web"}]), |set| {
        set["spec"]["template"]["metadata"]["labels"] = json!({"l": "1"});
    }));
    for patch in [
        "",
        " \n",
        "{}",
        "null",
        "# nothing",
        "{{ if .missing }}spec: {}{{ end }}",
        "spec: {}",
        "# nothing\nspec:\n",
        "spec: null\nmetadata: null",
        "{\"spec\": null}",
    ] {
        assert_eq!(render_with_patch(patch).as_ref(), Ok(&without[0]), "{patch}");
    }
}

/// A patch can't change the project and the namespace, because its author might not be permitted to choose
/// them.
#[test]
fn project_and_namespace_stay_and_the_name_may_change() {
    let found = render_with_patch(
        "metadata: {name: other, namespace: elsewhere}\nspec: {project: admin}\nkind: Secret",
    )
    .unwrap();
    assert_eq!(found["metadata"]["name"], "other");
    assert_eq!(found["metadata"]["namespace"], "argocd");
    assert_eq!(found["spec"]["project"], "default");
    assert_eq!(found["kind"], "Application");
}

/// Argo CD adds the default finalizer even if a patch sets finalizers, whereas Tidegate doesn't.
#[test]
fn a_patch_decides_about_finalizers() {
    for (patch, expected) in [
        ("metadata: {finalizers: [a.io/b]}", json!(["a.io/b"])),
        ("metadata: {finalizers: null}", json!(null)),
        ("metadata: {finalizers: []}", json!(["resources-finalizer.argocd.argoproj.io"])),
        ("metadata: {labels: {a: b}}", json!(["resources-finalizer.argocd.argoproj.io"])),
    ] {
        let found = render_with_patch(patch).unwrap();
        assert_eq!(found["metadata"].get("finalizers").unwrap_or(&Value::Null), &expected, "{patch}");
    }
}

#[test]
fn an_invalid_patched_application_names_the_patch() {
    let place = "generators[0].list, element 1, template";
    for (patch, words) in [
        ("text", "Patch: invalid templatePatch: the patch must be an object, found the string \"text\""),
        ("- a", "Patch: invalid templatePatch: the patch must be an object, found a list"),
        ("spec: {", "Patch: invalid templatePatch: "),
        ("spec: text", "Patch: invalid templatePatch: metadata and spec must be objects"),
        ("metadata: []", "Patch: invalid templatePatch: metadata and spec must be objects"),
        ("spec: {destination: text}", ": Application \"web-shop\" is invalid: spec."),
        ("spec: {syncPolicy: {automated: {prune: 'yes'}}}", ": Application \"web-shop\" is invalid: spec."),
        ("spec: {source: {repoURL: null}}", ": Application \"web-shop\" is invalid: spec."),
        ("{{ .name", "Patch: failed to parse template"),
        ("spec: {$patch: swap}", "Patch: invalid templatePatch: $patch in \".spec\""),
    ] {
        let error = render_with_patch(patch).unwrap_err();
        assert!(error.starts_with(&format!("{place}{words}")), "{patch}: {error}");
    }
    let error = render_with_patch("{{ if .prune }}\nspec:\n  destination: text\n{{ end }}").unwrap_err();
    assert!(error.ends_with(" (line 3 of templatePatch, \"destination: text\")"), "{error}");
}
