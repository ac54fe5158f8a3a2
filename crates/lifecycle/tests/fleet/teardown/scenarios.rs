//! User-visible behavior. Each test is one scenario.

use tidegate_lifecycle::fleet::{Attribution, MaxUpdate, Scope};
use tidegate_lifecycle::teardown::{
    Approval, End, Event, Input, MemberStatus, OnDeadline, Options, Order, Request, Selection, State,
    UserRequest, apply, decide, milestones, view,
};

use super::order::selection_of;
use super::world::{App, World, member_spec, uid_of};
use crate::build::*;

fn steps() -> Vec<Selection> {
    ["env in config", "env in db", "env in web"].map(selection_of).into()
}

/// Returns a request with two Applications for each of the three steps, and a seventh Application that no
/// step selects.
fn request_with_order(word: &str) -> Request {
    let custom = ["env in config", "env in web", "env in db"].map(selection_of);
    let names = ["config-a", "config-b", "db-a", "db-b", "web-a", "web-b", "x"];
    let of = |name: &str| member_spec(name, &format!("env={}", name.split('-').next().unwrap()));
    Request {
        set: "argocd/pricelist".into(),
        uid: "uid-1".into(),
        by: "ann".into(),
        order: match word {
            "AllAtOnce" => Order::AllAtOnce,
            "Reverse" => Order::reverse(steps()),
            _ => Order::Custom { steps: custom.into() },
        },
        members: names.map(of).into(),
        options: Options::default(),
        kept_members: std::collections::BTreeMap::new(),
        approved: None,
    }
}

fn teardown_end(world: &World) -> Option<End> {
    world.teardown().outcome.as_ref().map(|outcome| outcome.end)
}

fn status_message(world: &World) -> String {
    view(world.state()).unwrap().message
}

fn deletion_times(world: &World) -> String {
    let lines = world.transcript.iter().filter(|line| line.contains("delete "));
    lines.map(|line| line.replace("delete ", "")).collect::<Vec<_>>().join(", ")
}

#[test]
fn applications_are_deleted_in_order() {
    for (word, expected) in [
        ("AllAtOnce", "0 config-a, 0 config-b, 0 db-a, 0 db-b, 0 web-a, 0 web-b, 0 x"),
        // Applications are deleted one by one, as in Argo CD.
        ("Reverse", "0 web-a, 1000 web-b, 2000 db-a, 3000 db-b, 4000 config-a, 5000 config-b, 6000 x"),
        // The example from the design proposal: config, frontend, database.
        ("Custom", "0 config-a, 0 config-b, 1000 web-a, 1000 web-b, 2000 db-a, 2000 db-b, 3000 x"),
    ] {
        let mut world = World::new(request_with_order(word));
        world.run();
        assert_eq!(deletion_times(&world), expected, "{word}");
        assert_eq!(
            (teardown_end(&world), status_message(&world)),
            (Some(End::Completed), "7 Applications are gone".into())
        );
        assert!(world.apps.is_empty());
    }
}

#[test]
fn a_step_respects_max_update() {
    let mut steps = vec![selection_of("")];
    steps[0].max_update = MaxUpdate::Percent(50);
    let mut world = World::new(Request { order: Order::Custom { steps }, ..request_with_order("AllAtOnce") });
    world.run();
    assert_eq!(
        deletion_times(&world),
        "0 config-a, 0 config-b, 0 db-a, 1000 db-b, 1000 web-a, 1000 web-b, 2000 x"
    );
}

/// The plan is available before any deletion, and equals the order that is recorded later.
#[test]
fn the_plan_is_available_before_the_first_deletion() {
    let begin = Input::Begin(Box::new(request_with_order("Custom")));
    let events = decide(&State::New, &begin, at(0)).unwrap();
    let state = events.iter().fold(State::New, |state, event| apply(state, event).unwrap());
    let members = view(&state).unwrap().members;
    let plan: Vec<String> =
        members.iter().map(|member| format!("{} {}", member.step, member.application)).collect();
    assert_eq!(plan, ["1 config-a", "1 config-b", "2 web-a", "2 web-b", "3 db-a", "3 db-b", "-1 x"]);
    assert!(members.iter().all(|member| member.status == MemberStatus::Waiting));
}

#[test]
fn an_application_that_stays_blocks_later_steps() {
    let mut world = World::new(request_with_order("Reverse"));
    world.apps.get_mut("web-b").unwrap().finalizer_duration = None;
    world.run_until(600_000);
    assert_eq!(
        world.explain(),
        "deleting step 3 of 3 (env in (web)): 1 of 2 gone, waiting 9 min 59 s for Application web-b (it is \
         being deleted and is waiting for its finalizer); next: step 2 of 3, 2 Applications"
    );
    assert_eq!(deletion_times(&world), "0 web-a, 1000 web-b");
    world.remove("web-b", &uid_of("web-b"));
    world.run();
    assert_eq!(teardown_end(&world), Some(End::Completed));
}

#[test]
fn a_late_step_is_held_or_ends_the_teardown() {
    for (on_late, expected) in [(OnDeadline::Hold, None), (OnDeadline::Abort, Some(End::Failed))] {
        let options = Options { deadline: Some(seconds(120)), on_late };
        let mut world = World::new(Request { options, ..request_with_order("Reverse") });
        world.apps.get_mut("web-b").unwrap().finalizer_duration = None;
        world.run_until(60_000);
        assert!(world.explain().contains("; deadline in 1 min; next"), "{}", world.explain());
        world.run_until(300_000);
        assert_eq!(teardown_end(&world), expected);
        assert!(
            world.explain().contains("step 3 of 3 was not deleted within 2 min: web-b"),
            "{}",
            world.explain()
        );
        if expected.is_some() {
            let message = status_message(&world);
            assert!(
                message.contains("still being deleted: web-b; not deleted: config-a, config-b"),
                "{message}"
            );
        }
    }
}

#[test]
fn people_can_skip_an_application_that_stays() {
    // Steps have the numbers from the strategy. The last step of the strategy is deleted first.
    for scope in [Scope::Member("web-b".into()), Scope::Step(3)] {
        let mut world = World::new(request_with_order("Reverse"));
        world.apps.get_mut("web-b").unwrap().finalizer_duration = None;
        world.request_at(60_000, UserRequest::Skip(scope));
        world.run();
        assert_eq!(teardown_end(&world), Some(End::Completed));
        assert_eq!(status_message(&world), "6 Applications are gone; skipped: web-b");
    }
}

/// A step keeps its number from the strategy in any order of deletion. The step for Applications that no step
/// selects has no number.
#[test]
fn steps_keep_their_numbers_in_the_strategy() {
    let mut world = World::new(request_with_order("Reverse"));
    let stood = |world: &World| {
        let view = view(world.state()).unwrap();
        let steps = view.steps.iter().map(|step| step.step).collect::<Vec<_>>();
        (steps, view.step, view.message, world.explain().split(':').next().unwrap().to_owned())
    };
    let expect = |message: &str, at: &str, step| {
        (vec![Some(3), Some(2), Some(1), None], step, message.to_owned(), at.to_owned())
    };
    world.run_until(2_500);
    assert_eq!(stood(&world), expect("deleting step 2 of 3", "deleting step 2 of 3 (env in (db))", Some(2)));
    world.run_until(6_500);
    let rest = "deleting Applications that no step selects";
    assert_eq!(stood(&world), expect(rest, rest, None));
    let refused = decide(
        world.state(),
        &Input::UserRequest {
            request: UserRequest::Skip(Scope::Step(4)),
            by: "ann".into(),
            reason: String::new(),
        },
        at(6_500),
    );
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.contains("step 4 does not exist (number of steps in the deletion order: 3)"),
        "{refused}"
    );
    let mut all_at_once = World::new(request_with_order("AllAtOnce"));
    all_at_once.run_until(500);
    assert_eq!(view(all_at_once.state()).unwrap().message, "deleting all Applications");
}

/// The record of a witnessed deletion is complete even if the process crashes.
#[test]
fn witnessed_deletions_are_recorded() {
    let run = |crash_before: Option<u32>| {
        let mut world = World::new(Request { order: Order::Collected, ..request_with_order("AllAtOnce") });
        world.crash_before = crash_before;
        world.run_until(100);
        for name in ["config-a", "config-b", "db-a", "db-b", "web-a", "web-b"] {
            world.delete_by_others(name);
        }
        world.run_until(500);
        assert!(world.explain().starts_with("deleting all Applications: 0 of 7 gone"), "{}", world.explain());
        world.release_by_others("x");
        world.run();
        assert!(
            !world.durable.iter().any(|event| matches!(event, Event::DeletionScheduled { .. })),
            "a witnessed deletion must not delete Applications itself"
        );
        world
    };
    let whole = run(None);
    assert_eq!(teardown_end(&whole), Some(End::Completed));
    assert_eq!(status_message(&whole), "6 Applications are gone, 1 Application is released");
    let told: Vec<String> = milestones(whole.state()).iter().map(|one| one.reason.to_string()).collect();
    assert_eq!(told, ["DeletionStarted", "DeletionCompleted"]);
    let become_of = |world: &World| {
        let found = view(world.state()).unwrap();
        let members = found.members.into_iter().map(|one| (one.application, one.status));
        (found.end, found.message, members.collect::<Vec<_>>())
    };
    for crash_before in 1..=whole.event_count {
        let died = run(Some(crash_before));
        assert_eq!(become_of(&died), become_of(&whole), "died before {crash_before}");
    }
}

#[test]
fn orphaned_applications_are_released() {
    let mut world = World::new(Request { order: Order::Orphaned, ..request_with_order("AllAtOnce") });
    world.run_until(100);
    assert_eq!(status_message(&world), "releasing all Applications");
    let names: Vec<String> = world.apps.keys().cloned().collect();
    names.iter().for_each(|name| world.release_by_others(name));
    world.run();
    let found = view(world.state()).unwrap();
    assert_eq!((found.end, found.message.as_str()), (Some(End::Completed), "7 Applications are released"));
    assert!(found.members.iter().all(|one| one.status == MemberStatus::Released && one.step == "1"));
    // An ApplicationSet without Applications also leaves a record.
    let mut none =
        World::new(Request { order: Order::Orphaned, members: Vec::new(), ..request_with_order("") });
    none.run();
    assert_eq!(
        (teardown_end(&none), status_message(&none)),
        (Some(End::Completed), "0 Applications are released".to_owned())
    );
}

#[test]
fn milestones_of_a_teardown_follow_from_its_state() {
    let options = Options { deadline: Some(seconds(120)), on_late: OnDeadline::Hold };
    let mut world = World::new(Request { options, ..request_with_order("Reverse") });
    world.apps.get_mut("web-b").unwrap().finalizer_duration = None;
    let mut told = Vec::new();
    let mut tell = |world: &World| {
        for one in milestones(world.state()) {
            if !told.iter().any(|(key, _)| *key == one.key) {
                told.push((one.key, format!("{} {}", one.reason, one.message)));
            }
        }
    };
    world.run_until(60_000);
    tell(&world);
    world.run_until(300_000);
    tell(&world);
    world.remove("web-b", &uid_of("web-b"));
    world.run();
    tell(&world);
    let told: Vec<&str> = told.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(
        told,
        [
            "DeletionStarted 7 Applications are deleted",
            "DeletionStepStarted step 3 of 3: 2 Applications",
            "DeadlinePassed step 3 of 3 was not deleted within 2 min: web-b",
            "DeletionStepStarted Applications that no step selects: 1 Application",
            "DeletionCompleted 7 Applications are gone",
        ]
    );
}

#[test]
fn approvers_of_held_deletions_are_recorded_from_the_start() {
    let said = |by: &str, seconds: i64| Attribution { by: by.into(), why: "CHG-7".into(), at: at(seconds) };
    let approval = |token: &str, by: &str| Approval { token: token.into(), said: said(by, 1) };
    let approved = Some(approval("a1", "cia"));
    let mut world = World::new(Request { approved, ..request_with_order("Reverse") });
    // Approval `a1` is already known from the request, and `b2` is repeated. Each approval must be recorded
    // only once.
    for token in ["a1", "b2", "b2"] {
        world.schedule_input(500, Input::Approved(approval(token, "dan")));
    }
    world.schedule_input(500, Input::Joined { member: Box::new(member_spec("db-late", "env=db")) });
    world.run();
    assert_eq!(teardown_end(&world), Some(End::Completed));
    let approvals = view(world.state()).unwrap().approvals;
    let told: Vec<_> = approvals.iter().map(|one| (&*one.token, &*one.by, one.reason.as_deref())).collect();
    assert_eq!(told, [("a1", "cia", Some("CHG-7")), ("b2", "dan", Some("CHG-7"))]);
    let begin = Input::Begin(Box::new(Request {
        approved: Some(approval("a1", "cia")),
        ..request_with_order("Reverse")
    }));
    let events = decide(&State::New, &begin, at(0)).unwrap();
    let [Event::Created { .. }, Event::Approved(first)] = &events[..] else { panic!("{events:?}") };
    assert_eq!(
        first.said,
        said("cia", 1),
        "the event must be recorded together with the start, so that a crash can't separate them"
    );
}

/// An Application that a user kept in an earlier deletion stays kept, and the user's name is recorded.
#[test]
fn applications_kept_earlier_stay_kept_from_the_start() {
    let said = Attribution { by: "cia".into(), why: "it is used".into(), at: at(1) };
    let kept = [("db-a", &said), ("another", &said)].map(|(name, said)| (name.to_owned(), said.clone()));
    let mut world = World::new(Request { kept_members: kept.into(), ..request_with_order("Reverse") });
    world.run();
    assert_eq!(teardown_end(&world), Some(End::Completed));
    let view = view(world.state()).unwrap();
    let left: Vec<_> = view
        .members
        .iter()
        .filter(|one| one.status != MemberStatus::Deleted)
        .map(|one| &*one.application)
        .collect();
    assert_eq!(left, ["db-a"]);
    let begin = Input::Begin(Box::new(Request {
        kept_members: [("db-a".to_owned(), said.clone())].into(),
        ..request_with_order("Reverse")
    }));
    let events = decide(&State::New, &begin, at(2)).unwrap();
    let left = Event::Skipped { member: "db-a".into(), said };
    assert_eq!(
        events[1..],
        [left],
        "the event must be recorded together with the start, so that a crash can't separate them"
    );
}

#[test]
fn a_rejected_skip_lists_the_possible_members() {
    let mut world = World::new(request_with_order("Reverse"));
    world.request_at(0, UserRequest::Skip(Scope::Member("db-a".into())));
    world.run_until(1_500);
    let refused = |scope| {
        let input =
            Input::UserRequest { request: UserRequest::Skip(scope), by: "bob".into(), reason: String::new() };
        decide(world.state(), &input, at(2)).unwrap_err().to_string()
    };
    let all = "step 3: web-a, web-b; step 2: db-a, db-b; step 1: config-a, config-b; not in any step: x";
    let unknown = refused(Scope::Step(4));
    assert_eq!(unknown, format!("step 4 does not exist (number of steps in the deletion order: 3); {all}"));
    let unknown = refused(Scope::Member("y".into()));
    assert!(unknown.contains("Application y of ") && unknown.ends_with(&format!("; {all}")), "{unknown}");
    let rest = "these Applications can be skipped now: step 3: web-b; step 2: db-b; step 1: config-a, config-b; not in any step: x";
    let twice = refused(Scope::Member("db-a".into()));
    assert!(twice.starts_with("Application db-a was already skipped by ann (because) at 1970"), "{twice}");
    assert!(twice.ends_with(rest), "{twice}");
    assert_eq!(refused(Scope::Member("web-a".into())), format!("Application web-a is already gone; {rest}"));
}

/// An Application that is skipped before its turn isn't deleted.
#[test]
fn a_skipped_application_is_not_deleted() {
    let mut world = World::new(request_with_order("Reverse"));
    world.request_at(0, UserRequest::Skip(Scope::Member("db-a".into())));
    world.run();
    assert!(world.apps.contains_key("db-a") && !deletion_times(&world).contains("db-a"));
}

#[test]
fn a_manual_step_waits_until_people_delete_its_applications() {
    let mut steps = steps();
    steps[0].max_update = MaxUpdate::Count(0);
    let mut world = World::new(Request { order: Order::Custom { steps }, ..request_with_order("AllAtOnce") });
    world.run_until(10_000);
    assert!(
        world.explain().contains("maxUpdate is 0: delete it manually, or skip it"),
        "{}",
        world.explain()
    );
    world.remove("config-a", &uid_of("config-a"));
    world.remove("config-b", &uid_of("config-b"));
    world.run();
    assert_eq!(teardown_end(&world), Some(End::Completed));
    assert!(deletion_times(&world).starts_with("10000 db-a"), "{}", deletion_times(&world));
}

/// Another Application with the same name isn't part of this teardown.
#[test]
fn a_recreated_application_is_not_deleted() {
    let mut world = World::new(request_with_order("Reverse"));
    world.run_until(500);
    world.remove("web-a", &uid_of("web-a"));
    world
        .apps
        .insert("web-a".into(), App { uid: "new".into(), is_deleting: false, finalizer_duration: None });
    world.run();
    assert_eq!((teardown_end(&world), world.apps.len()), (Some(End::Completed), 1));
    assert!(!world.apps["web-a"].is_deleting);
}

#[test]
fn applications_that_join_later_are_deleted_too() {
    let mut world = World::new(request_with_order("Custom"));
    world.schedule_input(1_500, Input::Joined { member: Box::new(member_spec("config-late", "env=config")) });
    world.schedule_input(1_500, Input::Joined { member: Box::new(member_spec("db-late", "env=db")) });
    world.run();
    assert_eq!(teardown_end(&world), Some(End::Completed));
    // The step of `config-late` has already passed, so this Application is deleted in the current step.
    assert!(
        deletion_times(&world).contains("1000 web-b, 1500 config-late, 2000 db-a"),
        "{}",
        deletion_times(&world)
    );
    assert!(deletion_times(&world).contains("2000 db-late"), "{}", deletion_times(&world));
}

#[test]
fn a_pause_deletes_nothing_and_stops_deadlines() {
    let options = Options { deadline: Some(seconds(10)), on_late: OnDeadline::Abort };
    let mut world = World::new(Request { options, ..request_with_order("Reverse") });
    world.request_at(500, UserRequest::Pause);
    world.run_until(100_000);
    assert_eq!(deletion_times(&world), "0 web-a");
    assert!(world.explain().contains("paused for 1 min 39 s by ann (because)"), "{}", world.explain());
    world.request_at(100_000, UserRequest::Resume);
    world.run();
    assert_eq!(teardown_end(&world), Some(End::Completed));
}

#[test]
fn terminating_stops_deletions_and_lists_the_remaining_applications() {
    let mut world = World::new(request_with_order("Reverse"));
    world.request_at(1_500, UserRequest::Terminate);
    world.run();
    assert_eq!(teardown_end(&world), Some(End::Terminated));
    assert_eq!(
        status_message(&world),
        "terminated by ann (because); still being deleted: web-b; not deleted: config-a, config-b, db-a, db-b, x"
    );
}

#[test]
fn a_crash_at_any_point_does_not_change_the_deletions() {
    let mut calm = World::new(request_with_order("Custom"));
    calm.run();
    let (events, expected) = (calm.event_count, deletion_times(&calm));
    assert!(events > 40, "{events}");
    for event in 2..=events {
        let mut world = World::new(request_with_order("Custom"));
        world.crash_before = Some(event);
        world.run();
        assert_eq!(deletion_times(&world), expected, "died before event {event}");
        assert_eq!(teardown_end(&world), Some(End::Completed), "died before event {event}");
    }
}
