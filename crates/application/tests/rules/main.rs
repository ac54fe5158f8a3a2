//! The rules by which applications are compared, judged and synced, one row each.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "tests stop at the first surprise")]

mod accounts;
mod automatic;
mod global_projects;
mod progress;
mod project;
mod recorded;
mod running;
mod several;
mod status;
mod superseding;
mod windows;

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tidegate_application::comparison::{Outcome, Resource, take_in};
use tidegate_application::refresh::Level;
use tidegate_model::argo::{Application, HealthState, ResourceStatus, SyncStatusCode};
use tidegate_model::{HealthStatus, Timestamp};

/// Seconds after the beginning of the tests.
pub fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_795_253_400_000 + seconds * 1000)
}

/// An application with this policy.
pub fn application(policy: Value) -> Application {
    let spec = json!({
        "project": "default", "destination": {"name": "in-cluster", "namespace": "shop"},
        "source": {"repoURL": "./repo", "path": "web"}, "syncPolicy": policy,
    });
    serde_json::from_value(json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "web"}, "spec": spec,
    }))
    .unwrap()
}

/// A resource of this name, sync status and health; one without health is not in the cluster.
pub fn resource(name: &str, status: SyncStatusCode, health: Option<HealthStatus>) -> Resource {
    let health = health.map(|status| HealthState {
        status,
        message: String::new(),
        last_transition_time: None,
        rest: Default::default(),
    });
    Resource {
        is_live: health.is_some(),
        status: ResourceStatus {
            name: name.into(),
            status: Some(status),
            health,
            ..ResourceStatus::default()
        },
        ..Resource::default()
    }
}

pub fn compared(revision: &str, resources: Vec<Resource>) -> Outcome {
    compared_several(&[revision], resources)
}

pub fn compared_several(revisions: &[&str], resources: Vec<Resource>) -> Outcome {
    let revisions: Vec<String> = revisions.iter().map(|one| (*one).to_owned()).collect();
    let source_types = revisions.iter().map(|_| "Directory".to_owned()).collect();
    Outcome::Compared {
        revisions,
        source_types,
        resources,
        deletion_hooks: BTreeSet::new(),
        warnings: Vec::new(),
    }
}

/// The application after it was found out of sync with this revision.
pub fn out_of_sync(application: &mut Application, revision: &str, now: Timestamp) {
    let web = resource("web", SyncStatusCode::OutOfSync, Some(HealthStatus::Healthy));
    let other = resource("other", SyncStatusCode::Synced, Some(HealthStatus::Healthy));
    take_in(application, compared(revision, vec![web, other]), Level::Latest, now);
}
