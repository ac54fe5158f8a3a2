//! Rules for changes to Applications and for the status of an ApplicationSet.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]
#![allow(missing_docs, reason = "tests may panic")]

mod change_preview;
mod changes;
mod deletion;
mod deletion_limit;
mod deletion_progress;
mod foreign_deletions;
mod ignored;
mod pass_results;
mod preserved;
mod preview;
mod properties;
mod reconcile_schedule;
mod requeue;
mod retry;
mod rollout;
mod status;
mod status_schedule;
mod teardown_steps;
mod triggers;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tidegate_applicationset::changes::{AppSetChanges, AppSetOutput, reconcile};
use tidegate_applicationset::references::{References, UnresolvedCluster};
use tidegate_applicationset::sync_policy::AppSetRuleOptions;
use tidegate_model::Timestamp;
use tidegate_model::argo::{Application, ApplicationDestination, ApplicationSet};

pub const FINALIZER: &str = "resources-finalizer.argocd.argoproj.io";

/// Returns the time this many seconds after the start of the tests.
pub fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_795_253_400_000 + seconds * 1000)
}

/// Returns the ApplicationSet `fleet` with these fields in addition to the required ones.
pub fn appset(spec: &Value) -> ApplicationSet {
    let mut all = json!({
        "generators": [{"list": {"elements": []}}],
        "template": {"metadata": {}, "spec": {"project": "", "destination": {}}},
    });
    all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let metadata = json!({"name": "fleet", "namespace": "argocd", "uid": "u-fleet"});
    let resource = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "metadata": metadata, "spec": all,
    });
    serde_json::from_value(resource).unwrap()
}

/// Returns an ApplicationSet with this policy for its Applications.
pub fn with_policy(policy: &str) -> ApplicationSet {
    appset(&json!({"syncPolicy": {"applicationsSync": policy}}))
}

/// Returns the Application that the template generates for an element with this name.
pub fn generated_application(name: &str) -> Application {
    with_patch(
        &serde_json::from_value(json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": {"name": name, "namespace": "argocd", "finalizers": [FINALIZER]},
            "spec": {
                "project": "default", "destination": {"name": "in-cluster", "namespace": "shop"},
                "source": {"repoURL": "https://git.example/shop", "path": name, "targetRevision": "main"},
            },
        }))
        .unwrap(),
        &json!({}),
    )
}

/// Returns the Application with a merge patch applied.
pub fn with_patch(application: &Application, patch: &Value) -> Application {
    let mut value = serde_json::to_value(application).unwrap();
    merge(&mut value, patch);
    serde_json::from_value(value).unwrap()
}

fn merge(into: &mut Value, patch: &Value) {
    match patch {
        Value::Object(patch) => {
            if !into.is_object() {
                *into = json!({});
            }
            let fields = into.as_object_mut().unwrap();
            for (name, value) in patch {
                if value.is_null() {
                    fields.remove(name);
                } else {
                    merge(fields.entry(name.clone()).or_insert(Value::Null), value);
                }
            }
        }
        other => *into = other.clone(),
    }
}

pub fn owner_reference(kind: &str, name: &str) -> Value {
    json!([{
        "apiVersion": "argoproj.io/v1alpha1", "kind": kind, "name": name, "uid": format!("u-{name}"),
        "controller": true, "blockOwnerDeletion": true,
    }])
}

/// Annotation on each Application of an ApplicationSet.
pub const APPSET_ANNOTATION: &str = "tidegate.dev/application-set";

/// Returns a live Application of the ApplicationSet with a merge patch applied.
pub fn live_application(name: &str, patch: &Value) -> Application {
    let owned = json!({"metadata": {
        "uid": format!("u-{name}"), "resourceVersion": "7", "ownerReferences": owner_reference("ApplicationSet", "fleet"),
        "annotations": {APPSET_ANNOTATION: "fleet"},
    }});
    with_patch(&with_patch(&generated_application(name), &owned), patch)
}

pub fn generated_output(applications: Vec<Application>) -> AppSetOutput {
    let by_name = applications.into_iter().map(|one| (one.metadata.name.clone(), one));
    AppSetOutput { applications: by_name.collect(), ..AppSetOutput::default() }
}

/// References with one cluster, and the projects `default` and `shop`.
pub struct OneCluster;

impl References for OneCluster {
    fn has_project(&self, name: &str) -> bool {
        name == "shop"
    }

    fn check_destination(&self, check_destination: &ApplicationDestination) -> Result<(), UnresolvedCluster> {
        match check_destination.name.as_str() {
            "in-cluster" => Ok(()),
            "twice" => Err(UnresolvedCluster::Unusable("there are two clusters of that name".to_owned())),
            other => Err(UnresolvedCluster::NotFound(format!("there is no cluster {other:?}"))),
        }
    }
}

pub fn changes(set: &ApplicationSet, generated: &AppSetOutput, existing: &[Application]) -> AppSetChanges {
    reconcile(set, Ok(generated), existing, &OneCluster, &AppSetRuleOptions::default())
}

/// Returns a short description of the changes, such as `+a ~b -c`.
pub fn describe_changes(changes: &AppSetChanges) -> String {
    let named = |sign: &str, all: Vec<&Application>| -> Vec<String> {
        all.iter().map(|one| format!("{sign}{}", one.metadata.name)).collect()
    };
    let text = [
        named("+", changes.create.iter().collect()),
        named("~", changes.update.iter().collect()),
        named("-", changes.delete.iter().map(|one| &one.application).collect()),
    ];
    text.concat().join(" ")
}

/// Returns the Applications after the changes are made in a cluster, which assigns UIDs.
pub fn apply_changes(existing: &[Application], changes: &AppSetChanges) -> Vec<Application> {
    let key = |one: &Application| (one.metadata.namespace.clone(), one.metadata.name.clone());
    let mut all: BTreeMap<_, _> = existing.iter().map(|one| (key(one), one.clone())).collect();
    for new in &changes.create {
        let made = with_patch(new, &json!({"metadata": {"uid": format!("u-{}", new.metadata.name)}}));
        assert!(all.insert(key(new), made).is_none(), "{} was there", new.metadata.name);
    }
    for changed in &changes.update {
        let before = all.insert(key(changed), changed.clone()).unwrap();
        assert_eq!(before.metadata.uid, changed.metadata.uid);
        assert_eq!(before.metadata.resource_version, changed.metadata.resource_version);
    }
    for gone in &changes.delete {
        assert!(all.remove(&key(&gone.application)).is_some());
    }
    all.into_values().collect()
}
