//! Start, content and inputs of progressive syncs.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_application::supersede::ManifestComparison;
use tidegate_applicationset::changes::AppSetOutput;
use tidegate_applicationset::rollout::{
    KnownMember, RolloutRequestError, RolloutStepDue, TargetIdentities, awaited_comparison_message,
    check_retry, completed_status, describe_situation, next_rollout_step, participants, rollout_request,
    rollout_status, target_revisions, unwanted_rollout_request,
};
use tidegate_applicationset::status::{ConditionReason, RolloutStatus as Told};
use tidegate_applicationset::sync_policy::AppSetRuleOptions;
use tidegate_lifecycle::fleet::Attribution;
use tidegate_lifecycle::rollout::{
    DeployedState, Input, OnFailure, OnNewTargets, OnPending, Options as Cases, Progress, Request, Rollout,
    State, Target, UserRequest, advance, apply, decide,
};
use tidegate_model::OperationId;
use tidegate_model::argo::{Application, ApplicationSet};

use crate::{
    APPSET_ANNOTATION, appset, at, changes, generated_application, generated_output, live_application,
    with_patch,
};

fn step(value: &str) -> Value {
    json!({"matchExpressions": [{"key": "env", "operator": "In", "values": [value]}]})
}

/// Returns an ApplicationSet with the steps `dev` and `prod`.
fn appset_with_steps() -> ApplicationSet {
    appset(
        &json!({"strategy": {"type": "RollingSync", "rollingSync": {"steps": [step("dev"), step("prod")]}}}),
    )
}

fn appset_with_annotation(text: &str) -> ApplicationSet {
    let mut set = appset_with_steps();
    set.metadata.annotations.insert("tidegate.dev/rollout".to_owned(), text.to_owned());
    set
}

fn member_application(name: &str, env: &str, patch: &Value) -> Application {
    with_patch(
        &with_patch(&generated_application(name), &json!({"metadata": {"labels": {"env": env}}})),
        patch,
    )
}

fn dev_and_prod() -> Vec<Application> {
    vec![
        member_application("a", "dev", &json!({})),
        member_application("b", "prod", &json!({})),
        member_application("c", "none", &json!({})),
    ]
}

fn operation(number: u128) -> OperationId {
    OperationId(uuid::Uuid::from_u128(number))
}

fn at_revision(revision: &str, done_by: Option<OperationId>) -> KnownMember {
    KnownMember { revisions: vec![revision.to_owned()], deployed: None, completed_by: done_by }
}

/// Returns an ApplicationSet's request with this target revision for all Applications.
fn request_at_revision(
    set: &ApplicationSet,
    applications: &[Application],
    revision: &str,
) -> Result<Request, RolloutRequestError> {
    let standing = applications.iter().map(|one| (one.metadata.name.clone(), at_revision(revision, None)));
    let standing: BTreeMap<_, _> = standing.collect();
    rollout_request(
        set,
        &TargetIdentities::from_appset(set).unwrap(),
        applications,
        &standing,
        Cases::default(),
    )
}

/// Marks these Applications as already at their targets.
fn at_targets(mut request: Request, names: &[&str]) -> Request {
    for member in &mut request.members {
        if names.contains(&member.name.as_str()) {
            member.done_by = Some(operation(1));
        }
    }
    request
}

fn state_after(mut state: State, inputs: &[Input]) -> State {
    for input in inputs {
        for event in decide(&state, input, at(0)).unwrap() {
            state = apply(state, &event).unwrap();
        }
        loop {
            let events = advance(&state, at(0));
            if events.is_empty() {
                break;
            }
            for event in events {
                state = apply(state, &event).unwrap();
            }
        }
    }
    state
}

fn started_state(request: &Request) -> State {
    state_after(State::New, &[Input::Begin(Box::new(request.clone()))])
}

fn user_request(request: UserRequest) -> Input {
    Input::UserRequest { request, by: "ann".to_owned(), reason: String::new() }
}

fn describe_step(due: &RolloutStepDue) -> String {
    match due {
        RolloutStepDue::Nothing => "nothing".to_owned(),
        RolloutStepDue::Start(request) => format!("begin {}", request.members.len()),
        RolloutStepDue::SendInputs(news) => {
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
fn steps_are_parsed_or_rejected() {
    let with_step = |step: Value| {
        let steps = json!([{}, step]);
        appset(&json!({"strategy": {"type": "RollingSync", "rollingSync": {"steps": steps}}}))
    };
    let expression = |operator: &str| json!({"matchExpressions": [{"key": "env", "operator": operator, "values": ["a", "b"]}]});
    for (written, expected) in [
        (json!({}), Ok("every Application, All")),
        (expression("In"), Ok("env in (a, b), All")),
        (expression("NotIn"), Ok("env not in (a, b), All")),
        (
            expression("in"),
            Err(
                "spec.strategy.rollingSync, step 2: invalid operator \"in\" in a step's matchExpressions: use In or NotIn",
            ),
        ),
        (
            expression("Exists"),
            Err("invalid operator \"Exists\" in a step's matchExpressions: use In or NotIn"),
        ),
        (json!({"maxUpdate": 3}), Ok("every Application, Count(3)")),
        (json!({"maxUpdate": 0}), Ok("every Application, Count(0)")),
        (json!({"maxUpdate": -1}), Ok("every Application, Count(0)")),
        (json!({"maxUpdate": "25%"}), Ok("every Application, Percent(25)")),
        (json!({"maxUpdate": "some"}), Err("step 2: invalid maxUpdate \"some\": use a whole number")),
        (json!({"maxUpdate": "-5%"}), Err("invalid maxUpdate \"-5%\": use a whole number")),
    ] {
        let found = request_at_revision(&with_step(written.clone()), &dev_and_prod(), "1");
        match (found, expected) {
            (Ok(request), Ok(expected)) => {
                let step = &request.steps[1];
                assert_eq!(
                    format!("{}, {:?}", step.describe_selector(), step.max_update),
                    expected,
                    "{written}"
                );
            }
            (Err(refused), Err(expected)) => {
                assert!(refused.to_string().contains(expected), "{written}: {refused}");
                assert_eq!(refused.failure().reason, ConditionReason::SyncApplicationError);
            }
            (found, _) => panic!("{written}: {found:?} where {expected:?} was expected"),
        }
    }
}

#[test]
fn a_request_is_about_all_applications_with_the_labels_they_are_generated_with() {
    let found = request_at_revision(&appset_with_steps(), &dev_and_prod(), "c0ffee").unwrap();
    let members: Vec<_> =
        found.members.iter().map(|one| (one.name.as_str(), one.labels["env"].as_str())).collect();
    assert_eq!(members, [("a", "dev"), ("b", "prod"), ("c", "none")]);
    assert_eq!((found.set.as_str(), found.uid.as_str()), ("argocd/fleet", "u-fleet"));
    assert_eq!(found.by, "applicationset-controller");
    assert!(found.members.iter().all(|one| one.target.revisions == ["c0ffee"]));
}

/// Rollouts neither wait for rejected Applications nor sync deleted ones.
#[test]
fn excluded_applications_do_not_delay_others() {
    let wanted = AppSetOutput {
        rejected: BTreeMap::from([("twice".to_owned(), "contains it twice".to_owned())]),
        ..generated_output(vec![
            generated_application("new"),
            generated_application("same"),
            with_patch(&generated_application("bad"), &json!({"spec": {"project": "gone"}})),
            generated_application("going"),
            generated_application("other"),
        ])
    };
    let going =
        live_application("going", &json!({"metadata": {"deletionTimestamp": "2026-11-21T09:30:00Z"}}));
    let other = live_application(
        "other",
        &json!({"metadata": {"ownerReferences": null, "annotations": {APPSET_ANNOTATION: null}}}),
    );
    let done = changes(
        &appset_with_steps(),
        &wanted,
        &[live_application("same", &json!({})), going, other, live_application("old", &json!({}))],
    );
    let names: Vec<_> = participants(&wanted, &done).map(|one| one.metadata.name.as_str()).collect();
    assert_eq!(names, ["new", "same"]);
}

#[test]
fn unknown_revisions_are_awaited() {
    let set = appset_with_steps();
    let targets = TargetIdentities::from_appset(&set).unwrap();
    let known = |names: &[&str]| -> BTreeMap<String, KnownMember> {
        names.iter().map(|name| ((*name).to_owned(), at_revision("1", None))).collect()
    };
    let applications = dev_and_prod();
    let found =
        |names: &[&str]| rollout_request(&set, &targets, &applications, &known(names), Cases::default());
    assert!(found(&["a", "b"]).is_ok(), "no step selects c");
    let refused = found(&["a", "c"]).unwrap_err();
    assert!(
        refused.to_string().ends_with("the source revisions of these Applications are resolved: b"),
        "{refused}"
    );
    let many: Vec<_> = (0..8).map(|n| member_application(&format!("n{n}"), "dev", &json!({}))).collect();
    let refused = rollout_request(&set, &targets, &many, &BTreeMap::new(), Cases::default()).unwrap_err();
    assert!(refused.to_string().ends_with("n0, n1, n2, n3, n4 and 3 more"), "{refused}");
}

#[test]
fn targets_are_revisions_and_specifications() {
    let ignored = json!([{"jqPathExpressions": [".spec.source.helm"]}]);
    let set = with_ignored(&ignored);
    let of = |applications: &[Application], revision: &str| {
        request_at_revision(&set, applications, revision).unwrap().targets
    };
    let first = dev_and_prod();
    let base = of(&first, "1");
    let changed = |name: &str, patch: Value| -> Vec<Application> {
        let all = dev_and_prod();
        all.into_iter()
            .map(|one| if one.metadata.name == name { with_patch(&one, &patch) } else { one })
            .collect()
    };
    let mut turned = dev_and_prod();
    turned.reverse();
    for (applications, revision, is_same) in [
        (first.clone(), "1", true),
        (turned, "1", true),
        (first.clone(), "2", false),
        (changed("a", json!({"spec": {"source": {"path": "elsewhere"}}})), "1", false),
        (changed("a", json!({"spec": {"syncPolicy": {"automated": {"prune": true}}}})), "1", false),
        // No step selects this Application, so it isn't part of the rollout.
        (changed("c", json!({"spec": {"source": {"path": "elsewhere"}}})), "1", true),
        // Equivalent or ignored changes don't start a rollout.
        (changed("a", json!({"spec": {"project": "", "syncPolicy": {}}})), "1", true),
        (changed("a", json!({"spec": {"source": {"helm": {"releaseName": "x"}}}})), "1", true),
        (changed("a", json!({"metadata": {"annotations": {"x": "y"}}})), "1", true),
        (first[..2].to_vec(), "1", true),
        (first[1..].to_vec(), "1", false),
    ] {
        assert_eq!(of(&applications, revision) == base, is_same, "{revision} {applications:#?}");
    }
    // Disabling automated sync doesn't change the target.
    let targets = TargetIdentities::from_appset(&set).unwrap();
    let policy = |policy: Value| {
        member_application("a", "dev", &json!({"spec": {"syncPolicy": {"automated": policy}}}))
    };
    let (on, off) = (policy(json!({"prune": true})), policy(json!({"prune": true, "enabled": false})));
    assert_eq!(targets.spec_identity(&on), targets.spec_identity(&off));
}

fn with_ignored(rules: &Value) -> ApplicationSet {
    let mut set = appset_with_steps();
    set.spec.ignore_application_differences = serde_json::from_value(rules.clone()).unwrap();
    set
}

#[test]
fn steps_have_extensions() {
    let text = "
        onNewTargets: finish
        pendingTimeout: 5m
        onPending: fail
        steps:
        - {step: 2, gates: [approval, 'soak:10m', tests], deadline: 1h, maxFailures: 1, onFailure: rollback}
    ";
    let found = request_at_revision(&appset_with_annotation(text), &dev_and_prod(), "1").unwrap();
    assert_eq!(
        found.options,
        Cases {
            pending_timeout: Some(Duration::from_secs(300)),
            on_pending: OnPending::Fail,
            on_new_targets: OnNewTargets::Finish,
        }
    );
    let plain = request_at_revision(&appset_with_steps(), &dev_and_prod(), "1").unwrap();
    assert_eq!(found.steps[0], plain.steps[0]);
    let second = &found.steps[1];
    assert_eq!(second.gates, ["approval", "soak:10m", "tests"]);
    assert_eq!((second.deadline, second.max_failures), (Some(Duration::from_secs(3600)), Some(1)));
    assert_eq!(second.on_failure, OnFailure::RollBack);
    assert_eq!(second.expressions, plain.steps[1].expressions);
    assert_eq!(found.targets, plain.targets, "the strategy is not part of the target");
    for (text, expected) in [
        ("steps: [{step: 3}]", "step 3 does not exist in the ApplicationSet"),
        ("steps: [{step: 0}]", "step 0 does not exist"),
        ("steps: [{step: 1}, {step: 1}]", "step 1 occurs twice"),
        ("steps: [{step: 1, deadline: soon}]", "invalid deadline \"soon\""),
        ("steps: [{step: 1, gates: ['soak:long']}]", "\"long\""),
        ("pendingTimeout: x", "pendingTimeout \"x\""),
        ("onPending: maybe", "cannot parse the tidegate.dev/rollout annotation"),
        ("step: 1", "cannot parse the tidegate.dev/rollout annotation"),
        ("[", "cannot parse the tidegate.dev/rollout annotation"),
    ] {
        let refused =
            request_at_revision(&appset_with_annotation(text), &dev_and_prod(), "1").unwrap_err().to_string();
        assert!(refused.contains(expected) && refused.contains("tidegate.dev/rollout"), "{text}: {refused}");
    }
}

#[test]
fn a_rollout_starts_once_for_its_targets() {
    let set = appset_with_steps();
    let applications = dev_and_prod();
    let now = |revision: &str| request_at_revision(&set, &applications, revision).unwrap();
    let everybody = ["a", "b"];
    // No rollout yet.
    assert_eq!(describe_step(&next_rollout_step(now("1"), None, false)), "begin 3");
    assert_eq!(describe_step(&next_rollout_step(now("1"), Some(&State::New), false)), "begin 3");
    assert_eq!(describe_step(&next_rollout_step(at_targets(now("1"), &["a"]), None, false)), "begin 3");
    assert_eq!(
        describe_step(&next_rollout_step(at_targets(now("1"), &everybody), None, false)),
        "nothing",
        "all Applications have reached their targets"
    );
    // A finished rollout doesn't start again, whatever its result.
    let ended = state_after(started_state(&now("1")), &[user_request(UserRequest::Terminate)]);
    assert!(ended.is_finished());
    assert_eq!(describe_step(&next_rollout_step(now("1"), Some(&ended), false)), "nothing");
    assert_eq!(
        describe_step(&next_rollout_step(now("1"), Some(&ended), true)),
        "begin 3",
        "a user requested the rollout"
    );
    assert_eq!(
        describe_step(&next_rollout_step(at_targets(now("1"), &everybody), Some(&ended), true)),
        "nothing",
        "a request has no effect if all Applications have reached their targets"
    );
    assert_eq!(describe_step(&next_rollout_step(now("2"), Some(&ended), false)), "begin 3");
    assert_eq!(
        describe_step(&next_rollout_step(at_targets(now("2"), &everybody), Some(&ended), false)),
        "nothing"
    );
    // New targets ended the rollout and were later withdrawn.
    let cut = state_after(started_state(&now("1")), &[Input::NewTargets { targets: now("2").targets }]);
    assert!(cut.is_finished());
    assert_eq!(describe_step(&next_rollout_step(now("1"), Some(&cut), false)), "begin 3");
    // An Application that joined the running rollout is part of the finished one. One that is added later
    // isn't.
    let mut more = applications.clone();
    more.push(member_application("d", "prod", &json!({})));
    let joined = request_at_revision(&set, &more, "1").unwrap();
    let RolloutStepDue::SendInputs(news) =
        next_rollout_step(joined.clone(), Some(&started_state(&now("1"))), false)
    else {
        panic!("the Application has not joined")
    };
    let ended_with_it =
        state_after(state_after(started_state(&now("1")), &news), &[user_request(UserRequest::Terminate)]);
    assert_eq!(describe_step(&next_rollout_step(joined.clone(), Some(&ended_with_it), false)), "nothing");
    assert_eq!(
        describe_step(&next_rollout_step(now("1"), Some(&ended_with_it), false)),
        "nothing",
        "a deleted Application does not start a rollout"
    );
    assert_eq!(describe_step(&next_rollout_step(joined, Some(&ended), false)), "begin 4");
    // All Applications had reached their targets before a user changed one of them.
    let complete = started_state(&at_targets(now("1"), &everybody));
    assert!(complete.is_finished());
    assert_eq!(
        describe_step(&next_rollout_step(at_targets(now("1"), &everybody), Some(&complete), false)),
        "nothing"
    );
    assert_eq!(
        describe_step(&next_rollout_step(at_targets(now("1"), &["b"]), Some(&complete), false)),
        "begin 3"
    );
    // A user decided to continue without an Application.
    let skip = |name: &str| {
        user_request(UserRequest::Skip(tidegate_lifecycle::fleet::Scope::Member(name.to_owned())))
    };
    let skipped = state_after(started_state(&at_targets(now("1"), &["a"])), &[skip("b")]);
    assert!(skipped.is_finished());
    assert_eq!(
        describe_step(&next_rollout_step(at_targets(now("1"), &["a"]), Some(&skipped), false)),
        "nothing"
    );
}

#[test]
fn a_running_rollout_receives_new_inputs() {
    let set = appset_with_steps();
    let applications = dev_and_prod();
    let now = |applications: &[Application], revision: &str| {
        request_at_revision(&set, applications, revision).unwrap()
    };
    let first = started_state(&now(&applications, "1"));
    let tell =
        |state: &State, request: Request| describe_step(&next_rollout_step(request, Some(state), false));
    assert_eq!(tell(&first, now(&applications, "1")), "nothing");
    let mut more = applications.clone();
    more.push(member_application("d", "prod", &json!({})));
    assert_eq!(tell(&first, now(&more, "1")), "joined d");
    assert_eq!(tell(&first, now(&applications[1..], "1")), "gone a");
    assert_eq!(tell(&first, now(&applications, "2")), "new targets");
    assert_eq!(
        tell(&first, now(&more[1..], "2")),
        "gone a, new targets",
        "new Applications belong to the next rollout"
    );
    let elsewhere = |one: &Application| with_patch(one, &json!({"spec": {"source": {"path": "elsewhere"}}}));
    let mut unselected = applications.clone();
    unselected[2] = elsewhere(&unselected[2]);
    assert_eq!(tell(&first, now(&unselected, "1")), "nothing", "no step selects it");
    // Inputs that the rollout already received aren't sent again.
    let RolloutStepDue::SendInputs(news) = next_rollout_step(now(&more[1..], "1"), Some(&first), false)
    else {
        panic!("the change is not sent")
    };
    let knows = state_after(first.clone(), &news);
    assert_eq!(tell(&knows, now(&more[1..], "1")), "nothing");
    let finishing = appset_with_annotation("onNewTargets: finish");
    let first = started_state(&request_at_revision(&finishing, &applications, "1").unwrap());
    let second = now(&applications, "2");
    let knows = state_after(first, &[Input::NewTargets { targets: second.targets }]);
    assert_eq!(tell(&knows, second), "nothing");
    assert_eq!(tell(&knows, now(&applications, "3")), "new targets");
}

#[test]
fn an_unwanted_rollout_ends_after_its_running_operations() {
    let (wanted, unwanted) = (appset_with_steps(), appset(&json!({})));
    let options = AppSetRuleOptions { progressive_syncs: true, ..AppSetRuleOptions::default() };
    let idle = started_state(&request_at_revision(&wanted, &dev_and_prod(), "1").unwrap());
    let idle = idle.rollout().unwrap().clone();
    let mut busy = idle.clone();
    busy.members.get_mut("a").unwrap().progress = Progress::Running { operation: operation(1) };
    let by = || Some(Attribution { by: "ann".to_owned(), why: String::new(), at: at(0) });
    let paused = |rollout: &Rollout| Rollout { paused: by(), ..rollout.clone() };
    let terminated = |rollout: &Rollout| Rollout { terminated: by(), ..rollout.clone() };
    for (name, set, rollout, expected) in [
        ("wanted", &wanted, idle.clone(), None),
        ("no operation is running", &unwanted, idle.clone(), Some(UserRequest::Terminate)),
        ("an operation is running", &unwanted, busy.clone(), Some(UserRequest::Pause)),
        ("paused with a running operation", &unwanted, paused(&busy), None),
        ("paused without one", &unwanted, paused(&idle), Some(UserRequest::Terminate)),
        ("terminated", &unwanted, terminated(&busy), None),
        ("terminated without a running operation", &unwanted, terminated(&idle), None),
    ] {
        assert_eq!(unwanted_rollout_request(set, &rollout, &options), expected, "{name}");
    }
}

/// Only manifests that certainly differ make a new target, before and after the end of the rollout.
#[test]
fn unknown_manifests_supersede_nothing() {
    let (set, applications) = (appset_with_steps(), dev_and_prod());
    let first = request_at_revision(&set, &applications, "r1").unwrap();
    let running = started_state(&first);
    for (compared, expected) in [
        (ManifestComparison::Same, "nothing"),
        (ManifestComparison::Unknown, "nothing"),
        (ManifestComparison::Different, "new targets"),
    ] {
        let chosen = target_revisions(vec!["r2".to_owned()], &["r1".to_owned()], compared);
        let request = request_at_revision(&set, &applications, &chosen[0]).unwrap();
        let due = next_rollout_step(request, Some(&running), false);
        assert_eq!(describe_step(&due), expected, "{compared:?}");
    }
    assert_eq!(awaited_comparison_message(&BTreeMap::new()), None);
    let awaited = ["b", "a"].map(|name| (name.to_owned(), format!("no answer for {name}")));
    assert_eq!(
        awaited_comparison_message(&BTreeMap::from(awaited)).as_deref(),
        Some(
            "newer revisions of a, b will not become targets until their manifests have been compared with the \
             current ones; the comparison is retried automatically: no answer for a"
        )
    );
}

#[test]
fn the_status_of_a_rollout() {
    let set = appset_with_steps();
    let first = started_state(&at_targets(request_at_revision(&set, &dev_and_prod(), "1").unwrap(), &["a"]));
    let (Told::Known { is_progressing, reason, message, warning: None, members }, failure) =
        rollout_status(&first)
    else {
        panic!("the rollout has not started")
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
    assert_eq!(members[0].last_transition_time.unwrap().timestamp(), at(0));
    assert_eq!(rollout_status(&State::New), (Told::Unknown, None));
    // A failed rollout is reported until the next one starts.
    let broken = state_after(first, &[Input::Abort { reason: "the log is damaged".to_owned() }]);
    let (Told::Known { is_progressing, .. }, Some(failure)) = rollout_status(&broken) else {
        panic!("the rollout has not failed")
    };
    assert!(!is_progressing);
    assert_eq!(failure.reason, ConditionReason::SyncApplicationError);
    assert!(failure.message.contains("the log is damaged"), "{}", failure.message);
    let over =
        started_state(&at_targets(request_at_revision(&set, &dev_and_prod(), "1").unwrap(), &["a", "b"]));
    let (Told::Known { is_progressing, reason, .. }, None) = rollout_status(&over) else {
        panic!("it has ended")
    };
    assert_eq!((is_progressing, reason.as_str()), (false, "ApplicationSetRolloutComplete"));
    // A terminated rollout isn't complete.
    let cut = state_after(
        started_state(&request_at_revision(&set, &dev_and_prod(), "1").unwrap()),
        &[user_request(UserRequest::Terminate)],
    );
    let (Told::Known { is_progressing, reason, message, .. }, None) = rollout_status(&cut) else {
        panic!("it has ended")
    };
    assert_eq!((is_progressing, reason.as_str()), (false, "ApplicationSetRolloutEnded"));
    assert!(message.starts_with("terminated by "), "{message}");
}

/// A condition reports an Application that stays Pending because its sync doesn't start, until the sync
/// starts or the rollout ends.
#[test]
fn a_long_pending_member_is_a_warning() {
    let text = "{pendingTimeout: 5m, onPending: hold}";
    let first =
        started_state(&request_at_revision(&appset_with_annotation(text), &dev_and_prod(), "1").unwrap());
    let warning = |state: &State| match rollout_status(state).0 {
        Told::Known { warning, .. } => warning,
        Told::Unknown => panic!("the rollout has not started"),
    };
    assert_eq!(warning(&first), None);
    let mut state = first;
    for event in advance(&state, at(400)) {
        state = apply(state, &event).unwrap();
    }
    let told = warning(&state).unwrap();
    assert!(told.starts_with("Pending for more than 5 min") && told.ends_with(": a"), "{told}");
    assert_eq!(warning(&state_after(state, &[user_request(UserRequest::Terminate)])), None);
}

/// Rollbacks need an Application's deployed revisions.
#[test]
fn known_member_states_are_passed_on() {
    let set = appset_with_steps();
    let targets = TargetIdentities::from_appset(&set).unwrap();
    let applications = [member_application("a", "dev", &json!({}))];
    let before = DeployedState {
        operation: Some(operation(7)),
        target: Target { revisions: vec!["0".to_owned()], spec: targets.spec_identity(&applications[0]) },
    };
    let standing = KnownMember { deployed: Some(before.clone()), ..at_revision("1", Some(operation(8))) };
    let standing = BTreeMap::from([("a".to_owned(), standing)]);
    let found = rollout_request(&set, &targets, &applications, &standing, Cases::default()).unwrap();
    assert_eq!(
        (found.members[0].before.as_ref(), found.members[0].done_by),
        (Some(&before), Some(operation(8)))
    );
    assert_eq!(found.members[0].target.spec, before.target.spec, "the same specification has the same name");
}

#[test]
fn an_appset_without_work_reports_the_state_of_each_application() {
    let asked =
        at_targets(request_at_revision(&appset_with_steps(), &dev_and_prod(), "r1").unwrap(), &["a", "b"]);
    assert_eq!(next_rollout_step(asked.clone(), None, false), RolloutStepDue::Nothing);
    let Told::Known { is_progressing, members, .. } = completed_status(&asked, at(0)) else {
        panic!("it is known")
    };
    let told: Vec<_> = members
        .iter()
        .map(|one| (one.application.as_str(), format!("{:?}", one.status), one.step.as_str()))
        .collect();
    let expected = [("a", "Healthy".to_owned(), "1"), ("b", "Healthy".to_owned(), "2")];
    assert_eq!((is_progressing, &told[..2]), (false, &expected[..]));
}

/// Returns a rollout of `a` (dev) and `b` (prod) after these inputs.
fn rollout_after(inputs: &[Input]) -> State {
    let set = appset_with_steps();
    let request = at_targets(request_at_revision(&set, &dev_and_prod(), "r1").unwrap(), &["a", "b"]);
    state_after(State::New, &[&[Input::Begin(Box::new(request))], inputs].concat())
}

#[test]
fn a_request_without_a_running_rollout_is_rejected_with_a_remedy() {
    let options = AppSetRuleOptions::default();
    let finished = rollout_after(&[]);
    assert!(finished.is_finished(), "{}", finished.name());
    let request = request_at_revision(&appset_with_steps(), &dev_and_prod(), "r1").unwrap();
    let terminate =
        Input::UserRequest { request: UserRequest::Terminate, by: "alice".to_owned(), reason: String::new() };
    let cut = state_after(State::New, &[Input::Begin(Box::new(request)), terminate]);
    assert!(cut.is_finished(), "{}", cut.name());
    let mut deleted = appset_with_steps();
    deleted.metadata.deletion_timestamp = Some(at(0).into());
    let plain = appset(&json!({}));
    for (set, last, may, text) in [
        (
            &appset_with_steps(),
            finished.rollout(),
            false,
            "another progressive sync starts automatically when the targets change",
        ),
        (
            &appset_with_steps(),
            cut.rollout(),
            true,
            "`tidegate appset retry argocd/fleet` (without --app and --step)",
        ),
        (&appset_with_steps(), None, false, "it has not had a progressive sync yet"),
        (&plain, None, false, "each Application is synced according to its own policy"),
        // The strategy has changed since the rollout.
        (&plain, cut.rollout(), false, "each Application is synced according to its own policy"),
        (&deleted, cut.rollout(), false, "it is being deleted"),
    ] {
        let told = describe_situation(set, last, &options);
        assert!(told.contains(text), "{text}: {told}");
        assert_eq!(check_retry(set, last, &options).is_ok(), may, "{text}");
    }
    let refused = check_retry(&appset_with_steps(), finished.rollout(), &options).unwrap_err().to_string();
    let begin = "ApplicationSet argocd/fleet: nothing to retry: its last progressive sync has ended (";
    assert!(refused.starts_with(begin), "{refused}");
}
