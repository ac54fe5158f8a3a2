//! User-visible behavior. Each test is one scenario.

mod departed;
mod failures;
mod output;
mod rejections;
mod slow_disk;
mod user_requests;

use tidegate_lifecycle::fleet::{MaxUpdate, Scope};
use tidegate_lifecycle::rollout::{
    DeployedState, End, MemberSpec, MemberStatus, Request, Step, UserRequest, view,
};
use tidegate_model::{Digest, HealthStatus};

use super::world::World;
use crate::build::*;

/// Returns a request with two Applications in dev, one in qa, and three in prod, two of them updated at once.
/// No step selects the seventh Application.
fn fleet_request() -> Request {
    let prod = Step { max_update: MaxUpdate::Percent(70), ..step("env in prod") };
    let of = |name: &str| member(name, &format!("env={}", name.split('-').next().unwrap()));
    let names = ["dev-a", "dev-b", "qa-a", "prod-a", "prod-b", "prod-c", "test-a"];
    request(vec![step("env in dev"), step("env in qa"), prod], names.map(of).into())
}

/// Returns a request with a single step of three Applications that are updated one by one.
fn one_by_one_request(change: impl FnOnce(&mut Step)) -> Request {
    let mut only = Step { max_update: MaxUpdate::Count(1), ..step("") };
    change(&mut only);
    request(vec![only], ["a", "b", "c"].map(|name| member(name, "")).into())
}

fn member_scope(name: &str) -> Scope {
    Scope::Member(name.into())
}

fn rollout_end(world: &World) -> Option<End> {
    world.rollout().outcome.as_ref().map(|outcome| outcome.end)
}

fn format_statuses(world: &World) -> String {
    let members = view(world.state()).unwrap().members;
    members.iter().map(|member| format!("{}={:?} ", member.application, member.status)).collect::<String>()
}

#[test]
fn steps_run_in_order_and_respect_max_update() {
    let mut world = World::new(fleet_request());
    world.run();
    let expected = [
        "0 Rolling step 1",
        "0 Sync dev-a",
        "0 Sync dev-b",
        "2000 Rolling step 2",
        "2000 Sync qa-a",
        "4000 Rolling step 3",
        "4000 Sync prod-a",
        "4000 Sync prod-b",
        "6000 Sync prod-c",
        "8000 Finished",
    ];
    assert_eq!(world.transcript, expected);
    assert_eq!(
        (rollout_end(&world), world.message().as_str()),
        (Some(End::Completed), "ApplicationSet Rollout has completed")
    );
    assert!(world.explain().ends_with("not in any step: test-a"), "{}", world.explain());
    let view = view(world.state()).unwrap();
    let outside = view.members.iter().find(|member| member.application == "test-a").unwrap();
    assert_eq!((outside.step.as_str(), outside.status), ("-1", MemberStatus::Waiting));
    assert!(outside.message.contains("sync it manually"), "{}", outside.message);
}

/// An Application passes through Argo CD's statuses and messages in the same order as in Argo CD.
#[test]
fn an_application_passes_through_the_statuses_of_argo_cd() {
    let only = Step { gates: vec!["approval".into()], ..step("") };
    let mut world = World::new(request(vec![only], vec![member("a", "")]));
    world.behavior("a").window_until = 3_000;
    world.request_at(1_000, UserRequest::Approve { step: None });
    let mut at_time = |millis| {
        world.run_until(millis);
        let member = view(world.state()).unwrap().members.remove(0);
        (member.status, member.message, member.last_transition_time)
    };
    for (millis, status, message, since) in [
        (0, MemberStatus::Waiting, "Application has pending changes, setting status to Waiting", 0),
        (
            1_000,
            MemberStatus::Pending,
            "Application moved to Pending status, its sync is waiting for a sync window: night, until 3000",
            1_000,
        ),
        (
            3_500,
            MemberStatus::Progressing,
            "Application resource became Progressing, updating status from Pending to Progressing",
            3_000,
        ),
        (
            4_500,
            MemberStatus::Progressing,
            "Application resource completed a sync successfully, updating status from Pending to Progressing",
            3_000,
        ),
        (
            5_000,
            MemberStatus::Healthy,
            "Application resource became Healthy, updating status from Progressing to Healthy",
            5_000,
        ),
    ] {
        assert_eq!(at_time(millis), (status, message.to_owned(), at(since)), "at {millis}");
    }
}

#[test]
fn wait_messages_match_argo_cd() {
    let before = |revision: &str, spec| {
        let target = tidegate_lifecycle::rollout::Target { spec: Digest([spec; 32]), ..target(revision) };
        Some(DeployedState { operation: Some(id(1)), target })
    };
    for (before, message) in [
        (None, "No Application status found, defaulting status to Waiting"),
        (before("old", 1), "Application has pending changes, setting status to Waiting"),
        (before("new", 2), "Application has pending changes (spec differs), setting status to Waiting"),
        (
            before("old", 2),
            "Application has pending changes (revision and spec differ), setting status to Waiting",
        ),
    ] {
        let only = Step { gates: vec!["approval".into()], ..step("") };
        let mut world = World::new(request(vec![only], vec![MemberSpec { before, ..member("a", "") }]));
        world.run();
        assert_eq!(view(world.state()).unwrap().members[0].message, message);
    }
}

/// An Application that looks healthy at the beginning is still synced by one of this rollout's operations.
/// Its health may be from before the commit, its spec may have changed, or it may have drifted.
#[test]
fn a_healthy_application_without_a_new_operation_is_still_synced() {
    let mut request = fleet_request();
    for member in &mut request.members {
        member.before = Some(DeployedState { operation: Some(id(1)), target: target("new") });
    }
    let mut world = World::new(request);
    let names: Vec<String> = world.apps.keys().cloned().collect();
    for name in names {
        world.apps.get_mut(&name).unwrap().observation = observation_after(1, "new", HealthStatus::Healthy);
    }
    world.run();
    assert_eq!(world.operations.len(), 6, "{:?}", world.transcript);
    assert_eq!(world.transcript.last().unwrap(), "8000 Finished");
}

/// Evidence from an earlier rollout counts, so the Application isn't synced again.
#[test]
fn a_member_already_at_its_target_is_not_synced() {
    let mut request = fleet_request();
    for member in &mut request.members {
        member.done_by = (member.name != "prod-b").then(|| id(1));
    }
    let mut world = World::new(request);
    world.run();
    assert_eq!(world.transcript, ["0 Rolling step 3", "0 Sync prod-b", "2000 Finished"]);
}

#[test]
fn a_rollout_without_work_completes_immediately() {
    let mut world = World::new(request(vec![], vec![member("a", "")]));
    world.run();
    assert_eq!((rollout_end(&world), world.operations.len()), (Some(End::Completed), 0));
    world.now += 90_000;
    let explained = world.explain();
    assert!(explained.starts_with("Completed 1 min 30 s ago after 0 s: "), "{explained}");
}

#[test]
fn a_manual_step_waits_until_people_sync_its_members() {
    let mut request = fleet_request();
    request.steps[1].max_update = MaxUpdate::Count(0);
    let mut world = World::new(request);
    world.run_until(10_000);
    assert_eq!(
        world.explain(),
        "step 2 of 3 (env in (qa)): 0 of 1 done, waiting 10 s for Application qa-a (maxUpdate is 0: sync it manually, or skip it); next: step 3 of \
         3, 3 Applications; not in any step: test-a"
    );
    // The rollout isn't waiting for a deployment of a different target.
    world.deploy("qa-a", id(900), target("other"));
    world.run_until(20_000);
    assert_eq!(world.rollout().current_step(), Some(1));
    world.deploy("qa-a", id(901), target("new"));
    world.run();
    assert_eq!(rollout_end(&world), Some(End::Completed));
    assert!(world.transcript.contains(&"21000 Rolling step 3".to_owned()), "{:?}", world.transcript);
    assert!(world.operations.values().all(|operation| operation.member != "qa-a"));
}
