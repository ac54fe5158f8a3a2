//! Hand-written histories. The invariants must detect the violations in them.

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

fn deployed_commit(application: &str, commit: u64, began: u64, done: u64) -> DeployedCommit {
    let finished = (done > 0).then(|| at(done));
    let operation = format!("{application} {began}");
    DeployedCommit { operation, application: application.to_owned(), commit, started: at(began), finished }
}

/// Returns a fleet with `a` in the first step, and `b` and `c` one by one in the second step.
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
fn a_step_that_starts_too_early_is_found() {
    let (fleet, members) = fleet();
    let commit =
        |second: u64, wrong: Option<&str>| Commit { at: at(second), wrong: wrong.map(str::to_owned) };
    let commits: BTreeMap<u64, Commit> = [(1, commit(1, None)), (2, commit(50, Some("a")))].into();
    let good =
        [deployed_commit("a", 1, 2, 8), deployed_commit("b", 1, 8, 14), deployed_commit("c", 1, 14, 20)];
    let people = BTreeSet::from(["b 7".to_owned()]);
    let by_people = |fleet: &Fleet, all: &[DeployedCommit], people: &BTreeSet<String>| {
        check_step_order(fleet, &members, &commits, (all, people)).is_err()
    };
    let check = |fleet: &Fleet, all: &[DeployedCommit]| by_people(fleet, all, &BTreeSet::new());
    assert!(!check(&fleet, &good));
    let early = [deployed_commit("a", 1, 2, 8), deployed_commit("b", 1, 7, 14)];
    assert!(check(&fleet, &early), "before it was healthy");
    assert!(!by_people(&fleet, &early, &people), "a user requested it");
    assert!(
        check(&fleet, &[deployed_commit("a", 1, 2, 0), deployed_commit("b", 1, 8, 14)]),
        "it did not exist"
    );
    let newer = [&good[..], &[deployed_commit("b", 2, 60, 66)]].concat();
    assert!(check(&fleet, &newer), "it has an older commit");
    let may_fail = Fleet { rollout: Some("steps: [{step: 1, maxFailures: 1}]"), ..fleet };
    assert!(!check(&may_fail, &newer), "it may fail");
}

#[test]
fn exceeding_the_update_limit_is_found() {
    let (fleet, members) = fleet();
    let nobody = BTreeSet::new();
    let check = |all: &[DeployedCommit]| check_update_limit(&fleet, &members, (all, &nobody)).is_err();
    assert!(!check(&[deployed_commit("b", 1, 8, 14), deployed_commit("c", 1, 14, 20)]));
    assert!(check(&[deployed_commit("b", 1, 8, 14), deployed_commit("c", 1, 13, 20)]));
}

#[test]
fn a_missing_wait_for_dependencies_is_found() {
    let check = |all: &[DeployedCommit]| check_dependency_order(all).is_err();
    assert!(!check(&[deployed_commit(BASE_APP, 2, 1, 7), deployed_commit(STANDALONE_APP, 1, 8, 14)]));
    assert!(check(&[deployed_commit(BASE_APP, 2, 1, 7), deployed_commit(STANDALONE_APP, 2, 6, 14)]));
    assert!(check(&[deployed_commit(BASE_APP, 1, 1, 7), deployed_commit(STANDALONE_APP, 2, 8, 14)]));
}

#[test]
fn a_deletion_out_of_order_is_found() {
    let (fleet, _) = fleet();
    let delete = |name: &str, beside: &[&str]| Write {
        at: at(1),
        verb: Verb::Delete,
        key: ObjectKey::new("argoproj.io", "Application", "argocd", name),
        before: None,
        after: None,
        other_applications: beside.iter().map(|one| (*one).to_owned()).collect(),
    };
    let check = |write: Write| check_deletion_order(&[write], &fleet.deletion_ranks()).is_err();
    assert!(!check(delete("b", &["a", "b", "c"])));
    assert!(!check(delete("a", &["a"])));
    assert!(check(delete("a", &["a", "c"])));
}

/// Returns the plan of an Application with one ConfigMap.
fn stored_plan(sim: &SimCluster) -> StoredPlan {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings-alone"}, "data": {"commit": "1"}});
    let (targets, _) = parse_each("all.yaml", map.to_string().as_bytes(), &Limits::default());
    let request = SyncRequest::new("alone", APP_NAMESPACE, Destination::Simulated);
    let targets = Targets { targets, ..Targets::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(StoredPlan::create(sim, request, targets, START, None)).unwrap().0
}

#[test]
fn an_unapproved_write_is_found() {
    let sim = SimCluster::in_memory(SimConfig::default(), Clock::wall(|| START));
    let plan = stored_plan(&sim);
    let line = |approved: Option<u64>| -> StoredPlanMetadata {
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
            other_applications: BTreeSet::new(),
        };
        let plans = [(line(approved), plan.clone())];
        let found = check_approved_writes(&sim, std::slice::from_ref(&write), &plans, STANDALONE_APP);
        assert_eq!(found.is_ok(), is_kept, "approved at {approved:?}: {found:?}");
        assert!(check_approved_writes(&sim, &[write], &plans, BASE_APP).is_ok(), "that is a different one");
    }
}

fn recorded_operation(
    number: u128,
    by: &str,
    ended: (OperationPhase, &str),
    manifests: &str,
) -> RecordedOperation {
    let (phase, message) = (ended.0, ended.1.to_owned());
    let operation = OperationId(uuid::Uuid::from_u128(number));
    let (application, requester) = ("b".to_owned(), by.to_owned());
    RecordedOperation {
        operation,
        application,
        requester,
        phase,
        message,
        manifests: [manifests.to_owned()].into(),
    }
}

#[test]
fn operations_that_repeat_a_deployment_are_found() {
    use OperationPhase::{Failed, Succeeded};
    let superseded = (Failed, "Operation terminated, superseded by another sync (revision 2)");
    let by_ann = (Failed, "Operation terminated, superseded by another sync of ann (revision 2)");
    let well = (Succeeded, "successfully synced");
    let automated = SyncRequest::AUTOMATED_REQUESTER;
    for (ended, by, manifests, is_kept) in [
        (superseded, automated, "one", false),
        (superseded, automated, "two", true),
        (superseded, PERSON, "one", true),
        (by_ann, automated, "one", true),
        (well, automated, "one", true),
    ] {
        let all =
            [recorded_operation(1, automated, ended, "one"), recorded_operation(2, by, well, manifests)];
        assert_eq!(check_superseding(&all).is_ok(), is_kept, "{all:?}");
    }
    let (fleet, members) = fleet();
    for (ended, by, manifests, is_kept) in [
        (well, ROLLOUT_REQUESTER, "one", false),
        (well, ROLLOUT_REQUESTER, "two", true),
        (well, PERSON, "one", true),
        ((Failed, "it broke"), ROLLOUT_REQUESTER, "one", true),
    ] {
        let all = [recorded_operation(1, PERSON, ended, "one"), recorded_operation(2, by, well, manifests)];
        assert_eq!(check_no_repeated_deployment(&fleet, &members, &all).is_ok(), is_kept, "{all:?}");
    }
}

#[test]
fn an_approval_by_an_unauthorized_user_is_found() {
    let sim = SimCluster::in_memory(SimConfig::default(), Clock::wall(|| START));
    let plan = stored_plan(&sim);
    let hash = plan.hash().to_string();
    for (approvers, author, by, is_kept) in [
        (None, "ann", &["ann"][..], true),
        (None, "ann", &[], false),
        (Some("others"), "ann", &["ann"], false),
        (Some("others"), "ann", &["ann", "cid"], true),
        (Some("others"), SyncRequest::AUTOMATED_REQUESTER, &["ann"], true),
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
        let found = check_approvers(&plans, ApprovalApp { name: STANDALONE_APP, approvers });
        assert_eq!(found.is_ok(), is_kept, "{approvers:?}: {found:?}");
        assert!(check_approvers(&plans, ApprovalApp { name: BASE_APP, approvers }).is_ok());
    }
}
