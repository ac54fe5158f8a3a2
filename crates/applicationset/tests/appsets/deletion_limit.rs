//! Limit on the simultaneous deletions of an ApplicationSet.

use serde_json::json;
use tidegate_applicationset::changes::{AppSetOutput, UnchangedReason, reconcile};
use tidegate_applicationset::deletion_limit::approval::{
    DeletionApproval, carry_over_approval, last_approval, with_approval, without_used_approval,
};
use tidegate_applicationset::status::ConditionReason;
use tidegate_applicationset::sync_policy::AppSetRuleOptions;
use tidegate_model::argo::{Application, ApplicationSet};

use crate::{
    OneCluster, appset, changes, describe_changes, generated_application, generated_output, live_application,
    owner_reference,
};

const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

fn appset_with_annotations(annotations: &[(&str, &str)]) -> ApplicationSet {
    let mut set = appset(&json!({}));
    let annotations =
        annotations.iter().map(|(key, value)| (format!("tidegate.dev/{key}"), (*value).to_owned()));
    set.metadata.annotations.extend(annotations);
    set
}

fn existing_applications() -> Vec<Application> {
    let foreign = live_application(
        "x",
        &json!({"metadata": {"ownerReferences": owner_reference("ApplicationSet", "other")}}),
    );
    NAMES.iter().map(|name| live_application(name, &json!({}))).chain([foreign]).collect()
}

/// Returns output that lacks `count` of the eight Applications.
fn output_without(count: usize) -> AppSetOutput {
    generated_output(NAMES.iter().skip(count).map(|name| generated_application(name)).collect())
}

#[test]
fn deletions_are_limited() {
    for (said, service_says, dropped, goes) in [
        (None, None, 8, true),
        (Some("3"), None, 3, true),
        (Some("3"), None, 4, false),
        (Some("0"), None, 1, false),
        (Some("0"), None, 0, true),
        // The limit for eight Applications is rounded down, to a minimum of one.
        (Some("50%"), None, 4, true),
        (Some("50%"), None, 5, false),
        (Some("1%"), None, 1, true),
        (Some("1%"), None, 2, false),
        (Some("0%"), None, 1, false),
        (Some("100%"), None, 8, true),
        // The ApplicationSet's limit takes precedence over the service's.
        (None, Some("3"), 4, false),
        (None, Some("3"), 3, true),
        (Some("100%"), Some("3"), 8, true),
        (Some("3"), Some("100%"), 4, false),
    ] {
        let annotations: Vec<_> = said.iter().map(|said| ("max-deletions", *said)).collect();
        let max_deletions = service_says.map(|text| text.parse().unwrap());
        let options = AppSetRuleOptions { max_deletions, ..AppSetRuleOptions::default() };
        let done = reconcile(
            &appset_with_annotations(&annotations),
            Ok(&output_without(dropped)),
            &existing_applications(),
            &OneCluster,
            &options,
        );
        let deleted = if goes { dropped } else { 0 };
        assert_eq!(done.delete.len(), deleted, "{said:?} {service_says:?} {dropped}");
        assert_eq!(done.failure().is_none(), goes, "{said:?} {service_says:?} {dropped}");
        assert!(
            goes || NAMES
                .iter()
                .take(dropped)
                .all(|name| done.unchanged[*name] == UnchangedReason::DeletionLimit)
        );
    }
}

#[test]
fn blocked_deletions_do_not_block_other_changes() {
    let mut wanted = output_without(7);
    wanted.applications.insert("new".to_owned(), generated_application("new"));
    let done =
        changes(&appset_with_annotations(&[("max-deletions", "3")]), &wanted, &existing_applications());
    assert_eq!(describe_changes(&done), "+new");
    let failure = done.failure().unwrap();
    assert_eq!(failure.reason, ConditionReason::DeleteApplicationError);
    let said = "7 of its 8 Applications are no longer generated (a, b, c, d, e and 2 more), but at most 3 Applications";
    assert!(failure.message.starts_with(said), "{}", failure.message);
}

/// Returns the token in the message.
fn message_token(wanted: &AppSetOutput, there: &[Application]) -> String {
    let message = changes(&appset_with_annotations(&[("max-deletions", "0")]), wanted, there)
        .failure()
        .unwrap()
        .message;
    let (_, rest) = message.split_once("`tidegate.dev/deletions-approved: ").unwrap();
    rest.trim_end_matches('`').to_owned()
}

#[test]
fn an_approval_covers_only_the_current_output() {
    let (wanted, there) = (output_without(6), existing_applications());
    let token = message_token(&wanted, &there);
    let approved = |wanted: &AppSetOutput, there: &[Application]| {
        let annotations = [("max-deletions", "1"), ("deletions-approved", token.as_str())];
        describe_changes(&changes(&appset_with_annotations(&annotations), wanted, there))
    };
    assert_eq!(approved(&wanted, &there), "-a -b -c -d -e -f");
    assert_eq!(
        approved(&wanted, &there[2..]),
        "-c -d -e -f",
        "the token remains valid while some of the Applications are already deleted"
    );
    assert_eq!(
        approved(&output_without(7), &there),
        "",
        "the token is not valid if fewer Applications are generated"
    );
    assert_eq!(
        approved(&output_without(5), &there),
        "",
        "the token is not valid if other Applications are affected"
    );
}

#[test]
fn an_invalid_limit_blocks_deletions() {
    for text in ["few", "", "-1", "1.5%"] {
        let done = changes(
            &appset_with_annotations(&[("max-deletions", text)]),
            &output_without(1),
            &existing_applications(),
        );
        assert_eq!(describe_changes(&done), "", "{text:?}");
        let failure = done.failure().unwrap();
        assert!(failure.message.starts_with("tidegate.dev/max-deletions annotation"), "{}", failure.message);
    }
    // A deleted ApplicationSet deletes all of its Applications.
    let mut going = appset_with_annotations(&[("max-deletions", "0")]);
    going.metadata.deletion_timestamp = Some(crate::at(0).into());
    let next = tidegate_applicationset::deletion::next_deletion_step(
        &going,
        &existing_applications(),
        &OneCluster,
        &AppSetRuleOptions::default(),
    );
    let tidegate_applicationset::deletion::AppSetDeletionStep::Finish { members } = next else {
        panic!("{next:?}")
    };
    assert_eq!(members.len(), NAMES.len());
}

/// The record of the deletion contains the approver.
#[test]
fn the_permit_of_excess_deletions_is_recorded() {
    let (wanted, there) = (output_without(6), existing_applications());
    let token = message_token(&wanted, &there);
    let permit = |set: &ApplicationSet, there: &[Application]| changes(set, &wanted, there).permit;
    let held = appset_with_annotations(&[("max-deletions", "1")]);
    assert_eq!(permit(&held, &there), None, "nothing is deleted");
    let by_hand = appset_with_annotations(&[("max-deletions", "1"), ("deletions-approved", token.as_str())]);
    let permitted = permit(&by_hand, &there).unwrap();
    assert_eq!(
        (permitted.token.as_str(), permitted.approval),
        (token.as_str(), None),
        "the approver is unknown"
    );
    let wrong = changes(&held, &wanted, &there).problems;
    let approved = with_approval(&held, &wrong, &approval_of(&token)).unwrap();
    assert_eq!(permit(&approved, &there).unwrap().approval, Some(approval_of(&token)));
    // A single deletion doesn't exceed the limit.
    let last: Vec<Application> =
        there.iter().filter(|one| one.metadata.name.as_str() > "e").cloned().collect();
    assert_eq!(permit(&approved, &last), None);
    // The approval was for a different output.
    let mut other = approved.clone();
    let permits =
        other.metadata.annotations.iter_mut().filter(|(key, _)| key.ends_with("/deletions-approval"));
    permits.for_each(|(_, value)| *value = value.replace(&token, "000000000000"));
    assert_eq!(permit(&other, &there).unwrap().approval, None);
}

fn approval_of(token: &str) -> DeletionApproval {
    let at = serde_json::from_value(json!("2026-11-20T10:00:00Z")).unwrap();
    DeletionApproval { token: token.to_owned(), by: "alice".to_owned(), reason: "moved".to_owned(), at }
}

#[test]
fn a_command_approves_only_blocked_deletions() {
    let limited = appset_with_annotations(&[("max-deletions", "3")]);
    let (wanted, there) = (output_without(4), existing_applications());
    let held = changes(&limited, &wanted, &there);
    let token = message_token(&wanted, &there);
    let approved = with_approval(&limited, &held.problems, &approval_of(&token)).unwrap();
    assert_eq!(describe_changes(&changes(&approved, &wanted, &there)), "-a -b -c -d");
    assert_eq!(last_approval(&approved), Some(approval_of(&token)), "with the requester and the reason");
    // The output has shrunk since the approval, and no one has approved the new output.
    assert_eq!(describe_changes(&changes(&approved, &output_without(5), &there)), "");
    let refused =
        with_approval(&limited, &held.problems, &approval_of("000000000000")).unwrap_err().to_string();
    assert!(refused.contains("the token \"000000000000\" does not match the deletions"), "{refused}");
    assert!(refused.contains(&token), "the message contains the valid token: {refused}");
    let well = changes(&limited, &output_without(2), &there);
    let refused = with_approval(&limited, &well.problems, &approval_of(&token)).unwrap_err().to_string();
    assert!(
        refused.starts_with("ApplicationSet argocd/fleet has no deletions waiting for approval"),
        "{refused}"
    );
}

#[test]
fn a_used_approval_is_removed_but_its_approver_stays() {
    let (limited, wanted) = (appset_with_annotations(&[("max-deletions", "3")]), output_without(4));
    let held = changes(&limited, &wanted, &existing_applications());
    let token = message_token(&wanted, &existing_applications());
    let approved = with_approval(&limited, &held.problems, &approval_of(&token)).unwrap();
    let without = without_used_approval(&approved).unwrap();
    assert_eq!(describe_changes(&changes(&without, &wanted, &existing_applications())), "");
    assert_eq!((last_approval(&without), without_used_approval(&without)), (Some(approval_of(&token)), None));
    // An annotation that a user wrote is kept.
    assert_eq!(without_used_approval(&appset_with_annotations(&[("deletions-approved", &token)])), None);
    // A reread ApplicationSet keeps a command's approval unless its file contains one.
    let mut read = appset_with_annotations(&[("max-deletions", "3")]);
    carry_over_approval(&approved, &mut read);
    assert_eq!(read.metadata.annotations, approved.metadata.annotations);
    let own = appset_with_annotations(&[("deletions-approved", "abc")]);
    let mut read = own.clone();
    carry_over_approval(&approved, &mut read);
    assert_eq!(read, own);
}
