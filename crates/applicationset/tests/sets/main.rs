//! The rules by which the Applications of a set are made, changed and deleted, and by which its status is told.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests stop at the first surprise"
)]

mod changes;
mod deletion;
mod foreseen;
mod guard;
mod kept;
mod laws;
mod preview;
mod requeue;
mod retry;
mod rollout;
mod status;
mod unheeded;
mod wake;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tidegate_applicationset::changes::{Changes, Generated, reconcile};
use tidegate_applicationset::known::{Known, NoCluster};
use tidegate_applicationset::policy::Options;
use tidegate_model::Timestamp;
use tidegate_model::argo::{Application, ApplicationDestination, ApplicationSet};

pub const FINALIZER: &str = "resources-finalizer.argocd.argoproj.io";

/// Seconds after the beginning of the tests.
pub fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_795_253_400_000 + seconds * 1000)
}

/// The set `fleet`, with these fields besides those it needs.
pub fn set(spec: &Value) -> ApplicationSet {
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

/// A set that may do this with its Applications.
pub fn with_policy(policy: &str) -> ApplicationSet {
    set(&json!({"syncPolicy": {"applicationsSync": policy}}))
}

/// What a template makes of an element of this name.
pub fn generated(name: &str) -> Application {
    with(
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

/// The Application with these fields changed, as by a merge patch.
pub fn with(application: &Application, patch: &Value) -> Application {
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

/// An owner reference.
pub fn owner(kind: &str, name: &str) -> Value {
    json!([{
        "apiVersion": "argoproj.io/v1alpha1", "kind": kind, "name": name, "uid": format!("u-{name}"),
        "controller": true, "blockOwnerDeletion": true,
    }])
}

/// The annotation that each Application of a set has.
pub const MARK: &str = "tidegate.dev/application-set";

/// An Application of the set as a cluster has it, with these fields changed.
pub fn live(name: &str, patch: &Value) -> Application {
    let owned = json!({"metadata": {
        "uid": format!("u-{name}"), "resourceVersion": "7", "ownerReferences": owner("ApplicationSet", "fleet"),
        "annotations": {MARK: "fleet"},
    }});
    with(&with(&generated(name), &owned), patch)
}

pub fn all(applications: Vec<Application>) -> Generated {
    let by_name = applications.into_iter().map(|one| (one.metadata.name.clone(), one));
    Generated { applications: by_name.collect(), ..Generated::default() }
}

/// One cluster, and the projects `default` and `shop`.
pub struct Here;

impl Known for Here {
    fn has_project(&self, name: &str) -> bool {
        name == "shop"
    }

    fn destination(&self, destination: &ApplicationDestination) -> Result<(), NoCluster> {
        match destination.name.as_str() {
            "in-cluster" => Ok(()),
            "twice" => Err(NoCluster::Unusable("there are two clusters of that name".to_owned())),
            other => Err(NoCluster::Gone(format!("there is no cluster {other:?}"))),
        }
    }
}

pub fn changes(set: &ApplicationSet, generated: &Generated, existing: &[Application]) -> Changes {
    reconcile(set, Ok(generated), existing, &Here, &Options::default())
}

/// What is done, in a few words: `+a ~b -c`.
pub fn words(changes: &Changes) -> String {
    let named = |sign: &str, all: Vec<&Application>| -> Vec<String> {
        all.iter().map(|one| format!("{sign}{}", one.metadata.name)).collect()
    };
    let words = [
        named("+", changes.create.iter().collect()),
        named("~", changes.update.iter().collect()),
        named("-", changes.delete.iter().map(|one| &one.application).collect()),
    ];
    words.concat().join(" ")
}

/// The Applications after the changes were made, by a cluster that gives each a uid.
pub fn applied(existing: &[Application], changes: &Changes) -> Vec<Application> {
    let key = |one: &Application| (one.metadata.namespace.clone(), one.metadata.name.clone());
    let mut all: BTreeMap<_, _> = existing.iter().map(|one| (key(one), one.clone())).collect();
    for new in &changes.create {
        let made = with(new, &json!({"metadata": {"uid": format!("u-{}", new.metadata.name)}}));
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
