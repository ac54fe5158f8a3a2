//! The rules tell what breaks them: histories made by hand.

use std::time::Duration;

use serde_json::json;
use tidegate_cluster::sim::{Clock, SimConfig};
use tidegate_executor::Targets;
use tidegate_model::{Destination, ObjectKey, SyncRequest};
use tidegate_planner::manifests::{Limits, parse_each};
use tidegate_testkit::process::START;

use super::*;

fn at(second: u64) -> Timestamp {
    START + Duration::from_secs(second)
}

fn deployed(application: &str, commit: u64, began: u64, done: u64) -> Deployed {
    let done = (done > 0).then(|| at(done));
    Deployed { application: application.to_owned(), commit, began: at(began), done }
}

/// `a` is of the first step, `b` and `c` are of the second one, one by one.
fn fleet() -> (Fleet, BTreeMap<String, Membership>) {
    let steps: BTreeMap<String, usize> =
        [("a", 0), ("b", 1), ("c", 1)].map(|(name, step)| (name.to_owned(), step)).into();
    let of = |(name, step): (&String, &usize)| {
        (name.clone(), Membership { step: *step, since: at(0), until: None, is_unclear: false })
    };
    let members = steps.iter().map(of).collect();
    let max_update = vec![None, Some(json!(1))];
    (Fleet { members: steps, max_update, rollout: None, deletion: "Reverse" }, members)
}

#[test]
fn a_step_that_comes_too_early_is_found() {
    let (fleet, members) = fleet();
    let commit =
        |second: u64, wrong: Option<&str>| Commit { at: at(second), wrong: wrong.map(str::to_owned) };
    let commits: BTreeMap<u64, Commit> = [(1, commit(1, None)), (2, commit(50, Some("a")))].into();
    let good = [deployed("a", 1, 2, 8), deployed("b", 1, 8, 14), deployed("c", 1, 14, 20)];
    let check = |fleet: &Fleet, all: &[Deployed]| step_after_step(fleet, &members, &commits, all).is_err();
    assert!(!check(&fleet, &good));
    assert!(check(&fleet, &[deployed("a", 1, 2, 8), deployed("b", 1, 7, 14)]), "before it was well");
    assert!(check(&fleet, &[deployed("a", 1, 2, 0), deployed("b", 1, 8, 14)]), "it never was");
    let newer = [&good[..], &[deployed("b", 2, 60, 66)]].concat();
    assert!(check(&fleet, &newer), "it has an older commit");
    let may_fail = Fleet { rollout: Some("steps: [{step: 1, maxFailures: 1}]"), ..fleet };
    assert!(!check(&may_fail, &newer), "it may fail");
}

#[test]
fn too_many_at_once_are_found() {
    let (fleet, members) = fleet();
    let check = |all: &[Deployed]| within_budget(&fleet, &members, all).is_err();
    assert!(!check(&[deployed("b", 1, 8, 14), deployed("c", 1, 14, 20)]));
    assert!(check(&[deployed("b", 1, 8, 14), deployed("c", 1, 13, 20)]));
}

#[test]
fn what_does_not_wait_for_others_is_found() {
    let check = |all: &[Deployed]| after_what_it_depends_on(all).is_err();
    assert!(!check(&[deployed(BASE, 2, 1, 7), deployed(ALONE, 1, 8, 14)]));
    assert!(check(&[deployed(BASE, 2, 1, 7), deployed(ALONE, 2, 6, 14)]));
    assert!(check(&[deployed(BASE, 1, 1, 7), deployed(ALONE, 2, 8, 14)]));
}

#[test]
fn a_deletion_out_of_turn_is_found() {
    let (fleet, _) = fleet();
    let delete = |name: &str, beside: &[&str]| Write {
        at: at(1),
        verb: Verb::Delete,
        key: ObjectKey::new("argoproj.io", "Application", "argocd", name),
        before: None,
        after: None,
        beside: beside.iter().map(|one| (*one).to_owned()).collect(),
    };
    let check = |write: Write| deleted_in_order(&[write], &fleet.ranks()).is_err();
    assert!(!check(delete("b", &["a", "b", "c"])));
    assert!(!check(delete("a", &["a"])));
    assert!(check(delete("a", &["a", "c"])));
}

/// The plan of an Application with one ConfigMap.
fn kept_plan(sim: &SimCluster) -> KeptPlan {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings-alone"}, "data": {"commit": "1"}});
    let (targets, _) = parse_each("all.yaml", map.to_string().as_bytes(), &Limits::default());
    let request = SyncRequest::new("alone", HOME, Destination::Simulated);
    let targets = Targets { targets, ..Targets::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(KeptPlan::make(sim, request, targets, START, None)).unwrap().0
}

#[test]
fn what_nobody_has_approved_is_found() {
    let sim = SimCluster::in_memory(SimConfig::default(), Clock::wall(|| START));
    let plan = kept_plan(&sim);
    let line = |approved: Option<u64>| -> KeptLine {
        let given = approved.map(|second| json!({"by": "ben", "reason": "", "at": at(second)}));
        let hash = plan.hash().to_string();
        serde_json::from_value(json!({
            "hash": hash, "application": "alone", "revision": "c", "destination": "simulated", "madeAt": START,
            "by": "ann", "actions": {}, "approvals": given.into_iter().collect::<Vec<_>>(), "sealed": hash,
        }))
        .unwrap()
    };
    let manifest = plan.manifests.iter().find(|one| one.name() == "settings-alone").unwrap();
    let mut other = manifest.clone();
    other.section_mut("data").insert("commit".to_owned(), json!("2"));
    let mut with_more = manifest.clone();
    with_more.set_annotation("example.com/more", "of the server");
    for (approved, written, is_kept) in [
        (Some(1), manifest, true),
        (Some(1), &with_more, true),
        (Some(1), &other, false),
        (Some(3), manifest, false),
        (None, manifest, false),
    ] {
        let write = Write {
            at: at(2),
            verb: Verb::Apply,
            key: written.key(),
            before: None,
            after: Some(written.clone()),
            beside: BTreeSet::new(),
        };
        let plans = [(line(approved), plan.clone())];
        let found = only_what_was_approved(&sim, std::slice::from_ref(&write), &plans, ALONE);
        assert_eq!(found.is_ok(), is_kept, "approved at {approved:?}: {found:?}");
        assert!(only_what_was_approved(&sim, &[write], &plans, BASE).is_ok(), "that is another one");
    }
}

#[test]
fn an_approval_by_somebody_who_may_not_is_found() {
    let sim = SimCluster::in_memory(SimConfig::default(), Clock::wall(|| START));
    let plan = kept_plan(&sim);
    let hash = plan.hash().to_string();
    for (said, author, by, is_kept) in [
        (None, "ann", &["ann"][..], true),
        (None, "ann", &[], false),
        (Some("others"), "ann", &["ann"], false),
        (Some("others"), "ann", &["ann", "cid"], true),
        (Some("others"), SyncRequest::AUTOMATED, &["ann"], true),
        (Some("others"), "", &["ann"], false),
        (Some("ben, others"), "ann", &["cid"], false),
        (Some("ben, others"), "ben", &["ben"], false),
        (Some("ben, cid"), "cid", &["cid"], true),
    ] {
        let given: Vec<_> = by.iter().map(|by| json!({"by": by, "reason": "", "at": at(1)})).collect();
        let line = json!({
            "hash": hash, "application": "alone", "revision": "c", "destination": "simulated", "madeAt": START,
            "by": author, "actions": {}, "approvals": given, "sealed": hash, "operation": uuid::Uuid::nil(),
        });
        let plans = [(serde_json::from_value(line).unwrap(), plan.clone())];
        let found = by_those_who_may(&plans, Needing { name: ALONE, said });
        assert_eq!(found.is_ok(), is_kept, "{said:?}: {found:?}");
        assert!(by_those_who_may(&plans, Needing { name: BASE, said }).is_ok());
    }
}
