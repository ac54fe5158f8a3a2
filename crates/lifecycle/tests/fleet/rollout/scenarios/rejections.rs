//! Rejected requests. Each message lists possible alternatives.

use tidegate_lifecycle::rollout::{Input, OnFailure, decide, progressing_condition};

use super::*;

fn rejection_of(world: &World, request: UserRequest) -> String {
    let input = Input::UserRequest { request, by: "bob".into(), reason: String::new() };
    decide(world.state(), &input, at(60)).unwrap_err().to_string()
}

/// Returns a rollout whose first step has passed. `qa-a` failed in the second step, and the third step hasn't
/// begun.
fn stuck_world() -> World {
    let mut world = World::new(fleet_request());
    world.behavior("qa-a").failures = 1;
    world.run_until(60_000);
    world
}

#[test]
fn requests_about_unknown_steps_or_applications_list_the_existing_ones() {
    let world = stuck_world();
    for request in [
        UserRequest::Skip(Scope::Step(7)),
        UserRequest::Retry(Scope::Step(7)),
        UserRequest::Retry(Scope::Step(0)),
    ] {
        let told = rejection_of(&world, request);
        let steps = "the rollout has 3 steps: 1 (env in (dev)), 2 (env in (qa)), 3 (env in (prod))";
        assert!(told.contains(" does not exist; ") && told.ends_with(steps), "{told}");
    }
    for request in [UserRequest::Skip(member_scope("qa-x")), UserRequest::Retry(member_scope("qa-x"))] {
        assert_eq!(
            rejection_of(&world, request),
            "ApplicationSet argocd/fleet has no Application qa-x; its Applications by step: step 1: dev-a, dev-b; step 2: qa-a; step 3: prod-a, \
             prod-b, prod-c"
        );
    }
}

#[test]
fn a_rejected_retry_or_skip_lists_the_possible_members() {
    let mut world = stuck_world();
    let healthy = rejection_of(&world, UserRequest::Retry(member_scope("dev-a")));
    assert!(healthy.contains("Application dev-a is Healthy and cannot be retried now"), "{healthy}");
    assert!(healthy.ends_with("; these Applications can be retried now: step 2: qa-a"), "{healthy}");
    let whole = rejection_of(&world, UserRequest::Retry(Scope::Step(1)));
    let expected =
        "no Application in that step can be retried now; these Applications can be retried now: step 2: qa-a";
    assert_eq!(whole, expected);
    let done = rejection_of(&world, UserRequest::Skip(member_scope("dev-b")));
    assert!(
        done.ends_with(
            "; these Applications can be skipped now: step 2: qa-a; step 3: prod-a, prod-b, prod-c"
        ),
        "{done}"
    );
    // The Application is skipped, so its step has passed and the Applications of the last step are running.
    world.request_at(60_000, UserRequest::Skip(member_scope("qa-a")));
    world.run_until(60_100);
    let none = rejection_of(&world, UserRequest::Retry(Scope::Step(1)));
    assert!(none.ends_with("; no other Application can be retried now"), "{none}");
}

#[test]
fn a_second_skip_reports_who_skipped_the_member() {
    let mut world = stuck_world();
    world.request_at(60_000, UserRequest::Skip(member_scope("qa-a")));
    world.run_until(60_500);
    let again = rejection_of(&world, UserRequest::Skip(member_scope("qa-a")));
    let said = "Application qa-a was already skipped by ann (because) at 1970-01-01T00:01:00.000Z";
    assert!(again.starts_with(said) && !again.contains("Healthy"), "{again}");
    let retry = rejection_of(&world, UserRequest::Retry(member_scope("qa-a")));
    assert!(retry.starts_with("Application qa-a was skipped by ann (because) at "), "{retry}");
    assert!(retry.contains("its step has ended"), "{retry}");
}

/// While a retry waits for free capacity in its step or for the end of a pause, the explanation shows the
/// request.
#[test]
fn a_pending_retry_is_visible_before_it_begins() {
    let mut world = World::new(one_by_one_request(|step| step.max_failures = Some(0)));
    world.behavior("a").failures = 1;
    world.run_until(20_000);
    world.request_at(20_000, UserRequest::Retry(member_scope("a")));
    world.run_until(21_000);
    let told = view(world.state()).unwrap().members[0].message.clone();
    assert_eq!(told, "Application needs another sync, setting status to Waiting");
    let explained = world.explain();
    let waits = "Application a (it will be retried when the rollout is resumed)";
    assert!(explained.contains(waits) && explained.contains("paused"), "{explained}");
    world.request_at(30_000, UserRequest::Resume);
    world.run();
    assert_eq!(rollout_end(&world), Some(End::Completed));
}

#[test]
fn the_summary_shows_a_rollback() {
    let mut world = World::new(one_by_one_request(|step| {
        step.max_failures = Some(0);
        step.on_failure = OnFailure::RollBack;
    }));
    world.behavior("b").failures = 1;
    let mut told = Vec::new();
    for millis in (0..20_000).step_by(100) {
        world.run_until(millis);
        told.push(progressing_condition(world.rollout()));
    }
    told.dedup();
    let text: Vec<&str> = told.iter().map(|condition| condition.message.as_str()).collect();
    let back = "ApplicationSet is rolling back step 1: 1 Application failed in step 1 of 1 (maximum: 0): b";
    assert_eq!(text[..2], ["ApplicationSet is performing rollout of step 1", back]);
    assert_eq!((told[1].is_progressing, told[1].reason), (true, "ApplicationSetRollingBack"));
    assert!(
        !told.last().unwrap().is_progressing && text.last().unwrap().contains("was rolled back"),
        "{text:?}"
    );
}
