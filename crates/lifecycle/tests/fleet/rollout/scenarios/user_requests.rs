//! Gates, user requests, new targets, and Applications that join or leave.

use tidegate_lifecycle::fleet::{MaxUpdate, Scope};
use tidegate_lifecycle::operation::CallError;
use tidegate_lifecycle::rollout::{
    End, Input, OnFailure, OnNewTargets, OnPending, OperationReport, Options, Request, UserRequest, decide,
    progressing_condition,
};
use tidegate_model::{Digest, OperationPhase};

use super::*;

#[test]
fn gates_keep_a_step_closed() {
    let mut request = fleet_request();
    request.steps[1].gates = vec!["approval".into(), "freeze".into()];
    let mut world = World::new(request);
    world.gates.insert("freeze".into(), 50_000);
    world.request_at(20_000, UserRequest::Approve { step: Some(2) });
    world.run_until(10_000);
    assert_eq!(
        world.explain(),
        "before step 2 of 3 (env in (qa)), waiting 8 s for gate approval (step 2 needs approval: `tidegate appset approve argocd/fleet`) and gate \
         freeze; next: step 2 of 3, 1 Application; not in any step: test-a"
    );
    world.run();
    assert!(world.transcript.contains(&"50000 Rolling step 2".to_owned()), "{:?}", world.transcript);
    assert_eq!(rollout_end(&world), Some(End::Completed));
}

/// A gate that was open when the process was killed may be closed after the restart.
#[test]
fn gates_are_asked_again_after_a_restart() {
    let mut request = fleet_request();
    request.steps[0].gates = vec!["first".into(), "second".into()];
    let mut world = World::new(request);
    world.gates.insert("second".into(), 30_000);
    world.run_until(10_000);
    world.gates.insert("first".into(), 90_000);
    world.schedule_input(10_000, Input::Recovered);
    world.run_until(40_000);
    assert!(
        world.explain().contains("gate first (waiting for a new result after a restart)"),
        "{}",
        world.explain()
    );
}

/// A soak is more than a delay. If an Application degrades during the soak, the rollout waits for the
/// Application, and then the soak restarts.
#[test]
fn a_step_soaks_before_the_next_one_begins() {
    let mut request = fleet_request();
    request.steps[1].gates = vec!["soak:1m".into()];
    let mut world = World::new(request);
    world.run_until(20_000);
    assert!(world.explain().contains("soak (step 1 of 3 soaks for another 42 s)"), "{}", world.explain());
    world.degrade("dev-b", 10_000);
    world.run();
    let after = world.transcript.iter().skip_while(|line| !line.starts_with("20000")).take(3);
    let after: Vec<&str> = after.map(String::as_str).collect();
    assert_eq!(after, ["20000 Rolling step 1", "30000 Held before step 2", "90000 Rolling step 2"]);
}

#[test]
fn a_member_that_stays_pending_is_held_failed_or_assumed_healthy() {
    for (on_pending, expected, status) in [
        (OnPending::Hold, None, "a=Pending "),
        (OnPending::Fail, None, "a=Progressing "),
        (OnPending::Healthy, Some(End::Completed), "a=Healthy "),
    ] {
        let options = Options { pending_timeout: Some(seconds(300)), on_pending, ..Options::default() };
        let mut world = World::new(Request { options, ..request(vec![step("")], vec![member("a", "")]) });
        // The engine never starts the operation, but a sync window isn't the reason.
        world.behavior("a").rejections = u32::MAX;
        world.run_until(299_000);
        assert_eq!(format_statuses(&world), "a=Pending ");
        world.run_until(400_000);
        assert_eq!((rollout_end(&world), format_statuses(&world).as_str()), (expected, status));
        let explained = world.explain();
        let says = match on_pending {
            OnPending::Hold => "Pending for more than 5 min: a",
            OnPending::Fail => "its sync did not start within 5 min",
            OnPending::Healthy => "assumed Healthy: a",
        };
        assert!(explained.contains(says), "{explained}");
    }
}

/// The time spent in a sync window must not count as Pending.
#[test]
fn time_in_a_sync_window_does_not_count_as_pending() {
    let options =
        Options { pending_timeout: Some(seconds(60)), on_pending: OnPending::Fail, ..Options::default() };
    let mut world = World::new(Request { options, ..request(vec![step("")], vec![member("a", "")]) });
    world.behavior("a").window_until = 3_600_000;
    world.run();
    assert_eq!(rollout_end(&world), Some(End::Completed));
}

fn change_targets(world: &mut World, millis: i64) {
    world.schedule_input(millis, Input::NewTargets { targets: Digest([7; 32]) });
}

#[test]
fn new_targets_end_the_rollout_or_wait_for_it() {
    for (on_new_targets, expected, synced) in
        [(OnNewTargets::Supersede, End::Superseded, 2), (OnNewTargets::Finish, End::Completed, 6)]
    {
        let options = Options { on_new_targets, ..Options::default() };
        let mut world = World::new(Request { options, ..fleet_request() });
        change_targets(&mut world, 1_500);
        world.run();
        assert_eq!((rollout_end(&world), world.operations.len()), (Some(expected), synced));
    }
}

/// A commit that fixes a hanging sync must not wait for this sync.
#[test]
fn new_targets_stop_hanging_operations() {
    let mut world = World::new(fleet_request());
    world.behavior("dev-a").duration = None;
    change_targets(&mut world, 60_000);
    world.run();
    assert_eq!(rollout_end(&world), Some(End::Superseded));
}

/// A commit doesn't override a user's pause, but it ends a rollout that is paused because its step failed.
#[test]
fn new_targets_wait_for_a_manual_pause_but_not_for_a_failure() {
    let mut world = World::new(fleet_request());
    world.request_at(500, UserRequest::Pause);
    change_targets(&mut world, 1_000);
    world.run_until(60_000);
    assert_eq!(rollout_end(&world), None);
    assert!(
        world.explain().contains("new targets: this rollout will end at the next safe point"),
        "{}",
        world.explain()
    );
    world.request_at(60_000, UserRequest::Resume);
    world.run();
    assert_eq!(rollout_end(&world), Some(End::Superseded));

    let mut world = World::new(one_by_one_request(|step| step.max_failures = Some(0)));
    world.behavior("a").failures = 1;
    change_targets(&mut world, 60_000);
    world.run();
    assert_eq!(rollout_end(&world), Some(End::Superseded));
}

#[test]
fn targets_that_return_to_the_current_ones_are_ignored() {
    let options = Options { on_new_targets: OnNewTargets::Finish, ..Options::default() };
    let mut world = World::new(Request { options, ..fleet_request() });
    change_targets(&mut world, 500);
    world.schedule_input(600, Input::NewTargets { targets: Digest([9; 32]) });
    world.run();
    assert_eq!((rollout_end(&world), world.rollout().new_targets), (Some(End::Completed), None));
}

#[test]
fn a_pause_starts_nothing_and_stops_deadlines() {
    let mut world = World::new(one_by_one_request(|step| {
        step.deadline = Some(seconds(10));
        step.on_failure = OnFailure::Abort;
    }));
    world.request_at(500, UserRequest::Pause);
    world.run_until(100_000);
    // Running work has continued.
    assert_eq!(format_statuses(&world), "a=Healthy b=Waiting c=Waiting ");
    // A paused rollout remains in its step, even if all Applications of the step are done.
    let condition = progressing_condition(world.rollout());
    assert!(condition.is_progressing);
    assert_eq!(condition.message, "ApplicationSet is performing rollout of step 1");
    let explained = world.explain();
    assert!(
        explained.contains("paused for 1 min 39 s by ann (because)") && !explained.contains("deadline"),
        "{explained}"
    );
    world.request_at(100_000, UserRequest::Resume);
    world.run();
    assert_eq!(
        (rollout_end(&world), world.transcript.last().unwrap().as_str()),
        (Some(End::Completed), "104000 Finished")
    );
}

#[test]
fn terminating_stops_running_operations() {
    let mut world = World::new(fleet_request());
    world.behavior("dev-a").duration = None;
    world.request_at(60_000, UserRequest::Terminate);
    world.run();
    assert_eq!(
        (rollout_end(&world), world.message().as_str()),
        (Some(End::Terminated), "terminated by ann (because)")
    );
    let again =
        Input::UserRequest { request: UserRequest::Terminate, by: "bob".into(), reason: String::new() };
    let error = decide(world.state(), &again, at(61_000)).unwrap_err().to_string();
    assert_eq!(error, "the rollout has already finished: terminated by ann (because)");
}

/// An aborted rollout waits for the other operations of its step. A user can stop these operations by
/// terminating the rollout.
#[test]
fn operations_awaited_by_an_aborted_rollout_can_be_stopped() {
    let mut world = World::new(one_by_one_request(|step| {
        step.max_update = MaxUpdate::All;
        step.max_failures = Some(0);
        step.on_failure = OnFailure::Abort;
    }));
    world.behavior("a").failures = 1;
    world.behavior("b").duration = None;
    world.run_until(60_000);
    assert!(
        world.explain().starts_with(
            "ending (Failed): 1 Application failed in step 1 of 1 (maximum: 0): a, waiting 1 min for Application b"
        ),
        "{}",
        world.explain()
    );
    world.request_at(60_000, UserRequest::Terminate);
    world.run();
    assert_eq!(rollout_end(&world), Some(End::Failed));
}

#[test]
fn skipping_a_step_stops_its_running_operations() {
    let mut world = World::new(fleet_request());
    world.behavior("dev-a").duration = None;
    world.request_at(5_000, UserRequest::Skip(Scope::Step(1)));
    world.run();
    assert_eq!(rollout_end(&world), Some(End::Completed));
    assert!(world.message().contains("skipped: dev-a"), "{}", world.message());
    assert!(world.transcript.contains(&"5000 Rolling step 2".to_owned()), "{:?}", world.transcript);
}

#[test]
fn applications_join_and_leave_during_a_rollout() {
    let mut world = World::new(fleet_request());
    world.behavior("qa-a").duration = None;
    for (millis, name) in [(3_000, "dev-c"), (3_000, "prod-d")] {
        let of = format!("env={}", name.split('-').next().unwrap());
        world.schedule_input(millis, Input::Joined { member: Box::new(member(name, &of)) });
    }
    world.schedule_input(4_000, Input::Gone { member: "qa-a".into() });
    world.run();
    assert_eq!(rollout_end(&world), Some(End::Completed));
    // The Application's step had already passed, so the next rollout includes it.
    assert!(world.message().contains("added too late: dev-c"), "{}", world.message());
    assert!(world.transcript.iter().any(|line| line.ends_with("Sync prod-d")));
    assert!(!world.transcript.iter().any(|line| line.ends_with("Sync dev-c")));
}

/// An invalid Application never gets an operation. The rollout reports it as failed, so that it doesn't
/// silently block its step.
#[test]
fn a_rejected_operation_counts_as_failed() {
    let mut world = World::new(one_by_one_request(|step| step.max_failures = Some(1)));
    world.run_until(0);
    let operation = *world.operations.keys().next().unwrap();
    let error = CallError::permanent("project shop does not exist");
    let report = OperationReport::Failed(error);
    world.schedule_input(1, Input::OperationReported { member: "a".into(), operation, report });
    world.operations.get_mut(&operation).unwrap().final_phase = Some(OperationPhase::Error);
    world.run();
    assert_eq!(rollout_end(&world), Some(End::Completed));
    assert!(world.message().contains("failed: a"), "{}", world.message());
}

#[test]
fn the_engine_can_abort_a_rollout() {
    let mut world = World::new(fleet_request());
    world.schedule_input(500, Input::Abort { reason: "three panics within five minutes".into() });
    world.run();
    assert_eq!(
        (rollout_end(&world), world.message().as_str()),
        (Some(End::Error), "three panics within five minutes")
    );
}
