//! The custom resources are read and written without loss, under the names their users know.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "tests stop at the first surprise")]

use std::fs;

use serde_json::{Value, json};
use tidegate_model::argo::{AppProject, Application};

const FULL: &str = include_str!("full.yaml");

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

#[test]
fn nothing_is_lost() {
    let written = yaml(FULL);
    let application: Application = serde_json::from_value(written.clone()).unwrap();
    assert_eq!(serde_json::to_value(&application).unwrap(), written);
    assert_eq!(application.unknown_fields(), Vec::<String>::new(), "every field of it is read");
    assert_eq!(application.sources(), application.spec.sources, "there are several");
}

#[test]
fn unknown_fields_are_kept_and_named() {
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
    assert_eq!(application.unknown_fields(), unknown, "a status is no wish");
}

/// A pointer to a boolean that is not set is not the same as one that is false.
#[test]
fn what_is_not_said_stays_unsaid() {
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
    // What is not read: rules for people, and what only warns.
    assert_eq!(project.spec.rest.keys().collect::<Vec<_>>(), ["orphanedResources", "roles"]);
    assert_eq!(project.spec.sync_windows[0].rest.len(), 0);
}

/// Each field of the fixture is one of the resource's own definition.
#[test]
fn the_names_are_those_of_the_definition() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/crds/application-crd.yaml");
    let Ok(text) = fs::read_to_string(path) else {
        eprintln!("not tested: the definition is not on this machine");
        return;
    };
    let definition = yaml(&text);
    let schema = definition.pointer("/spec/versions/0/schema/openAPIV3Schema").unwrap();
    let mut unknown = Vec::new();
    let full = yaml(FULL);
    for section in ["spec", "operation", "status"] {
        let wanted = schema.pointer(&format!("/properties/{section}")).unwrap();
        check(wanted, full.get(section).unwrap(), section, &mut unknown);
    }
    assert_eq!(unknown, Vec::<String>::new());
}

fn check(schema: &Value, value: &Value, path: &str, unknown: &mut Vec<String>) {
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
