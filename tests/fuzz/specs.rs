//! Specifications of Applications, projects and ApplicationSets, as users write them into resources.

use serde_json::{Value, json};
use tidegate_application::credentials;
use tidegate_application::sources::Sources;
use tidegate_generate::{NoInputs, Options};
use tidegate_model::argo::ApplicationSet;
use tidegate_source::Repositories;
use tidegate_testkit::fuzz;

use crate::checks::{check_application, check_generation, check_project};

fn application() -> Value {
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {
            "name": "shop", "namespace": "argocd", "creationTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": ["resources-finalizer.argocd.argoproj.io"],
            "annotations": {
                "argocd.argoproj.io/refresh": "hard", "tidegate.dev/depends-on": "a, apps/b",
                "argocd.argoproj.io/manifest-generate-paths": ".;../base",
            },
        },
        "spec": {
            "project": "default", "destination": {"name": "in-cluster", "namespace": "shop"},
            "source": {
                "repoURL": "https://me:secret@example.com/shop", "path": "shop", "targetRevision": ">=1.2",
                "directory": {"recurse": true, "include": "*.yaml", "jsonnet": {"tlas": [{"name": "a", "value": "b"}]}},
                "helm": {"values": "a: 1", "parameters": [{"name": "a.b", "value": "c", "forceString": true}]},
                "kustomize": {"namePrefix": "a-", "images": ["a=b:1"], "patches": [{"patch": "[]", "target": {"kind": "A"}}]},
            },
            "syncPolicy": {
                "automated": {"prune": true, "selfHeal": true}, "syncOptions": ["CreateNamespace=true", "Replace=true"],
                "retry": {"limit": 5, "backoff": {"duration": "5s", "factor": 2, "maxDuration": "3m"}},
                "managedNamespaceMetadata": {"labels": {"a": "b"}},
            },
            "ignoreDifferences": [{"group": "apps", "kind": "*", "jqPathExpressions": [".spec.a[]?"], "jsonPointers": ["/a"]}],
            "info": [{"name": "a", "value": "b"}], "revisionHistoryLimit": 3,
        },
        "operation": {"initiatedBy": {"username": "me"}, "sync": {"revision": "main", "resources": [{"kind": "Job", "name": "a"}]}},
        "status": {
            "sync": {"status": "OutOfSync", "revision": "0123456789012345678901234567890123456789"},
            "health": {"status": "Healthy"}, "reconciledAt": "2026-01-01T00:00:00Z",
            "history": [{"id": 1, "revision": "a", "deployedAt": "2026-01-01T00:00:00Z", "source": {"repoURL": "a"}}],
            "resources": [{"kind": "ConfigMap", "version": "v1", "name": "a", "status": "Synced"}],
            "operationState": {
                "phase": "Failed", "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:01Z", "message": "a",
                "operation": {"sync": {"revision": "a"}},
                "syncResult": {"revision": "a", "resources": [{"kind": "Job", "hookPhase": "Failed", "syncPhase": "PreSync"}]},
            },
            "conditions": [{"type": "SyncError", "message": "a", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        },
    })
}

fn multi_source_application() -> Value {
    let mut several = application();
    let source = several["spec"].as_object_mut().unwrap().remove("source").unwrap();
    several["spec"]["sources"] =
        json!([source, {"repoURL": "./other", "ref": "values"}, {"repoURL": "oci://a/b", "chart": "c"}]);
    several["operation"] = json!({"sync": {"revisions": ["a", "b", "c"], "sources": []}});
    several
}

#[test]
fn fuzz_applications() {
    let text =
        ["argocd.argoproj.io/skip-reconcile", "5m5", "$values/a", "Healthy", "999999999999h", "metadata"];
    let repositories = Repositories::default();
    fuzz::fuzz_documents("applications", &[application(), multi_source_application()], &text, |document| {
        let Some(read) = check_application(document.clone()) else { return };
        let shown = serde_json::to_string(&credentials::application_without_credentials(&read)).unwrap();
        assert!(shown.len() <= 4 << 20);
        for source in Sources::from_application(&read).as_slice() {
            // No requests are sent, because only the names are parsed.
            drop(repositories.origin(source, std::path::Path::new("/apps")));
        }
    });
}

#[test]
fn fuzz_projects() {
    let seed = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": {"name": "shop", "namespace": "argocd"},
        "spec": {
            "sourceRepos": ["https://example.com/*", "!https://example.com/secret"], "sourceNamespaces": ["team-*", "/a|b/"],
            "destinations": [{"server": "*", "namespace": "shop-*"}, {"name": "!in-*", "namespace": "*"}],
            "clusterResourceWhitelist": [{"group": "*", "kind": "Namespace", "name": "shop-*"}],
            "clusterResourceBlacklist": [{"group": "rbac*", "kind": "*"}],
            "namespaceResourceBlacklist": [{"group": "", "kind": "[SL]*"}],
            "namespaceResourceWhitelist": [{"group": "apps", "kind": "{Deployment,Job}"}],
            "orphanedResources": {"warn": true, "ignore": [{"kind": "ConfigMap"}]},
            "signatureKeys": [], "permitOnlyProjectScopedClusters": false,
            "destinationServiceAccounts": [{"server": "*", "namespace": "*", "defaultServiceAccount": "a"}],
            "syncWindows": [
                {"kind": "deny", "schedule": "0 22 * * *", "duration": "8h", "applications": ["*-prod"], "timeZone": "UTC"},
                {"kind": "allow", "schedule": "* * * * *", "duration": "1h", "namespaces": ["*"], "clusters": ["in-cluster"],
                 "manualSync": true, "andOperator": true, "syncOverrun": true},
            ],
            "roles": [{"name": "a", "policies": ["p, a"], "jwtTokens": [{"iat": 1}]}],
        },
    });
    let text = ["/(a+)+$/", "/[/", "{a,b", "[!-]", "@every 1s", "*/1", "!", "24h"];
    fuzz::fuzz_documents("projects", &[seed], &text, |document| check_project(document.clone()));
}

#[test]
fn fuzz_application_sets() {
    let template = json!({
        "metadata": {"name": "{{.name}}", "labels": {"env": "{{ .env | default \"x\" }}"}},
        "spec": {
            "project": "default", "source": {"repoURL": "https://example.com/shop", "path": "apps/{{.name}}"},
            "destination": {"name": "{{.name}}", "namespace": "shop"},
        },
    });
    let list = json!({"list": {"elements": [{"name": "a", "env": "dev"}, {"name": "b"}], "template": {"metadata": {}, "spec": {}}}});
    let set = |go: bool, generators: Value, template: &Value| {
        json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "metadata": {"name": "all"},
            "spec": {
                "goTemplate": go, "goTemplateOptions": ["missingkey=error"], "generators": generators, "template": template,
                "templatePatch": "spec:\n  source:\n    targetRevision: '{{ .env | upper | quote }}'\n",
                "syncPolicy": {"applicationsSync": "create-update", "preserveResourcesOnDeletion": true},
                "strategy": {"type": "RollingSync", "rollingSync": {"steps": [
                    {"matchExpressions": [{"key": "env", "operator": "In", "values": ["dev"]}], "maxUpdate": "50%"},
                ]}},
                "ignoreApplicationDifferences": [{"jsonPointers": ["/spec/source"]}],
            },
        })
    };
    let plain: Value = serde_json::from_str(&template.to_string().replace("{{.name}}", "{{name}}")).unwrap();
    let matrix =
        json!([{"matrix": {"generators": [list, {"list": {"elementsYaml": "- {x: 1}\n- {x: 2}\n"}}]}}]);
    let merge = json!([{"merge": {"mergeKeys": ["name"], "generators": [list, list]}, "selector": {"matchLabels": {"env": "dev"}}}]);
    let seeds = [
        set(true, json!([list, {"clusters": {"values": {"a": "{{.name}}"}}}]), &template),
        set(true, matrix, &template),
        set(false, merge, &plain),
        set(
            true,
            json!([{"git": {"repoURL": "a", "revision": "b", "files": [{"path": "**/c.json"}]}}]),
            &template,
        ),
    ];
    let text = [
        "{{ range $i, $e := until 100000 }}{{ $e }}{{ end }}",
        "{{ define \"a\" }}{{ template \"a\" . }}{{ end }}{{ template \"a\" . }}",
        "{{ repeat 1000000 \"aaaaaaaaaa\" }}",
        "{{ .name | printf \"%9999999s\" }}",
        "{{ regexReplaceAll \"(a|b)*c\" .name \"${1}\" }}",
        "{{ toYaml . | nindent 8 }}",
        "{{ index . 0 }}",
        "[[{{.",
    ];
    fuzz::fuzz_documents("application-sets", &seeds, &text, |document| {
        let Ok(set) = serde_json::from_value::<ApplicationSet>(document.clone()) else { return };
        set.unknown_fields();
        check_generation(&set, &mut NoInputs, &Options { new_globbing: true, now: Some(0) });
    });
}
