//! Start and inputs of ordered deletions.

use serde_json::json;
use tidegate_applicationset::deletion::MemberDeletion;
use tidegate_applicationset::deletion_limit::DeletionPermit;
use tidegate_applicationset::deletion_order::deletion_order;
use tidegate_applicationset::retry::RetryAnnotation;
use tidegate_applicationset::rollout::ROLLOUT_REQUESTER;
use tidegate_applicationset::teardown_steps::{
    NewestTeardown, OrderedDeletions, TeardownStepDue, kept_by, next_teardown_step, regenerated_members,
};
use tidegate_lifecycle::fleet::Scope;
use tidegate_lifecycle::teardown::{Input, Request, State, UserRequest, advance, apply, decide};
use tidegate_model::argo::{Application, ApplicationSet};

use crate::deletion::{appset_with_order, deleted_appset};
use crate::{OneCluster, at, generated_application, generated_output, live_application};

/// Returns an ApplicationSet with the deletion order `prod`, then `dev`.
pub fn ordered_appset() -> ApplicationSet {
    appset_with_order("Reverse", &json!({}))
}

/// Returns a live Application of the environment.
pub fn member_of(name: &str, env: &str) -> Application {
    live_application(name, &json!({"metadata": {"labels": {"env": env}}}))
}

/// Applies an input and the transitions that follow. Rejected inputs have no effect.
pub fn after_input(mut state: State, input: &Input) -> State {
    let mut events = decide(&state, input, at(0)).unwrap_or_default();
    while !events.is_empty() {
        for event in events {
            state = apply(state, &event).unwrap();
        }
        events = advance(&state, at(0));
    }
    state
}

pub fn user_request(request: UserRequest, by: &str) -> Input {
    Input::UserRequest { request, by: by.to_owned(), reason: String::new() }
}

pub fn newest(state: &State) -> NewestTeardown<'_> {
    NewestTeardown { teardown: state.teardown(), is_running: matches!(state, State::Running(_)) }
}

/// Returns the next step of an ordered deletion of these Applications.
pub fn step_due(
    set: &ApplicationSet,
    applications: &[Application],
    state: &State,
    retry: Option<&RetryAnnotation>,
) -> TeardownStepDue {
    let deletions: Vec<_> =
        applications.iter().map(|one| MemberDeletion::for_member(set, one, &OneCluster)).collect();
    let permit = Some(DeletionPermit { token: "3c1f".to_owned(), approval: None });
    let wanted = OrderedDeletions { order: deletion_order(set).unwrap(), deletions: &deletions, permit };
    next_teardown_step(set, wanted, newest(state), retry, at(0))
}

fn started(set: &ApplicationSet, applications: &[Application]) -> State {
    match step_due(set, applications, &State::New, None) {
        TeardownStepDue::Start(request) => after_input(State::New, &Input::Begin(request)),
        other => panic!("{other:?}"),
    }
}

fn describe(due: TeardownStepDue) -> String {
    let names = |request: &Request| {
        let kept = |name: &str| if request.kept_members.contains_key(name) { " kept" } else { "" };
        let all = request.members.iter().map(|one| format!("{}{}", one.name, kept(&one.name)));
        all.collect::<Vec<_>>().join(", ")
    };
    match due {
        TeardownStepDue::Nothing => "nothing".to_owned(),
        TeardownStepDue::Start(request) => format!("start by {:?}: {}", request.by, names(&request)),
        TeardownStepDue::SendInputs(inputs) => {
            let word = |input: &Input| match input {
                Input::Joined { member } => member.name.clone(),
                Input::Approved(approval) => format!("approved by {}", approval.said.by),
                other => panic!("{other:?}"),
            };
            format!("join {}", inputs.iter().map(word).collect::<Vec<_>>().join(", "))
        }
    }
}

#[test]
fn a_deletion_starts_once_for_its_applications() {
    let set = ordered_appset();
    let deleting = deleted_appset(set.clone(), &[]);
    let (a, b, c) = (member_of("a", "dev"), member_of("b", "prod"), member_of("c", "prod"));
    let mut recreated = a.clone();
    recreated.metadata.uid = "u-other".to_owned();
    let both = [a.clone(), b.clone()];
    let running = started(&set, &both);
    let skipped =
        after_input(running.clone(), &user_request(UserRequest::Skip(Scope::Member("a".to_owned())), "ann"));
    let terminated = after_input(running.clone(), &user_request(UserRequest::Terminate, "ann"));
    let mut other_set = set.clone();
    other_set.metadata.uid = "u-before".to_owned();
    let of_other = after_input(started(&other_set, &both), &user_request(UserRequest::Terminate, "ann"));
    let retry = RetryAnnotation::new("eve", "", at(0).into(), None);
    let mark = "the tidegate.dev/deletions-approved annotation";
    let by = format!("{ROLLOUT_REQUESTER:?}");
    for (name, set, members, state, retry, expected) in [
        ("the first deletion", &set, &both[..], &State::New, None, format!("start by {by}: a, b")),
        ("without a known requester", &deleting, &both, &State::New, None, "start by \"\": a, b".to_owned()),
        ("nothing to delete", &set, &[], &State::New, None, "nothing".to_owned()),
        ("it is running", &set, &both, &running, None, "nothing".to_owned()),
        (
            "another Application",
            &set,
            &[a.clone(), c.clone()],
            &running,
            None,
            format!("join approved by {mark}, c"),
        ),
        (
            "a recreated Application",
            &set,
            std::slice::from_ref(&recreated),
            &running,
            None,
            format!("join approved by {mark}, a"),
        ),
        ("a skipped Application", &set, std::slice::from_ref(&a), &skipped, None, "nothing".to_owned()),
        ("a user terminated it", &set, &both, &terminated, None, "nothing".to_owned()),
        (
            "a user terminated it before another Application was removed",
            &set,
            &[a.clone(), c.clone()],
            &terminated,
            None,
            format!("start by {by}: a kept, c"),
        ),
        (
            "a recreated Application after the end",
            &set,
            std::slice::from_ref(&recreated),
            &terminated,
            None,
            format!("start by {by}: a"),
        ),
        ("a retry", &set, &both, &terminated, Some(&retry), "start by \"eve\": a, b".to_owned()),
        (
            "the deletion of another ApplicationSet",
            &set,
            &both,
            &of_other,
            None,
            format!("start by {by}: a, b"),
        ),
    ] {
        assert_eq!(describe(step_due(set, members, state, retry)), expected, "{name}");
    }
}

#[test]
fn an_application_is_kept_by_a_user_or_the_end() {
    let set = ordered_appset();
    let running = started(&set, &[member_of("a", "dev"), member_of("b", "prod")]);
    let skip = |by: &str| {
        after_input(running.clone(), &user_request(UserRequest::Skip(Scope::Member("a".to_owned())), by))
    };
    let terminated = after_input(running.clone(), &user_request(UserRequest::Terminate, "eve"));
    let aborted = after_input(running.clone(), &Input::Abort { reason: "the log is full".to_owned() });
    for (state, uid, expected) in [
        (&running, "u-a", None),
        (&skip("ann"), "u-a", Some("ann")),
        (&skip("ann"), "u-other", None),
        // It was generated again, so a later deletion may delete it.
        (&skip(ROLLOUT_REQUESTER), "u-a", None),
        (&terminated, "u-a", Some("eve")),
        (&aborted, "u-a", Some("the previous deletion")),
    ] {
        let kept = kept_by(state.teardown().unwrap(), "a", uid).map(|one| one.by);
        assert_eq!(kept.as_deref(), expected, "{} {uid}", state.name());
    }
}

#[test]
fn only_waiting_applications_are_kept_when_generated_again() {
    // The step `prod` is deleted first.
    let running = started(&ordered_appset(), &[member_of("a", "dev"), member_of("b", "prod")]);
    let generated = generated_output(vec![generated_application("a"), generated_application("b")]);
    assert_eq!(regenerated_members(running.teardown().unwrap(), &generated), ["a"]);
    assert!(regenerated_members(running.teardown().unwrap(), &generated_output(vec![])).is_empty());
}
