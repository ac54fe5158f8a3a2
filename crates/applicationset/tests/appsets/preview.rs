//! Applications created and deleted before a progressive sync, with their steps.

use serde_json::{Value, json};
use tidegate_applicationset::changes::AppSetOutput;
use tidegate_applicationset::preview::{MembersPreview, PreviewError, preview_members};
use tidegate_applicationset::sync_policy::AppSetRuleOptions;
use tidegate_model::argo::{Application, ApplicationSet};

use crate::{
    FINALIZER, OneCluster, appset, at, generated_application, generated_output, live_application, with_patch,
};

/// Returns an ApplicationSet with the steps dev and prod. Deletions use the reverse order.
fn appset_with_steps() -> ApplicationSet {
    let step = |env: &str| json!({"matchExpressions": [{"key": "env", "operator": "In", "values": [env]}]});
    let steps = json!([step("dev"), step("prod")]);
    appset(
        &json!({"strategy": {"type": "RollingSync", "rollingSync": {"steps": steps}, "deletionOrder": "Reverse"}}),
    )
}

fn env(env: &str) -> Value {
    json!({"metadata": {"labels": {"env": env}}})
}

fn application_in_env(name: &str, of: &str) -> Application {
    with_patch(&generated_application(name), &env(of))
}

fn existing_application(name: &str, of: &str) -> Application {
    live_application(name, &env(of))
}

fn preview_of(set: &ApplicationSet, wanted: &AppSetOutput, existing: &[Application]) -> MembersPreview {
    preview_members(set, wanted, existing, &OneCluster, &AppSetRuleOptions::default(), at(0)).unwrap()
}

/// Returns a short description with the step of each Application, such as `+a1 ~b2 -c`, or `-c!` if the
/// objects are kept.
fn describe_preview(told: &MembersPreview) -> String {
    let step = |step: Option<u32>| step.map_or_else(String::new, |step| step.to_string());
    let created = told.created.iter().map(|one| format!("+{}{}", one.application, step(one.step)));
    let changed = told.changed.iter().map(|one| format!("~{}{}", one.application, step(one.step)));
    let deleted = told.deleted.iter().map(|one| {
        let stays = if one.keeps_objects { "!" } else { "" };
        format!("-{}{}{stays}", one.application, step(one.step))
    });
    created.chain(changed).chain(deleted).collect::<Vec<_>>().join(" ")
}

#[test]
fn each_member_has_its_step() {
    let moved =
        with_patch(&application_in_env("a", "dev"), &json!({"spec": {"source": {"targetRevision": "v2"}}}));
    let bare = with_patch(&existing_application("z", "dev"), &json!({"metadata": {"finalizers": null}}));
    for (what, wanted, existing, expected) in [
        ("nothing changes", vec![application_in_env("a", "dev")], vec![existing_application("a", "dev")], ""),
        (
            "Applications are created, and no step selects one of them",
            vec![
                application_in_env("a", "dev"),
                application_in_env("b", "prod"),
                application_in_env("c", "lab"),
                application_in_env("d", "dev"),
            ],
            vec![existing_application("a", "dev")],
            "+b2 +c +d1",
        ),
        (
            "Applications are deleted, and no step selected one of them",
            vec![application_in_env("a", "dev")],
            vec![
                existing_application("a", "dev"),
                existing_application("b", "prod"),
                existing_application("c", "lab"),
            ],
            "-b2 -c",
        ),
        ("the objects of a deleted Application are kept", vec![], vec![bare], "-z1!"),
        ("a field changes", vec![moved], vec![existing_application("a", "dev")], "~a1"),
        (
            "an Application moves to another step",
            vec![application_in_env("a", "prod")],
            vec![existing_application("a", "dev")],
            "~a2",
        ),
        (
            "all types of change at once",
            vec![application_in_env("a", "prod"), application_in_env("new", "dev")],
            vec![existing_application("a", "dev"), existing_application("old", "prod")],
            "+new1 ~a2 -old2",
        ),
    ] {
        let told = preview_of(&appset_with_steps(), &generated_output(wanted), &existing);
        assert_eq!(describe_preview(&told), expected, "{what}");
        assert_eq!((told.left.len(), told.problems.len()), (0, 0), "{what}");
        assert_eq!(told.deletion.is_some(), !told.deleted.is_empty(), "{what}");
    }
}

#[test]
fn changes_are_listed_field_by_field() {
    let told = preview_of(
        &appset_with_steps(),
        &generated_output(vec![application_in_env("a", "prod")]),
        &[existing_application("a", "dev")],
    );
    let [field] = &told.changed[0].fields[..] else { panic!("{told:#?}") };
    let values = (field.before.as_ref().unwrap(), field.after.as_ref().unwrap());
    assert_eq!((field.field.as_str(), values), ("metadata.labels.env", (&json!("dev"), &json!("prod"))));
}

#[test]
fn deletions_are_listed_in_their_order() {
    let existing = [
        existing_application("a", "dev"),
        existing_application("b", "prod"),
        existing_application("c", "lab"),
    ];
    let told = preview_of(&appset_with_steps(), &generated_output(vec![]), &existing);
    let deletion = told.deletion.unwrap().deletion;
    let order: Vec<(&str, &str)> =
        deletion.members.iter().map(|one| (one.application.as_str(), one.step.as_str())).collect();
    assert_eq!(order, [("b", "2"), ("a", "1"), ("c", "-1")]);
}

#[test]
fn an_appset_without_a_progressive_sync_has_no_steps() {
    let told = preview_of(
        &appset(&json!({})),
        &generated_output(vec![application_in_env("b", "dev")]),
        &[existing_application("a", "dev")],
    );
    assert_eq!(describe_preview(&told), "+b -a");
}

#[test]
fn unchanged_members_have_a_reason() {
    let drops = || {
        (
            generated_output(vec![application_in_env("a", "dev")]),
            vec![existing_application("a", "dev"), existing_application("b", "prod")],
        )
    };
    let mut kept = appset_with_steps();
    kept.spec.sync_policy = serde_json::from_value(json!({"applicationsSync": "create-update"})).unwrap();
    let mut limited = appset_with_steps();
    limited.metadata.annotations.insert("tidegate.dev/max-deletions".to_owned(), "0".to_owned());
    let failing = AppSetOutput { errors: vec!["generator 2: no answer".to_owned()], ..drops().0 };
    let lost = with_patch(&application_in_env("b", "prod"), &json!({"spec": {"project": "nowhere"}}));
    let (two, existing) = drops();
    for (what, set, generated, reason, problem) in [
        ("the policy", kept, two.clone(), "the policy does not allow deletions", None),
        (
            "too many",
            limited,
            two,
            "more Applications would be deleted than are allowed at once",
            Some("1 of its 2 Applications are no longer generated (b)"),
        ),
        (
            "a generator fails",
            appset_with_steps(),
            failing,
            "might generate it again",
            Some("generator 2: no answer"),
        ),
        (
            "the project does not exist",
            appset_with_steps(),
            generated_output(vec![application_in_env("a", "dev"), lost]),
            "references project nowhere which does not exist",
            None,
        ),
    ] {
        let told = preview_of(&set, &generated, &existing);
        assert_eq!(describe_preview(&told), "", "{what}");
        assert!(told.left["b"].contains(reason), "{what}: {told:#?}");
        assert_eq!(told.problems.is_empty(), problem.is_none(), "{what}: {told:#?}");
        assert!(problem.is_none_or(|problem| told.problems[0].starts_with(problem)), "{what}: {told:#?}");
    }
}

#[test]
fn invalid_steps_have_no_preview() {
    let step = json!({"matchExpressions": [{"key": "env", "operator": "Exists", "values": []}]});
    let wrong = appset(&json!({"strategy": {"type": "RollingSync", "rollingSync": {"steps": [step]}}}));
    let reason = preview_members(
        &wrong,
        &generated_output(vec![]),
        &[],
        &OneCluster,
        &AppSetRuleOptions::default(),
        at(0),
    )
    .unwrap_err();
    assert!(matches!(&reason, PreviewError::Step(step) if step.step == 1), "{reason}");
}

#[test]
fn credentials_are_masked() {
    let with_token = |token: &str| json!({"spec": {"source": {"helm": {"parameters": [{"name": "token", "value": token}]}}}});
    let existing = [with_patch(&existing_application("a", "dev"), &with_token("hunter2"))];
    let told = preview_of(
        &appset_with_steps(),
        &generated_output(vec![with_patch(&application_in_env("a", "dev"), &with_token("hunter3"))]),
        &existing,
    );
    assert_eq!(describe_preview(&told), "~a1");
    assert!(!serde_json::to_string(&told).unwrap().contains("hunter"), "{told:#?}");
    assert!(existing[0].metadata.finalizers.contains(&FINALIZER.to_owned()));
}
