//! When a progressive sync is begun, what it is about, and what one that is under way is told (specification, 6, 19.1, 20).

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_applicationset::changes::Generated;
use tidegate_applicationset::policy::Options;
use tidegate_applicationset::rollout::{
    Due, NotAsked, Standing, Targets, due, how, participants, request, settled, status, why_not_again,
};
use tidegate_applicationset::status::{Reason, Rollout as Told};
use tidegate_lifecycle::rollout::{
    Deployed, Input, OnFailure, OnNewTargets, OnPending, Options as Cases, Request, State, Target, Wish,
    decide, evolve, follow,
};
use tidegate_model::OperationId;
use tidegate_model::argo::{Application, ApplicationSet};

use crate::{MARK, all, at, changes, generated, live, set, with};

fn step(value: &str) -> Value {
    json!({"matchExpressions": [{"key": "env", "operator": "In", "values": [value]}]})
}

/// A set that is synced in the steps `dev` and `prod`.
fn rolling() -> ApplicationSet {
    set(&json!({"strategy": {"type": "RollingSync", "rollingSync": {"steps": [step("dev"), step("prod")]}}}))
}

fn annotated(text: &str) -> ApplicationSet {
    let mut set = rolling();
    set.metadata.annotations.insert("tidegate.dev/rollout".to_owned(), text.to_owned());
    set
}

fn one(name: &str, env: &str, patch: &Value) -> Application {
    with(&with(&generated(name), &json!({"metadata": {"labels": {"env": env}}})), patch)
}

fn dev_and_prod() -> Vec<Application> {
    vec![one("a", "dev", &json!({})), one("b", "prod", &json!({})), one("c", "none", &json!({}))]
}

fn operation(number: u128) -> OperationId {
    OperationId(uuid::Uuid::from_u128(number))
}

fn at_revision(revision: &str, done_by: Option<OperationId>) -> Standing {
    Standing { revisions: vec![revision.to_owned()], before: None, done_by }
}

/// What a set asks for whose Applications are all to have this revision.
fn asked(set: &ApplicationSet, applications: &[Application], revision: &str) -> Result<Request, NotAsked> {
    let standing = applications.iter().map(|one| (one.metadata.name.clone(), at_revision(revision, None)));
    let standing: BTreeMap<_, _> = standing.collect();
    request(set, &Targets::of(set).unwrap(), applications, &standing, Cases::default())
}

/// The same, where these are there already.
fn done(mut request: Request, names: &[&str]) -> Request {
    for member in &mut request.members {
        if names.contains(&member.name.as_str()) {
            member.done_by = Some(operation(1));
        }
    }
    request
}

fn after(mut state: State, inputs: &[Input]) -> State {
    for input in inputs {
        for fact in decide(&state, input, at(0)).unwrap() {
            state = evolve(state, &fact).unwrap();
        }
        loop {
            let facts = follow(&state, at(0));
            if facts.is_empty() {
                break;
            }
            for fact in facts {
                state = evolve(state, &fact).unwrap();
            }
        }
    }
    state
}

fn begun(request: &Request) -> State {
    after(State::New, &[Input::Begin(Box::new(request.clone()))])
}

fn wish(wish: Wish) -> Input {
    Input::Wish { wish, by: "ann".to_owned(), why: String::new() }
}

/// What follows, in a few words.
fn words(due: &Due) -> String {
    match due {
        Due::Nothing => "nothing".to_owned(),
        Due::Begin(request) => format!("begin {}", request.members.len()),
        Due::Tell(news) => {
            let word = |input: &Input| match input {
                Input::Gone { member } => format!("gone {member}"),
                Input::Joined { member } => format!("joined {}", member.name),
                Input::NewTargets { .. } => "new targets".to_owned(),
                other => panic!("{other:?}"),
            };
            news.iter().map(word).collect::<Vec<_>>().join(", ")
        }
    }
}

#[test]
fn steps_mean_what_they_say_or_are_refused() {
    let with_step = |step: Value| {
        let steps = json!([{}, step]);
        set(&json!({"strategy": {"type": "RollingSync", "rollingSync": {"steps": steps}}}))
    };
    let expression = |operator: &str| json!({"matchExpressions": [{"key": "env", "operator": operator, "values": ["a", "b"]}]});
    for (written, expected) in [
        (json!({}), Ok("every Application, All")),
        (expression("In"), Ok("env in (a, b), All")),
        (expression("NotIn"), Ok("env not in (a, b), All")),
        (expression("in"), Err("spec.strategy.rollingSync, step 2: operator \"in\"")),
        (
            expression("Exists"),
            Err("operator \"Exists\" of a step's matchExpressions is not known; write In or NotIn"),
        ),
        (json!({"maxUpdate": 3}), Ok("every Application, Count(3)")),
        (json!({"maxUpdate": 0}), Ok("every Application, Count(0)")),
        (json!({"maxUpdate": -1}), Ok("every Application, Count(0)")),
        (json!({"maxUpdate": "25%"}), Ok("every Application, Percent(25)")),
        (json!({"maxUpdate": "some"}), Err("step 2: maxUpdate \"some\"")),
        (json!({"maxUpdate": "-5%"}), Err("maxUpdate \"-5%\"")),
    ] {
        let found = asked(&with_step(written.clone()), &dev_and_prod(), "1");
        match (found, expected) {
            (Ok(request), Ok(expected)) => {
                let step = &request.steps[1];
                assert_eq!(format!("{}, {:?}", step.words(), step.max_update), expected, "{written}");
            }
            (Err(refused), Err(expected)) => {
                assert!(refused.to_string().contains(expected), "{written}: {refused}");
                assert_eq!(refused.failure().reason, Reason::SyncApplicationError);
            }
            (found, _) => panic!("{written}: {found:?} where {expected:?} was expected"),
        }
    }
}

#[test]
fn a_request_is_about_all_applications_with_the_labels_they_are_generated_with() {
    let found = asked(&rolling(), &dev_and_prod(), "c0ffee").unwrap();
    let members: Vec<_> =
        found.members.iter().map(|one| (one.name.as_str(), one.labels["env"].as_str())).collect();
    assert_eq!(members, [("a", "dev"), ("b", "prod"), ("c", "none")]);
    assert_eq!((found.set.as_str(), found.uid.as_str()), ("argocd/fleet", "u-fleet"));
    assert_eq!(found.by, "applicationset-controller");
    assert!(found.members.iter().all(|one| one.target.revisions == ["c0ffee"]));
}

/// What is refused is not there to be waited for, and what goes is not brought anywhere.
#[test]
fn who_cannot_take_part_holds_nobody_up() {
    let wanted = Generated {
        refused: BTreeMap::from([("twice".to_owned(), "contains it twice".to_owned())]),
        ..all(vec![
            generated("new"),
            generated("same"),
            with(&generated("bad"), &json!({"spec": {"project": "gone"}})),
            generated("going"),
            generated("other"),
        ])
    };
    let going = live("going", &json!({"metadata": {"deletionTimestamp": "2026-11-21T09:30:00Z"}}));
    let other = live("other", &json!({"metadata": {"ownerReferences": null, "annotations": {MARK: null}}}));
    let done =
        changes(&rolling(), &wanted, &[live("same", &json!({})), going, other, live("old", &json!({}))]);
    let names: Vec<_> = participants(&wanted, &done).map(|one| one.metadata.name.as_str()).collect();
    assert_eq!(names, ["new", "same"]);
}

#[test]
fn what_is_not_known_is_awaited() {
    let set = rolling();
    let targets = Targets::of(&set).unwrap();
    let known = |names: &[&str]| -> BTreeMap<String, Standing> {
        names.iter().map(|name| ((*name).to_owned(), at_revision("1", None))).collect()
    };
    let applications = dev_and_prod();
    let found = |names: &[&str]| request(&set, &targets, &applications, &known(names), Cases::default());
    assert!(found(&["a", "b"]).is_ok(), "c is in no step");
    let refused = found(&["a", "c"]).unwrap_err();
    assert!(refused.to_string().ends_with("the sources of these Applications mean: b"), "{refused}");
    let many: Vec<_> = (0..8).map(|n| one(&format!("n{n}"), "dev", &json!({}))).collect();
    let refused = request(&set, &targets, &many, &BTreeMap::new(), Cases::default()).unwrap_err();
    assert!(refused.to_string().ends_with("n0, n1, n2, n3, n4 and 3 more"), "{refused}");
}

#[test]
fn targets_are_revisions_and_specifications() {
    let ignored = json!([{"jqPathExpressions": [".spec.source.helm"]}]);
    let set = with_ignored(&ignored);
    let of =
        |applications: &[Application], revision: &str| asked(&set, applications, revision).unwrap().targets;
    let first = dev_and_prod();
    let base = of(&first, "1");
    let changed = |name: &str, patch: Value| -> Vec<Application> {
        let all = dev_and_prod();
        all.into_iter().map(|one| if one.metadata.name == name { with(&one, &patch) } else { one }).collect()
    };
    let mut turned = dev_and_prod();
    turned.reverse();
    for (applications, revision, is_same) in [
        (first.clone(), "1", true),
        (turned, "1", true),
        (first.clone(), "2", false),
        (changed("a", json!({"spec": {"source": {"path": "elsewhere"}}})), "1", false),
        (changed("a", json!({"spec": {"syncPolicy": {"automated": {"prune": true}}}})), "1", false),
        // An Application of no step is nothing that is rolled out.
        (changed("c", json!({"spec": {"source": {"path": "elsewhere"}}})), "1", true),
        // Neither is what means the same, or what others may change.
        (changed("a", json!({"spec": {"project": "", "syncPolicy": {}}})), "1", true),
        (changed("a", json!({"spec": {"source": {"helm": {"releaseName": "x"}}}})), "1", true),
        (changed("a", json!({"metadata": {"annotations": {"x": "y"}}})), "1", true),
        (first[..2].to_vec(), "1", true),
        (first[1..].to_vec(), "1", false),
    ] {
        assert_eq!(of(&applications, revision) == base, is_same, "{revision} {applications:#?}");
    }
    // That a progressive sync has switched automated syncs off is no other target.
    let targets = Targets::of(&set).unwrap();
    let policy = |policy: Value| one("a", "dev", &json!({"spec": {"syncPolicy": {"automated": policy}}}));
    let (on, off) = (policy(json!({"prune": true})), policy(json!({"prune": true, "enabled": false})));
    assert_eq!(targets.spec(&on), targets.spec(&off));
}

fn with_ignored(rules: &Value) -> ApplicationSet {
    let mut set = rolling();
    set.spec.ignore_application_differences = serde_json::from_value(rules.clone()).unwrap();
    set
}

#[test]
fn steps_have_more_to_say() {
    let text = "
        onNewTargets: finish
        pendingTimeout: 5m
        onPending: fail
        steps:
        - {step: 2, gates: [approval, 'soak:10m', tests], deadline: 1h, maxFailures: 1, onFailure: rollback}
    ";
    let found = asked(&annotated(text), &dev_and_prod(), "1").unwrap();
    assert_eq!(
        found.options,
        Cases {
            pending_timeout: Some(Duration::from_secs(300)),
            on_pending: OnPending::Fail,
            on_new_targets: OnNewTargets::Finish,
        }
    );
    let plain = asked(&rolling(), &dev_and_prod(), "1").unwrap();
    assert_eq!(found.steps[0], plain.steps[0]);
    let second = &found.steps[1];
    assert_eq!(second.gates, ["approval", "soak:10m", "tests"]);
    assert_eq!((second.deadline, second.max_failures), (Some(Duration::from_secs(3600)), Some(1)));
    assert_eq!(second.on_failure, OnFailure::RollBack);
    assert_eq!(second.expressions, plain.steps[1].expressions);
    assert_eq!(found.targets, plain.targets, "how it is rolled out is not what is rolled out");
    for (text, expected) in [
        ("steps: [{step: 3}]", "is about step 3, and the set has no such step"),
        ("steps: [{step: 0}]", "is about step 0"),
        ("steps: [{step: 1}, {step: 1}]", "about step 1, and says so twice"),
        ("steps: [{step: 1, deadline: soon}]", "deadline \"soon\" is no duration"),
        ("steps: [{step: 1, gates: ['soak:long']}]", "\"long\" is no duration"),
        ("pendingTimeout: x", "pendingTimeout \"x\""),
        ("onPending: maybe", "cannot be read"),
        ("step: 1", "cannot be read"),
        ("[", "cannot be read"),
    ] {
        let refused = asked(&annotated(text), &dev_and_prod(), "1").unwrap_err().to_string();
        assert!(refused.contains(expected) && refused.contains("tidegate.dev/rollout"), "{text}: {refused}");
    }
}

#[test]
fn a_rollout_is_begun_once_for_its_targets() {
    let set = rolling();
    let applications = dev_and_prod();
    let now = |revision: &str| asked(&set, &applications, revision).unwrap();
    let everybody = ["a", "b"];
    // Nothing was ever begun.
    assert_eq!(words(&due(now("1"), None, false)), "begin 3");
    assert_eq!(words(&due(now("1"), Some(&State::New), false)), "begin 3");
    assert_eq!(words(&due(done(now("1"), &["a"]), None, false)), "begin 3");
    assert_eq!(words(&due(done(now("1"), &everybody), None, false)), "nothing", "all are there");
    // One that is over, however it ended, is not begun again.
    let ended = after(begun(&now("1")), &[wish(Wish::Terminate)]);
    assert!(ended.is_finished());
    assert_eq!(words(&due(now("1"), Some(&ended), false)), "nothing");
    assert_eq!(words(&due(now("1"), Some(&ended), true)), "begin 3", "unless somebody asks for it");
    assert_eq!(
        words(&due(done(now("1"), &everybody), Some(&ended), true)),
        "nothing",
        "and there is something to do"
    );
    assert_eq!(words(&due(now("2"), Some(&ended), false)), "begin 3");
    assert_eq!(words(&due(done(now("2"), &everybody), Some(&ended), false)), "nothing");
    // Other targets that were withdrawn have ended it.
    let cut = after(begun(&now("1")), &[Input::NewTargets { targets: now("2").targets }]);
    assert!(cut.is_finished());
    assert_eq!(words(&due(now("1"), Some(&cut), false)), "begin 3");
    // One that has joined is part of what was ended; one that comes afterwards is not.
    let mut more = applications.clone();
    more.push(one("d", "prod", &json!({})));
    let joined = asked(&set, &more, "1").unwrap();
    let Due::Tell(news) = due(joined.clone(), Some(&begun(&now("1"))), false) else {
        panic!("it has joined")
    };
    let ended_with_it = after(after(begun(&now("1")), &news), &[wish(Wish::Terminate)]);
    assert_eq!(words(&due(joined.clone(), Some(&ended_with_it), false)), "nothing");
    assert_eq!(words(&due(now("1"), Some(&ended_with_it), false)), "nothing", "nor when it goes");
    assert_eq!(words(&due(joined, Some(&ended), false)), "begin 4");
    // All had their targets, and somebody has brought one of them elsewhere.
    let complete = begun(&done(now("1"), &everybody));
    assert!(complete.is_finished());
    assert_eq!(words(&due(done(now("1"), &everybody), Some(&complete), false)), "nothing");
    assert_eq!(words(&due(done(now("1"), &["b"]), Some(&complete), false)), "begin 3");
    // A person has decided to go on without one.
    let skip = |name: &str| wish(Wish::Skip(tidegate_lifecycle::fleet::Scope::Member(name.to_owned())));
    let skipped = after(begun(&done(now("1"), &["a"])), &[skip("b")]);
    assert!(skipped.is_finished());
    assert_eq!(words(&due(done(now("1"), &["a"]), Some(&skipped), false)), "nothing");
}

#[test]
fn a_rollout_that_is_under_way_is_told_what_is_new() {
    let set = rolling();
    let applications = dev_and_prod();
    let now = |applications: &[Application], revision: &str| asked(&set, applications, revision).unwrap();
    let first = begun(&now(&applications, "1"));
    let tell = |state: &State, request: Request| words(&due(request, Some(state), false));
    assert_eq!(tell(&first, now(&applications, "1")), "nothing");
    let mut more = applications.clone();
    more.push(one("d", "prod", &json!({})));
    assert_eq!(tell(&first, now(&more, "1")), "joined d");
    assert_eq!(tell(&first, now(&applications[1..], "1")), "gone a");
    assert_eq!(tell(&first, now(&applications, "2")), "new targets");
    assert_eq!(
        tell(&first, now(&more[1..], "2")),
        "gone a, new targets",
        "those who come belong to the next"
    );
    let elsewhere = |one: &Application| with(one, &json!({"spec": {"source": {"path": "elsewhere"}}}));
    let mut unselected = applications.clone();
    unselected[2] = elsewhere(&unselected[2]);
    assert_eq!(tell(&first, now(&unselected, "1")), "nothing", "it is in no step");
    // What it knows it is not told again.
    let Due::Tell(news) = due(now(&more[1..], "1"), Some(&first), false) else { panic!("there is news") };
    let knows = after(first.clone(), &news);
    assert_eq!(tell(&knows, now(&more[1..], "1")), "nothing");
    let finishing = annotated("onNewTargets: finish");
    let first = begun(&asked(&finishing, &applications, "1").unwrap());
    let second = now(&applications, "2");
    let knows = after(first, &[Input::NewTargets { targets: second.targets }]);
    assert_eq!(tell(&knows, second), "nothing");
    assert_eq!(tell(&knows, now(&applications, "3")), "new targets");
}

#[test]
fn what_the_status_says_of_a_rollout() {
    let set = rolling();
    let first = begun(&done(asked(&set, &dev_and_prod(), "1").unwrap(), &["a"]));
    let (Told::Known { is_progressing, reason, message, warning: None, members }, failure) = status(&first)
    else {
        panic!("it has begun")
    };
    assert!(is_progressing && failure.is_none());
    assert_eq!(
        (reason.as_str(), message.as_str()),
        ("ApplicationSetModified", "ApplicationSet is performing rollout of step 2")
    );
    let told: Vec<String> = members
        .iter()
        .map(|one| {
            format!("{} {} {} {}", one.application, one.status, one.step, one.target_revisions.concat())
        })
        .collect();
    assert_eq!(told, ["a Healthy 1 1", "b Pending 2 1", "c Waiting -1 1"]);
    assert_eq!(members[0].last_transition_time.unwrap().moment(), at(0));
    assert_eq!(status(&State::New), (Told::Unknown, None));
    // One that has failed is told until the next one begins.
    let broken = after(first, &[Input::Abort { reason: "the log is damaged".to_owned() }]);
    let (Told::Known { is_progressing, .. }, Some(failure)) = status(&broken) else {
        panic!("it has failed")
    };
    assert!(!is_progressing);
    assert_eq!(failure.reason, Reason::SyncApplicationError);
    assert!(failure.message.contains("the log is damaged"), "{}", failure.message);
    let over = begun(&done(asked(&set, &dev_and_prod(), "1").unwrap(), &["a", "b"]));
    let (Told::Known { is_progressing, reason, .. }, None) = status(&over) else { panic!("it is over") };
    assert_eq!((is_progressing, reason.as_str()), (false, "ApplicationSetRolloutComplete"));
    // One that a person has ended has not completed.
    let cut = after(begun(&asked(&set, &dev_and_prod(), "1").unwrap()), &[wish(Wish::Terminate)]);
    let (Told::Known { is_progressing, reason, message, .. }, None) = status(&cut) else {
        panic!("it is over")
    };
    assert_eq!((is_progressing, reason.as_str()), (false, "ApplicationSetRolloutEnded"));
    assert!(message.starts_with("terminated by "), "{message}");
}

/// A member that is not begun, though it is its turn, is told in the conditions until it is, or the rollout is over.
#[test]
fn what_is_pending_for_too_long_is_a_warning() {
    let text = "{pendingTimeout: 5m, onPending: hold}";
    let first = begun(&asked(&annotated(text), &dev_and_prod(), "1").unwrap());
    let warning = |state: &State| match status(state).0 {
        Told::Known { warning, .. } => warning,
        Told::Unknown => panic!("it has begun"),
    };
    assert_eq!(warning(&first), None);
    let mut state = first;
    for fact in follow(&state, at(400)) {
        state = evolve(state, &fact).unwrap();
    }
    let told = warning(&state).unwrap();
    assert!(told.starts_with("Pending for more than 5 min") && told.ends_with(": a"), "{told}");
    assert_eq!(warning(&after(state, &[wish(Wish::Terminate)])), None);
}

/// What an Application has is what it goes back to.
#[test]
fn what_is_known_of_an_application_is_handed_on() {
    let set = rolling();
    let targets = Targets::of(&set).unwrap();
    let applications = [one("a", "dev", &json!({}))];
    let before = Deployed {
        operation: Some(operation(7)),
        target: Target { revisions: vec!["0".to_owned()], spec: targets.spec(&applications[0]) },
    };
    let standing = Standing { before: Some(before.clone()), ..at_revision("1", Some(operation(8))) };
    let standing = BTreeMap::from([("a".to_owned(), standing)]);
    let found = request(&set, &targets, &applications, &standing, Cases::default()).unwrap();
    assert_eq!(
        (found.members[0].before.as_ref(), found.members[0].done_by),
        (Some(&before), Some(operation(8)))
    );
    assert_eq!(found.members[0].target.spec, before.target.spec, "the same specification has the same name");
}

#[test]
fn a_set_in_which_nothing_is_to_be_done_says_where_each_of_its_applications_is() {
    let asked = done(asked(&rolling(), &dev_and_prod(), "r1").unwrap(), &["a", "b"]);
    assert_eq!(due(asked.clone(), None, false), Due::Nothing);
    let Told::Known { is_progressing, members, .. } = settled(&asked, at(0)) else { panic!("it is known") };
    let told: Vec<_> = members
        .iter()
        .map(|one| (one.application.as_str(), format!("{:?}", one.status), one.step.as_str()))
        .collect();
    let expected = [("a", "Healthy".to_owned(), "1"), ("b", "Healthy".to_owned(), "2")];
    assert_eq!((is_progressing, &told[..2]), (false, &expected[..]));
}

/// A rollout of `a` (dev) and `b` (prod) that has come to this.
fn over(inputs: &[Input]) -> State {
    let set = rolling();
    let request = done(asked(&set, &dev_and_prod(), "r1").unwrap(), &["a", "b"]);
    after(State::New, &[&[Input::Begin(Box::new(request))], inputs].concat())
}

#[test]
fn what_is_asked_where_nothing_is_under_way_is_refused_with_what_to_do() {
    let options = Options::default();
    let finished = over(&[]);
    assert!(finished.is_finished(), "{}", finished.name());
    let request = asked(&rolling(), &dev_and_prod(), "r1").unwrap();
    let terminate = Input::Wish { wish: Wish::Terminate, by: "alice".to_owned(), why: String::new() };
    let cut = after(State::New, &[Input::Begin(Box::new(request)), terminate]);
    assert!(cut.is_finished(), "{}", cut.name());
    let mut deleted = rolling();
    deleted.metadata.deletion_timestamp = Some(at(0).into());
    let plain = set(&json!({}));
    for (set, last, may, words) in [
        (&rolling(), finished.rollout(), false, "another one begins by itself when there are other targets"),
        (&rolling(), cut.rollout(), true, "`tidegate appset retry argocd/fleet`, without --app and --step"),
        (&rolling(), None, false, "it has had no progressive sync yet"),
        (&plain, None, false, "each Application is synced by its own policy"),
        // Its strategy was another one then.
        (&plain, cut.rollout(), false, "each Application is synced by its own policy"),
        (&deleted, cut.rollout(), false, "it is being deleted"),
    ] {
        let told = how(set, last, &options);
        assert!(told.contains(words), "{words}: {told}");
        assert_eq!(why_not_again(set, last, &options).is_ok(), may, "{words}");
    }
    let refused = why_not_again(&rolling(), finished.rollout(), &options).unwrap_err().to_string();
    let begin = "ApplicationSet argocd/fleet: there is nothing to retry: its last progressive sync is over (";
    assert!(refused.starts_with(begin), "{refused}");
}
