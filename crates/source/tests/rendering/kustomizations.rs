//! Tests for kustomizations that the real Kustomize renders. The expected result is the output for a
//! kustomization file that contains the same settings.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};
use tidegate_model::argo::ApplicationSource;
use tidegate_testkit::tools;

use crate::fixture::{RenderFixture, source};

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: 'nginx:1.0'}, {name: side, image: 'busybox:1.0'}]}
";

/// Creates a base and an overlay.
fn bench() -> Option<RenderFixture> {
    let mut bench = RenderFixture::new();
    bench.making.tools.kustomize = Some(tools::kustomize()?);
    for (file, content) in [
        ("base/deployment.yaml", DEPLOYMENT),
        ("base/kustomization.yaml", "resources: [deployment.yaml]\n"),
        (
            "overlays/dev/kustomization.yaml",
            "# Kept.\nresources: [../../base]\nnamePrefix: dev-\ncommonLabels: {team: a}\nimages: [{name: nginx, newTag: '1.1'}]\n",
        ),
        (
            "components/tls/kustomization.yaml",
            "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\ncommonAnnotations: {tls: 'on'}\n",
        ),
        ("elsewhere/a.yaml", "{apiVersion: v1, kind: Secret, metadata: {name: a}}"),
    ] {
        bench.write(&format!("repo/{file}"), content);
    }
    bench.commit("repo");
    Some(bench)
}

fn overlay(kustomize: Value) -> ApplicationSource {
    source(json!({"repoURL": "./repo", "path": "overlays/dev", "kustomize": kustomize}))
}

#[test]
fn a_base_and_its_overlay() {
    let Some(bench) = bench() else { return };
    let plain = source(json!({"repoURL": "./repo", "path": "overlays/dev"}));
    assert_eq!(bench.locate(&plain).unwrap().source_type(), "Kustomize");
    let objects = bench.objects(&plain).unwrap();
    assert_eq!(objects.len(), 1);
    assert_eq!(objects[0]["metadata"], json!({"name": "dev-web", "labels": {"team": "a"}}));
    let images: Vec<_> = objects[0]["spec"]["template"]["spec"]["containers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["image"])
        .collect();
    assert_eq!(images, ["nginx:1.1", "busybox:1.0"]);
    // A change to a file that the kustomization doesn't use must not change the key.
    let key = bench.locate(&plain).unwrap().key;
    bench.write("repo/elsewhere/a.yaml", "changed");
    bench.commit("repo");
    assert_eq!(bench.locate(&plain).unwrap().key, key);
    bench.write("repo/base/deployment.yaml", &DEPLOYMENT.replace("replicas: 1", "replicas: 2"));
    bench.commit("repo");
    assert_ne!(bench.locate(&plain).unwrap().key, key);
    assert_eq!(bench.objects(&plain).unwrap()[0]["spec"]["replicas"], 2);
}

/// Each field must have the same effect as the corresponding `kustomize edit` command.
#[test]
fn changes_by_a_source() {
    let Some(bench) = bench() else { return };
    let base = "resources: [../../base]\n";
    let patch = r#"[{"op": "replace", "path": "/spec/replicas", "value": 7}]"#;
    for (said, written) in [
        (json!({}), "namePrefix: dev-\ncommonLabels: {team: a}\nimages: [{name: nginx, newTag: '1.1'}]\n"),
        (
            json!({"namePrefix": "x-", "nameSuffix": "-y", "namespace": "shop"}),
            "namePrefix: x-\nnameSuffix: -y\nnamespace: shop\ncommonLabels: {team: a}\nimages: [{name: nginx, newTag: '1.1'}]\n",
        ),
        (
            json!({"images": ["nginx=mine/nginx:2", "busybox@sha256:0123"]}),
            "namePrefix: dev-\ncommonLabels: {team: a}\nimages: [{name: busybox, digest: 'sha256:0123'}, {name: nginx, newName: mine/nginx, newTag: '2'}]\n",
        ),
        (
            json!({"replicas": [{"name": "web", "count": 3}]}),
            "namePrefix: dev-\ncommonLabels: {team: a}\nimages: [{name: nginx, newTag: '1.1'}]\nreplicas: [{name: web, count: 3}]\n",
        ),
        (
            json!({"replicas": [{"name": "web", "count": "4"}]}),
            "namePrefix: dev-\ncommonLabels: {team: a}\nimages: [{name: nginx, newTag: '1.1'}]\nreplicas: [{name: web, count: 4}]\n",
        ),
        (
            json!({"commonLabels": {"app-of": "$ARGOCD_APP_NAME"}}),
            "namePrefix: dev-\ncommonLabels: {team: a, app-of: team_web}\nimages: [{name: nginx, newTag: '1.1'}]\n",
        ),
        (
            json!({"commonLabels": {"team": "b"}, "forceCommonLabels": true}),
            "namePrefix: dev-\ncommonLabels: {team: b}\nimages: [{name: nginx, newTag: '1.1'}]\n",
        ),
        (
            json!({"commonLabels": {"of": "b"}, "labelWithoutSelector": true}),
            "namePrefix: dev-\ncommonLabels: {team: a}\nlabels: [{pairs: {of: b}}]\nimages: [{name: nginx, newTag: '1.1'}]\n",
        ),
        (
            json!({"commonLabels": {"of": "b"}, "labelWithoutSelector": true, "labelIncludeTemplates": true}),
            "namePrefix: dev-\ncommonLabels: {team: a}\nlabels: [{pairs: {of: b}, includeTemplates: true}]\nimages: [{name: nginx, newTag: '1.1'}]\n",
        ),
        (
            json!({"commonAnnotations": {"a": "$ARGOCD_APP_NAME"}}),
            "namePrefix: dev-\ncommonLabels: {team: a}\ncommonAnnotations: {a: $ARGOCD_APP_NAME}\nimages: [{name: nginx, newTag: '1.1'}]\n",
        ),
        (
            json!({"commonAnnotations": {"a": "$ARGOCD_APP_NAME"}, "commonAnnotationsEnvsubst": true}),
            "namePrefix: dev-\ncommonLabels: {team: a}\ncommonAnnotations: {a: team_web}\nimages: [{name: nginx, newTag: '1.1'}]\n",
        ),
        (
            json!({"patches": [{"patch": patch, "target": {"kind": "Deployment"}}]}),
            "namePrefix: dev-\ncommonLabels: {team: a}\nimages: [{name: nginx, newTag: '1.1'}]\npatches: [{patch: '[{\"op\": \"replace\", \"path\": \"/spec/replicas\", \"value\": 7}]', target: {kind: Deployment}}]\n",
        ),
        (
            json!({"components": ["../../components/tls"]}),
            "namePrefix: dev-\ncommonLabels: {team: a}\nimages: [{name: nginx, newTag: '1.1'}]\ncomponents: [../../components/tls]\n",
        ),
        (
            json!({"components": ["../../components/none"], "ignoreMissingComponents": true}),
            "namePrefix: dev-\ncommonLabels: {team: a}\nimages: [{name: nginx, newTag: '1.1'}]\n",
        ),
    ] {
        let changed = bench.objects(&overlay(said.clone())).unwrap_or_else(|error| panic!("{said}: {error}"));
        bench.write("repo/overlays/hand/kustomization.yaml", &format!("{base}{written}"));
        bench.commit("repo");
        let by_hand = source(json!({"repoURL": "./repo", "path": "overlays/hand"}));
        assert_eq!(changed, bench.objects(&by_hand).unwrap(), "{said}");
    }
}

#[test]
fn impossible_changes_are_reported() {
    let Some(bench) = bench() else { return };
    for (said, expected) in [
        (
            json!({"commonLabels": {"team": "b"}}),
            "the label team already exists; set source.kustomize.forceCommonLabels to replace the existing value",
        ),
        (json!({"images": ["nginx"]}), "name=other:tag"),
        (json!({"replicas": [{"name": "web", "count": "many"}]}), "invalid replica count"),
        (json!({"components": ["../../components/none"]}), "components/none does not exist in the commit"),
        (json!({"components": ["../../../none"]}), "is outside the repository"),
        (json!({"version": "v4"}), "source.kustomize.version"),
        (json!({"openapi": {}}), "source.kustomize.openapi is not supported"),
        (json!({"patches": [{"path": "none.yaml"}]}), "none.yaml"),
        (
            json!({"patches": [{"patch": "[{\"op\": \"replace\", \"path\": \"/none/none\", \"value\": 7}]", "target": {"kind": "Deployment"}}]}),
            "overlays/dev",
        ),
    ] {
        let error = bench.error(&overlay(said));
        assert!(error.contains(expected), "{error}");
    }
    let two = source(
        json!({"repoURL": "./repo", "path": "overlays/dev", "kustomize": {"namePrefix": "a-"}, "helm": {"releaseName": "a"}}),
    );
    assert!(bench.error(&two).contains("source.helm and source.kustomize"));
    let none = source(json!({"repoURL": "./repo", "path": "elsewhere", "kustomize": {"namePrefix": "a-"}}));
    assert!(bench.error(&none).contains("elsewhere is configured for Kustomize"));
}

#[test]
fn nothing_is_fetched_for_a_kustomization() {
    let Some(bench) = bench() else { return };
    for (text, named) in [
        ("resources: ['https://example.com/org/repo//base?ref=v1']", "https://example.com/org/repo"),
        ("resources: ['https://me:hunter2@example.com/org/repo']", "https://***@example.com"),
        ("resources: ['github.com/org/repo//base?ref=v1']", "github.com/org/repo"),
        ("resources: ['git@example.com:org/repo.git']", "git@example.com"),
        ("resources: ['http://169.254.169.254/latest']", "169.254.169.254"),
        ("bases: ['ssh://git@example.com/org/repo']", "example.com"),
        ("components: ['https://example.com/org/repo']", "example.com"),
        ("generators: ['https://example.com/a.yaml']", "example.com"),
        ("configMapGenerator: [{name: a, files: ['a=http://169.254.169.254/latest']}]", "169.254.169.254"),
        ("secretGenerator: [{name: a, envs: ['http://example.com/a']}]", "example.com"),
        ("patches: [{path: 'https://example.com/a.yaml'}]", "example.com"),
        ("patchesStrategicMerge: ['https://example.com/a.yaml']", "example.com"),
        ("openapi: {path: 'https://example.com/a.json'}", "example.com"),
        ("patches: [{Path: 'https://example.com/a.yaml'}]", "example.com"),
        ("configMapGenerator: [{name: a, Files: ['a=http://example.com/a']}]", "example.com"),
        ("generators: [plugin.yaml]", "127.0.0.1"),
        (
            "transformers: ['{apiVersion: builtin, kind: PatchTransformer, metadata: {name: a},\n path: \"http://127.0.0.1/a\"}']",
            "127.0.0.1",
        ),
    ] {
        let plugin = "{apiVersion: builtin, kind: ConfigMapGenerator, metadata: {name: a}, files: ['a=http://127.0.0.1/a']}";
        bench.write("repo/base/plugin.yaml", plugin);
        // The remote entry is in the base that the overlay refers to.
        bench.write("repo/base/kustomization.yaml", &format!("{text}\n"));
        bench.commit("repo");
        let error = bench.error(&overlay(json!({})));
        assert!(
            error.starts_with("base/kustomization.yaml refers to ") && error.contains(named),
            "{text}: {error}"
        );
        assert!(error.contains("which is remote") && !error.contains("hunter2"), "{error}");
    }
    for (text, expected) in [
        ("resources: [../../elsewhere]", "is outside the repository"),
        ("resources: [/etc]", "absolute"),
        ("resources: [none.yaml]", "base/kustomization.yaml: none.yaml is missing"),
        ("resources: [", "base/kustomization.yaml: "),
        ("[1]", "not a map of fields"),
        ("helmCharts: [{name: a, repo: 'https://example.com'}]\n", "enable-helm"),
        // Kustomize treats both spellings of the field as the same field.
        ("Resources: ['http://127.0.0.1/a.yaml']", "Kustomize reads the field Resources as resources"),
        ("re\u{17f}ources: ['http://127.0.0.1/a.yaml']", "as resources; rename the field to resources"),
        ("Components: [../../../../elsewhere]", "Kustomize reads the field Components as components"),
        ("HelmCharts: [{name: a}]", "Kustomize reads the field HelmCharts as helmCharts"),
        ("configMapGenerator: [{name: a, files: [../elsewhere/a.yaml]}]", "elsewhere/a.yaml"),
        // Kustomize's message would reveal whether the file exists.
        ("configMapGenerator: [{name: a, files: [../../../key]}]", "is outside the repository"),
        ("secretGenerator: [{name: a, envs: [/etc/passwd]}]", "is an absolute path"),
        ("patches: [{path: ../../../../etc/passwd}]", "is outside the repository"),
        ("openapi: {path: /etc/none}", "is an absolute path"),
    ] {
        bench.write("repo/base/kustomization.yaml", text);
        bench.commit("repo");
        let error = bench.error(&overlay(json!({})));
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn links_of_a_kustomization_stay_in_the_repository() {
    let Some(bench) = bench() else { return };
    symlink("../elsewhere/a.yaml", bench.path("repo/base/link.yaml")).unwrap();
    bench.write("repo/base/kustomization.yaml", "resources: [deployment.yaml, link.yaml]\n");
    bench.commit("repo");
    assert_eq!(bench.objects(&overlay(json!({}))).unwrap().len(), 2);
    symlink("/etc/hostname", bench.path("repo/base/outside.yaml")).unwrap();
    bench.commit("repo");
    assert!(bench.error(&overlay(json!({}))).contains("outside the repository"));
}

#[test]
fn a_kustomization_takes_precedence_over_a_chart() {
    let Some(bench) = bench() else { return };
    bench.write("repo/overlays/dev/Chart.yaml", "{apiVersion: v2, name: a, version: 0.1.0}");
    bench.commit("repo");
    let plain = source(json!({"repoURL": "./repo", "path": "overlays/dev"}));
    assert_eq!(bench.locate(&plain).unwrap().source_type(), "Kustomize");
}

/// A kustomization may contain anything, so the operating system must deny Kustomize access to the network.
#[test]
fn unknown_remote_entries_are_not_fetched_either() {
    let Some(bench) = bench() else { return };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let at = listener.local_addr().unwrap();
    bench.write("repo/base/made/kustomization.yaml", "resources: [plugin.yaml]\n");
    let plugin = format!(
        "{{apiVersion: builtin, kind: ConfigMapGenerator, metadata: {{name: a}}, files: ['a=http://{at}/a']}}"
    );
    bench.write("repo/base/made/plugin.yaml", &plugin);
    bench.write("repo/base/kustomization.yaml", "generators: [made]\n");
    bench.commit("repo");
    let error = bench.error(&overlay(json!({})));
    assert!(error.contains("permission denied"), "{error}");
    assert!(listener.accept().is_err(), "no request was sent");
}

#[test]
fn values_of_secrets_are_not_shown_when_kustomize_fails() {
    let Some(bench) = bench() else { return };
    for text in [
        "secretGenerator: [{name: a, literals: [c4n4ry-of-a-literal]}]\n",
        "patches: [{target: {kind: Secret, name: a}, patch: \"stringData:\\n  a: c4n4ry-of-a-target\\n\"}]\n",
        "generators: [\"apiVersion: builtin\\nkind: SecretGenerator\\nmetadata: {name: a}\\nliterals: [c4n4ry-of-a-plugin]\\n\"]\n",
        "patches: [{patch: \"kind: Secret\\nmetadata: [\\nstringData:\\n  a: c4n4ry-of-a-patch\\n\"}]\n",
    ] {
        bench.write("repo/base/kustomization.yaml", text);
        bench.commit("repo");
        let error = bench.error(&overlay(json!({})));
        assert!(!error.contains("c4n4ry") && error.contains("++++++++"), "{text}: {error}");
    }
}
