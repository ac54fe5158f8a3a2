//! What fails, and what is late.

use tidegate_lifecycle::fleet::{MaxUpdate, Scope};
use tidegate_lifecycle::rollout::{End, OnFailure, Wish};

use super::*;

/// As long as nobody has said how many may fail, one that fails stops a step that goes one by one.
#[test]
fn a_member_that_fails_keeps_its_step_open_until_somebody_sees_to_it() {
    for (wish, expected) in [
        (Wish::Retry(of_member("a")), End::Completed),
        (Wish::Retry(Scope::Step(1)), End::Completed),
        (Wish::Skip(of_member("a")), End::Completed),
        (Wish::Terminate, End::Terminated),
    ] {
        let mut world = World::new(one_by_one(|_| {}));
        world.fate("a").failures = 1;
        world.run_until(60_000);
        assert_eq!(statuses(&world), "a=Progressing b=Waiting c=Waiting ");
        assert_eq!(
            world.explain(),
            "step 1 of 1 (every Application): 0 of 3 done, waiting 1 min for Application a (it failed: over; retry or \
             skip it); next: the end"
        );
        world.wish(60_000, wish.clone());
        world.run();
        assert_eq!(end(&world), Some(expected), "{wish:?}");
        let message = world.message();
        assert_eq!(message.contains("skipped: a"), matches!(wish, Wish::Skip(_)), "{message}");
    }
}

#[test]
fn a_member_that_failed_may_be_put_right_by_hand() {
    let mut world = World::new(one_by_one(|_| {}));
    world.fate("a").failures = 1;
    world.run_until(5_000);
    world.deploy("a", id(900), target("new"));
    world.run();
    assert_eq!(end(&world), Some(End::Completed));
}

#[test]
fn a_step_bears_as_many_failures_as_are_declared() {
    for (on_failure, failing, expected, awaits) in [
        (OnFailure::Abort, 1, Some(End::Completed), ""),
        (OnFailure::Abort, 2, Some(End::Failed), ""),
        (OnFailure::RollBack, 2, Some(End::RolledBack), ""),
        (OnFailure::Pause, 2, None, "paused"),
    ] {
        let mut world = World::new(one_by_one(|step| {
            step.max_failures = Some(1);
            step.on_failure = on_failure;
        }));
        for name in ["a", "b"].iter().take(failing) {
            world.fate(name).failures = 1;
        }
        world.run();
        assert_eq!(end(&world), expected, "{on_failure:?}, {failing}");
        assert!(world.explain().contains(awaits), "{}", world.explain());
        let begun = |name: &str| world.operations.values().any(|operation| operation.member == name);
        assert_eq!(begun("c"), failing == 1, "nothing more is begun");
        if failing == 2 {
            let why = "2 of step 1 of 1 failed, 1 may: a, b";
            assert!(world.explain().contains(why), "{}", world.explain());
        }
    }
}

#[test]
fn a_step_that_failed_goes_on_when_a_person_says_so() {
    let mut world = World::new(one_by_one(|step| step.max_failures = Some(0)));
    world.fate("a").failures = 1;
    world.run_until(5_000);
    assert!(
        world.explain().contains("paused for 4 s by tidegate (1 of step 1 of 1 failed, 0 may: a)"),
        "{}",
        world.explain()
    );
    world.wish(5_000, Wish::Resume);
    world.run_until(20_000);
    // The others were brought there; the one that failed is not forgotten.
    assert_eq!(statuses(&world), "a=Progressing b=Healthy c=Healthy ");
    world.wish(20_000, Wish::Retry(of_member("a")));
    world.run();
    assert_eq!(end(&world), Some(End::Completed));
}

/// What was begun goes back, all of it; what was not is never touched.
#[test]
fn a_step_is_rolled_back_whole() {
    let mut request = one_by_one(|step| {
        step.max_update = MaxUpdate::Count(2);
        step.max_failures = Some(0);
        step.on_failure = OnFailure::RollBack;
    });
    request.members.push(member("d", ""));
    let mut world = World::new(request);
    // `a` gets well, then `c` begins; `b` fails while that is at work.
    world.fate("b").takes = Some(2_500);
    world.fate("b").failures = 1;
    world.fate("c").takes = None;
    world.run();
    assert_eq!(end(&world), Some(End::RolledBack), "{:?}", world.transcript);
    let revision = |name: &str| world.apps[name].sight.deployed.as_ref().unwrap().revisions[0].clone();
    assert_eq!(["a", "d"].map(revision), ["old", "old"]);
    let rolled_back: Vec<_> = world
        .transcript
        .iter()
        .filter_map(|line| line.split_once("RollBack ").map(|(_, name)| name))
        .collect();
    assert_eq!(rolled_back, ["a", "b", "c"]);
    assert!(!world.transcript.iter().any(|line| line.ends_with("Sync d")));
    assert!(
        world.message().starts_with("step 1 of 1 was rolled back: 1 of step 1 of 1 failed"),
        "{}",
        world.message()
    );
}

/// What was begun, has failed and waits for another attempt is not forgotten.
#[test]
fn a_member_that_waits_for_its_retry_is_rolled_back_too() {
    let mut world = World::new(one_by_one(|step| {
        step.max_update = MaxUpdate::Count(2);
        step.max_failures = Some(2);
        step.deadline = Some(seconds(30));
        step.on_failure = OnFailure::RollBack;
    }));
    world.fate("a").failures = 1;
    // The others take both places.
    world.fate("b").takes = None;
    world.fate("c").takes = None;
    world.wish(5_000, Wish::Retry(of_member("a")));
    world.run_until(20_000);
    assert_eq!(statuses(&world), "a=Waiting b=Progressing c=Progressing ");
    world.run();
    assert_eq!(end(&world), Some(End::RolledBack), "{:?}", world.transcript);
    assert!(world.transcript.iter().any(|line| line.ends_with("RollBack a")), "{:?}", world.transcript);
}

#[test]
fn what_was_never_deployed_cannot_be_rolled_back() {
    let mut request = one_by_one(|step| {
        step.max_failures = Some(0);
        step.on_failure = OnFailure::RollBack;
    });
    request.members[0].before = None;
    let mut world = World::new(request);
    world.fate("b").failures = 1;
    world.run();
    assert_eq!(end(&world), Some(End::Failed));
    assert!(world.message().contains("could not be rolled back: a;"), "{}", world.message());
}

/// It is not well, and will not be brought back: it is named as failed, and not awaited beside those that are.
#[test]
fn what_cannot_be_rolled_back_takes_no_place_of_those_that_can() {
    let mut request = one_by_one(|step| {
        step.max_update = MaxUpdate::Count(2);
        step.deadline = Some(seconds(30));
        step.on_failure = OnFailure::RollBack;
    });
    request.members[0].before = None;
    let mut world = World::new(request);
    world.fate("a").healthy_after = None;
    world.run_until(30_000);
    let told = |world: &World| view(world.state()).unwrap().members.remove(0).message;
    assert!(told(&world).contains("there is nothing to go back to"), "{}", told(&world));
    world.run();
    assert_eq!(end(&world), Some(End::Failed), "{:?}", world.transcript);
    assert!(world.message().contains("could not be rolled back: a;"), "{}", world.message());
}

#[test]
fn a_step_that_is_too_late_has_failed() {
    for (on_failure, expected) in [
        (OnFailure::Pause, None),
        (OnFailure::Abort, Some(End::Failed)),
        (OnFailure::RollBack, Some(End::RolledBack)),
    ] {
        let mut world = World::new(one_by_one(|step| {
            step.deadline = Some(seconds(30));
            step.on_failure = on_failure;
        }));
        world.fate("b").healthy_after = None;
        world.run_until(10_000);
        let explained = world.explain();
        assert!(
            explained.contains("Application b (Progressing: 1 of 2 updated); deadline in 20 s"),
            "{explained}"
        );
        world.run_until(60_000);
        assert_eq!(end(&world), expected, "{on_failure:?}: {}", world.explain());
        assert!(
            world.explain().contains("step 1 of 1 was not done within 30 s: b, c"),
            "{}",
            world.explain()
        );
    }
}

/// An operation that hangs is stopped when its step is given up: otherwise the rollout would hang as well.
#[test]
fn an_operation_that_never_ends_does_not_keep_a_late_rollout() {
    for on_failure in [OnFailure::Abort, OnFailure::RollBack] {
        let mut world = World::new(one_by_one(|step| {
            step.deadline = Some(seconds(30));
            step.on_failure = on_failure;
        }));
        world.fate("a").takes = None;
        world.run_until(31_000);
        world.fate("a").takes = Some(1_000);
        world.run();
        assert!(end(&world).is_some(), "{}", world.explain());
    }
}
