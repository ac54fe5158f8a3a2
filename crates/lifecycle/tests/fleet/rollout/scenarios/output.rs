//! Output for users: step statuses, the wait of the current step, and milestones.

use tidegate_lifecycle::rollout::{OnFailure, StepStatus, WaitReason, current_wait, milestones};

use super::*;

fn step_statuses(world: &World) -> Vec<StepStatus> {
    view(world.state()).unwrap().steps.iter().map(|step| step.status).collect()
}

/// Returns the wait of the current step: its number, reason and start.
fn wait_of_step(world: &World) -> Option<(u32, WaitReason, i64)> {
    current_wait(world.state()).map(|one| (one.step, one.reason, one.since.as_millis()))
}

#[test]
fn steps_that_were_already_done_do_not_wait() {
    let mut request = fleet_request();
    for member in &mut request.members {
        member.done_by = (member.name != "prod-b").then(|| id(1));
    }
    request.steps.push(step("env in nowhere"));
    let mut world = World::new(request);
    world.run_until(500);
    use StepStatus::{AlreadyDone, Empty, Held, NotReached, Passed, Rolling, Waiting};
    assert_eq!(step_statuses(&world), [AlreadyDone, AlreadyDone, Rolling, Empty]);
    world.run();
    assert_eq!(step_statuses(&world), [AlreadyDone, AlreadyDone, Passed, Empty]);
    let mut request = fleet_request();
    request.steps[1].gates = vec!["approval".into()];
    let mut world = World::new(request);
    world.run_until(10_000);
    assert_eq!(step_statuses(&world), [Passed, Held, Waiting]);
    world.request_at(10_000, UserRequest::Terminate);
    world.run();
    assert_eq!(step_statuses(&world), [Passed, NotReached, NotReached]);
}

#[test]
fn a_failed_step_is_shown_as_failed_whatever_follows() {
    for (on_failure, expected) in [
        (OnFailure::Pause, StepStatus::Failed),
        (OnFailure::Abort, StepStatus::Failed),
        (OnFailure::RollBack, StepStatus::RolledBack),
    ] {
        let mut world = World::new(one_by_one_request(|step| {
            step.max_failures = Some(0);
            step.on_failure = on_failure;
        }));
        world.behavior("b").failures = 1;
        world.run();
        assert_eq!(step_statuses(&world), [expected], "{on_failure:?}");
    }
}

#[test]
fn the_wait_of_a_step_has_a_reason_and_a_start_time() {
    let mut request = fleet_request();
    request.steps[0].gates = vec!["freeze".into()];
    request.steps[1].gates = vec!["approval".into(), "soak:1m".into()];
    request.steps[2].max_update = MaxUpdate::Count(0);
    let mut world = World::new(request);
    world.gates.insert("freeze".into(), 5_000);
    world.behavior("dev-b").window_until = 8_000;
    world.request_at(20_000, UserRequest::Approve { step: Some(2) });
    let mut found = Vec::new();
    for millis in [1_000, 7_900, 8_500, 9_500, 15_000, 30_000, 300_000] {
        world.run_until(millis);
        found.push(wait_of_step(&world).unwrap());
    }
    use WaitReason::{Approval, Gate, Health, Manual, Soak, Sync, Window};
    assert_eq!(
        found,
        [
            (1, Gate, 0),
            (1, Window, 5_000),
            (1, Sync, 8_000),
            // This wait starts when the Application's displayed status becomes Progressing.
            (1, Health, 8_000),
            (2, Approval, 10_000),
            (2, Soak, 10_000),
            (3, Manual, 0),
        ]
    );
    world.request_at(300_000, UserRequest::Pause);
    world.run_until(300_500);
    assert_eq!(wait_of_step(&world), Some((3, WaitReason::Paused, 300_000)));
}

#[test]
fn a_failed_member_is_reported_before_a_longer_wait() {
    let mut world = World::new(fleet_request());
    world.behavior("dev-b").failures = 1;
    world.behavior("dev-a").duration = None;
    world.run_until(10_000);
    assert_eq!(wait_of_step(&world).map(|(step, reason, _)| (step, reason)), Some((1, WaitReason::Failed)));
}

/// A consumer that reads the state from time to time gets every important milestone exactly once.
#[test]
fn milestones_of_a_rollout_follow_from_its_state() {
    let mut request = fleet_request();
    request.steps[1].gates = vec!["approval".into()];
    let mut world = World::new(request);
    world.request_at(20_000, UserRequest::Approve { step: Some(2) });
    let (mut lines, mut keys) = (Vec::new(), Vec::new());
    let mut collect_new = |world: &World| {
        for one in milestones(world.state()) {
            if !keys.contains(&one.key) {
                lines.push(format!("{} {} {}", one.at.unwrap().as_millis(), one.reason, one.message));
                keys.push(one.key);
            }
        }
    };
    world.run_until(10_000);
    collect_new(&world);
    world.run();
    collect_new(&world);
    assert_eq!(
        lines,
        [
            "0 RolloutStarted 6 Applications in 3 steps",
            "0 StepOpened step 1 of 3 (env in (dev)): 2 Applications",
            "2000 StepPassed step 1 of 3 (env in (dev)) is done",
            "2000 StepHeld step 2 of 3 is waiting for approval",
            "20000 StepOpened step 2 of 3 (env in (qa)): 1 Application",
            "22000 StepPassed step 2 of 3 (env in (qa)) is done",
            "22000 StepOpened step 3 of 3 (env in (prod)): 3 Applications",
            "26000 StepPassed step 3 of 3 (env in (prod)) is done",
            "26000 RolloutCompleted ApplicationSet Rollout has completed",
        ]
    );
}
