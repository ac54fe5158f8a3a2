//! Preview of the changes to each Application. It equals the actual changes, and shows all values except
//! secrets.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tidegate_applicationset::change_preview::{AppSetPreview, ChangeKind, MemberPreview, preview_appset};
use tidegate_applicationset::changes::AppSetOutput;
use tidegate_applicationset::sync_policy::AppSetRuleOptions;
use tidegate_model::argo::{Application, ApplicationSet};

use crate::{
    appset, generated_application, generated_output, live_application, owner_reference, with_patch,
    with_policy,
};

const OLD: &str = "1111111111111111111111111111111111111111";
const NEW: &str = "2222222222222222222222222222222222222222";

fn preview_of(
    set: &ApplicationSet,
    generated: &AppSetOutput,
    there: &[Application],
    revision: &str,
) -> AppSetPreview {
    let names = generated.applications.keys();
    let targets: BTreeMap<&str, Vec<String>> =
        names.map(|name| (name.as_str(), vec![revision.to_owned()])).collect();
    preview_appset(set, generated, there, &targets, &AppSetRuleOptions::default())
}

/// Returns an Application that deployed this revision and was compared with it. Of its three resources,
/// `out_of_sync` differ.
fn deployed_application(name: &str, revision: &str, out_of_sync: usize) -> Application {
    let resource = |index: usize| {
        let status = if index < out_of_sync { "OutOfSync" } else { "Synced" };
        json!({"kind": "ConfigMap", "name": format!("c{index}"), "status": status})
    };
    let sync = if out_of_sync == 0 { "Synced" } else { "OutOfSync" };
    let status = json!({"status": {
        "sync": {"status": sync, "revision": revision},
        "health": {"status": "Healthy"},
        "history": [{"id": 0, "revision": revision, "deployedAt": "2026-11-20T10:00:00Z"}],
        // Hooks are not compared.
        "resources": [resource(0), resource(1), resource(2), {"kind": "Job", "name": "hook", "hook": true}],
    }});
    live_application(name, &status)
}

/// Returns the changed fields in the format `FIELD: BEFORE > AFTER`.
fn fields(change: &MemberPreview) -> Vec<String> {
    let value = |value: &Option<Value>| value.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
    let one = |one: &tidegate_applicationset::change_preview::FieldChange| {
        format!("{}: {} > {}", one.field, value(&one.before), value(&one.after))
    };
    change.fields.iter().map(one).collect()
}

/// Returns the changes between two versions of the `spec` fields.
fn changed(before: &Value, after: &Value) -> Vec<String> {
    let there = with_patch(&live_application("a", &json!({})), &json!({"spec": before}));
    let wanted = generated_output(vec![with_patch(&generated_application("a"), &json!({"spec": after}))]);
    fields(&preview_of(&appset(&json!({})), &wanted, &[there], OLD).members["a"])
}

#[test]
fn each_application_has_a_change_kind() {
    let foreign = live_application(
        "d",
        &json!({"metadata": {"ownerReferences": owner_reference("ApplicationSet", "other")}}),
    );
    let there = [
        deployed_application("a", OLD, 0),
        deployed_application("b", OLD, 0),
        deployed_application("e", OLD, 0),
        foreign,
    ];
    let moved =
        with_patch(&generated_application("b"), &json!({"spec": {"source": {"targetRevision": "v2"}}}));
    let wanted = generated_output(vec![
        generated_application("a"),
        moved,
        generated_application("c"),
        generated_application("d"),
    ]);
    let told = preview_of(&appset(&json!({})), &wanted, &there, OLD);
    let what: Vec<(&str, ChangeKind)> =
        told.members.iter().map(|(name, one)| (name.as_str(), one.what)).collect();
    assert_eq!(
        what,
        [
            ("a", ChangeKind::Unchanged),
            ("b", ChangeKind::Changed),
            ("c", ChangeKind::Created),
            ("d", ChangeKind::LeftAlone)
        ]
    );
    assert_eq!(fields(&told.members["b"]), [r#"spec.source.targetRevision: "main" > "v2""#]);
    assert!(told.members["d"].why.as_ref().unwrap().contains("belongs to ApplicationSet other"));
    assert_eq!(told.members["c"].now, None);
    let removed: Vec<&str> = told.removed.iter().map(|one| one.metadata.name.as_str()).collect();
    assert_eq!((removed, told.retained.len(), told.problems.len()), (vec!["e"], 0, 0));
}

#[test]
fn retained_applications_have_a_reason() {
    let there = [deployed_application("a", OLD, 0), deployed_application("b", OLD, 0)];
    let wanted = generated_output(vec![with_patch(
        &generated_application("a"),
        &json!({"metadata": {"labels": {"x": "y"}}}),
    )]);
    let told = preview_of(&with_policy("create-only"), &wanted, &there, OLD);
    assert_eq!(told.members["a"].what, ChangeKind::LeftAlone);
    assert!(told.members["a"].why.as_ref().unwrap().contains("the policy does not allow updates"));
    assert!(told.retained["b"].contains("the policy does not allow deletions") && told.removed.is_empty());
    let mut limited = appset(&json!({}));
    limited.metadata.annotations.insert("tidegate.dev/max-deletions".to_owned(), "0".to_owned());
    let told = preview_of(&limited, &wanted, &there, OLD);
    assert!(
        told.retained["b"].contains("more Applications would be deleted than are allowed at once"),
        "{told:?}"
    );
    assert!(told.problems[0].starts_with("1 of its 2 Applications are no longer generated (b)"), "{told:?}");
    assert!(told.removed.is_empty());
}

#[test]
fn a_new_revision_is_a_change_and_comparisons_count_per_revision() {
    let wanted = generated_output(vec![generated_application("a")]);
    for (deployed_revision, target, differing, what, is_of_target) in [
        (OLD, OLD, 0, ChangeKind::Unchanged, true),
        (OLD, OLD, 2, ChangeKind::Unchanged, true),
        (OLD, NEW, 0, ChangeKind::Changed, false),
        (OLD, NEW, 2, ChangeKind::Changed, false),
    ] {
        let told = preview_of(
            &appset(&json!({})),
            &wanted,
            &[deployed_application("a", deployed_revision, differing)],
            target,
        );
        let (change, now) = (&told.members["a"], told.members["a"].now.clone().unwrap());
        assert_eq!((change.what, now.is_of_target), (what, is_of_target), "{target} {differing}");
        assert_eq!((now.out_of_sync, now.resources), (differing, 3));
        assert_eq!((now.deployed, change.fields.len()), (vec![deployed_revision.to_owned()], 0));
    }
    // If the spec differs, a comparison says nothing about the new state, whatever the compared revision.
    let moved = generated_output(vec![with_patch(
        &generated_application("a"),
        &json!({"spec": {"source": {"path": "other"}}}),
    )]);
    let told = preview_of(&appset(&json!({})), &moved, &[deployed_application("a", OLD, 0)], OLD);
    assert!(!told.members["a"].now.as_ref().unwrap().is_of_target);
    // An unresolved revision isn't compared.
    let told = preview_appset(
        &appset(&json!({})),
        &wanted,
        &[deployed_application("a", OLD, 0)],
        &BTreeMap::new(),
        &AppSetRuleOptions::default(),
    );
    assert_eq!(told.members["a"].what, ChangeKind::Unchanged);
}

#[test]
fn changed_fields_are_listed() {
    let chart = |tag: &str, values: &str| {
        json!({"source": {"helm": {
            "parameters": [{"name": "image.tag", "value": tag}, {"name": "replicas", "value": "2"}],
            "values": values,
        }}})
    };
    assert_eq!(
        changed(&chart("1.0", "a: {b: 1, c: 2}"), &chart("1.1", "# Said otherwise\na:\n  b: 1\n  c: 3\n")),
        [
            r#"spec.source.helm.parameters[image.tag].value: "1.0" > "1.1""#,
            "spec.source.helm.values.a.c: 2 > 3",
        ]
    );
    assert_eq!(
        changed(
            &json!({}),
            &json!({"syncPolicy": {"automated": {"prune": true}, "syncOptions": ["CreateNamespace=true"]}})
        ),
        [
            "spec.syncPolicy.automated.prune: - > true",
            r#"spec.syncPolicy.syncOptions: - > ["CreateNamespace=true"]"#,
        ]
    );
    let ignored =
        |pointer: &str| json!({"ignoreDifferences": [{"kind": "Deployment", "jsonPointers": [pointer]}]});
    assert_eq!(
        changed(&ignored("/spec/replicas"), &ignored("/status")),
        [r#"spec.ignoreDifferences[0].jsonPointers: ["/spec/replicas"] > ["/status"]"#]
    );
    // The values are equal but formatted differently.
    assert_eq!(changed(&chart("1", "a: 1"), &chart("1", "a: 1")), Vec::<String>::new());
}

#[test]
fn secrets_are_masked() {
    let chart = |secret: &str| {
        json!({"source": {
            "repoURL": format!("https://me:{secret}@git.example/shop"),
            "helm": {
                "parameters": [{"name": "db.password", "value": secret}],
                "values": format!("api: {{accessToken: {secret}}}\n"),
                "valuesObject": {"smtp": {"privateKey": {"inline": secret}}},
            },
            "plugin": {"env": [{"name": "CLIENT_SECRET", "value": secret}]},
            "kustomize": {"commonAnnotations": {"api-key": secret, "link": format!("https://me:{secret}@host.example")}},
        }})
    };
    let told = changed(&chart("hunter2"), &chart("hunter3"));
    assert_eq!(
        told,
        [
            r#"spec.source.helm.parameters[db.password].value: "******" > "******""#,
            r#"spec.source.helm.values.api.accessToken: "******" > "******""#,
            r#"spec.source.helm.valuesObject.smtp.privateKey.inline: "******" > "******""#,
            r#"spec.source.kustomize.commonAnnotations.api-key: "******" > "******""#,
            r#"spec.source.kustomize.commonAnnotations.link: "https://******@host.example" > "https://******@host.example""#,
            r#"spec.source.plugin.env[CLIENT_SECRET].value: "******" > "******""#,
        ]
    );
    // Values that aren't a map can contain anything.
    let text = |text: &str| json!({"source": {"helm": {"values": text}}});
    assert_eq!(
        changed(&text("- hunter2"), &text("- hunter3")),
        [r#"spec.source.helm.values: "******" > "******""#]
    );
}
