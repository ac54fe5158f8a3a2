//! Which Applications come and go before a progressive sync begins, and in which step each is.

use serde_json::{Value, json};
use tidegate_applicationset::changes::Generated;
use tidegate_applicationset::policy::Options;
use tidegate_applicationset::preview::{MembersPreview, Unforeseen, members};
use tidegate_model::argo::{Application, ApplicationSet};

use crate::{FINALIZER, Here, all, at, generated, live, set, with};

/// Step 1 selects dev, step 2 prod; they go the other way round.
fn rolling() -> ApplicationSet {
    let step = |env: &str| json!({"matchExpressions": [{"key": "env", "operator": "In", "values": [env]}]});
    let steps = json!([step("dev"), step("prod")]);
    set(
        &json!({"strategy": {"type": "RollingSync", "rollingSync": {"steps": steps}, "deletionOrder": "Reverse"}}),
    )
}

fn env(env: &str) -> Value {
    json!({"metadata": {"labels": {"env": env}}})
}

fn wanted(name: &str, of: &str) -> Application {
    with(&generated(name), &env(of))
}

fn there(name: &str, of: &str) -> Application {
    live(name, &env(of))
}

fn told(set: &ApplicationSet, wanted: &Generated, existing: &[Application]) -> MembersPreview {
    members(set, wanted, existing, (&Here, &Options::default()), at(0)).unwrap()
}

/// What is done, with the step of each: `+a1 ~b2 -c`, and `-c!` where the objects stay.
fn words(told: &MembersPreview) -> String {
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
fn each_is_told_with_the_step_it_would_be_in() {
    let moved = with(&wanted("a", "dev"), &json!({"spec": {"source": {"targetRevision": "v2"}}}));
    let bare = with(&there("z", "dev"), &json!({"metadata": {"finalizers": null}}));
    for (what, wanted, existing, expected) in [
        ("nothing changes", vec![wanted("a", "dev")], vec![there("a", "dev")], ""),
        (
            "some come, one of them into no step",
            vec![wanted("a", "dev"), wanted("b", "prod"), wanted("c", "lab"), wanted("d", "dev")],
            vec![there("a", "dev")],
            "+b2 +c +d1",
        ),
        (
            "some go, one of them out of no step",
            vec![wanted("a", "dev")],
            vec![there("a", "dev"), there("b", "prod"), there("c", "lab")],
            "-b2 -c",
        ),
        ("what it has deployed stays", vec![], vec![bare], "-z1!"),
        ("a field changes", vec![moved], vec![there("a", "dev")], "~a1"),
        ("it goes to another step", vec![wanted("a", "prod")], vec![there("a", "dev")], "~a2"),
        (
            "all of it at once",
            vec![wanted("a", "prod"), wanted("new", "dev")],
            vec![there("a", "dev"), there("old", "prod")],
            "+new1 ~a2 -old2",
        ),
    ] {
        let told = told(&rolling(), &all(wanted), &existing);
        assert_eq!(words(&told), expected, "{what}");
        assert_eq!((told.left.len(), told.problems.len()), (0, 0), "{what}");
        assert_eq!(told.deletion.is_some(), !told.deleted.is_empty(), "{what}");
    }
}

#[test]
fn what_changes_is_told_field_by_field() {
    let told = told(&rolling(), &all(vec![wanted("a", "prod")]), &[there("a", "dev")]);
    let [field] = &told.changed[0].fields[..] else { panic!("{told:#?}") };
    let values = (field.before.as_ref().unwrap(), field.after.as_ref().unwrap());
    assert_eq!((field.field.as_str(), values), ("metadata.labels.env", (&json!("dev"), &json!("prod"))));
}

#[test]
fn what_goes_is_told_in_the_order_of_its_deletion() {
    let existing = [there("a", "dev"), there("b", "prod"), there("c", "lab")];
    let told = told(&rolling(), &all(vec![]), &existing);
    let deletion = told.deletion.unwrap().deletion;
    let order: Vec<(&str, &str)> =
        deletion.members.iter().map(|one| (one.application.as_str(), one.step.as_str())).collect();
    assert_eq!(order, [("b", "2"), ("a", "1"), ("c", "-1")]);
}

#[test]
fn a_set_without_a_progressive_sync_has_no_steps() {
    let told = told(&set(&json!({})), &all(vec![wanted("b", "dev")]), &[there("a", "dev")]);
    assert_eq!(words(&told), "+b -a");
}

#[test]
fn what_stays_as_it_is_is_told_with_the_reason() {
    let drops = || (all(vec![wanted("a", "dev")]), vec![there("a", "dev"), there("b", "prod")]);
    let mut kept = rolling();
    kept.spec.sync_policy = serde_json::from_value(json!({"applicationsSync": "create-update"})).unwrap();
    let mut limited = rolling();
    limited.metadata.annotations.insert("tidegate.dev/max-deletions".to_owned(), "0".to_owned());
    let failing = Generated { failed: vec!["generator 2: no answer".to_owned()], ..drops().0 };
    let lost = with(&wanted("b", "prod"), &json!({"spec": {"project": "nowhere"}}));
    let (two, existing) = drops();
    for (what, set, generated, reason, problem) in [
        ("the policy", kept, two.clone(), "the policy does not allow to delete it", None),
        (
            "too many",
            limited,
            two,
            "more Applications than may be deleted at once",
            Some("1 of its 2 Applications are not generated any more (b)"),
        ),
        (
            "a generator fails",
            rolling(),
            failing,
            "not all that is generated is known",
            Some("generator 2: no answer"),
        ),
        (
            "its project is not there",
            rolling(),
            all(vec![wanted("a", "dev"), lost]),
            "references project nowhere which does not exist",
            None,
        ),
    ] {
        let told = told(&set, &generated, &existing);
        assert_eq!(words(&told), "", "{what}");
        assert!(told.left["b"].contains(reason), "{what}: {told:#?}");
        assert_eq!(told.problems.is_empty(), problem.is_none(), "{what}: {told:#?}");
        assert!(problem.is_none_or(|problem| told.problems[0].starts_with(problem)), "{what}: {told:#?}");
    }
}

#[test]
fn nothing_is_told_of_steps_that_mean_nothing() {
    let step = json!({"matchExpressions": [{"key": "env", "operator": "Exists", "values": []}]});
    let wrong = set(&json!({"strategy": {"type": "RollingSync", "rollingSync": {"steps": [step]}}}));
    let why = members(&wrong, &all(vec![]), &[], (&Here, &Options::default()), at(0)).unwrap_err();
    assert!(matches!(&why, Unforeseen::Step(step) if step.step == 1), "{why}");
}

#[test]
fn no_credential_is_told() {
    let with_token = |token: &str| json!({"spec": {"source": {"helm": {"parameters": [{"name": "token", "value": token}]}}}});
    let existing = [with(&there("a", "dev"), &with_token("hunter2"))];
    let told = told(&rolling(), &all(vec![with(&wanted("a", "dev"), &with_token("hunter3"))]), &existing);
    assert_eq!(words(&told), "~a1");
    assert!(!serde_json::to_string(&told).unwrap().contains("hunter"), "{told:#?}");
    assert!(existing[0].metadata.finalizers.contains(&FINALIZER.to_owned()));
}
