//! So many Applications may drop out of a set at once, and no more.

use serde_json::json;
use tidegate_applicationset::changes::{Generated, Left, reconcile};
use tidegate_applicationset::guard::approval::{Approval, approval, approve, carried, spent};
use tidegate_applicationset::policy::Options;
use tidegate_applicationset::status::Reason;
use tidegate_model::argo::{Application, ApplicationSet};

use crate::{Here, all, changes, generated, live, owner, set, words};

const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

fn annotated(annotations: &[(&str, &str)]) -> ApplicationSet {
    let mut set = set(&json!({}));
    let annotations =
        annotations.iter().map(|(key, value)| (format!("tidegate.dev/{key}"), (*value).to_owned()));
    set.metadata.annotations.extend(annotations);
    set
}

fn there() -> Vec<Application> {
    let foreign = live("x", &json!({"metadata": {"ownerReferences": owner("ApplicationSet", "other")}}));
    NAMES.iter().map(|name| live(name, &json!({}))).chain([foreign]).collect()
}

/// All but so many of the eight are generated.
fn without(count: usize) -> Generated {
    all(NAMES.iter().skip(count).map(|name| generated(name)).collect())
}

#[test]
fn no_more_are_deleted_at_once_than_may_be() {
    for (said, service_says, dropped, goes) in [
        (None, None, 8, true),
        (Some("3"), None, 3, true),
        (Some("3"), None, 4, false),
        (Some("0"), None, 1, false),
        (Some("0"), None, 0, true),
        // Of eight: rounded down, but at least one.
        (Some("50%"), None, 4, true),
        (Some("50%"), None, 5, false),
        (Some("1%"), None, 1, true),
        (Some("1%"), None, 2, false),
        (Some("0%"), None, 1, false),
        (Some("100%"), None, 8, true),
        // The set counts before the service.
        (None, Some("3"), 4, false),
        (None, Some("3"), 3, true),
        (Some("100%"), Some("3"), 8, true),
        (Some("3"), Some("100%"), 4, false),
    ] {
        let annotations: Vec<_> = said.iter().map(|said| ("max-deletions", *said)).collect();
        let max_deletions = service_says.map(|text| text.parse().unwrap());
        let options = Options { max_deletions, ..Options::default() };
        let done = reconcile(&annotated(&annotations), Ok(&without(dropped)), &there(), &Here, &options);
        let deleted = if goes { dropped } else { 0 };
        assert_eq!(done.delete.len(), deleted, "{said:?} {service_says:?} {dropped}");
        assert_eq!(done.failure().is_none(), goes, "{said:?} {service_says:?} {dropped}");
        assert!(goes || NAMES.iter().take(dropped).all(|name| done.left[*name] == Left::TooMany));
    }
}

#[test]
fn what_else_is_to_be_done_is_done() {
    let mut wanted = without(7);
    wanted.applications.insert("new".to_owned(), generated("new"));
    let done = changes(&annotated(&[("max-deletions", "3")]), &wanted, &there());
    assert_eq!(words(&done), "+new");
    let failure = done.failure().unwrap();
    assert_eq!(failure.reason, Reason::DeleteApplicationError);
    let said = "7 of its 8 Applications are not generated any more (a, b, c, d, e and 2 more), and no more than 3 may";
    assert!(failure.message.starts_with(said), "{}", failure.message);
}

/// The value that the message asks for.
fn token(wanted: &Generated, there: &[Application]) -> String {
    let message = changes(&annotated(&[("max-deletions", "0")]), wanted, there).failure().unwrap().message;
    let (_, rest) = message.split_once("`tidegate.dev/deletions-approved: ").unwrap();
    rest.trim_end_matches('`').to_owned()
}

#[test]
fn a_person_may_approve_what_is_generated_now_and_nothing_else() {
    let (wanted, there) = (without(6), there());
    let token = token(&wanted, &there);
    let approved = |wanted: &Generated, there: &[Application]| {
        let annotations = [("max-deletions", "1"), ("deletions-approved", token.as_str())];
        words(&changes(&annotated(&annotations), wanted, there))
    };
    assert_eq!(approved(&wanted, &there), "-a -b -c -d -e -f");
    assert_eq!(approved(&wanted, &there[2..]), "-c -d -e -f", "also when some of them are gone");
    assert_eq!(approved(&without(7), &there), "", "not when still fewer are generated");
    assert_eq!(approved(&without(5), &there), "", "nor when there are others");
}

#[test]
fn what_cannot_be_read_deletes_nothing() {
    for text in ["few", "", "-1", "1.5%"] {
        let done = changes(&annotated(&[("max-deletions", text)]), &without(1), &there());
        assert_eq!(words(&done), "", "{text:?}");
        let failure = done.failure().unwrap();
        assert!(
            failure.message.starts_with("the annotation tidegate.dev/max-deletions"),
            "{}",
            failure.message
        );
    }
    // A set that goes takes all of its Applications with it.
    let mut going = annotated(&[("max-deletions", "0")]);
    going.metadata.deletion_timestamp = Some(crate::at(0).into());
    let next = tidegate_applicationset::deletion::deleting(&going, &there(), &Here, &Options::default());
    let tidegate_applicationset::deletion::Next::Finish { members } = next else { panic!("{next:?}") };
    assert_eq!(members.len(), NAMES.len());
}

/// It is in the record of the deletion by whom so many are let go.
#[test]
fn by_which_permit_so_many_are_deleted_is_known() {
    let (wanted, there) = (without(6), there());
    let token = token(&wanted, &there);
    let permit = |set: &ApplicationSet, there: &[Application]| changes(set, &wanted, there).permit;
    let held = annotated(&[("max-deletions", "1")]);
    assert_eq!(permit(&held, &there), None, "nothing is deleted");
    let by_hand = annotated(&[("max-deletions", "1"), ("deletions-approved", token.as_str())]);
    let permitted = permit(&by_hand, &there).unwrap();
    assert_eq!((permitted.token.as_str(), permitted.given), (token.as_str(), None), "nobody knows who");
    let wrong = changes(&held, &wanted, &there).wrong;
    let approved = approve(&held, &wrong, &approval_of(&token)).unwrap();
    assert_eq!(permit(&approved, &there).unwrap().given, Some(approval_of(&token)));
    // One that is left is no more than may go without anybody.
    let last: Vec<Application> =
        there.iter().filter(|one| one.metadata.name.as_str() > "e").cloned().collect();
    assert_eq!(permit(&approved, &last), None);
    // What was approved before was something else.
    let mut other = approved.clone();
    let permits =
        other.metadata.annotations.iter_mut().filter(|(key, _)| key.ends_with("/deletions-approval"));
    permits.for_each(|(_, value)| *value = value.replace(&token, "000000000000"));
    assert_eq!(permit(&other, &there).unwrap().given, None);
}

/// What somebody approves by a command.
fn approval_of(token: &str) -> Approval {
    let at = serde_json::from_value(json!("2026-11-20T10:00:00Z")).unwrap();
    Approval { token: token.to_owned(), by: "alice".to_owned(), reason: "moved".to_owned(), at }
}

#[test]
fn a_command_approves_what_is_held_and_nothing_else() {
    let limited = annotated(&[("max-deletions", "3")]);
    let (wanted, there) = (without(4), there());
    let held = changes(&limited, &wanted, &there);
    let token = token(&wanted, &there);
    let approved = approve(&limited, &held.wrong, &approval_of(&token)).unwrap();
    assert_eq!(words(&changes(&approved, &wanted, &there)), "-a -b -c -d");
    assert_eq!(approval(&approved), Some(approval_of(&token)), "with who and why");
    // Less is generated since, which nobody has seen.
    assert_eq!(words(&changes(&approved, &without(5), &there)), "");
    let refused = approve(&limited, &held.wrong, &approval_of("000000000000")).unwrap_err().to_string();
    assert!(refused.contains("are not those that \"000000000000\" stands for"), "{refused}");
    assert!(refused.contains(&token), "what can be approved is named: {refused}");
    let well = changes(&limited, &without(2), &there);
    let refused = approve(&limited, &well.wrong, &approval_of(&token)).unwrap_err().to_string();
    assert!(
        refused.starts_with("no deletion of an Application of ApplicationSet argocd/fleet is held"),
        "{refused}"
    );
}

#[test]
fn an_approval_is_taken_away_when_it_is_spent_and_who_gave_it_stays() {
    let (limited, wanted) = (annotated(&[("max-deletions", "3")]), without(4));
    let held = changes(&limited, &wanted, &there());
    let token = token(&wanted, &there());
    let approved = approve(&limited, &held.wrong, &approval_of(&token)).unwrap();
    let without = spent(&approved).unwrap();
    assert_eq!(words(&changes(&without, &wanted, &there())), "");
    assert_eq!((approval(&without), spent(&without)), (Some(approval_of(&token)), None));
    // What somebody has written into the set is theirs.
    assert_eq!(spent(&annotated(&[("deletions-approved", &token)])), None);
    // A set that is read from its file again has what a command has said, unless its author says something himself.
    let mut read = annotated(&[("max-deletions", "3")]);
    carried(&approved, &mut read);
    assert_eq!(read.metadata.annotations, approved.metadata.annotations);
    let own = annotated(&[("deletions-approved", "abc")]);
    let mut read = own.clone();
    carried(&approved, &mut read);
    assert_eq!(read, own);
}
