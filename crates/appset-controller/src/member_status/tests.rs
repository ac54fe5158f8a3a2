//! Evidence that an operation deployed an Application's target.

use serde_json::{Value, json};
use tidegate_model::argo::ApplicationSet;

use super::*;
use crate::applications::testing::application;

fn sample_appset() -> ApplicationSet {
    serde_json::from_value(json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
        "metadata": {"name": "fleet", "namespace": "argocd"},
        "spec": {"generators": [], "template": {"metadata": {}, "spec": {"project": "", "destination": {}}}},
    }))
    .unwrap()
}

fn deployment(number: u128, revision: &str) -> Done {
    let operation = format!("{number:032x}").parse().unwrap();
    Done { operation, revisions: vec![revision.to_owned()] }
}

/// Returns the Application after a comparison with the given sync status and health.
fn compared_application(sync: &str, health: &str) -> Application {
    let mut live = application("web");
    let with = serde_json::to_value(refresh::compared_to(&live)).unwrap();
    live.status = serde_json::from_value::<Value>(json!({
        "sync": {"status": sync, "comparedTo": with, "revision": "r1"}, "health": {"status": health},
    }))
    .and_then(serde_json::from_value)
    .unwrap();
    live
}

fn deployments(newest: Option<Done>, evidence: Option<Done>) -> Deployments {
    Deployments { newest, evidence, is_compared: true }
}

fn rollout_target(revision: &str) -> Target {
    let targets = TargetIdentities::from_appset(&sample_appset()).unwrap();
    Target { revisions: vec![revision.to_owned()], spec: targets.spec_identity(&application("web")) }
}

#[test]
fn older_observations_and_other_specifications_are_no_evidence() {
    let targets = TargetIdentities::from_appset(&sample_appset()).unwrap();
    let (well, one) = (
        compared_application("Synced", "Healthy"),
        deployments(Some(deployment(1, "r1")), Some(deployment(1, "r1"))),
    );
    let seen = observe_member(&well, &one, &targets, &RevisionEquivalence::default());
    let (operation, deployed) = (Some(deployment(1, "r1").operation), Some(rollout_target("r1")));
    assert_eq!((seen.operation, seen.deployed, seen.synced), (operation, deployed, true));
    // A later operation has finished since the comparison started.
    let later = deployments(Some(deployment(2, "r2")), Some(deployment(1, "r1")));
    assert_eq!(observe_member(&well, &later, &targets, &RevisionEquivalence::default()).operation, operation);
    // A changed target invalidates the observation.
    let mut changed = well.clone();
    changed.spec.source.as_mut().unwrap().path = "other".to_owned();
    let seen = observe_member(&changed, &one, &targets, &RevisionEquivalence::default());
    assert_eq!((seen.deployed, seen.synced), (None, false));
    // An earlier process published the status. This process hasn't compared the Application yet.
    let old = Deployments { is_compared: false, ..one.clone() };
    assert_eq!(observe_member(&well, &old, &targets, &RevisionEquivalence::default()).operation, None);
    let away = observe_member(
        &compared_application("OutOfSync", "Healthy"),
        &one,
        &targets,
        &RevisionEquivalence::default(),
    );
    assert_eq!((away.operation, away.synced), (operation, false));
    let mut sick = compared_application("Synced", "Degraded");
    sick.status.resources =
        serde_json::from_value(json!([{"kind": "Deployment", "name": "web", "version": "v1",
        "health": {"status": "Degraded", "message": "0 of 1 replicas"}}]))
        .unwrap();
    let seen = observe_member(&sick, &one, &targets, &RevisionEquivalence::default());
    assert_eq!(
        (seen.health, seen.message.as_str()),
        (HealthStatus::Degraded, "Deployment web: 0 of 1 replicas")
    );
    // The Application's own message repeats that of its first Degraded resource.
    let health = sick.status.health.as_mut().unwrap();
    health.message = "Deployment shop/web: 0 of 1 replicas (and 1 more)".to_owned();
    let seen = observe_member(&sick, &one, &targets, &RevisionEquivalence::default());
    assert_eq!(seen.message, "Deployment shop/web: 0 of 1 replicas (and 1 more)");
}

#[test]
fn a_member_healthy_at_its_target_is_done_until_the_next_deployment() {
    let targets = TargetIdentities::from_appset(&sample_appset()).unwrap();
    let mut standings = MemberStatusCache::default();
    let mut done_by = |live: &Application, deployments: &Deployments, revision: &str| {
        let standing = standings.known_member(
            "web",
            rollout_target(revision),
            Some((live, deployments)),
            &targets,
            None,
        );
        standing.unwrap().completed_by
    };
    let (well, sick) =
        (compared_application("Synced", "Healthy"), compared_application("OutOfSync", "Degraded"));
    let (first, second) = (deployment(1, "r1"), deployment(2, "r2"));
    let one = deployments(Some(first.clone()), Some(first.clone()));
    let nothing = deployments(None, None);
    assert_eq!(done_by(&well, &nothing, "r1"), None, "it is unknown what deployed it");
    assert_eq!(done_by(&sick, &one, "r1"), None, "never observed healthy");
    assert_eq!(done_by(&well, &one, "r1"), Some(first.operation));
    assert_eq!(done_by(&sick, &one, "r1"), Some(first.operation), "its health is worse later");
    assert_eq!(done_by(&well, &one, "r2"), None, "another revision is wanted");
    let two = deployments(Some(second.clone()), Some(first.clone()));
    assert_eq!(done_by(&well, &two, "r2"), None, "not seen since");
    assert_eq!(done_by(&well, &two, "r1"), None, "another one was deployed");
    let two = deployments(Some(second.clone()), Some(second.clone()));
    assert_eq!(done_by(&well, &two, "r2"), Some(second.operation));
}

#[test]
fn an_unknown_status_is_awaited_and_then_counts_as_new() {
    let targets = TargetIdentities::from_appset(&sample_appset()).unwrap();
    let mut standings = MemberStatusCache::default();
    let mut of = |live: Option<(&Application, &Deployments)>| {
        standings.known_member("web", rollout_target("r1"), live, &targets, None)
    };
    let comes = KnownMember { revisions: vec!["r1".to_owned()], deployed: None, completed_by: None };
    assert_eq!(of(None), Ok(comes));
    let live = compared_application("Synced", "Healthy");
    let unknown = Deployments::default();
    assert!(of(Some((&live, &unknown))).unwrap_err().contains("has not been compared"));
    // The Application is never compared, so a rollout doesn't wait for a comparison.
    let mut skipped = live.clone();
    skipped.metadata.annotations.insert("argocd.argoproj.io/skip-reconcile".into(), "true".into());
    assert_eq!(of(Some((&skipped, &unknown))).unwrap().completed_by, None);
    // Argo CD synced this Application, so it has a deployed revision but no operation in this engine.
    let mut adopted = live;
    adopted.status.history = serde_json::from_value(json!([
        {"id": 3, "revision": "r0", "deployedAt": "2026-01-01T00:00:00Z"},
    ]))
    .unwrap();
    let before = of(Some((&adopted, &deployments(None, None)))).unwrap().deployed.unwrap();
    assert_eq!((before.operation, before.target.revisions), (None, vec!["r0".to_owned()]));
}
