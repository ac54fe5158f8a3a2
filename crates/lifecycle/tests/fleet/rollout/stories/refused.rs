//! What is asked for and cannot be done: the answer says what can.

use tidegate_lifecycle::rollout::{Input, OnFailure, condition, decide};

use super::*;

fn refused(world: &World, wish: Wish) -> String {
    let input = Input::Wish { wish, by: "bob".into(), why: String::new() };
    decide(world.state(), &input, at(60)).unwrap_err().to_string()
}

/// The first step has passed, in the second `qa-a` has failed, and nothing of the third was begun.
fn stuck() -> World {
    let mut world = World::new(fleet());
    world.fate("qa-a").failures = 1;
    world.run_until(60_000);
    world
}

#[test]
fn a_step_or_an_application_that_is_not_there_is_answered_with_those_that_are() {
    let world = stuck();
    for wish in [Wish::Skip(Scope::Step(7)), Wish::Retry(Scope::Step(7)), Wish::Retry(Scope::Step(0))] {
        let told = refused(&world, wish);
        let steps = "the rollout has 3: 1 (env in (dev)), 2 (env in (qa)), 3 (env in (prod))";
        assert!(told.starts_with("there is no step ") && told.ends_with(steps), "{told}");
    }
    for wish in [Wish::Skip(of_member("qa-x")), Wish::Retry(of_member("qa-x"))] {
        assert_eq!(
            refused(&world, wish),
            "ApplicationSet argocd/fleet has no Application qa-x; in its steps are step 1: dev-a, dev-b; step 2: qa-a; \
             step 3: prod-a, prod-b, prod-c"
        );
    }
}

#[test]
fn where_nothing_of_what_was_named_can_be_retried_or_skipped_it_is_said_what_can() {
    let mut world = stuck();
    let healthy = refused(&world, Wish::Retry(of_member("dev-a")));
    assert!(healthy.contains("Application dev-a is Healthy and cannot be retried now"), "{healthy}");
    assert!(healthy.ends_with("; what can be retried now: step 2: qa-a"), "{healthy}");
    let whole = refused(&world, Wish::Retry(Scope::Step(1)));
    let expected = "no Application of that step can be retried now; what can be retried now: step 2: qa-a";
    assert_eq!(whole, expected);
    let done = refused(&world, Wish::Skip(of_member("dev-b")));
    assert!(
        done.ends_with("; what can be skipped now: step 2: qa-a; step 3: prod-a, prod-b, prod-c"),
        "{done}"
    );
    // It is skipped, its step has passed, and those of the last one are at work.
    world.wish(60_000, Wish::Skip(of_member("qa-a")));
    world.run_until(60_100);
    let none = refused(&world, Wish::Retry(Scope::Step(1)));
    assert!(none.ends_with("; and no other can be retried now either"), "{none}");
}

#[test]
fn who_is_skipped_twice_is_said_to_be_skipped_and_by_whom() {
    let mut world = stuck();
    world.wish(60_000, Wish::Skip(of_member("qa-a")));
    world.run_until(60_500);
    let again = refused(&world, Wish::Skip(of_member("qa-a")));
    let said = "Application qa-a is skipped already, by ann (because) at 1970-01-01T00:01:00.000Z";
    assert!(again.starts_with(said) && !again.contains("Healthy"), "{again}");
    let retry = refused(&world, Wish::Retry(of_member("qa-a")));
    assert!(retry.starts_with("Application qa-a was skipped by ann (because) at "), "{retry}");
    assert!(retry.contains("its step is over"), "{retry}");
}

/// It waits for a place, or for whoever holds the rollout; that it was asked for is seen.
#[test]
fn a_retry_that_is_to_come_is_seen_before_it_begins() {
    let mut world = World::new(one_by_one(|step| step.max_failures = Some(0)));
    world.fate("a").failures = 1;
    world.run_until(20_000);
    world.wish(20_000, Wish::Retry(of_member("a")));
    world.run_until(21_000);
    let told = view(world.state()).unwrap().members[0].message.clone();
    assert_eq!(told, "Application is to be synced once more, setting status to Waiting");
    let explained = world.explain();
    let waits = "Application a (it is to be tried again, once the rollout goes on)";
    assert!(explained.contains(waits) && explained.contains("paused"), "{explained}");
    world.wish(30_000, Wish::Resume);
    world.run();
    assert_eq!(end(&world), Some(End::Completed));
}

#[test]
fn a_list_says_of_a_rollout_that_it_is_rolled_back() {
    let mut world = World::new(one_by_one(|step| {
        step.max_failures = Some(0);
        step.on_failure = OnFailure::RollBack;
    }));
    world.fate("b").failures = 1;
    let mut told = Vec::new();
    for millis in (0..20_000).step_by(100) {
        world.run_until(millis);
        told.push(condition(world.rollout()));
    }
    told.dedup();
    let words: Vec<&str> = told.iter().map(|(_, message, _)| message.as_str()).collect();
    let back = "ApplicationSet is rolling back step 1: 1 of step 1 of 1 failed, 0 may: b";
    assert_eq!(words[..2], ["ApplicationSet is performing rollout of step 1", back]);
    assert_eq!((told[1].0, told[1].2), (true, "ApplicationSetRollingBack"));
    assert!(!told.last().unwrap().0 && words.last().unwrap().contains("was rolled back"), "{words:?}");
}
