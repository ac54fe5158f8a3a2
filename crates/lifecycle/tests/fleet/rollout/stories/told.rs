//! What people are told: how each step stands, what the current one waits for, and what has happened.

use tidegate_lifecycle::rollout::{OnFailure, StepStatus, WaitReason, milestones, waiting};

use super::*;

fn steps(world: &World) -> Vec<StepStatus> {
    view(world.state()).unwrap().steps.iter().map(|step| step.status).collect()
}

/// What the current step waits for: its number, what for, and since when.
fn waits(world: &World) -> Option<(u32, WaitReason, i64)> {
    waiting(world.state()).map(|one| (one.step, one.reason, one.since.as_millis()))
}

#[test]
fn steps_whose_members_were_done_before_do_not_wait() {
    let mut request = fleet();
    for member in &mut request.members {
        member.done_by = (member.name != "prod-b").then(|| id(1));
    }
    request.steps.push(step("env in nowhere"));
    let mut world = World::new(request);
    world.run_until(500);
    use StepStatus::{DoneBefore, Empty, Held, NotReached, Passed, Rolling, Waiting};
    assert_eq!(steps(&world), [DoneBefore, DoneBefore, Rolling, Empty]);
    world.run();
    assert_eq!(steps(&world), [DoneBefore, DoneBefore, Passed, Empty]);
    let mut request = fleet();
    request.steps[1].gates = vec!["approval".into()];
    let mut world = World::new(request);
    world.run_until(10_000);
    assert_eq!(steps(&world), [Passed, Held, Waiting]);
    world.wish(10_000, Wish::Terminate);
    world.run();
    assert_eq!(steps(&world), [Passed, NotReached, NotReached]);
}

#[test]
fn a_step_that_failed_is_shown_as_such_whatever_follows() {
    for (on_failure, expected) in [
        (OnFailure::Pause, StepStatus::Failed),
        (OnFailure::Abort, StepStatus::Failed),
        (OnFailure::RollBack, StepStatus::RolledBack),
    ] {
        let mut world = World::new(one_by_one(|step| {
            step.max_failures = Some(0);
            step.on_failure = on_failure;
        }));
        world.fate("b").failures = 1;
        world.run();
        assert_eq!(steps(&world), [expected], "{on_failure:?}");
    }
}

#[test]
fn what_a_step_waits_for_is_one_word_and_a_time() {
    let mut request = fleet();
    request.steps[0].gates = vec!["freeze".into()];
    request.steps[1].gates = vec!["approval".into(), "soak:1m".into()];
    request.steps[2].max_update = MaxUpdate::Count(0);
    let mut world = World::new(request);
    world.gates.insert("freeze".into(), 5_000);
    world.fate("dev-b").window_until = 8_000;
    world.wish(20_000, Wish::Approve { step: Some(2) });
    let mut found = Vec::new();
    for millis in [1_000, 7_900, 8_500, 9_500, 15_000, 30_000, 300_000] {
        world.run_until(millis);
        found.push(waits(&world).unwrap());
    }
    use WaitReason::{Approval, Gate, Health, Manual, Soak, Sync, Window};
    assert_eq!(
        found,
        [
            (1, Gate, 0),
            (1, Window, 5_000),
            (1, Sync, 8_000),
            // Since it is Progressing, as people see it.
            (1, Health, 8_000),
            (2, Approval, 10_000),
            (2, Soak, 10_000),
            (3, Manual, 0),
        ]
    );
    world.wish(300_000, Wish::Pause);
    world.run_until(300_500);
    assert_eq!(waits(&world), Some((3, WaitReason::Paused, 300_000)));
}

#[test]
fn one_that_failed_comes_before_what_waits_longer() {
    let mut world = World::new(fleet());
    world.fate("dev-b").failures = 1;
    world.fate("dev-a").takes = None;
    world.run_until(10_000);
    assert_eq!(waits(&world).map(|(step, reason, _)| (step, reason)), Some((1, WaitReason::Failed)));
}

/// Whoever looks at states now and then misses nothing that matters, and is told nothing twice.
#[test]
fn what_is_told_of_a_rollout_is_found_in_its_state() {
    let mut request = fleet();
    request.steps[1].gates = vec!["approval".into()];
    let mut world = World::new(request);
    world.wish(20_000, Wish::Approve { step: Some(2) });
    let (mut told, mut keys) = (Vec::new(), Vec::new());
    let mut tell = |world: &World| {
        for one in milestones(world.state()) {
            if !keys.contains(&one.key) {
                told.push(format!("{} {} {}", one.at.unwrap().as_millis(), one.reason, one.message));
                keys.push(one.key);
            }
        }
    };
    world.run_until(10_000);
    tell(&world);
    world.run();
    tell(&world);
    assert_eq!(
        told,
        [
            "0 RolloutStarted 6 Applications in 3 steps",
            "0 StepOpened step 1 of 3 (env in (dev)): 2 Applications",
            "2000 StepPassed step 1 of 3 (env in (dev)) is done",
            "2000 StepHeld step 2 of 3 waits for approval",
            "20000 StepOpened step 2 of 3 (env in (qa)): 1 Application",
            "22000 StepPassed step 2 of 3 (env in (qa)) is done",
            "22000 StepOpened step 3 of 3 (env in (prod)): 3 Applications",
            "26000 StepPassed step 3 of 3 (env in (prod)) is done",
            "26000 RolloutCompleted ApplicationSet Rollout has completed",
        ]
    );
}
