//! Deletions of Applications by other clients.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;
use tidegate_applicationset::foreign_deletions::{DeletionQuery, ForeignDeletions};
use tidegate_applicationset::sync_policy::AppSetRuleOptions;
use tidegate_lifecycle::fleet::Scope;
use tidegate_lifecycle::teardown::{Input, MemberObservation, State, UserRequest};
use tidegate_model::argo::Application;

use crate::deletion::{appset_with_order, deleted_application, deleted_appset};
use crate::teardown_steps::{after_input, member_of, ordered_appset, step_due, user_request};
use crate::{FINALIZER, at, live_application, owner_reference};

fn uids(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| format!("u-{name}")).collect()
}

fn ask(names: &[&str]) -> DeletionQuery {
    DeletionQuery::Ask(names.iter().map(|name| format!("u-{name}")).collect())
}

#[test]
fn each_deletion_is_queried_once() {
    let set = ordered_appset();
    let mut other = deleted_application("x", 0);
    other.metadata.rest.insert("ownerReferences".to_owned(), owner_reference("ApplicationSet", "other"));
    let there =
        [deleted_application("a", 0), deleted_application("b", 0), live_application("c", &json!({})), other];
    let none = BTreeSet::new();
    let mut foreign = ForeignDeletions::default();
    assert_eq!(foreign.start_query(&set, &there, &uids(&["b"]), at(0)), ask(&["a"]), "b is released");
    assert_eq!(foreign.start_query(&set, &there, &none, at(0)), ask(&["b"]), "the query for a is running");
    assert_eq!(foreign.start_query(&set, &there, &none, at(0)), DeletionQuery::Unneeded);
    let deleting = deleted_appset(set.clone(), &[FINALIZER]);
    let mut another = ForeignDeletions::default();
    assert_eq!(another.start_query(&deleting, &there, &none, at(0)), DeletionQuery::Unneeded);
    // A failed query is repeated later.
    let failed = Err::<bool, _>("no connection");
    assert_eq!(foreign.finish_query(vec!["u-a".to_owned()], &failed, &there, at(0)), Some(at(5)));
    assert_eq!(foreign.start_query(&set, &there, &none, at(4)), DeletionQuery::Wait(at(5)));
    assert_eq!(foreign.start_query(&set, &there, &none, at(5)), ask(&["a"]));
}

#[test]
fn only_independent_deletions_are_released() {
    let set = ordered_appset();
    let there = [deleted_application("a", 0), deleted_application("b", 0)];
    let released =
        |foreign: &ForeignDeletions, there: &[Application]| foreign.released_uids(&set, there, None);
    for (answer, expected) in [(Ok(false), uids(&["a"])), (Ok(true), uids(&[])), (Err("busy"), uids(&[]))] {
        let mut foreign = ForeignDeletions::default();
        foreign.finish_query(vec!["u-a".to_owned()], &answer, &there, at(0));
        assert_eq!(released(&foreign, &there), expected, "{answer:?}");
        // An Application that is gone is forgotten.
        foreign.finish_query(Vec::new(), &Ok::<_, &str>(false), &there[1..], at(0));
        assert_eq!(released(&foreign, &there), uids(&[]), "{answer:?}");
    }
    // The ApplicationSet is deleted 60 s after the start.
    let deleting = deleted_appset(set.clone(), &[FINALIZER]);
    let there = [deleted_application("a", 59), deleted_application("b", 60)];
    assert_eq!(ForeignDeletions::default().released_uids(&deleting, &there, None), uids(&["a"]));
}

#[test]
fn an_ordered_deletion_releases_each_application_in_its_turn() {
    let set = ordered_appset();
    let there = [member_of("a", "dev"), member_of("b", "prod"), member_of("c", "prod")];
    let tidegate_applicationset::teardown_steps::TeardownStepDue::Start(request) =
        step_due(&set, &there, &State::New, None)
    else {
        panic!("nothing to delete")
    };
    let answer = |state, name: &str, presence| {
        let (member, uid) = (name.to_owned(), format!("u-{name}"));
        after_input(state, &Input::Answered { member, uid, presence: Ok(presence) })
    };
    let released = |state: &State| ForeignDeletions::default().released_uids(&set, &there, state.teardown());
    let state = after_input(State::New, &Input::Begin(request));
    assert_eq!(released(&state), uids(&[]), "the call may not have been made yet");
    let state = answer(state, "b", tidegate_lifecycle::teardown::ObjectPresence::Exists);
    assert_eq!(released(&state), uids(&["b"]));
    let state = after_input(state, &user_request(UserRequest::Skip(Scope::Member("a".to_owned())), "ann"));
    let gone = MemberObservation::Gone;
    let state = after_input(
        state,
        &Input::Observed { member: "b".to_owned(), uid: "u-b".to_owned(), observation: gone },
    );
    let state = answer(state, "b", tidegate_lifecycle::teardown::ObjectPresence::Gone);
    let state = answer(state, "c", tidegate_lifecycle::teardown::ObjectPresence::Gone);
    assert_eq!(released(&state), uids(&["b", "c"]), "a skipped Application isn't released");
}

#[test]
fn a_foreground_deletion_is_reported_once() {
    let options = AppSetRuleOptions::default();
    let mut foreign = ForeignDeletions::default();
    assert_eq!(foreign.take_warning(&ordered_appset(), &options), None);
    let deleted = deleted_appset(appset_with_order("Reverse", &json!({})), &["foregroundDeletion"]);
    assert!(foreign.take_warning(&deleted, &options).unwrap().contains("--cascade=foreground"));
    assert_eq!(foreign.take_warning(&deleted, &options), None);
    let retried = foreign.finish_query(Vec::new(), &Err::<bool, _>("busy"), [], at(0));
    assert_eq!(retried, Some(at(0) + Duration::from_secs(5)));
}
