//! Parsing and planning of manifests.

use tidegate_testkit::fuzz;

use crate::checks::check_manifests;

const SHOP: &[u8] = br#"# A comment
apiVersion: v1
kind: List
items:
- &settings
  apiVersion: v1
  kind: ConfigMap
  metadata: {name: settings, annotations: {argocd.argoproj.io/sync-wave: "-1"}}
  data: {a: 'it''s', b: "\x41\u00e9", c: |-
      several
      lines
  }
- <<: *settings
  metadata: {name: other}
---
apiVersion: batch/v1
kind: Job
metadata:
  generateName: migrate-
  annotations:
    argocd.argoproj.io/hook: PreSync, PostDelete
    argocd.argoproj.io/hook-delete-policy: BeforeHookCreation,HookSucceeded
    helm.sh/hook-weight: "5"
    tidegate.dev/wave-timeout: 5m
    tidegate.dev/gate: approval
spec:
  backoffLimit: 0
  template: {spec: {restartPolicy: Never, containers: [{name: a, image: b:1}]}}
...
---
{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
 "spec": {"replicas": 0o17, "template": {"spec": {"containers": [{"name": "a", "image": "b:1", "resources": {"limits": {"cpu": 1e3}}}]}}}}
"#;
const CUSTOM: &[u8] = b"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: tides.example.com}\nspec: {group: example.com, scope: Namespaced, names: {kind: Tide, plural: tides}, versions: [{name: v1, served: true, storage: true}]}\n---\napiVersion: example.com/v1\nkind: Tide\nmetadata: {name: ebb, annotations: {argocd.argoproj.io/sync-options: 'Prune=confirm,Replace=true'}}\n? key\n: - - nested\n  - !!str 7\n";

const WORDS: [&str; 20] = [
    "&a ",
    "*a",
    "<<: ",
    "? ",
    ": ",
    "- ",
    "---\n",
    "...\n",
    "|+2\n",
    ">-\n",
    "!!binary ",
    "!<tag:x>",
    "%YAML 1.1\n",
    "'",
    "\"",
    "#",
    "\t",
    "apiVersion: v1\n",
    "kind: List\nitems:\n",
    "argocd.argoproj.io/hook: Sync",
];

#[test]
fn fuzz_manifests() {
    fuzz::fuzz_bytes("manifests", &[SHOP, CUSTOM], &WORDS, |input| {
        check_manifests(input);
    });
}
