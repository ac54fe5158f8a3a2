//! Gates, people, other targets, and Applications that come and go.

use tidegate_lifecycle::fleet::{MaxUpdate, Scope};
use tidegate_lifecycle::operation::CallError;
use tidegate_lifecycle::rollout::{
    ChildNews, End, Input, OnFailure, OnNewTargets, OnPending, Options, Request, Wish, condition, decide,
};
use tidegate_model::{Digest, OperationPhase};

use super::*;

#[test]
fn gates_keep_a_step_closed() {
    let mut request = fleet();
    request.steps[1].gates = vec!["approval".into(), "freeze".into()];
    let mut world = World::new(request);
    world.gates.insert("freeze".into(), 50_000);
    world.wish(20_000, Wish::Approve { step: Some(2) });
    world.run_until(10_000);
    assert_eq!(
        world.explain(),
        "before step 2 of 3 (env in (qa)), waiting 8 s for gate approval (step 2 waits for a person: `tidegate appset \
         approve argocd/fleet`) and gate freeze; next: step 2 of 3, 1 Application; in no step: test-a"
    );
    world.run();
    assert!(world.transcript.contains(&"50000 Rolling step 2".to_owned()), "{:?}", world.transcript);
    assert_eq!(end(&world), Some(End::Completed));
}

/// What was open before a kill may be closed by now.
#[test]
fn gates_are_asked_anew_after_a_restart() {
    let mut request = fleet();
    request.steps[0].gates = vec!["first".into(), "second".into()];
    let mut world = World::new(request);
    world.gates.insert("second".into(), 30_000);
    world.run_until(10_000);
    world.gates.insert("first".into(), 90_000);
    world.at(10_000, Input::Recovered);
    world.run_until(40_000);
    assert!(
        world.explain().contains("gate first (it is asked again, after a restart)"),
        "{}",
        world.explain()
    );
}

/// A soak is no sleep: what gets worse meanwhile is awaited again, and then the time begins anew.
#[test]
fn a_step_is_watched_before_the_next_one_begins() {
    let mut request = fleet();
    request.steps[1].gates = vec!["soak:1m".into()];
    let mut world = World::new(request);
    world.run_until(20_000);
    assert!(world.explain().contains("soak (step 1 of 3 is watched for 42 s more)"), "{}", world.explain());
    world.worsen("dev-b", 10_000);
    world.run();
    let after = world.transcript.iter().skip_while(|line| !line.starts_with("20000")).take(3);
    let after: Vec<&str> = after.map(String::as_str).collect();
    assert_eq!(after, ["20000 Rolling step 1", "30000 Held before step 2", "90000 Rolling step 2"]);
}

#[test]
fn a_member_that_stays_pending_is_held_failed_or_taken_for_healthy() {
    for (on_pending, expected, status) in [
        (OnPending::Hold, None, "a=Pending "),
        (OnPending::Fail, None, "a=Progressing "),
        (OnPending::Healthy, Some(End::Completed), "a=Healthy "),
    ] {
        let options = Options { pending_timeout: Some(seconds(300)), on_pending, ..Options::default() };
        let mut world = World::new(Request { options, ..request(vec![step("")], vec![member("a", "")]) });
        // The engine never takes it up, and no window is why.
        world.fate("a").busy = u32::MAX;
        world.run_until(299_000);
        assert_eq!(statuses(&world), "a=Pending ");
        world.run_until(400_000);
        assert_eq!((end(&world), statuses(&world).as_str()), (expected, status));
        let explained = world.explain();
        let says = match on_pending {
            OnPending::Hold => "Pending for more than 5 min: a",
            OnPending::Fail => "its sync had not begun after 5 min",
            OnPending::Healthy => "taken for Healthy: a",
        };
        assert!(explained.contains(says), "{explained}");
    }
}

/// A night in which nothing may begin is no fault of anybody.
#[test]
fn the_time_in_a_sync_window_is_not_counted_as_pending() {
    let options =
        Options { pending_timeout: Some(seconds(60)), on_pending: OnPending::Fail, ..Options::default() };
    let mut world = World::new(Request { options, ..request(vec![step("")], vec![member("a", "")]) });
    world.fate("a").window_until = 3_600_000;
    world.run();
    assert_eq!(end(&world), Some(End::Completed));
}

fn new_targets(world: &mut World, millis: i64) {
    world.at(millis, Input::NewTargets { targets: Digest([7; 32]) });
}

#[test]
fn new_targets_end_a_rollout_or_wait_for_it() {
    for (on_new_targets, expected, synced) in
        [(OnNewTargets::Supersede, End::Superseded, 2), (OnNewTargets::Finish, End::Completed, 6)]
    {
        let options = Options { on_new_targets, ..Options::default() };
        let mut world = World::new(Request { options, ..fleet() });
        new_targets(&mut world, 1_500);
        world.run();
        assert_eq!((end(&world), world.operations.len()), (Some(expected), synced));
    }
}

/// A commit that puts right what hangs must not wait for what hangs.
#[test]
fn new_targets_stop_what_hangs() {
    let mut world = World::new(fleet());
    world.fate("dev-a").takes = None;
    new_targets(&mut world, 60_000);
    world.run();
    assert_eq!(end(&world), Some(End::Superseded));
}

/// Who has said "hold" is not overruled by a commit; a step that has failed is.
#[test]
fn new_targets_wait_for_a_person_and_not_for_a_failure() {
    let mut world = World::new(fleet());
    world.wish(500, Wish::Pause);
    new_targets(&mut world, 1_000);
    world.run_until(60_000);
    assert_eq!(end(&world), None);
    assert!(
        world.explain().contains("other targets by now: this rollout ends when it may"),
        "{}",
        world.explain()
    );
    world.wish(60_000, Wish::Resume);
    world.run();
    assert_eq!(end(&world), Some(End::Superseded));

    let mut world = World::new(one_by_one(|step| step.max_failures = Some(0)));
    world.fate("a").failures = 1;
    new_targets(&mut world, 60_000);
    world.run();
    assert_eq!(end(&world), Some(End::Superseded));
}

#[test]
fn targets_that_come_back_are_no_news() {
    let options = Options { on_new_targets: OnNewTargets::Finish, ..Options::default() };
    let mut world = World::new(Request { options, ..fleet() });
    new_targets(&mut world, 500);
    world.at(600, Input::NewTargets { targets: Digest([9; 32]) });
    world.run();
    assert_eq!((end(&world), world.rollout().new_targets), (Some(End::Completed), None));
}

#[test]
fn while_it_is_paused_nothing_begins_and_deadlines_stand_still() {
    let mut world = World::new(one_by_one(|step| {
        step.deadline = Some(seconds(10));
        step.on_failure = OnFailure::Abort;
    }));
    world.wish(500, Wish::Pause);
    world.run_until(100_000);
    // What was at work went on.
    assert_eq!(statuses(&world), "a=Healthy b=Waiting c=Waiting ");
    // It stays in the step that it was held in, though all of that is done.
    let told = condition(world.rollout());
    assert_eq!((told.0, told.1.as_str()), (true, "ApplicationSet is performing rollout of step 1"));
    let explained = world.explain();
    assert!(
        explained.contains("paused for 1 min 39 s by ann (because)") && !explained.contains("deadline"),
        "{explained}"
    );
    world.wish(100_000, Wish::Resume);
    world.run();
    assert_eq!(
        (end(&world), world.transcript.last().unwrap().as_str()),
        (Some(End::Completed), "104000 Finished")
    );
}

#[test]
fn terminating_stops_what_is_at_work() {
    let mut world = World::new(fleet());
    world.fate("dev-a").takes = None;
    world.wish(60_000, Wish::Terminate);
    world.run();
    assert_eq!(
        (end(&world), world.message().as_str()),
        (Some(End::Terminated), "terminated by ann (because)")
    );
    let again = Input::Wish { wish: Wish::Terminate, by: "bob".into(), why: String::new() };
    let error = decide(world.state(), &again, at(61_000)).unwrap_err().to_string();
    assert_eq!(error, "rollout is already over: terminated by ann (because)");
}

/// An aborted step lets its other operations end by themselves; who does not want to wait says so.
#[test]
fn what_an_aborted_rollout_awaits_can_be_stopped() {
    let mut world = World::new(one_by_one(|step| {
        step.max_update = MaxUpdate::All;
        step.max_failures = Some(0);
        step.on_failure = OnFailure::Abort;
    }));
    world.fate("a").failures = 1;
    world.fate("b").takes = None;
    world.run_until(60_000);
    assert!(
        world.explain().starts_with(
            "ending (Failed): 1 of step 1 of 1 failed, 0 may: a, waiting 1 min for Application b"
        ),
        "{}",
        world.explain()
    );
    world.wish(60_000, Wish::Terminate);
    world.run();
    assert_eq!(end(&world), Some(End::Failed));
}

#[test]
fn a_step_can_be_skipped_and_what_is_at_work_in_it_is_stopped() {
    let mut world = World::new(fleet());
    world.fate("dev-a").takes = None;
    world.wish(5_000, Wish::Skip(Scope::Step(1)));
    world.run();
    assert_eq!(end(&world), Some(End::Completed));
    assert!(world.message().contains("skipped: dev-a"), "{}", world.message());
    assert!(world.transcript.contains(&"5000 Rolling step 2".to_owned()), "{:?}", world.transcript);
}

#[test]
fn applications_come_and_go() {
    let mut world = World::new(fleet());
    world.fate("qa-a").takes = None;
    for (millis, name) in [(3_000, "dev-c"), (3_000, "prod-d")] {
        let of = format!("env={}", name.split('-').next().unwrap());
        world.at(millis, Input::Joined { member: Box::new(member(name, &of)) });
    }
    world.at(4_000, Input::Gone { member: "qa-a".into() });
    world.run();
    assert_eq!(end(&world), Some(End::Completed));
    // Its step had passed; the next rollout is about it.
    assert!(world.message().contains("too late: dev-c"), "{}", world.message());
    assert!(world.transcript.iter().any(|line| line.ends_with("Sync prod-d")));
    assert!(!world.transcript.iter().any(|line| line.ends_with("Sync dev-c")));
}

/// An Application that is not valid never gets an operation. It fails, by name, and does not block its step in silence.
#[test]
fn an_operation_that_is_refused_has_failed() {
    let mut world = World::new(one_by_one(|step| step.max_failures = Some(1)));
    world.run_until(0);
    let operation = *world.operations.keys().next().unwrap();
    let error = CallError::permanent("project shop does not exist");
    let news = ChildNews::Failed(error);
    world.at(1, Input::Child { member: "a".into(), operation, news });
    world.operations.get_mut(&operation).unwrap().over = Some(OperationPhase::Error);
    world.run();
    assert_eq!(end(&world), Some(End::Completed));
    assert!(world.message().contains("failed: a"), "{}", world.message());
}

#[test]
fn the_engine_can_give_up() {
    let mut world = World::new(fleet());
    world.at(500, Input::Abort { reason: "three panics within five minutes".into() });
    world.run();
    assert_eq!(
        (end(&world), world.message().as_str()),
        (Some(End::Error), "three panics within five minutes")
    );
}
