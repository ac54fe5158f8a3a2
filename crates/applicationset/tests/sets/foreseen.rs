//! What is told beforehand of each Application: the same as is done, from what to what, and no secrets.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tidegate_applicationset::changes::Generated;
use tidegate_applicationset::foreseen::{Change, Foreseen, What, foresee};
use tidegate_applicationset::policy::Options;
use tidegate_model::argo::{Application, ApplicationSet};

use crate::{all, generated, live, owner, set, with, with_policy};

const OLD: &str = "1111111111111111111111111111111111111111";
const NEW: &str = "2222222222222222222222222222222222222222";

fn of(set: &ApplicationSet, generated: &Generated, there: &[Application], revision: &str) -> Foreseen {
    let names = generated.applications.keys();
    let targets: BTreeMap<&str, Vec<String>> =
        names.map(|name| (name.as_str(), vec![revision.to_owned()])).collect();
    foresee(set, generated, there, &targets, &Options::default())
}

/// One that has deployed this revision, compared with it, and found so many of its three resources to differ.
fn deployed(name: &str, revision: &str, out_of_sync: usize) -> Application {
    let resource = |index: usize| {
        let status = if index < out_of_sync { "OutOfSync" } else { "Synced" };
        json!({"kind": "ConfigMap", "name": format!("c{index}"), "status": status})
    };
    let sync = if out_of_sync == 0 { "Synced" } else { "OutOfSync" };
    let status = json!({"status": {
        "sync": {"status": sync, "revision": revision},
        "health": {"status": "Healthy"},
        "history": [{"id": 0, "revision": revision, "deployedAt": "2026-11-20T10:00:00Z"}],
        // A hook is not compared.
        "resources": [resource(0), resource(1), resource(2), {"kind": "Job", "name": "hook", "hook": true}],
    }});
    live(name, &status)
}

/// The fields that change, as `FIELD: BEFORE > AFTER`.
fn fields(change: &Change) -> Vec<String> {
    let value = |value: &Option<Value>| value.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
    let one = |one: &tidegate_applicationset::foreseen::FieldChange| {
        format!("{}: {} > {}", one.field, value(&one.before), value(&one.after))
    };
    change.fields.iter().map(one).collect()
}

/// What changes of an Application that has these fields of `spec` and is to have those.
fn changed(before: &Value, after: &Value) -> Vec<String> {
    let there = with(&live("a", &json!({})), &json!({"spec": before}));
    let wanted = all(vec![with(&generated("a"), &json!({"spec": after}))]);
    fields(&of(&set(&json!({})), &wanted, &[there], OLD).members["a"])
}

#[test]
fn each_is_told_to_be_made_changed_left_or_deleted() {
    let foreign = live("d", &json!({"metadata": {"ownerReferences": owner("ApplicationSet", "other")}}));
    let there = [deployed("a", OLD, 0), deployed("b", OLD, 0), deployed("e", OLD, 0), foreign];
    let moved = with(&generated("b"), &json!({"spec": {"source": {"targetRevision": "v2"}}}));
    let wanted = all(vec![generated("a"), moved, generated("c"), generated("d")]);
    let told = of(&set(&json!({})), &wanted, &there, OLD);
    let what: Vec<(&str, What)> = told.members.iter().map(|(name, one)| (name.as_str(), one.what)).collect();
    assert_eq!(
        what,
        [("a", What::Unchanged), ("b", What::Changed), ("c", What::Created), ("d", What::LeftAlone)]
    );
    assert_eq!(fields(&told.members["b"]), [r#"spec.source.targetRevision: "main" > "v2""#]);
    assert!(told.members["d"].why.as_ref().unwrap().contains("belongs to ApplicationSet other"));
    assert_eq!(told.members["c"].now, None);
    let removed: Vec<&str> = told.removed.iter().map(|one| one.metadata.name.as_str()).collect();
    assert_eq!((removed, told.held.len(), told.wrong.len()), (vec!["e"], 0, 0));
}

#[test]
fn what_a_policy_or_a_limit_keeps_is_told_with_the_reason() {
    let there = [deployed("a", OLD, 0), deployed("b", OLD, 0)];
    let wanted = all(vec![with(&generated("a"), &json!({"metadata": {"labels": {"x": "y"}}}))]);
    let told = of(&with_policy("create-only"), &wanted, &there, OLD);
    assert_eq!(told.members["a"].what, What::LeftAlone);
    assert!(told.members["a"].why.as_ref().unwrap().contains("the policy does not allow to update it"));
    assert!(told.held["b"].contains("the policy does not allow to delete it") && told.removed.is_empty());
    let mut limited = set(&json!({}));
    limited.metadata.annotations.insert("tidegate.dev/max-deletions".to_owned(), "0".to_owned());
    let told = of(&limited, &wanted, &there, OLD);
    assert!(told.held["b"].contains("more Applications than may be deleted at once"), "{told:?}");
    assert!(told.wrong[0].starts_with("1 of its 2 Applications are not generated any more (b)"), "{told:?}");
    assert!(told.removed.is_empty());
}

#[test]
fn a_new_revision_is_a_change_and_a_comparison_counts_for_its_own_revision_only() {
    let wanted = all(vec![generated("a")]);
    for (deployed_revision, target, differing, what, is_of_target) in [
        (OLD, OLD, 0, What::Unchanged, true),
        (OLD, OLD, 2, What::Unchanged, true),
        (OLD, NEW, 0, What::Changed, false),
        (OLD, NEW, 2, What::Changed, false),
    ] {
        let told = of(&set(&json!({})), &wanted, &[deployed("a", deployed_revision, differing)], target);
        let (change, now) = (&told.members["a"], told.members["a"].now.clone().unwrap());
        assert_eq!((change.what, now.is_of_target), (what, is_of_target), "{target} {differing}");
        assert_eq!((now.out_of_sync, now.resources), (differing, 3));
        assert_eq!((now.deployed, change.fields.len()), (vec![deployed_revision.to_owned()], 0));
    }
    // With another specification, a comparison says nothing about what would be, whatever its revision.
    let moved = all(vec![with(&generated("a"), &json!({"spec": {"source": {"path": "other"}}}))]);
    let told = of(&set(&json!({})), &moved, &[deployed("a", OLD, 0)], OLD);
    assert!(!told.members["a"].now.as_ref().unwrap().is_of_target);
    // A revision that nobody could look up is not compared.
    let told =
        foresee(&set(&json!({})), &wanted, &[deployed("a", OLD, 0)], &BTreeMap::new(), &Options::default());
    assert_eq!(told.members["a"].what, What::Unchanged);
}

#[test]
fn fields_are_told_one_by_one() {
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
    // Another author of values that mean the same.
    assert_eq!(changed(&chart("1", "a: 1"), &chart("1", "a: 1")), Vec::<String>::new());
}

#[test]
fn no_secret_is_told() {
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
    // Values that are no map may say anything.
    let text = |text: &str| json!({"source": {"helm": {"values": text}}});
    assert_eq!(
        changed(&text("- hunter2"), &text("- hunter3")),
        [r#"spec.source.helm.values: "******" > "******""#]
    );
}
