//! Failures and missed deadlines.

use tidegate_lifecycle::fleet::{MaxUpdate, Scope};
use tidegate_lifecycle::rollout::{Details, End, OnFailure, UserRequest};

use super::*;

/// A failed Application stops a step that updates Applications one by one, unless the step declares a maximum
/// number of failures.
#[test]
fn a_failed_member_keeps_its_step_open_until_a_person_acts() {
    for (request, expected) in [
        (UserRequest::Retry(member_scope("a")), End::Completed),
        (UserRequest::Retry(Scope::Step(1)), End::Completed),
        (UserRequest::Skip(member_scope("a")), End::Completed),
        (UserRequest::Terminate, End::Terminated),
    ] {
        let mut world = World::new(one_by_one_request(|_| {}));
        world.behavior("a").failures = 1;
        world.run_until(60_000);
        assert_eq!(format_statuses(&world), "a=Progressing b=Waiting c=Waiting ");
        assert_eq!(
            world.explain(),
            "step 1 of 1 (every Application): 0 of 3 done, waiting 1 min for Application a (it failed: over; retry or \
             skip it); next: the end"
        );
        world.request_at(60_000, request.clone());
        world.run();
        assert_eq!(rollout_end(&world), Some(expected), "{request:?}");
        let message = world.message();
        assert_eq!(message.contains("skipped: a"), matches!(request, UserRequest::Skip(_)), "{message}");
    }
}

#[test]
fn a_failed_member_can_be_fixed_by_a_manual_sync() {
    let mut world = World::new(one_by_one_request(|_| {}));
    world.behavior("a").failures = 1;
    world.run_until(5_000);
    world.deploy("a", id(900), target("new"));
    world.run();
    assert_eq!(rollout_end(&world), Some(End::Completed));
}

#[test]
fn a_step_tolerates_the_declared_number_of_failures() {
    for (on_failure, failing, expected, awaits) in [
        (OnFailure::Abort, 1, Some(End::Completed), ""),
        (OnFailure::Abort, 2, Some(End::Failed), ""),
        (OnFailure::RollBack, 2, Some(End::RolledBack), ""),
        (OnFailure::Pause, 2, None, "paused"),
    ] {
        let mut world = World::new(one_by_one_request(|step| {
            step.max_failures = Some(1);
            step.on_failure = on_failure;
        }));
        for name in ["a", "b"].iter().take(failing) {
            world.behavior(name).failures = 1;
        }
        world.run();
        assert_eq!(rollout_end(&world), expected, "{on_failure:?}, {failing}");
        assert!(world.explain().contains(awaits), "{}", world.explain());
        let started = |name: &str| world.operations.values().any(|operation| operation.member == name);
        assert_eq!(started("c"), failing == 1, "no more updates may start after a failed step");
        if failing == 2 {
            let reason = "2 Applications failed in step 1 of 1 (maximum: 1): a, b";
            assert!(world.explain().contains(reason), "{}", world.explain());
        }
    }
}

#[test]
fn a_failed_step_continues_when_a_person_resumes_it() {
    let mut world = World::new(one_by_one_request(|step| step.max_failures = Some(0)));
    world.behavior("a").failures = 1;
    world.run_until(5_000);
    assert!(
        world
            .explain()
            .contains("paused for 4 s by tidegate (1 Application failed in step 1 of 1 (maximum: 0): a)"),
        "{}",
        world.explain()
    );
    world.request_at(5_000, UserRequest::Resume);
    world.run_until(20_000);
    // The other Applications reached their targets. The failed Application is still listed.
    assert_eq!(format_statuses(&world), "a=Progressing b=Healthy c=Healthy ");
    world.request_at(20_000, UserRequest::Retry(member_scope("a")));
    world.run();
    assert_eq!(rollout_end(&world), Some(End::Completed));
}

/// A rollback covers all Applications whose update had begun. The other Applications are never changed.
#[test]
fn a_rollback_covers_all_started_members_of_the_step() {
    let mut request = one_by_one_request(|step| {
        step.max_update = MaxUpdate::Count(2);
        step.max_failures = Some(0);
        step.on_failure = OnFailure::RollBack;
    });
    request.members.push(member("d", ""));
    let mut world = World::new(request);
    // `a` becomes healthy, and then `c` begins. `b` fails while `c` is running.
    world.behavior("b").duration = Some(2_500);
    world.behavior("b").failures = 1;
    world.behavior("c").duration = None;
    world.run();
    assert_eq!(rollout_end(&world), Some(End::RolledBack), "{:?}", world.transcript);
    let revision = |name: &str| world.apps[name].observation.deployed.as_ref().unwrap().revisions[0].clone();
    assert_eq!(["a", "d"].map(revision), ["old", "old"]);
    let rolled_back: Vec<_> = world
        .transcript
        .iter()
        .filter_map(|line| line.split_once("RollBack ").map(|(_, name)| name))
        .collect();
    assert_eq!(rolled_back, ["a", "b", "c"]);
    // None of the Applications is at its target, and none counts as Healthy.
    assert!(
        format_statuses(&world).starts_with("a=RolledBack b=RolledBack c=RolledBack "),
        "{}",
        format_statuses(&world)
    );
    assert_eq!(Details::from_state(world.state()).unwrap().members, (0, 4));
    assert!(!world.transcript.iter().any(|line| line.ends_with("Sync d")));
    assert!(
        world
            .message()
            .starts_with("step 1 of 1 was rolled back: 1 Application failed in step 1 of 1 (maximum: 0): b"),
        "{}",
        world.message()
    );
}

/// An Application that waits for another attempt after a failed update is also rolled back.
#[test]
fn a_member_that_waits_for_a_retry_is_rolled_back_too() {
    let mut world = World::new(one_by_one_request(|step| {
        step.max_update = MaxUpdate::Count(2);
        step.max_failures = Some(2);
        step.deadline = Some(seconds(30));
        step.on_failure = OnFailure::RollBack;
    }));
    world.behavior("a").failures = 1;
    // The other two Applications use the step's whole `maxUpdate`.
    world.behavior("b").duration = None;
    world.behavior("c").duration = None;
    world.request_at(5_000, UserRequest::Retry(member_scope("a")));
    world.run_until(20_000);
    assert_eq!(format_statuses(&world), "a=Waiting b=Progressing c=Progressing ");
    world.run();
    assert_eq!(rollout_end(&world), Some(End::RolledBack), "{:?}", world.transcript);
    assert!(world.transcript.iter().any(|line| line.ends_with("RollBack a")), "{:?}", world.transcript);
}

#[test]
fn a_member_without_a_previous_deployment_cannot_be_rolled_back() {
    let mut request = one_by_one_request(|step| {
        step.max_failures = Some(0);
        step.on_failure = OnFailure::RollBack;
    });
    request.members[0].before = None;
    let mut world = World::new(request);
    world.behavior("b").failures = 1;
    world.run();
    assert_eq!(rollout_end(&world), Some(End::Failed));
    assert!(
        world.message().contains("could not be rolled back completely; not rolled back: a;"),
        "{}",
        world.message()
    );
}

/// An unhealthy Application without a previous deployment is listed as failed, and the rollback doesn't wait
/// for it.
#[test]
fn members_that_cannot_be_rolled_back_take_no_rollback_capacity() {
    let mut request = one_by_one_request(|step| {
        step.max_update = MaxUpdate::Count(2);
        step.deadline = Some(seconds(30));
        step.on_failure = OnFailure::RollBack;
    });
    request.members[0].before = None;
    let mut world = World::new(request);
    world.behavior("a").healthy_after = None;
    world.run_until(30_000);
    let message = |world: &World| view(world.state()).unwrap().members.remove(0).message;
    assert!(
        message(&world).contains("there is no previous deployment to roll back to"),
        "{}",
        message(&world)
    );
    world.run();
    assert_eq!(rollout_end(&world), Some(End::Failed), "{:?}", world.transcript);
    assert!(
        world.message().contains("could not be rolled back completely; not rolled back: a;"),
        "{}",
        world.message()
    );
}

#[test]
fn a_step_fails_after_its_deadline() {
    for (on_failure, expected) in [
        (OnFailure::Pause, None),
        (OnFailure::Abort, Some(End::Failed)),
        (OnFailure::RollBack, Some(End::RolledBack)),
    ] {
        let mut world = World::new(one_by_one_request(|step| {
            step.deadline = Some(seconds(30));
            step.on_failure = on_failure;
        }));
        world.behavior("b").healthy_after = None;
        world.run_until(10_000);
        let explained = world.explain();
        assert!(
            explained.contains("Application b (Progressing: 1 of 2 updated); deadline in 20 s"),
            "{explained}"
        );
        world.run_until(60_000);
        assert_eq!(rollout_end(&world), expected, "{on_failure:?}: {}", world.explain());
        assert!(
            world.explain().contains("step 1 of 1 did not complete within 30 s; unfinished: b, c"),
            "{}",
            world.explain()
        );
    }
}

/// A rollout that gives up a step stops a hanging operation. Otherwise, the rollout would hang too.
#[test]
fn a_hanging_operation_does_not_block_a_late_rollout() {
    for on_failure in [OnFailure::Abort, OnFailure::RollBack] {
        let mut world = World::new(one_by_one_request(|step| {
            step.deadline = Some(seconds(30));
            step.on_failure = on_failure;
        }));
        world.behavior("a").duration = None;
        world.run_until(31_000);
        world.behavior("a").duration = Some(1_000);
        world.run();
        assert!(rollout_end(&world).is_some(), "{}", world.explain());
    }
}
