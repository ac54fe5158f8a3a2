//! Which Applications are created, changed, deleted or left alone (specification, 2.3, 5.1, 5.3, 5.4).

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tidegate_applicationset::changes::{Changes, Generated, Left, reconcile};
use tidegate_applicationset::policy::Options;
use tidegate_applicationset::status::{Failure, Reason};
use tidegate_model::argo::ApplicationsSync;

use crate::{Here, MARK, all, changes, generated, live, owner, set, with, with_policy, words};

/// What was there before, of which `old` is not wanted any more, `same` is as it should be, and `other` is not.
fn situation() -> (Generated, Vec<tidegate_model::argo::Application>) {
    let other = live("other", &json!({"spec": {"source": {"targetRevision": "v1"}}}));
    (
        all(vec![generated("new"), generated("same"), generated("other")]),
        vec![live("old", &json!({})), live("same", &json!({})), other],
    )
}

#[test]
fn policies_say_what_may_be_done() {
    use ApplicationsSync::{CreateDelete, CreateOnly, CreateUpdate, Sync};
    let (generated, existing) = situation();
    for (set_says, service_says, may_override, expected) in [
        (None, None, None, "+new ~other -old"),
        (Some("sync"), None, None, "+new ~other -old"),
        (Some("create-update"), None, None, "+new ~other"),
        (Some("create-delete"), None, None, "+new -old"),
        (Some("create-only"), None, None, "+new"),
        // What the service says counts, unless sets may say otherwise.
        (None, Some(CreateOnly), None, "+new"),
        (Some("sync"), Some(CreateOnly), None, "+new"),
        (Some("sync"), Some(CreateOnly), Some(true), "+new ~other -old"),
        (Some("create-only"), Some(Sync), None, "+new ~other -old"),
        (Some("create-delete"), Some(CreateUpdate), Some(true), "+new -old"),
        (Some("create-delete"), Some(CreateUpdate), Some(false), "+new ~other"),
        (None, Some(CreateDelete), Some(true), "+new -old"),
        // Where nobody says anything for all, and sets are not listened to.
        (Some("create-only"), None, Some(false), "+new ~other -old"),
    ] {
        let set = set_says.map_or_else(|| set(&json!({})), with_policy);
        let options = Options { policy: service_says, policy_override: may_override, ..Options::default() };
        let changes = reconcile(&set, Ok(&generated), &existing, &Here, &options);
        assert_eq!(words(&changes), expected, "{set_says:?} {service_says:?} {may_override:?}");
        assert_eq!(changes.left["same"], Left::Unchanged);
        assert_eq!(changes.failure(), None, "what a policy forbids is no failure");
    }
    let kept = changes(&with_policy("create-only"), &generated, &existing).left;
    assert_eq!((&kept["other"], &kept["old"]), (&Left::NotUpdated, &Left::Kept));
}

#[test]
fn what_is_created_belongs_to_its_set() {
    let template = with(
        &generated("a"),
        &json!({
            "metadata": {"namespace": "elsewhere", "labels": {"l": "1"}, "annotations": {"n": "2"}},
            "spec": {"project": "", "syncPolicy": {}, "source": {"helm": {}, "directory": {"jsonnet": {}}}},
            "operation": {"sync": {}}, "status": {"sourceType": "Helm"},
        }),
    );
    let made = changes(&set(&json!({})), &all(vec![template]), &[]);
    let expected = with(
        &generated("a"),
        &json!({
            "metadata": {
                "labels": {"l": "1"}, "annotations": {"n": "2", MARK: "fleet"},
                "ownerReferences": owner("ApplicationSet", "fleet"),
            },
        }),
    );
    assert_eq!(made.create, [expected], "in its namespace, without an operation, and normalised");
}

#[test]
fn what_makes_no_difference_is_not_written() {
    let source = |extra: Value| json!({"spec": {"source": extra}});
    for (there, wanted, expected) in [
        (json!({}), json!({}), ""),
        (json!({"spec": {"project": ""}}), json!({}), ""),
        (json!({}), json!({"spec": {"project": ""}}), ""),
        (json!({"spec": {"syncPolicy": {}}}), json!({}), ""),
        (json!({}), json!({"spec": {"syncPolicy": {"syncOptions": []}}}), ""),
        (source(json!({"helm": {}, "kustomize": {}, "directory": {}, "plugin": {}})), json!({}), ""),
        (json!({}), source(json!({"directory": {"jsonnet": {}}})), ""),
        // Of several sources too.
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
        // What is asked of it, and how it stands, are not the set's business.
        (json!({"operation": {"sync": {"revision": "b"}}}), json!({}), ""),
        (json!({"status": {"sourceType": "Helm"}}), json!({"operation": {"sync": {}}}), ""),
    ] {
        let generated = all(vec![with(&generated("a"), &wanted)]);
        let there = live("a", &there);
        let changed = changes(&set(&json!({})), &generated, std::slice::from_ref(&there));
        assert_eq!(words(&changed), expected, "{there:?} {wanted}");
        for update in changed.update {
            assert_eq!((update.operation, update.status), (there.operation.clone(), there.status.clone()));
        }
    }
}

#[test]
fn only_what_a_set_owns_is_touched() {
    let own = set(&json!({}));
    let both = all(vec![generated("a")]);
    let owners = |owners: Value| {
        let metadata = json!({"ownerReferences": owners, "annotations": {MARK: null}});
        live("a", &json!({"metadata": metadata, "spec": {"project": "shop"}}))
    };
    let other_group = {
        let mut all = owner("ApplicationSet", "fleet");
        all[0]["apiVersion"] = json!("example.com/v1");
        all
    };
    for (owners_are, wanted, unwanted, named) in [
        (owner("ApplicationSet", "fleet"), "~a", "-a", ""),
        (owner("ApplicationSet", "other"), "", "", "belongs to ApplicationSet other"),
        (owner("Deployment", "fleet"), "", "", "belongs to Deployment fleet"),
        (other_group, "", "", "belongs to ApplicationSet fleet"),
        (json!([]), "", "", "was made by somebody else"),
        (json!("nonsense"), "", "", "was made by somebody else"),
    ] {
        let there = [owners(owners_are.clone())];
        let when_wanted = changes(&own, &both, &there);
        assert_eq!(words(&when_wanted), wanted, "{owners_are}");
        let said = when_wanted.failure().map(|failure| failure.message).unwrap_or_default();
        assert!(said.contains(named), "{owners_are}: {said}");
        assert!(named.is_empty() || said.contains("Application a, which ApplicationSet fleet"), "{said}");
        assert_eq!(words(&changes(&own, &Generated::default(), &there)), unwanted, "{owners_are}");
    }
    // Nobody's, and handed over.
    let handed = |to: &str| {
        let annotations = json!({MARK: to});
        live("a", &json!({"metadata": {"ownerReferences": null, "annotations": annotations}}))
    };
    let taken = changes(&own, &both, &[handed("fleet")]);
    assert_eq!(words(&taken), "~a");
    assert_eq!(json!(taken.update[0].metadata.rest["ownerReferences"]), owner("ApplicationSet", "fleet"));
    assert_eq!(words(&changes(&own, &both, &[handed("other")])), "");
    assert_eq!(
        words(&changes(&own, &Generated::default(), &[handed("fleet")])),
        "",
        "it is not the set's yet"
    );
    // What was the set's, and lost its owner to `--cascade=orphan` or to somebody, is the same; so is what has only a mark less.
    assert_eq!(taken.update[0].metadata.annotations[MARK], "fleet");
    let unmarked = live("a", &json!({"metadata": {"annotations": null}}));
    let marked = changes(&own, &both, &[unmarked]);
    assert_eq!(
        (words(&marked).as_str(), marked.update[0].metadata.annotations[MARK].as_str()),
        ("~a", "fleet")
    );
    // A set that was made again is the same; whatever else refers to it stays.
    let mut owners_are = owner("ApplicationSet", "fleet");
    owners_are[0]["uid"] = json!("u-before");
    let more = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u-x"});
    owners_are.as_array_mut().unwrap().insert(0, more.clone());
    let claimed = changes(&own, &both, &[owners(owners_are)]);
    let expected = json!([more, owner("ApplicationSet", "fleet")[0]]);
    assert_eq!(json!(claimed.update[0].metadata.rest["ownerReferences"]), expected);
    // In another namespace there is another Application.
    let elsewhere = live("a", &json!({"metadata": {"namespace": "team"}}));
    assert_eq!(words(&changes(&own, &both, std::slice::from_ref(&elsewhere))), "+a");
    assert_eq!(words(&changes(&own, &Generated::default(), &[elsewhere])), "");
}

#[test]
fn what_cannot_be_harms_nothing_else() {
    let to = |destination: Value| json!({"spec": {"destination": destination}});
    for (patch, message) in [
        (json!({"spec": {"project": "gone"}}), "application references project gone which does not exist"),
        (
            to(json!({"server": "https://x"})),
            "application destination can't have both name and server defined: in-cluster https://x",
        ),
        (
            to(json!({"name": "moon"})),
            "application destination spec is invalid: there is no cluster \"moon\"",
        ),
        (to(json!({"name": "twice"})), "application destination spec is invalid: there are two clusters"),
    ] {
        let wanted = all(vec![with(&generated("bad"), &patch), generated("good"), generated("same")]);
        let there = [live("bad", &json!({})), live("same", &json!({})), live("old", &json!({}))];
        let done = changes(&set(&json!({})), &wanted, &there);
        assert_eq!(words(&done), "+good -old", "{patch}");
        let failure = done.failure().unwrap();
        assert_eq!(failure.reason, Reason::ApplicationValidationError);
        assert!(failure.message.contains(message), "{}", failure.message);
    }
    for project in ["default", "shop", ""] {
        let wanted = all(vec![with(&generated("a"), &json!({"spec": {"project": project}}))]);
        assert_eq!(words(&changes(&set(&json!({})), &wanted, &[])), "+a", "{project:?}");
    }
}

#[test]
fn refused_names_are_left_as_they_are() {
    let reason =
        "contains applications with duplicate name: twice: one of generators[0], and one of generators[1]";
    let wanted = Generated {
        refused: BTreeMap::from([("twice".to_owned(), reason.to_owned())]),
        ..all(vec![generated("a"), with(&generated("bad"), &json!({"spec": {"project": "gone"}}))])
    };
    let there = [live("twice", &json!({"spec": {"project": "shop"}})), live("old", &json!({}))];
    let done = changes(&set(&json!({})), &wanted, &there);
    // What is missing may be what is refused, under a name that is misspelt.
    assert_eq!(words(&done), "+a");
    assert!(matches!(&done.left["old"], Left::NotSure(why) if why.starts_with("twice contains")));
    let failure = done.failure().unwrap();
    // Of several, the last by name is told, and how many more there are.
    assert_eq!(failure.message, format!("ApplicationSet fleet {reason} (and 1 more)"));
}

#[test]
fn what_goes_is_not_touched_again() {
    let going = live(
        "a",
        &json!({"metadata": {"deletionTimestamp": "2026-11-21T09:30:00Z"}, "spec": {"project": "shop"}}),
    );
    for wanted in [all(vec![generated("a")]), Generated::default()] {
        let done = changes(&set(&json!({})), &wanted, std::slice::from_ref(&going));
        assert!(done.is_empty());
        assert_eq!(done.left["a"], Left::Deleting);
    }
}

#[test]
fn nothing_is_deleted_when_a_generator_had_nothing_to_say() {
    let wanted = Generated {
        silent: vec!["generators[1].git: there is no repository".to_owned()],
        ..all(vec![generated("a")])
    };
    let done = changes(&set(&json!({})), &wanted, &[live("old", &json!({}))]);
    assert_eq!(words(&done), "+a");
    assert!(done.left["old"].to_string().contains("there is no repository"));
}

#[test]
fn what_the_other_generators_gave_is_done_when_one_has_failed() {
    let why = "generators[1].git: the repository does not answer".to_owned();
    let (wanted, there) = situation();
    let wanted = Generated { failed: vec![why.clone()], ..wanted };
    for (strategy, order) in [(json!({}), "AllAtOnce"), (json!({"type": "RollingSync"}), "Reverse")] {
        let mut strategy = strategy;
        strategy["deletionOrder"] = json!(order);
        strategy["rollingSync"] = json!({"steps": [{}]});
        let done = changes(&set(&json!({"strategy": strategy})), &wanted, &there);
        assert_eq!(words(&done), "+new ~other", "{order}");
        assert_eq!(done.left["old"], Left::NotSure(why.clone()));
        let failure = done.failure().unwrap();
        assert_eq!(failure.reason, Reason::ApplicationGenerationFromParamsError);
        assert!(failure.message.starts_with(&format!("{why}; what its other generators gave is made")));
    }
}

#[test]
fn a_progressive_sync_switches_automated_syncs_off_and_its_end_on_again() {
    let steps = json!({"type": "RollingSync", "rollingSync": {"steps": [{"maxUpdate": 1}]}});
    let plain = json!({});
    let automated = json!({"prune": true, "selfHeal": true});
    let off = json!({"enabled": false, "prune": true, "selfHeal": true});
    for (strategy, policy, progressive, expected) in [
        (json!({"strategy": steps}), json!({"automated": automated}), true, json!({"automated": off})),
        (json!({"strategy": steps}), json!({"automated": automated}), false, json!({"automated": automated})),
        (json!({"strategy": steps}), json!({"retry": {"limit": 2}}), true, json!({"retry": {"limit": 2}})),
        (plain.clone(), json!({"automated": automated}), true, json!({"automated": automated})),
        // Without steps, and with other words, all are synced by themselves.
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
        let options = Options { progressive_syncs: progressive, ..Options::default() };
        let wanted = all(vec![with(&generated("a"), &json!({"spec": {"syncPolicy": policy}}))]);
        let made =
            |there: &[_]| -> Changes { reconcile(&set(&strategy), Ok(&wanted), there, &Here, &options) };
        assert_eq!(json!(made(&[]).create[0].spec.sync_policy), expected, "{strategy}");
        // The other way round, from what it was.
        for before in [json!({"automated": automated}), json!({"automated": off})] {
            let there = live("a", &json!({"spec": {"syncPolicy": before}}));
            let now = made(std::slice::from_ref(&there)).update.pop().unwrap_or(there);
            assert_eq!(json!(now.spec.sync_policy), expected, "{strategy} from {before}");
        }
    }
}

#[test]
fn nothing_is_done_when_generating_has_failed() {
    let message = "generators[0].git: the repository does not answer".to_owned();
    let failed = Failure { reason: Reason::ApplicationGenerationFromParamsError, message };
    let there = [live("a", &json!({"spec": {"project": "shop"}})), live("b", &json!({}))];
    let done = reconcile(&set(&json!({})), Err(&failed), &there, &Here, &Options::default());
    assert!(done.is_empty() && done.left.is_empty());
    assert_eq!(done.failure(), Some(failed));
}

#[test]
fn a_thousand_applications_that_are_as_they_should_be_are_not_written() {
    let names: Vec<String> = (0..1000).map(|number| format!("a{number:04}")).collect();
    let ignored =
        json!({"ignoreApplicationDifferences": [{"jqPathExpressions": [".spec.source.targetRevision"]}]});
    let wanted = all(names.iter().map(|name| generated(name)).collect());
    let elsewhere = json!({"spec": {"source": {"targetRevision": "v1"}}});
    for (set, there) in [(set(&json!({})), json!({})), (set(&ignored), elsewhere)] {
        let there: Vec<_> = names.iter().map(|name| live(name, &there)).collect();
        let done = changes(&set, &wanted, &there);
        assert!(done.is_empty());
        assert!(done.left.len() == 1000 && done.left.values().all(|left| *left == Left::Unchanged));
    }
}

#[test]
fn an_application_names_the_set_that_answers_for_it() {
    let owned = |api: &str, kind: &str, controller: bool| {
        let references =
            json!([{"apiVersion": api, "kind": kind, "name": "other", "uid": "u", "controller": controller}]);
        with(&generated("a"), &json!({"metadata": {"ownerReferences": references}}))
    };
    for (api, kind, controller, expected) in [
        ("argoproj.io/v1alpha1", "ApplicationSet", true, Some("other")),
        ("argoproj.io/v1", "ApplicationSet", true, Some("other")),
        ("argoproj.io/v1alpha1", "ApplicationSet", false, None),
        ("argoproj.io/v1alpha1", "Application", true, None),
        ("apps/v1", "ApplicationSet", true, None),
    ] {
        let application = owned(api, kind, controller);
        assert_eq!(tidegate_applicationset::ownership::set_of(&application), expected, "{api} {kind}");
    }
}

#[test]
fn one_of_two_of_a_name_is_not_taken_for_the_only_one_while_the_other_is_missing() {
    let there = [live("a", &json!({})), live("b", &json!({}))];
    let other = |name: &str| with(&generated(name), &json!({"spec": {"source": {"path": "other"}}}));
    let why = "contains applications with duplicate name: b";
    let whole = Generated {
        refused: BTreeMap::from([("b".to_owned(), why.to_owned())]),
        ..all(vec![generated("a")])
    };
    // The generator that made the other `b` has failed; what the first one makes of it is none of what was agreed on.
    let mut partly =
        Generated { failed: vec!["generators[1].git: away".to_owned()], ..all(vec![other("a"), other("b")]) };
    assert_eq!(words(&changes(&set(&json!({})), &partly, &there)), "~a ~b");
    partly.keep_refused(&whole.refused);
    let done = changes(&set(&json!({})), &partly, &there);
    assert_eq!(words(&done), "~a");
    assert!(done.left["b"].to_string().contains(why), "{:?}", done.left);
    // Once all is known, what is said then counts.
    let mut known = all(vec![other("a"), other("b")]);
    known.keep_refused(&whole.refused);
    assert_eq!(words(&changes(&set(&json!({})), &known, &there)), "~a ~b");
}
