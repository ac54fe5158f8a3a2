//! Rules for comparisons, health and syncs of applications, one row each.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]
#![allow(missing_docs, reason = "tests may panic")]

mod addresses;
mod automated_sync;
mod convergence;
mod global_projects;
mod history;
mod impersonation;
mod machine;
mod multiple_sources;
mod progress;
mod project;
mod rollout_operation;
mod status;
mod supersede;
mod sync_windows;

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tidegate_application::comparison::{ComparedResource, ComparisonOutcome, apply_comparison};
use tidegate_application::refresh::RefreshLevel;
use tidegate_model::argo::{Application, HealthState, ResourceStatus, SyncStatusCode};
use tidegate_model::{HealthStatus, Timestamp};

/// Returns the time this many seconds after the start of the tests.
pub fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_795_253_400_000 + seconds * 1000)
}

/// Returns an application with this sync policy.
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

/// Returns a resource with this name, sync status and health. Without a health, the resource doesn't exist in
/// the cluster.
pub fn resource(name: &str, status: SyncStatusCode, health: Option<HealthStatus>) -> ComparedResource {
    let health = health.map(|status| HealthState {
        status,
        message: String::new(),
        last_transition_time: None,
        rest: Default::default(),
    });
    ComparedResource {
        is_live: health.is_some(),
        status: ResourceStatus {
            name: name.into(),
            status: Some(status),
            health,
            ..ResourceStatus::default()
        },
        ..ComparedResource::default()
    }
}

pub fn compared(revision: &str, resources: Vec<ComparedResource>) -> ComparisonOutcome {
    compared_several(&[revision], resources)
}

pub fn compared_several(revisions: &[&str], resources: Vec<ComparedResource>) -> ComparisonOutcome {
    let revisions: Vec<String> = revisions.iter().map(|one| (*one).to_owned()).collect();
    let source_types = revisions.iter().map(|_| "Directory".to_owned()).collect();
    ComparisonOutcome::Compared {
        revisions,
        source_types,
        resources,
        deletion_hooks: BTreeSet::new(),
        warnings: Vec::new(),
    }
}

/// Records that the application is out of sync with this revision.
pub fn out_of_sync(application: &mut Application, revision: &str, now: Timestamp) {
    let web = resource("web", SyncStatusCode::OutOfSync, Some(HealthStatus::Healthy));
    let other = resource("other", SyncStatusCode::Synced, Some(HealthStatus::Healthy));
    apply_comparison(application, compared(revision, vec![web, other]), RefreshLevel::Latest, now);
}
