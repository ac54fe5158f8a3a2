//! Manifests of the golden operations, as YAML.

/// Returns an object with annotations, as YAML.
pub(super) fn object_yaml(
    api: &str,
    kind: &str,
    name: &str,
    annotations: &[(&str, &str)],
    body: &str,
) -> String {
    let mut text = format!("apiVersion: {api}\nkind: {kind}\nmetadata:\n  name: {name}\n");
    if !annotations.is_empty() {
        text.push_str("  annotations:\n");
        for (key, value) in annotations {
            text.push_str(&format!("    {key}: {value:?}\n"));
        }
    }
    format!("{text}{body}\n---\n")
}

pub(super) fn config_map(name: &str, wave: &str) -> String {
    object_yaml("v1", "ConfigMap", name, &[("argocd.argoproj.io/sync-wave", wave)], "data: {a: b}")
}

pub(super) fn annotated_config_map(name: &str, annotations: &[(&str, &str)]) -> String {
    object_yaml("v1", "ConfigMap", name, annotations, "data: {a: b}")
}

pub(super) fn deployment(name: &str, wave: &str, more: &[(&str, &str)]) -> String {
    let mut annotations = vec![("argocd.argoproj.io/sync-wave", wave)];
    annotations.extend_from_slice(more);
    let body = format!(
        "spec:\n  replicas: 1\n  selector: {{matchLabels: {{app: {name}}}}}\n  template:\n    metadata: {{labels: \
         {{app: {name}}}}}\n    spec: {{containers: [{{name: main, image: busybox}}]}}"
    );
    object_yaml("apps/v1", "Deployment", name, &annotations, &body)
}

pub(super) const JOB: &str = "spec:\n  backoffLimit: 0\n  template:\n    spec: {restartPolicy: Never, containers: [{name: main, image: busybox}]}";

pub(super) fn hook(name: &str, phase: &str, more: &[(&str, &str)]) -> String {
    let mut annotations = vec![("argocd.argoproj.io/hook", phase)];
    annotations.extend_from_slice(more);
    object_yaml("batch/v1", "Job", name, &annotations, JOB)
}

pub(super) const KEEP_NOTHING: (&str, &str) =
    ("argocd.argoproj.io/hook-delete-policy", "BeforeHookCreation,HookSucceeded");
pub(super) const ON_FAILURE: (&str, &str) = ("argocd.argoproj.io/hook-delete-policy", "HookFailed");
pub(super) const FAILS: (&str, &str) = ("sim.tidegate.dev/outcome", "fail");
pub(super) const FAILS_ONCE: (&str, &str) = ("sim.tidegate.dev/fail-times", "1");

pub(super) fn definition(kind: &str, annotations: &[(&str, &str)]) -> String {
    let plural = format!("{}s", kind.to_lowercase());
    let schema = "{openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}";
    let body = format!(
        "spec:\n  group: example.com\n  scope: Namespaced\n  names: {{kind: {kind}, plural: {plural}}}\n  versions:\n  - \
         {{name: v1, served: true, storage: true, schema: {schema}}}"
    );
    let name = format!("{plural}.example.com");
    object_yaml("apiextensions.k8s.io/v1", "CustomResourceDefinition", &name, annotations, &body)
}
