//! Created, updated, deleted and unchanged Applications.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tidegate_applicationset::changes::{AppSetChanges, AppSetOutput, UnchangedReason, reconcile};
use tidegate_applicationset::status::{ConditionReason, ReconcileFailure};
use tidegate_applicationset::sync_policy::AppSetRuleOptions;
use tidegate_model::argo::ApplicationsSync;

use crate::{
    APPSET_ANNOTATION, OneCluster, appset, changes, describe_changes, generated_application,
    generated_output, live_application, owner_reference, with_patch, with_policy,
};

/// Returns the output and the existing Applications: `old` is no longer generated, `same` is up to date, and
/// `other` is outdated.
fn output_and_existing() -> (AppSetOutput, Vec<tidegate_model::argo::Application>) {
    let other = live_application("other", &json!({"spec": {"source": {"targetRevision": "v1"}}}));
    (
        generated_output(vec![
            generated_application("new"),
            generated_application("same"),
            generated_application("other"),
        ]),
        vec![live_application("old", &json!({})), live_application("same", &json!({})), other],
    )
}

#[test]
fn policies_restrict_changes() {
    use ApplicationsSync::{CreateDelete, CreateOnly, CreateUpdate, Sync};
    let (generated, existing) = output_and_existing();
    for (set_says, service_says, may_override, expected) in [
        (None, None, None, "+new ~other -old"),
        (Some("sync"), None, None, "+new ~other -old"),
        (Some("create-update"), None, None, "+new ~other"),
        (Some("create-delete"), None, None, "+new -old"),
        (Some("create-only"), None, None, "+new"),
        // The service-wide policy applies unless ApplicationSets may override it.
        (None, Some(CreateOnly), None, "+new"),
        (Some("sync"), Some(CreateOnly), None, "+new"),
        (Some("sync"), Some(CreateOnly), Some(true), "+new ~other -old"),
        (Some("create-only"), Some(Sync), None, "+new ~other -old"),
        (Some("create-delete"), Some(CreateUpdate), Some(true), "+new -old"),
        (Some("create-delete"), Some(CreateUpdate), Some(false), "+new ~other"),
        (None, Some(CreateDelete), Some(true), "+new -old"),
        // No service-wide policy, and ApplicationSets may not override it.
        (Some("create-only"), None, Some(false), "+new ~other -old"),
    ] {
        let set = set_says.map_or_else(|| appset(&json!({})), with_policy);
        let options = AppSetRuleOptions {
            policy: service_says,
            policy_override: may_override,
            ..AppSetRuleOptions::default()
        };
        let changes = reconcile(&set, Ok(&generated), &existing, &OneCluster, &options);
        assert_eq!(describe_changes(&changes), expected, "{set_says:?} {service_says:?} {may_override:?}");
        assert_eq!(changes.unchanged["same"], UnchangedReason::Unchanged);
        assert_eq!(changes.failure(), None, "a change that the policy forbids is not a failure");
    }
    let kept = changes(&with_policy("create-only"), &generated, &existing).unchanged;
    assert_eq!((&kept["other"], &kept["old"]), (&UnchangedReason::NotUpdated, &UnchangedReason::NotDeleted));
}

#[test]
fn created_applications_are_owned_by_their_appset() {
    let template = with_patch(
        &generated_application("a"),
        &json!({
            "metadata": {"namespace": "elsewhere", "labels": {"l": "1"}, "annotations": {"n": "2"}},
            "spec": {"project": "", "syncPolicy": {}, "source": {"helm": {}, "directory": {"jsonnet": {}}}},
            "operation": {"sync": {}}, "status": {"sourceType": "Helm"},
        }),
    );
    let made = changes(&appset(&json!({})), &generated_output(vec![template]), &[]);
    let expected = with_patch(
        &generated_application("a"),
        &json!({
            "metadata": {
                "labels": {"l": "1"}, "annotations": {"n": "2", APPSET_ANNOTATION: "fleet"},
                "ownerReferences": owner_reference("ApplicationSet", "fleet"),
            },
        }),
    );
    assert_eq!(
        made.create,
        [expected],
        "in the ApplicationSet's namespace, without an operation, and normalized"
    );
}

#[test]
fn unchanged_applications_are_not_written() {
    let source = |extra: Value| json!({"spec": {"source": extra}});
    for (there, wanted, expected) in [
        (json!({}), json!({}), ""),
        (json!({"spec": {"project": ""}}), json!({}), ""),
        (json!({}), json!({"spec": {"project": ""}}), ""),
        (json!({"spec": {"syncPolicy": {}}}), json!({}), ""),
        (json!({}), json!({"spec": {"syncPolicy": {"syncOptions": []}}}), ""),
        (source(json!({"helm": {}, "kustomize": {}, "directory": {}, "plugin": {}})), json!({}), ""),
        (json!({}), source(json!({"directory": {"jsonnet": {}}})), ""),
        // With several sources.
        (
            json!({"spec": {"source": null, "sources": [{"repoURL": "r", "helm": {}}]}}),
            json!({"spec": {"source": null, "sources": [{"repoURL": "r", "directory": {"recurse": false}}]}}),
            "",
        ),
        (json!({"spec": {"syncPolicy": {"automated": {}}}}), json!({}), "~a"),
        (source(json!({"helm": {"releaseName": "x"}})), json!({}), "~a"),
        (json!({"metadata": {"labels": {"x": "y"}}}), json!({}), "~a"),
        (json!({"metadata": {"annotations": {"x": "y"}}}), json!({}), "~a"),
        (json!({"metadata": {"finalizers": []}}), json!({}), "~a"),
        // An ApplicationSet doesn't control the operation and the status.
        (json!({"operation": {"sync": {"revision": "b"}}}), json!({}), ""),
        (json!({"status": {"sourceType": "Helm"}}), json!({"operation": {"sync": {}}}), ""),
    ] {
        let generated = generated_output(vec![with_patch(&generated_application("a"), &wanted)]);
        let there = live_application("a", &there);
        let changed = changes(&appset(&json!({})), &generated, std::slice::from_ref(&there));
        assert_eq!(describe_changes(&changed), expected, "{there:?} {wanted}");
        for update in changed.update {
            assert_eq!((update.operation, update.status), (there.operation.clone(), there.status.clone()));
        }
    }
}

#[test]
fn only_owned_applications_are_changed() {
    let own = appset(&json!({}));
    let both = generated_output(vec![generated_application("a")]);
    let owners = |owners: Value| {
        let metadata = json!({"ownerReferences": owners, "annotations": {APPSET_ANNOTATION: null}});
        live_application("a", &json!({"metadata": metadata, "spec": {"project": "shop"}}))
    };
    let other_group = {
        let mut all = owner_reference("ApplicationSet", "fleet");
        all[0]["apiVersion"] = json!("example.com/v1");
        all
    };
    for (owners_are, wanted, unwanted, named) in [
        (owner_reference("ApplicationSet", "fleet"), "~a", "-a", ""),
        (owner_reference("ApplicationSet", "other"), "", "", "belongs to ApplicationSet other"),
        (owner_reference("Deployment", "fleet"), "", "", "belongs to Deployment fleet"),
        (other_group, "", "", "belongs to ApplicationSet fleet"),
        (json!([]), "", "", "was not created by an ApplicationSet"),
        (json!("nonsense"), "", "", "was not created by an ApplicationSet"),
    ] {
        let there = [owners(owners_are.clone())];
        let when_wanted = changes(&own, &both, &there);
        assert_eq!(describe_changes(&when_wanted), wanted, "{owners_are}");
        let said = when_wanted.failure().map(|failure| failure.message).unwrap_or_default();
        assert!(said.contains(named), "{owners_are}: {said}");
        let generates = "ApplicationSet fleet generates Application a, but";
        assert!(named.is_empty() || said.contains(generates), "{said}");
        assert_eq!(
            describe_changes(&changes(&own, &AppSetOutput::default(), &there)),
            unwanted,
            "{owners_are}"
        );
    }
    // An Application without an owner, handed over to an ApplicationSet.
    let handed = |to: &str| {
        let annotations = json!({APPSET_ANNOTATION: to});
        live_application("a", &json!({"metadata": {"ownerReferences": null, "annotations": annotations}}))
    };
    let taken = changes(&own, &both, &[handed("fleet")]);
    assert_eq!(describe_changes(&taken), "~a");
    assert_eq!(
        json!(taken.update[0].metadata.rest["ownerReferences"]),
        owner_reference("ApplicationSet", "fleet")
    );
    assert_eq!(describe_changes(&changes(&own, &both, &[handed("other")])), "");
    assert_eq!(
        describe_changes(&changes(&own, &AppSetOutput::default(), &[handed("fleet")])),
        "",
        "the Application does not belong to the ApplicationSet yet"
    );
    // An Application that lost its owner reference through `--cascade=orphan` or an edit still belongs to its
    // ApplicationSet. So does one that lost only its annotation.
    assert_eq!(taken.update[0].metadata.annotations[APPSET_ANNOTATION], "fleet");
    let unmarked = live_application("a", &json!({"metadata": {"annotations": null}}));
    let marked = changes(&own, &both, &[unmarked]);
    assert_eq!(
        (
            describe_changes(&marked).as_str(),
            marked.update[0].metadata.annotations[APPSET_ANNOTATION].as_str()
        ),
        ("~a", "fleet")
    );
    // A recreated ApplicationSet counts as the same owner. Other owner references are kept.
    let mut owners_are = owner_reference("ApplicationSet", "fleet");
    owners_are[0]["uid"] = json!("u-before");
    let more = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u-x"});
    owners_are.as_array_mut().unwrap().insert(0, more.clone());
    let claimed = changes(&own, &both, &[owners(owners_are)]);
    let expected = json!([more, owner_reference("ApplicationSet", "fleet")[0]]);
    assert_eq!(json!(claimed.update[0].metadata.rest["ownerReferences"]), expected);
    // An Application with the same name in another namespace is a different Application.
    let elsewhere = live_application("a", &json!({"metadata": {"namespace": "team"}}));
    assert_eq!(describe_changes(&changes(&own, &both, std::slice::from_ref(&elsewhere))), "+a");
    assert_eq!(describe_changes(&changes(&own, &AppSetOutput::default(), &[elsewhere])), "");
}

#[test]
fn a_rejected_application_does_not_affect_others() {
    let to = |destination: Value| json!({"spec": {"destination": destination}});
    for (patch, message) in [
        (json!({"spec": {"project": "gone"}}), "application references project gone which does not exist"),
        (
            to(json!({"name": "moon"})),
            "application destination spec is invalid: there is no cluster \"moon\"",
        ),
        (to(json!({"name": "twice"})), "application destination spec is invalid: there are two clusters"),
    ] {
        let wanted = generated_output(vec![
            with_patch(&generated_application("bad"), &patch),
            generated_application("good"),
            generated_application("same"),
        ]);
        let there = [
            live_application("bad", &json!({})),
            live_application("same", &json!({})),
            live_application("old", &json!({})),
        ];
        let done = changes(&appset(&json!({})), &wanted, &there);
        assert_eq!(describe_changes(&done), "+good -old", "{patch}");
        let failure = done.failure().unwrap();
        assert_eq!(failure.reason, ConditionReason::ApplicationValidationError);
        assert!(failure.message.starts_with("Application bad: "), "{}", failure.message);
        assert!(failure.message.contains(message), "{}", failure.message);
    }
    for project in ["default", "shop", ""] {
        let wanted = generated_output(vec![with_patch(
            &generated_application("a"),
            &json!({"spec": {"project": project}}),
        )]);
        assert_eq!(describe_changes(&changes(&appset(&json!({})), &wanted, &[])), "+a", "{project:?}");
    }
}

#[test]
fn applications_with_rejected_names_stay_unchanged() {
    let reason = "contains applications with duplicate name: twice: one from generators[0], and one from generators[1]";
    let wanted = AppSetOutput {
        rejected: BTreeMap::from([("twice".to_owned(), reason.to_owned())]),
        ..generated_output(vec![
            generated_application("a"),
            with_patch(&generated_application("bad"), &json!({"spec": {"project": "gone"}})),
        ])
    };
    let there = [
        live_application("twice", &json!({"spec": {"project": "shop"}})),
        live_application("old", &json!({})),
    ];
    let done = changes(&appset(&json!({})), &wanted, &there);
    // A missing Application may have been rejected, for example because its name is misspelled.
    assert_eq!(describe_changes(&done), "+a");
    assert!(
        matches!(&done.unchanged["old"], UnchangedReason::Uncertain(why) if why.starts_with("twice contains"))
    );
    let failure = done.failure().unwrap();
    // The message gives the reason for the last rejected Application by name, and the names of the others.
    assert_eq!(failure.message, format!("ApplicationSet fleet {reason} (and 1 more: bad)"));
}

#[test]
fn deleting_applications_are_not_changed() {
    let going = live_application(
        "a",
        &json!({"metadata": {"deletionTimestamp": "2026-11-21T09:30:00Z"}, "spec": {"project": "shop"}}),
    );
    for wanted in [generated_output(vec![generated_application("a")]), AppSetOutput::default()] {
        let done = changes(&appset(&json!({})), &wanted, std::slice::from_ref(&going));
        assert!(done.is_empty());
        assert_eq!(done.unchanged["a"], UnchangedReason::Deleting);
    }
}

#[test]
fn nothing_is_deleted_if_a_generator_has_no_output() {
    let wanted = AppSetOutput {
        without_output: vec!["generators[1].git: there is no repository".to_owned()],
        ..generated_output(vec![generated_application("a")])
    };
    let done = changes(&appset(&json!({})), &wanted, &[live_application("old", &json!({}))]);
    assert_eq!(describe_changes(&done), "+a");
    assert!(done.unchanged["old"].to_string().contains("there is no repository"));
}

#[test]
fn the_output_of_other_generators_is_applied_if_one_fails() {
    let reason = "generators[1].git: the repository does not answer".to_owned();
    let (wanted, there) = output_and_existing();
    let wanted = AppSetOutput { errors: vec![reason.clone()], ..wanted };
    for (strategy, order) in [(json!({}), "AllAtOnce"), (json!({"type": "RollingSync"}), "Reverse")] {
        let mut strategy = strategy;
        strategy["deletionOrder"] = json!(order);
        strategy["rollingSync"] = json!({"steps": [{}]});
        let done = changes(&appset(&json!({"strategy": strategy})), &wanted, &there);
        assert_eq!(describe_changes(&done), "+new ~other", "{order}");
        assert_eq!(done.unchanged["old"], UnchangedReason::Uncertain(reason.clone()));
        let failure = done.failure().unwrap();
        assert_eq!(failure.reason, ConditionReason::ApplicationGenerationFromParamsError);
        assert!(
            failure
                .message
                .starts_with(&format!("{reason}; Applications from the other generators are still created"))
        );
    }
}

#[test]
fn a_progressive_sync_disables_automated_sync_until_its_end() {
    let steps = json!({"type": "RollingSync", "rollingSync": {"steps": [{"maxUpdate": 1}]}});
    let plain = json!({});
    let automated = json!({"prune": true, "selfHeal": true});
    let off = json!({"enabled": false, "prune": true, "selfHeal": true});
    for (strategy, policy, progressive, expected) in [
        (json!({"strategy": steps}), json!({"automated": automated}), true, json!({"automated": off})),
        (json!({"strategy": steps}), json!({"automated": automated}), false, json!({"automated": automated})),
        (json!({"strategy": steps}), json!({"retry": {"limit": 2}}), true, json!({"retry": {"limit": 2}})),
        (plain.clone(), json!({"automated": automated}), true, json!({"automated": automated})),
        // Without steps, or with another strategy, all Applications are synced automatically.
        (
            json!({"strategy": {"type": "RollingSync", "rollingSync": {"steps": []}}}),
            json!({"automated": automated}),
            true,
            json!({"automated": automated}),
        ),
        (
            json!({"strategy": {"type": "rollingsync", "rollingSync": {"steps": [{}]}}}),
            json!({"automated": automated}),
            true,
            json!({"automated": automated}),
        ),
    ] {
        let options = AppSetRuleOptions { progressive_syncs: progressive, ..AppSetRuleOptions::default() };
        let wanted = generated_output(vec![with_patch(
            &generated_application("a"),
            &json!({"spec": {"syncPolicy": policy}}),
        )]);
        let made = |there: &[_]| -> AppSetChanges {
            reconcile(&appset(&strategy), Ok(&wanted), there, &OneCluster, &options)
        };
        assert_eq!(json!(made(&[]).create[0].spec.sync_policy), expected, "{strategy}");
        // The reverse change.
        for before in [json!({"automated": automated}), json!({"automated": off})] {
            let there = live_application("a", &json!({"spec": {"syncPolicy": before}}));
            let now = made(std::slice::from_ref(&there)).update.pop().unwrap_or(there);
            assert_eq!(json!(now.spec.sync_policy), expected, "{strategy} from {before}");
        }
    }
}

#[test]
fn nothing_changes_if_generation_failed() {
    let message = "generators[0].git: the repository does not answer".to_owned();
    let failed = ReconcileFailure { reason: ConditionReason::ApplicationGenerationFromParamsError, message };
    let there =
        [live_application("a", &json!({"spec": {"project": "shop"}})), live_application("b", &json!({}))];
    let done =
        reconcile(&appset(&json!({})), Err(&failed), &there, &OneCluster, &AppSetRuleOptions::default());
    assert!(done.is_empty() && done.unchanged.is_empty());
    assert_eq!(done.failure(), Some(failed));
}

#[test]
fn a_thousand_unchanged_applications_are_not_written() {
    let names: Vec<String> = (0..1000).map(|number| format!("a{number:04}")).collect();
    let ignored =
        json!({"ignoreApplicationDifferences": [{"jqPathExpressions": [".spec.source.targetRevision"]}]});
    let wanted = generated_output(names.iter().map(|name| generated_application(name)).collect());
    let elsewhere = json!({"spec": {"source": {"targetRevision": "v1"}}});
    for (set, there) in [(appset(&json!({})), json!({})), (appset(&ignored), elsewhere)] {
        let there: Vec<_> = names.iter().map(|name| live_application(name, &there)).collect();
        let done = changes(&set, &wanted, &there);
        assert!(done.is_empty());
        assert!(
            done.unchanged.len() == 1000
                && done.unchanged.values().all(|left| *left == UnchangedReason::Unchanged)
        );
    }
}

#[test]
fn an_application_names_its_appset() {
    let owned = |api: &str, kind: &str, controller: bool| {
        let references =
            json!([{"apiVersion": api, "kind": kind, "name": "other", "uid": "u", "controller": controller}]);
        with_patch(&generated_application("a"), &json!({"metadata": {"ownerReferences": references}}))
    };
    for (api, kind, controller, expected) in [
        ("argoproj.io/v1alpha1", "ApplicationSet", true, Some("other")),
        ("argoproj.io/v1", "ApplicationSet", true, Some("other")),
        ("argoproj.io/v1alpha1", "ApplicationSet", false, None),
        ("argoproj.io/v1alpha1", "Application", true, None),
        ("apps/v1", "ApplicationSet", true, None),
    ] {
        let application = owned(api, kind, controller);
        assert_eq!(tidegate_applicationset::ownership::owning_appset(&application), expected, "{api} {kind}");
    }
}

#[test]
fn a_duplicate_name_stays_rejected_while_the_other_is_missing() {
    let there = [live_application("a", &json!({})), live_application("b", &json!({}))];
    let other = |name: &str| {
        with_patch(&generated_application(name), &json!({"spec": {"source": {"path": "other"}}}))
    };
    let reason = "contains applications with duplicate name: b";
    let whole = AppSetOutput {
        rejected: BTreeMap::from([("b".to_owned(), reason.to_owned())]),
        ..generated_output(vec![generated_application("a")])
    };
    // The generator of the other `b` failed. The `b` of the first generator was never accepted.
    let mut partly = AppSetOutput {
        errors: vec!["generators[1].git: away".to_owned()],
        ..generated_output(vec![other("a"), other("b")])
    };
    assert_eq!(describe_changes(&changes(&appset(&json!({})), &partly, &there)), "~a ~b");
    partly.keep_rejected(&whole.rejected);
    let done = changes(&appset(&json!({})), &partly, &there);
    assert_eq!(describe_changes(&done), "~a");
    assert!(done.unchanged["b"].to_string().contains(reason), "{:?}", done.unchanged);
    // A complete output applies.
    let mut known = generated_output(vec![other("a"), other("b")]);
    known.keep_rejected(&whole.rejected);
    assert_eq!(describe_changes(&changes(&appset(&json!({})), &known, &there)), "~a ~b");
}
