//! What counts as having brought an Application where it is to be, and what does not.

use serde_json::{Value, json};
use tidegate_model::argo::ApplicationSet;

use super::*;
use crate::applications::testing::application;

fn set() -> ApplicationSet {
    serde_json::from_value(json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
        "metadata": {"name": "fleet", "namespace": "argocd"},
        "spec": {"generators": [], "template": {"metadata": {}, "spec": {"project": "", "destination": {}}}},
    }))
    .unwrap()
}

fn done(number: u128, revision: &str) -> Done {
    let operation = format!("{number:032x}").parse().unwrap();
    Done { operation, revisions: vec![revision.to_owned()] }
}

/// The Application as it was compared with what it says, with this sync status and health.
fn compared(sync: &str, health: &str) -> Application {
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

fn target(revision: &str) -> Target {
    let targets = Targets::of(&set()).unwrap();
    Target { revisions: vec![revision.to_owned()], spec: targets.spec(&application("web")) }
}

#[test]
fn what_was_seen_before_an_operation_or_of_another_specification_is_no_evidence() {
    let targets = Targets::of(&set()).unwrap();
    let (well, one) = (compared("Synced", "Healthy"), deployments(Some(done(1, "r1")), Some(done(1, "r1"))));
    let seen = sight(&well, &one, &targets);
    let (operation, deployed) = (Some(done(1, "r1").operation), Some(target("r1")));
    assert_eq!((seen.operation, seen.deployed, seen.synced), (operation, deployed, true));
    // A later operation has ended since the comparison began.
    let later = deployments(Some(done(2, "r2")), Some(done(1, "r1")));
    assert_eq!(sight(&well, &later, &targets).operation, operation);
    // Something else is wanted by now.
    let mut changed = well.clone();
    changed.spec.source.as_mut().unwrap().path = "other".to_owned();
    let seen = sight(&changed, &one, &targets);
    assert_eq!((seen.deployed, seen.synced), (None, false));
    // What an earlier process has written down.
    let old = Deployments { is_compared: false, ..one.clone() };
    assert_eq!(sight(&well, &old, &targets).operation, None);
    let away = sight(&compared("OutOfSync", "Healthy"), &one, &targets);
    assert_eq!((away.operation, away.synced), (operation, false));
    let mut sick = compared("Synced", "Degraded");
    sick.status.resources =
        serde_json::from_value(json!([{"kind": "Deployment", "name": "web", "version": "v1",
        "health": {"status": "Degraded", "message": "0 of 1 replicas"}}]))
        .unwrap();
    let seen = sight(&sick, &one, &targets);
    assert_eq!(
        (seen.health, seen.message.as_str()),
        (HealthStatus::Degraded, "Deployment web: 0 of 1 replicas")
    );
}

#[test]
fn one_that_was_well_at_its_target_is_done_until_something_else_is_deployed() {
    let targets = Targets::of(&set()).unwrap();
    let mut standings = Standings::default();
    let mut done_by = |live: &Application, deployments: &Deployments, revision: &str| {
        let standing =
            standings.standing("web", target(revision), Some((live, deployments)), (&targets, None));
        standing.unwrap().done_by
    };
    let (well, sick) = (compared("Synced", "Healthy"), compared("OutOfSync", "Degraded"));
    let (first, second) = (done(1, "r1"), done(2, "r2"));
    let one = deployments(Some(first.clone()), Some(first.clone()));
    let nothing = deployments(None, None);
    assert_eq!(done_by(&well, &nothing, "r1"), None, "nobody knows what has brought it there");
    assert_eq!(done_by(&sick, &one, "r1"), None, "never seen well");
    assert_eq!(done_by(&well, &one, "r1"), Some(first.operation));
    assert_eq!(done_by(&sick, &one, "r1"), Some(first.operation), "it does less well later");
    assert_eq!(done_by(&well, &one, "r2"), None, "another revision is wanted");
    let two = deployments(Some(second.clone()), Some(first.clone()));
    assert_eq!(done_by(&well, &two, "r2"), None, "not seen since");
    assert_eq!(done_by(&well, &two, "r1"), None, "another one was deployed");
    let two = deployments(Some(second.clone()), Some(second.clone()));
    assert_eq!(done_by(&well, &two, "r2"), Some(second.operation));
}

#[test]
fn what_is_not_known_yet_is_waited_for_and_what_comes_is_new() {
    let targets = Targets::of(&set()).unwrap();
    let mut standings = Standings::default();
    let mut of = |live: Option<(&Application, &Deployments)>| {
        standings.standing("web", target("r1"), live, (&targets, None))
    };
    let comes = Standing { revisions: vec!["r1".to_owned()], before: None, done_by: None };
    assert_eq!(of(None), Ok(comes));
    let live = compared("Synced", "Healthy");
    let unknown = Deployments::default();
    assert!(of(Some((&live, &unknown))).unwrap_err().contains("was not compared"));
    // Nobody compares it, so nobody waits for that.
    let mut skipped = live.clone();
    skipped.metadata.annotations.insert("argocd.argoproj.io/skip-reconcile".into(), "true".into());
    assert_eq!(of(Some((&skipped, &unknown))).unwrap().done_by, None);
    // One that Argo CD has synced: there is something to go back to, and no operation of ours.
    let mut adopted = live;
    adopted.status.history = serde_json::from_value(json!([
        {"id": 3, "revision": "r0", "deployedAt": "2026-01-01T00:00:00Z"},
    ]))
    .unwrap();
    let before = of(Some((&adopted, &deployments(None, None)))).unwrap().before.unwrap();
    assert_eq!((before.operation, before.target.revisions), (None, vec!["r0".to_owned()]));
}
