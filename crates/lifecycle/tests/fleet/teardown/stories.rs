//! What users see happen, one story each.

use tidegate_lifecycle::fleet::{MaxUpdate, Said, Scope};
use tidegate_lifecycle::teardown::{
    Approval, End, Fact, Input, MemberStatus, OnLate, Options, Order, Request, Selection, State, Wish,
    decide, evolve, milestones, view,
};

use super::order::selection;
use super::world::{App, World, spec, uid};
use crate::build::*;

fn steps() -> Vec<Selection> {
    ["env in config", "env in db", "env in web"].map(selection).into()
}

/// Two of each of the three steps, and one that none selects.
fn request(word: &str) -> Request {
    let custom = ["env in config", "env in web", "env in db"].map(selection);
    let names = ["config-a", "config-b", "db-a", "db-b", "web-a", "web-b", "x"];
    let of = |name: &str| spec(name, &format!("env={}", name.split('-').next().unwrap()));
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
        kept: std::collections::BTreeMap::new(),
        approved: None,
    }
}

fn end(world: &World) -> Option<End> {
    world.teardown().outcome.as_ref().map(|outcome| outcome.end)
}

fn message(world: &World) -> String {
    view(world.state()).unwrap().message
}

/// What was deleted when.
fn deletions(world: &World) -> String {
    let lines = world.transcript.iter().filter(|line| line.contains("delete "));
    lines.map(|line| line.replace("delete ", "")).collect::<Vec<_>>().join(", ")
}

#[test]
fn applications_are_deleted_in_their_order() {
    for (word, expected) in [
        ("AllAtOnce", "0 config-a, 0 config-b, 0 db-a, 0 db-b, 0 web-a, 0 web-b, 0 x"),
        // One by one, as in Argo CD.
        ("Reverse", "0 web-a, 1000 web-b, 2000 db-a, 3000 db-b, 4000 config-a, 5000 config-b, 6000 x"),
        // The example of the proposal: config, frontend, database.
        ("Custom", "0 config-a, 0 config-b, 1000 web-a, 1000 web-b, 2000 db-a, 2000 db-b, 3000 x"),
    ] {
        let mut world = World::new(request(word));
        world.run();
        assert_eq!(deletions(&world), expected, "{word}");
        assert_eq!((end(&world), message(&world)), (Some(End::Completed), "7 Applications are gone".into()));
        assert!(world.apps.is_empty());
    }
}

#[test]
fn a_step_deletes_so_many_at_once() {
    let mut steps = vec![selection("")];
    steps[0].max_update = MaxUpdate::Percent(50);
    let mut world = World::new(Request { order: Order::Custom { steps }, ..request("AllAtOnce") });
    world.run();
    assert_eq!(
        deletions(&world),
        "0 config-a, 0 config-b, 0 db-a, 1000 db-b, 1000 web-a, 1000 web-b, 2000 x"
    );
}

/// The plan is what would be recorded: nothing is touched to see it.
#[test]
fn the_plan_is_there_before_anything_is_deleted() {
    let begin = Input::Begin(Box::new(request("Custom")));
    let facts = decide(&State::New, &begin, at(0)).unwrap();
    let state = facts.iter().fold(State::New, |state, fact| evolve(state, fact).unwrap());
    let members = view(&state).unwrap().members;
    let plan: Vec<String> =
        members.iter().map(|member| format!("{} {}", member.step, member.application)).collect();
    assert_eq!(plan, ["1 config-a", "1 config-b", "2 web-a", "2 web-b", "3 db-a", "3 db-b", "-1 x"]);
    assert!(members.iter().all(|member| member.status == MemberStatus::Waiting));
}

#[test]
fn an_application_that_stays_keeps_those_after_it() {
    let mut world = World::new(request("Reverse"));
    world.apps.get_mut("web-b").unwrap().lingers = None;
    world.run_until(600_000);
    assert_eq!(
        world.explain(),
        "deleting step 3 of 3 (env in (web)): 1 of 2 gone, waiting 9 min 59 s for Application web-b (it is being \
         deleted and waits for its finalizer); next: step 2 of 3, 2 Applications"
    );
    assert_eq!(deletions(&world), "0 web-a, 1000 web-b");
    world.vanish("web-b", &uid("web-b"));
    world.run();
    assert_eq!(end(&world), Some(End::Completed));
}

#[test]
fn a_step_that_takes_too_long_is_held_or_ends_it() {
    for (on_late, expected) in [(OnLate::Hold, None), (OnLate::Abort, Some(End::Failed))] {
        let options = Options { deadline: Some(seconds(120)), on_late };
        let mut world = World::new(Request { options, ..request("Reverse") });
        world.apps.get_mut("web-b").unwrap().lingers = None;
        world.run_until(60_000);
        assert!(world.explain().contains("; deadline in 1 min; next"), "{}", world.explain());
        world.run_until(300_000);
        assert_eq!(end(&world), expected);
        assert!(
            world.explain().contains("step 3 of 3 was not gone within 2 min: web-b"),
            "{}",
            world.explain()
        );
        if expected.is_some() {
            let message = message(&world);
            assert!(
                message.contains("still being deleted: web-b; not deleted: config-a, config-b"),
                "{message}"
            );
        }
    }
}

#[test]
fn people_go_on_without_what_stays() {
    // Steps are counted as the strategy has them: the last of it goes first.
    for scope in [Scope::Member("web-b".into()), Scope::Step(3)] {
        let mut world = World::new(request("Reverse"));
        world.apps.get_mut("web-b").unwrap().lingers = None;
        world.wish(60_000, Wish::Skip(scope));
        world.run();
        assert_eq!(end(&world), Some(End::Completed));
        assert_eq!(message(&world), "6 Applications are gone; left to people: web-b");
    }
}

/// One way of counting, whatever goes first: a step has the number that the strategy gives it, and what no step selects has
/// none.
#[test]
fn steps_are_counted_as_the_strategy_has_them() {
    let mut world = World::new(request("Reverse"));
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
    let rest = "deleting those that no step selects";
    assert_eq!(stood(&world), expect(rest, rest, None));
    let refused = decide(
        world.state(),
        &Input::Wish { wish: Wish::Skip(Scope::Step(4)), by: "ann".into(), why: String::new() },
        at(6_500),
    );
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("there is no step 4: the order has 3"), "{refused}");
    let mut all_at_once = World::new(request("AllAtOnce"));
    all_at_once.run_until(500);
    assert_eq!(view(all_at_once.state()).unwrap().message, "deleting all Applications");
}

/// Whenever the process dies, the record of what others do is whole.
#[test]
fn what_others_do_all_at_once_is_recorded() {
    let run = |crash_before: Option<u32>| {
        let mut world = World::new(Request { order: Order::Collected, ..request("AllAtOnce") });
        world.crash_before = crash_before;
        world.run_until(100);
        for name in ["config-a", "config-b", "db-a", "db-b", "web-a", "web-b"] {
            world.deleted_by_others(name);
        }
        world.run_until(500);
        assert!(world.explain().starts_with("deleting all Applications: 0 of 7 gone"), "{}", world.explain());
        world.released_by_others("x");
        world.run();
        assert!(
            !world.durable.iter().any(|fact| matches!(fact, Fact::Condemned { .. })),
            "others delete them"
        );
        world
    };
    let whole = run(None);
    assert_eq!(end(&whole), Some(End::Completed));
    assert_eq!(message(&whole), "6 Applications are gone, 1 Application is let go");
    let told: Vec<String> = milestones(whole.state()).iter().map(|one| one.reason.to_string()).collect();
    assert_eq!(told, ["DeletionStarted", "DeletionCompleted"]);
    let become_of = |world: &World| {
        let found = view(world.state()).unwrap();
        let members = found.members.into_iter().map(|one| (one.application, one.status));
        (found.end, found.message, members.collect::<Vec<_>>())
    };
    for crash_before in 1..=whole.happened {
        let died = run(Some(crash_before));
        assert_eq!(become_of(&died), become_of(&whole), "died before {crash_before}");
    }
}

#[test]
fn those_that_outlive_their_set_are_let_go() {
    let mut world = World::new(Request { order: Order::Orphaned, ..request("AllAtOnce") });
    world.run_until(100);
    assert_eq!(message(&world), "letting all Applications go");
    let names: Vec<String> = world.apps.keys().cloned().collect();
    names.iter().for_each(|name| world.released_by_others(name));
    world.run();
    let found = view(world.state()).unwrap();
    assert_eq!((found.end, found.message.as_str()), (Some(End::Completed), "7 Applications are let go"));
    assert!(found.members.iter().all(|one| one.status == MemberStatus::Released && one.step == "1"));
    // A set without Applications leaves a record, too.
    let mut none = World::new(Request { order: Order::Orphaned, members: Vec::new(), ..request("") });
    none.run();
    assert_eq!((end(&none), message(&none)), (Some(End::Completed), "0 Applications are let go".to_owned()));
}

#[test]
fn what_is_told_of_a_deletion_is_found_in_its_state() {
    let options = Options { deadline: Some(seconds(120)), on_late: OnLate::Hold };
    let mut world = World::new(Request { options, ..request("Reverse") });
    world.apps.get_mut("web-b").unwrap().lingers = None;
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
    world.vanish("web-b", &uid("web-b"));
    world.run();
    tell(&world);
    let told: Vec<&str> = told.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(
        told,
        [
            "DeletionStarted 7 Applications are deleted",
            "DeletionStepStarted step 3 of 3: 2 Applications",
            "DeadlinePassed step 3 of 3 was not gone within 2 min: web-b",
            "DeletionStepStarted those that no step selects: 1 Application",
            "DeletionCompleted 7 Applications are gone",
        ]
    );
}

#[test]
fn who_approves_deletions_that_were_held_is_in_the_record_from_the_first_on() {
    let said = |by: &str, seconds: i64| Said { by: by.into(), why: "CHG-7".into(), at: at(seconds) };
    let approval = |token: &str, by: &str| Approval { token: token.into(), said: said(by, 1) };
    let approved = Some(approval("a1", "cia"));
    let mut world = World::new(Request { approved, ..request("Reverse") });
    // More drop out; the first of these approvals is known, and the other is given once.
    for token in ["a1", "b2", "b2"] {
        world.at(500, Input::Approved(approval(token, "dan")));
    }
    world.at(500, Input::Joined { member: Box::new(spec("db-late", "env=db")) });
    world.run();
    assert_eq!(end(&world), Some(End::Completed));
    let approvals = view(world.state()).unwrap().approvals;
    let told: Vec<_> = approvals.iter().map(|one| (&*one.token, &*one.by, one.reason.as_deref())).collect();
    assert_eq!(told, [("a1", "cia", Some("CHG-7")), ("b2", "dan", Some("CHG-7"))]);
    let begin =
        Input::Begin(Box::new(Request { approved: Some(approval("a1", "cia")), ..request("Reverse") }));
    let facts = decide(&State::New, &begin, at(0)).unwrap();
    let [Fact::Begun { .. }, Fact::Approved(first)] = &facts[..] else { panic!("{facts:?}") };
    assert_eq!(first.said, said("cia", 1), "with the beginning, so that no kill comes in between");
}

/// What a person has kept from an earlier deletion stays, and the record says who has.
#[test]
fn what_was_kept_before_is_kept_from_the_first_on() {
    let said = Said { by: "cia".into(), why: "it is used".into(), at: at(1) };
    let kept = [("db-a", &said), ("another", &said)].map(|(name, said)| (name.to_owned(), said.clone()));
    let mut world = World::new(Request { kept: kept.into(), ..request("Reverse") });
    world.run();
    assert_eq!(end(&world), Some(End::Completed));
    let view = view(world.state()).unwrap();
    let left: Vec<_> = view
        .members
        .iter()
        .filter(|one| one.status != MemberStatus::Gone)
        .map(|one| &*one.application)
        .collect();
    assert_eq!(left, ["db-a"]);
    let begin = Input::Begin(Box::new(Request {
        kept: [("db-a".to_owned(), said.clone())].into(),
        ..request("Reverse")
    }));
    let facts = decide(&State::New, &begin, at(2)).unwrap();
    let left = Fact::Left { member: "db-a".into(), said };
    assert_eq!(facts[1..], [left], "with the beginning, so that no kill comes in between");
}

#[test]
fn what_cannot_be_skipped_is_answered_with_what_can() {
    let mut world = World::new(request("Reverse"));
    world.wish(0, Wish::Skip(Scope::Member("db-a".into())));
    world.run_until(1_500);
    let refused = |scope| {
        let input = Input::Wish { wish: Wish::Skip(scope), by: "bob".into(), why: String::new() };
        decide(world.state(), &input, at(2)).unwrap_err().to_string()
    };
    let all = "step 3: web-a, web-b; step 2: db-a, db-b; step 1: config-a, config-b; in no step: x";
    let unknown = refused(Scope::Step(4));
    assert_eq!(unknown, format!("there is no step 4: the order has 3; {all}"));
    let unknown = refused(Scope::Member("y".into()));
    assert!(unknown.contains("Application y of ") && unknown.ends_with(&format!("; {all}")), "{unknown}");
    let rest =
        "what can be skipped now: step 3: web-b; step 2: db-b; step 1: config-a, config-b; in no step: x";
    let twice = refused(Scope::Member("db-a".into()));
    assert!(twice.starts_with("Application db-a is skipped already, by ann (because) at 1970"), "{twice}");
    assert!(twice.ends_with(rest), "{twice}");
    assert_eq!(refused(Scope::Member("web-a".into())), format!("Application web-a is gone already; {rest}"));
}

/// What is skipped before its turn is kept.
#[test]
fn an_application_that_is_skipped_is_not_deleted() {
    let mut world = World::new(request("Reverse"));
    world.wish(0, Wish::Skip(Scope::Member("db-a".into())));
    world.run();
    assert!(world.apps.contains_key("db-a") && !deletions(&world).contains("db-a"));
}

#[test]
fn a_manual_step_waits_until_people_have_deleted_its_applications() {
    let mut steps = steps();
    steps[0].max_update = MaxUpdate::Count(0);
    let mut world = World::new(Request { order: Order::Custom { steps }, ..request("AllAtOnce") });
    world.run_until(10_000);
    assert!(world.explain().contains("maxUpdate is 0: delete it by hand, or skip it"), "{}", world.explain());
    world.vanish("config-a", &uid("config-a"));
    world.vanish("config-b", &uid("config-b"));
    world.run();
    assert_eq!(end(&world), Some(End::Completed));
    assert!(deletions(&world).starts_with("10000 db-a"), "{}", deletions(&world));
}

/// Another Application of the same name is none of ours.
#[test]
fn an_application_that_was_created_again_is_not_deleted() {
    let mut world = World::new(request("Reverse"));
    world.run_until(500);
    world.vanish("web-a", &uid("web-a"));
    world.apps.insert("web-a".into(), App { uid: "new".into(), deleting: false, lingers: None });
    world.run();
    assert_eq!((end(&world), world.apps.len()), (Some(End::Completed), 1));
    assert!(!world.apps["web-a"].deleting);
}

#[test]
fn what_comes_later_is_deleted_too() {
    let mut world = World::new(request("Custom"));
    world.at(1_500, Input::Joined { member: Box::new(spec("config-late", "env=config")) });
    world.at(1_500, Input::Joined { member: Box::new(spec("db-late", "env=db")) });
    world.run();
    assert_eq!(end(&world), Some(End::Completed));
    // Its step has passed: it goes with the one that is at work.
    assert!(deletions(&world).contains("1000 web-b, 1500 config-late, 2000 db-a"), "{}", deletions(&world));
    assert!(deletions(&world).contains("2000 db-late"), "{}", deletions(&world));
}

#[test]
fn while_it_is_paused_nothing_is_deleted_and_deadlines_stand_still() {
    let options = Options { deadline: Some(seconds(10)), on_late: OnLate::Abort };
    let mut world = World::new(Request { options, ..request("Reverse") });
    world.wish(500, Wish::Pause);
    world.run_until(100_000);
    assert_eq!(deletions(&world), "0 web-a");
    assert!(world.explain().contains("paused for 1 min 39 s by ann (because)"), "{}", world.explain());
    world.wish(100_000, Wish::Resume);
    world.run();
    assert_eq!(end(&world), Some(End::Completed));
}

#[test]
fn terminating_deletes_no_more_and_says_what_is_left() {
    let mut world = World::new(request("Reverse"));
    world.wish(1_500, Wish::Terminate);
    world.run();
    assert_eq!(end(&world), Some(End::Terminated));
    assert_eq!(
        message(&world),
        "terminated by ann (because); still being deleted: web-b; not deleted: config-a, config-b, db-a, db-b, x"
    );
}

#[test]
fn a_crash_at_any_point_changes_nothing() {
    let mut calm = World::new(request("Custom"));
    calm.run();
    let (events, expected) = (calm.happened, deletions(&calm));
    assert!(events > 40, "{events}");
    for event in 2..=events {
        let mut world = World::new(request("Custom"));
        world.crash_before = Some(event);
        world.run();
        assert_eq!(deletions(&world), expected, "died before event {event}");
        assert_eq!(end(&world), Some(End::Completed), "died before event {event}");
    }
}
