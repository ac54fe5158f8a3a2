//! So many Applications may drop out of a set at once, and no more.

use serde_json::json;
use tidegate_applicationset::changes::{Generated, Left, reconcile};
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
