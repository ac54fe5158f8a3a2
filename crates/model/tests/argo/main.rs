//! Reading and writing custom resources without loss, using their documented field names.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]
#![allow(missing_docs, reason = "tests may panic")]

mod crds;

use std::fs;

use serde_json::{Value, json};
use tidegate_model::argo::{AppProject, Application, ApplicationSet, Generator, IntOrString};

const FULL: &str = include_str!("full.yaml");
const FULL_SET: &str = include_str!("full-set.yaml");

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

#[test]
fn an_application_survives_a_round_trip() {
    let written = yaml(FULL);
    let application: Application = serde_json::from_value(written.clone()).unwrap();
    assert_eq!(serde_json::to_value(&application).unwrap(), written);
    assert_eq!(application.unknown_fields(), Vec::<String>::new(), "every field is read");
    assert_eq!(application.sources(), application.spec.sources, "several sources are set");
}

#[test]
fn unknown_fields_are_preserved_and_named() {
    let mut written = yaml(FULL);
    for (place, name) in [
        ("/spec", "sourceHydrator"),
        ("/spec/source", "oci"),
        ("/spec/source/directory", "depth"),
        ("/spec/syncPolicy/automated", "pause"),
        ("/operation/sync", "exclude"),
        ("/status", "sourceHydrator"),
        ("/status/resources/0", "age"),
    ] {
        written.pointer_mut(place).unwrap().as_object_mut().unwrap().insert(name.into(), json!({"a": 1}));
    }
    let application: Application = serde_json::from_value(written.clone()).unwrap();
    assert_eq!(serde_json::to_value(&application).unwrap(), written);
    let unknown = [
        "spec.sourceHydrator",
        "spec.source.oci",
        "spec.source.directory.depth",
        "spec.syncPolicy.automated.pause",
        "operation.sync.exclude",
    ];
    assert_eq!(application.unknown_fields(), unknown, "the status is not part of the spec");
}

/// An unset optional boolean is different from false.
#[test]
fn unset_fields_stay_unset() {
    let least = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "a"},
        "spec": {"project": "", "destination": {}, "syncPolicy": {"automated": {}}},
    });
    let application: Application = serde_json::from_value(least.clone()).unwrap();
    assert_eq!(serde_json::to_value(&application).unwrap(), least);
    for wrong in ["/apiVersion", "/kind"] {
        let mut other = least.clone();
        *other.pointer_mut(wrong).unwrap() = json!("ApplicationSet");
        assert!(serde_json::from_value::<Application>(other).is_err(), "{wrong}");
    }
}

#[test]
fn projects_are_read_too() {
    let written = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": {"name": "shop"},
        "spec": {
            "description": "the shop", "sourceRepos": ["*"], "sourceNamespaces": ["apps"],
            "destinations": [{"server": "*", "name": "x", "namespace": "shop-*"}],
            "destinationServiceAccounts": [
                {"server": "*", "namespace": "shop", "defaultServiceAccount": "deployer"},
            ],
            "clusterResourceWhitelist": [{"group": "", "kind": "Namespace", "name": "shop-*"}],
            "clusterResourceBlacklist": [{"group": "*", "kind": "ClusterRole"}],
            "namespaceResourceWhitelist": [],
            "namespaceResourceBlacklist": [{"group": "", "kind": "ResourceQuota"}],
            "permitOnlyProjectScopedClusters": true,
            "signatureKeys": [{"keyID": "4AEE18F83AFDEB23"}],
            "sourceIntegrity": {"git": {"policies": []}},
            "orphanedResources": {"warn": true},
            "roles": [{"name": "reader", "policies": ["p, proj:shop:reader, applications, get, shop/*, allow"]}],
            "syncWindows": [{
                "kind": "deny", "schedule": "* * * * *", "duration": "1h", "applications": ["*"],
                "namespaces": ["shop"], "clusters": ["in-cluster"], "manualSync": true,
                "timeZone": "Europe/Berlin", "andOperator": true, "syncOverrun": true, "description": "night",
            }],
        },
        "status": {},
    });
    let project: AppProject = serde_json::from_value(written.clone()).unwrap();
    assert_eq!(serde_json::to_value(&project).unwrap(), written);
    // The types don't model roles, or settings that only cause warnings.
    assert_eq!(project.spec.rest.keys().collect::<Vec<_>>(), ["orphanedResources", "roles"]);
    assert_eq!(project.spec.sync_windows[0].rest.len(), 0);
    assert_eq!(project.unknown_fields(), Vec::<String>::new());
    assert_eq!(project.unsupported_fields(), ["spec.orphanedResources", "spec.roles"]);
    // A misspelled restriction has no effect.
    let mut misspelt = written;
    misspelt["spec"]["namespaceResourceBlackList"] = json!([{"group": "", "kind": "Secret"}]);
    misspelt["spec"]["destinations"][0]["namespaces"] = json!("shop");
    misspelt["spec"]["syncWindows"][0]["manual"] = json!(true);
    let misspelt: AppProject = serde_json::from_value(misspelt).unwrap();
    let unknown =
        ["spec.namespaceResourceBlackList", "spec.destinations[0].namespaces", "spec.syncWindows[0].manual"];
    assert_eq!(misspelt.unknown_fields(), unknown);
}

#[test]
fn unsupported_fields_of_a_project_are_named() {
    for (spec, expected) in [
        (json!({}), &[][..]),
        (json!({"orphanedResources": null, "roles": null}), &[]),
        (json!({"orphanedResources": {"warn": false}, "roles": []}), &[]),
        (json!({"orphanedResources": {"warn": false, "ignore": [{"kind": "ConfigMap"}]}}), &[]),
        (json!({"orphanedResources": {}}), &["spec.orphanedResources"]),
        (json!({"orphanedResources": {"warn": null}}), &["spec.orphanedResources"]),
        (json!({"orphanedResources": {"warn": true}}), &["spec.orphanedResources"]),
        (json!({"orphanedResources": {"ignore": []}}), &["spec.orphanedResources"]),
        (json!({"orphanedResources": true}), &["spec.orphanedResources"]),
        (json!({"roles": [{"name": "reader"}]}), &["spec.roles"]),
    ] {
        let written = json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": {"name": "shop"}, "spec": spec,
        });
        let project: AppProject = serde_json::from_value(written).unwrap();
        assert_eq!(project.unsupported_fields(), expected, "{spec}");
        assert_eq!(project.unknown_fields(), Vec::<String>::new(), "{spec}");
    }
}

#[test]
fn an_application_set_survives_a_round_trip() {
    let written = yaml(FULL_SET);
    let set: ApplicationSet = serde_json::from_value(written.clone()).unwrap();
    assert_eq!(serde_json::to_value(&set).unwrap(), written);
    assert_eq!(set.unknown_fields(), Vec::<String>::new(), "every field is read");
    let names = set.spec.generators.iter().flat_map(|entry| entry.generators()).map(Generator::name);
    let wanted = [
        "list",
        "clusters",
        "git",
        "clusterDecisionResource",
        "plugin",
        "matrix",
        "merge",
        "scmProvider",
        "scmProvider",
        "pullRequest",
    ];
    assert_eq!(names.collect::<Vec<_>>(), wanted);
    let steps = &set.spec.strategy.unwrap().rolling_sync.unwrap().steps;
    let at_once: Vec<_> = steps.iter().map(|step| step.max_update.clone()).collect();
    assert_eq!(at_once, [None, Some(IntOrString::String("10%".into())), Some(IntOrString::Int(0))]);
}

#[test]
fn unknown_fields_of_an_application_set_are_preserved_and_named() {
    let mut written = yaml(FULL_SET);
    for (place, name) in [
        ("/spec", "rollback"),
        ("/spec/generators/0", "terraform"),
        ("/spec/generators/2/git/files/1", "symlinks"),
        ("/spec/generators/5/matrix/generators/1/merge/generators/0/list", "file"),
        ("/spec/generators/5/matrix/generators/0/selector/matchExpressions/0", "negate"),
        ("/spec/generators/9/pullRequest/gitlab/tokenRef", "namespace"),
        ("/spec/template/spec/source", "oci"),
        ("/spec/strategy/deletionSync/steps/0", "soak"),
        ("/status", "rollout"),
    ] {
        written.pointer_mut(place).unwrap().as_object_mut().unwrap().insert(name.into(), json!({"a": 1}));
    }
    let set: ApplicationSet = serde_json::from_value(written.clone()).unwrap();
    assert_eq!(serde_json::to_value(&set).unwrap(), written);
    let unknown = [
        "spec.rollback",
        "spec.generators[0].terraform",
        "spec.generators[2].git.files[1].symlinks",
        "spec.generators[5].matrix.generators[0].selector.matchExpressions[0].negate",
        "spec.generators[5].matrix.generators[1].merge.generators[0].list.file",
        "spec.generators[9].pullRequest.gitlab.tokenRef.namespace",
        "spec.template.spec.source.oci",
        "spec.strategy.deletionSync.steps[0].soak",
    ];
    assert_eq!(set.unknown_fields(), unknown, "the status is not part of the spec");
}

/// Older programs wrote null here.
#[test]
fn target_revisions_that_are_null_are_none() {
    let set = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "metadata": {"name": "a"},
        "spec": {"generators": [], "template": {"metadata": {}, "spec": {"project": "", "destination": {}}}},
        "status": {"applicationStatus": [{
            "application": "b", "status": "Waiting", "message": "", "step": "1", "targetRevisions": null,
        }]},
    });
    let set: ApplicationSet = serde_json::from_value(set).unwrap();
    let status = serde_json::to_value(&set.status.application_status[0]).unwrap();
    assert_eq!(status.get("targetRevisions"), Some(&json!([])), "the definition wants a list");
}

/// Every field in the fixtures exists in the resource definition.
#[test]
fn the_names_are_those_of_the_definition() {
    // Fields that Argo CD has proposed but not implemented.
    for (file, fixture, beyond) in [
        ("application-crd.yaml", FULL, &[][..]),
        ("applicationset-crd.yaml", FULL_SET, &["spec.strategy.deletionSync"]),
    ] {
        let path = format!("{}/../../../shared/data/crds/{file}", env!("CARGO_MANIFEST_DIR"));
        let Ok(text) = fs::read_to_string(path) else {
            eprintln!("not tested: {file} is not on this machine");
            continue;
        };
        let definition = yaml(&text);
        let schema = definition.pointer("/spec/versions/0/schema/openAPIV3Schema").unwrap();
        let mut unknown = Vec::new();
        let full = yaml(fixture);
        for section in ["spec", "operation", "status"] {
            let Some(value) = full.get(section) else { continue };
            check(schema.pointer(&format!("/properties/{section}")).unwrap(), value, section, &mut unknown);
        }
        assert_eq!(unknown, beyond, "{file}");
    }
}

fn check(schema: &Value, value: &Value, path: &str, unknown: &mut Vec<String>) {
    if schema.get("x-kubernetes-preserve-unknown-fields").is_some() {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = format!("{path}.{name}");
                let inside = schema.pointer(&format!("/properties/{name}"));
                match inside.or_else(|| schema.get("additionalProperties")) {
                    Some(inside) => check(inside, value, &path, unknown),
                    None => unknown.push(path),
                }
            }
        }
        Value::Array(items) => {
            let inside = schema.get("items").unwrap();
            items.iter().for_each(|item| check(inside, item, path, unknown));
        }
        _ => {}
    }
}
