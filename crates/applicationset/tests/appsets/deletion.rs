//! Deletions of Applications and of ApplicationSets.

use serde_json::{Value, json};
use tidegate_applicationset::changes::{AppSetOutput, UnchangedReason};
use tidegate_applicationset::deletion::{
    AppSetDeletionStep, controls_deletion, foreground_warning, is_deleted_earlier, next_deletion_step,
    recorded_members, recorded_order, with_finalizer, without_finalizer,
};
use tidegate_applicationset::deletion_order::{InvalidOrder, deletion_order};
use tidegate_applicationset::ownership::without_owner;
use tidegate_applicationset::status::ConditionReason;
use tidegate_applicationset::sync_policy::AppSetRuleOptions;
use tidegate_lifecycle::teardown::Order;
use tidegate_model::argo::{Application, ApplicationSet, ApplicationsSync};

use crate::{
    FINALIZER, OneCluster, appset, changes, describe_changes, generated_application, generated_output,
    live_application, owner_reference, with_patch,
};

fn with_finalizers(mut set: ApplicationSet, finalizers: &[&str]) -> ApplicationSet {
    set.metadata.finalizers = finalizers.iter().map(|one| (*one).to_owned()).collect();
    set
}

/// Returns an ApplicationSet with this deletion order, and with progressive sync steps selected by label.
pub fn appset_with_order(order: &str, more: &Value) -> ApplicationSet {
    let step =
        |value: &str| json!({"matchExpressions": [{"key": "env", "operator": "In", "values": [value]}]});
    let mut strategy = json!({
        "type": "RollingSync", "deletionOrder": order,
        "rollingSync": {"steps": [step("dev"), step("prod")]},
    });
    strategy.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    appset(&json!({"strategy": strategy}))
}

/// Returns the label values that the steps of a deletion order select, in order.
fn step_values(order: Result<Order, InvalidOrder>) -> Result<String, String> {
    let steps = match order.map_err(|error| error.to_string())? {
        Order::AllAtOnce | Order::Collected | Order::Orphaned => return Ok("all at once".to_owned()),
        Order::Reverse { mut steps, .. } => {
            steps.reverse();
            steps
        }
        Order::Custom { steps } => steps,
    };
    let values = steps.iter().map(|step| step.expressions[0].values.join("|"));
    Ok(values.collect::<Vec<_>>().join(" then "))
}

#[test]
fn the_order_of_a_deletion() {
    let custom = json!({"deletionSync": {"steps": [
        {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["web", "api"]}], "maxUpdate": "50%"},
        {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["db"]}]},
    ]}});
    let nothing = json!({});
    let no_steps = json!({"rollingSync": {"steps": []}});
    for (order_is, more, expected) in [
        ("", &nothing, Ok("all at once")),
        ("AllAtOnce", &nothing, Ok("all at once")),
        ("allatonce", &nothing, Ok("all at once")),
        ("Reverse", &nothing, Ok("prod then dev")),
        ("reverse", &nothing, Ok("prod then dev")),
        ("Custom", &custom, Ok("web|api then db")),
        ("Custom", &nothing, Err("spec.strategy.deletionSync")),
        ("Custom", &json!({"deletionSync": {"steps": []}}), Err("spec.strategy.deletionSync")),
        // A custom deletion order doesn't need a progressive sync, but a reversed order does.
        ("Custom", &with_type(&custom, "AllAtOnce"), Ok("web|api then db")),
        ("Reverse", &no_steps, Err("has no such steps")),
        ("Reverse", &json!({"rollingSync": null}), Err("has no such steps")),
        ("Reverse", &json!({"type": "AllAtOnce"}), Err("set spec.strategy.type to RollingSync")),
        (
            "Custom",
            &json!({"deletionSync": {"steps": [{}, {"maxUpdate": "few"}]}}),
            Err("spec.strategy.deletionSync, step 2: invalid maxUpdate \"few\": use a whole number"),
        ),
        ("Backwards", &nothing, Err("\"Backwards\" is unknown; use AllAtOnce, Reverse or Custom")),
    ] {
        let found = step_values(deletion_order(&appset_with_order(order_is, more)));
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{order_is} {more}"),
            (Err(said), Err(expected)) if said.contains(expected) => {}
            (found, _) => panic!("{order_is} {more}: {found:?} where {expected:?} was expected"),
        }
    }
    assert_eq!(step_values(deletion_order(&appset(&json!({})))), Ok("all at once".to_owned()));
}

fn with_type(strategy: &Value, kind: &str) -> Value {
    let mut all = strategy.clone();
    all["type"] = json!(kind);
    all
}

#[test]
fn the_order_in_an_annotation() {
    let annotated = |text: &str| {
        let mut set = appset_with_order("Custom", &json!({}));
        set.metadata.annotations.insert("tidegate.dev/deletion-sync".to_owned(), text.to_owned());
        step_values(deletion_order(&set))
    };
    let step = "- matchExpressions:\n  - {key: env, operator: In, values: [qa]}\n  maxUpdate: 1\n";
    assert_eq!(annotated(&format!("steps:\n{step}{step}")), Ok("qa then qa".to_owned()));
    for wrong in ["steps: 7", "[", ""] {
        assert!(
            annotated(wrong).unwrap_err().contains("the tidegate.dev/deletion-sync annotation"),
            "{wrong}"
        );
    }
    assert!(annotated("steps: []").unwrap_err().contains("needs steps"));
}

#[test]
fn removed_members_are_deleted_in_the_order_of_the_appset() {
    let there = [
        live_application("a", &json!({})),
        live_application("b", &json!({})),
        live_application("c", &json!({})),
    ];
    let wanted = generated_output(vec![generated_application("b")]);
    let at_once = changes(&appset_with_order("AllAtOnce", &json!({})), &wanted, &there);
    assert_eq!((describe_changes(&at_once).as_str(), &at_once.order), ("-a -c", &Order::AllAtOnce));
    let reverse = changes(&appset_with_order("Reverse", &json!({})), &wanted, &there);
    assert_eq!(describe_changes(&reverse), "-a -c");
    assert_eq!(step_values(Ok(reverse.order)), Ok("prod then dev".to_owned()));
    let unwanted = changes(
        &appset_with_order("Reverse", &json!({})),
        &generated_output(vec![
            generated_application("a"),
            generated_application("b"),
            generated_application("c"),
        ]),
        &there,
    );
    assert!(unwanted.is_empty() && unwanted.order == Order::AllAtOnce, "nothing is deleted");
    // The order is unknown, so nothing is deleted.
    let unknown = changes(&appset_with_order("Backwards", &json!({})), &wanted, &there);
    assert_eq!(describe_changes(&unknown), "");
    assert_eq!(unknown.unchanged["a"], UnchangedReason::Blocked);
    assert_eq!(unknown.failure().unwrap().reason, ConditionReason::DeleteApplicationError);
}

#[test]
fn objects_stay_if_the_cluster_is_gone_or_they_are_preserved() {
    let preserving = |more: Value| {
        let policy = json!({"syncPolicy": {"preserveResourcesOnDeletion": true}});
        let mut set = appset(&policy);
        if more.is_array() {
            set.spec.template.metadata.finalizers = serde_json::from_value(more).unwrap();
        } else {
            set.spec.template_patch = more.as_str().map(str::to_owned);
        }
        set
    };
    let plain = || appset(&json!({}));
    let to = |cluster: &str| json!({"spec": {"destination": {"name": cluster}}});
    let hook = "pre-delete-finalizer.argocd.argoproj.io";
    let with_hook =
        json!({"metadata": {"finalizers": [FINALIZER, hook]}, "spec": {"destination": {"name": "moon"}}});
    let background = json!({"metadata": {"finalizers": [format!("{FINALIZER}/background")]}, "spec": {"destination": {"name": "moon"}}});
    for (set, there, expected) in [
        (plain(), json!({}), None),
        // The cluster is gone.
        (plain(), to("moon"), Some((json!([]), "no cluster \"moon\""))),
        (plain(), with_hook, Some((json!([hook]), "no cluster \"moon\""))),
        (plain(), background, Some((json!([]), "no cluster \"moon\""))),
        (
            plain(),
            json!({"metadata": {"finalizers": [hook]}, "spec": {"destination": {"name": "moon"}}}),
            None,
        ),
        // The destination may become unambiguous again.
        (plain(), to("twice"), None),
        // The Application was created before the ApplicationSet's policy preserved objects.
        (preserving(json!([])), json!({}), Some((json!([]), "preserveResourcesOnDeletion"))),
        (preserving(json!([])), json!({"metadata": {"finalizers": []}}), None),
        (preserving(json!([FINALIZER])), json!({}), None),
        (preserving(json!("metadata: {}")), json!({}), None),
    ] {
        let done = changes(&set, &AppSetOutput::default(), &[live_application("a", &there)]);
        let before =
            done.delete[0].orphaning.as_ref().map(|before| (json!(before.finalizers), before.reason.clone()));
        match (&before, &expected) {
            (None, None) => {}
            (Some((kept, why)), Some((expected, reason))) if kept == expected && why.contains(reason) => {}
            _ => panic!("{there}: {before:?} where {expected:?} was expected"),
        }
    }
}

fn describe_next_step(set: &ApplicationSet, there: &[Application], options: &AppSetRuleOptions) -> String {
    let named = |all: &[&Application]| -> String {
        all.iter().map(|one| one.metadata.name.as_str()).collect::<Vec<_>>().join(" ")
    };
    let of = |all: &[tidegate_applicationset::deletion::MemberDeletion]| {
        named(&all.iter().map(|one| &one.application).collect::<Vec<_>>())
    };
    match next_deletion_step(set, there, &OneCluster, options) {
        AppSetDeletionStep::Release(free) => format!("release {}", named(&free.iter().collect::<Vec<_>>())),
        AppSetDeletionStep::TearDown { order, members } => {
            format!("tear down {}: {}", of(&members), step_values(Ok(order)).unwrap())
        }
        AppSetDeletionStep::Finish { members } => format!("finish {}", of(&members)),
        AppSetDeletionStep::InvalidOrder(invalid) => format!("stay: {invalid}"),
    }
}

#[test]
fn an_appset_is_deleted_by_its_order_and_policy() {
    let going = json!({"metadata": {"deletionTimestamp": "2026-11-21T09:30:00Z"}});
    let foreign = live_application(
        "x",
        &json!({"metadata": {"ownerReferences": owner_reference("ApplicationSet", "other")}}),
    );
    let there = [live_application("a", &json!({})), live_application("b", &going), foreign];
    let free = AppSetRuleOptions::default();
    let kept =
        AppSetRuleOptions { policy: Some(ApplicationsSync::CreateUpdate), ..AppSetRuleOptions::default() };
    let reverse = || appset_with_order("Reverse", &json!({}));
    for (set, options, with_members, without) in [
        (appset(&json!({})), &free, "finish a", "finish "),
        (reverse(), &free, "tear down a b: prod then dev", "finish "),
        (
            appset_with_order("Backwards", &json!({})),
            &free,
            "stay: spec.strategy.deletionOrder \"Backwards\"",
            "finish ",
        ),
        (
            appset_with_order("Reverse", &json!({"type": ""})),
            &free,
            "stay: spec.strategy.deletionOrder Reverse",
            "finish ",
        ),
        // Applications outlive an ApplicationSet that must not delete them or that is deleted with the
        // `orphan` finalizer.
        (appset(&json!({})), &kept, "release a b", "finish "),
        (reverse(), &kept, "release a b", "finish "),
        (appset_with_order("Backwards", &json!({})), &kept, "release a b", "finish "),
        (with_finalizers(reverse(), &["orphan", FINALIZER]), &free, "release a b", "finish "),
    ] {
        let found = describe_next_step(&set, &there, options);
        assert!(found.starts_with(with_members), "{found} where {with_members} was expected");
        assert_eq!(
            describe_next_step(&set, &there[2..], options),
            without,
            "objects of other owners are not touched"
        );
    }
}

/// The record of a deletion without an order shows that there is no order, and lists the affected
/// Applications.
#[test]
fn a_deletion_without_an_order_is_recorded_as_such() {
    let going = json!({"metadata": {"deletionTimestamp": "2026-11-21T09:30:00Z"}});
    let foreign = live_application(
        "x",
        &json!({"metadata": {"ownerReferences": owner_reference("ApplicationSet", "other")}}),
    );
    let own = appset(&json!({}));
    // This Application has lost its owner reference, so only its annotation remains.
    let taken = without_owner(&own, &live_application("c", &json!({})));
    let mut nobodys = without_owner(&own, &live_application("d", &json!({})));
    nobodys.metadata.annotations.clear();
    let there = [live_application("a", &json!({})), live_application("b", &going), taken, nobodys, foreign];
    let free = AppSetRuleOptions::default();
    let kept =
        AppSetRuleOptions { policy: Some(ApplicationsSync::CreateUpdate), ..AppSetRuleOptions::default() };
    let orphaned = with_finalizers(own.clone(), &["orphan"]);
    for (set, options, order, members) in [
        (&own, &free, Order::Collected, "a b"),
        (&own, &kept, Order::Orphaned, "a b c"),
        (&orphaned, &free, Order::Orphaned, "a b c"),
    ] {
        assert_eq!(recorded_order(set, options), order);
        let found = recorded_members(set, &there, options);
        let names: Vec<_> = found.iter().map(|one| one.metadata.name.as_str()).collect();
        assert_eq!(names.join(" "), members, "{order:?}");
    }
}

#[test]
fn a_released_application_has_no_owner_and_can_be_adopted() {
    let own = appset(&json!({}));
    let kept =
        AppSetRuleOptions { policy: Some(ApplicationsSync::CreateOnly), ..AppSetRuleOptions::default() };
    let mut owners = owner_reference("ApplicationSet", "fleet");
    let more = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u-x"});
    owners.as_array_mut().unwrap().push(more.clone());
    let there = [
        live_application("a", &json!({})),
        live_application("b", &json!({"metadata": {"ownerReferences": owners}})),
    ];
    let AppSetDeletionStep::Release(free) = next_deletion_step(&own, &there, &OneCluster, &kept) else {
        panic!("the Applications outlive the ApplicationSet")
    };
    assert_eq!(free[0].metadata.rest.get("ownerReferences"), None);
    assert_eq!(free[1].metadata.rest["ownerReferences"], json!([more]), "other owner references are kept");
    assert_eq!(describe_next_step(&own, &free, &kept), "finish ", "then the ApplicationSet is deleted");
    let again =
        changes(&own, &generated_output(vec![generated_application("a"), generated_application("b")]), &free);
    assert_eq!(describe_changes(&again), "~a ~b", "an ApplicationSet of the same name adopts them");
}

#[test]
fn an_appset_that_controls_its_deletion_has_a_finalizer() {
    let kept =
        AppSetRuleOptions { policy: Some(ApplicationsSync::CreateUpdate), ..AppSetRuleOptions::default() };
    let free = AppSetRuleOptions::default();
    for (set, options, expected) in [
        (appset(&json!({})), &free, None),
        (appset(&json!({})), &kept, Some(vec![FINALIZER])),
        (appset_with_order("Reverse", &json!({})), &free, Some(vec![FINALIZER])),
        (appset_with_order("Backwards", &json!({})), &free, Some(vec![FINALIZER])),
        (appset_with_order("AllAtOnce", &json!({})), &free, None),
        (with_finalizers(appset_with_order("Reverse", &json!({})), &[FINALIZER]), &free, None),
        (
            with_finalizers(appset_with_order("Reverse", &json!({})), &["x/y"]),
            &free,
            Some(vec!["x/y", FINALIZER]),
        ),
    ] {
        let expected = expected.map(|all| all.into_iter().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(with_finalizer(&set, options), expected, "{:?}", set.spec.strategy);
        let going = with_deletion(set);
        assert_eq!(with_finalizer(&going, options), None, "a finalizer cannot be added during deletion");
    }
    assert_eq!(
        without_finalizer(&with_finalizers(appset(&json!({})), &["x/y", FINALIZER])),
        Some(vec!["x/y".to_owned()])
    );
    assert_eq!(without_finalizer(&with_finalizers(appset(&json!({})), &["x/y"])), None);
}

fn with_deletion(mut set: ApplicationSet) -> ApplicationSet {
    set.metadata.deletion_timestamp = Some(crate::at(0).into());
    set
}

/// An Application with changed finalizers is still the same Application.
#[test]
fn a_deletion_names_the_observed_object() {
    let there =
        with_patch(&live_application("a", &json!({})), &json!({"metadata": {"labels": {"env": "dev"}}}));
    let done = changes(&appset(&json!({})), &AppSetOutput::default(), std::slice::from_ref(&there));
    assert_eq!(
        done.delete[0].application, there,
        "the UID, the version and the labels are those of the observed object"
    );
}

/// Returns an ApplicationSet that is being deleted and has these finalizers.
pub fn deleted_appset(set: ApplicationSet, finalizers: &[&str]) -> ApplicationSet {
    let mut set = with_finalizers(set, finalizers);
    set.metadata.deletion_timestamp = Some(crate::at(60).into());
    set
}

/// Returns an Application deleted this many seconds after the start of the tests.
pub fn deleted_application(name: &str, seconds: i64) -> Application {
    let mut one = live_application(name, &json!({}));
    one.metadata.deletion_timestamp = Some(crate::at(seconds).into());
    one
}

const FOREGROUND: &str = "foregroundDeletion";

#[test]
fn an_application_is_released_in_its_step_or_if_deleted_earlier() {
    let free = AppSetRuleOptions::default();
    let kept =
        AppSetRuleOptions { policy: Some(ApplicationsSync::CreateUpdate), ..AppSetRuleOptions::default() };
    for (set, options, expected) in [
        (appset(&json!({})), &free, false),
        (appset_with_order("AllAtOnce", &json!({})), &free, false),
        (appset_with_order("Reverse", &json!({})), &free, true),
        (appset_with_order("Backwards", &json!({})), &free, true),
        (appset(&json!({})), &kept, true),
    ] {
        assert_eq!(controls_deletion(&set, options), expected, "{:?}", set.spec.strategy);
    }
    let all = deleted_appset(appset_with_order("Reverse", &json!({})), &[FOREGROUND]);
    for (seconds, expected) in [(59, true), (60, false), (61, false)] {
        assert_eq!(is_deleted_earlier(&all, &deleted_application("a", seconds)), expected, "{seconds}");
    }
    assert!(!is_deleted_earlier(&all, &live_application("a", &json!({}))), "it still exists");
    assert!(
        !is_deleted_earlier(&appset_with_order("Reverse", &json!({})), &deleted_application("a", 0)),
        "the ApplicationSet still exists"
    );
}

#[test]
fn a_foreground_deletion_of_an_ordered_appset_is_reported() {
    let free = AppSetRuleOptions::default();
    let kept =
        AppSetRuleOptions { policy: Some(ApplicationsSync::CreateUpdate), ..AppSetRuleOptions::default() };
    let reverse = || appset_with_order("Reverse", &json!({}));
    let there: Vec<_> =
        ["a", "b", "c", "d", "e", "f", "g"].iter().map(|name| deleted_application(name, 61)).collect();
    let told = |set: &ApplicationSet, there: &[Application], options| foreground_warning(set, there, options);
    let said = told(&deleted_appset(reverse(), &[FOREGROUND, FINALIZER]), &there, &free).unwrap();
    assert!(
        said.contains("--cascade=foreground") && said.contains("(a, b, c, d, e, 2 more remain)"),
        "{said}"
    );
    assert!(said.contains("only their objects are deleted in order"), "{said}");
    let unmoved = [live_application("a", &json!({})), deleted_application("b", 59)];
    let said = told(&deleted_appset(reverse(), &[FOREGROUND]), &unmoved, &free).unwrap();
    assert!(said.contains("at once; only their objects"), "only deleted Applications are named: {said}");
    let said = told(&deleted_appset(appset(&json!({})), &[FOREGROUND]), &there, &kept).unwrap();
    assert!(said.contains("their objects are kept, because the policy does not allow deletions"), "{said}");
    for (set, options) in [
        (deleted_appset(reverse(), &[FINALIZER]), &free),
        (deleted_appset(appset(&json!({})), &[FOREGROUND]), &free),
        (with_finalizers(reverse(), &[FOREGROUND]), &free),
    ] {
        assert_eq!(told(&set, &there, options), None, "{:?}", set.metadata);
    }
}

#[test]
fn objects_outlive_an_appset_that_may_not_delete_them() {
    let kept =
        AppSetRuleOptions { policy: Some(ApplicationsSync::CreateOnly), ..AppSetRuleOptions::default() };
    let hook = "post-delete-finalizer.argocd.argoproj.io";
    let background = format!("{FINALIZER}/background");
    let with_both = |mut one: Application, finalizers: &[&str]| {
        one.metadata.finalizers = finalizers.iter().map(|one| (*one).to_owned()).collect();
        one
    };
    let there = [
        with_both(deleted_application("after", 60), &[FINALIZER, hook]),
        with_both(deleted_application("background", 61), &[&background]),
        with_both(deleted_application("before", 59), &[FINALIZER]),
        with_both(live_application("not", &json!({})), &[FINALIZER]),
    ];
    let finalizers = |of: &[&str]| -> Vec<Vec<String>> {
        let AppSetDeletionStep::Release(free) =
            next_deletion_step(&deleted_appset(appset(&json!({})), of), &there, &OneCluster, &kept)
        else {
            panic!("the Applications outlive the ApplicationSet")
        };
        free.into_iter().map(|one| one.metadata.finalizers).collect()
    };
    let own = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
    // An Application that a user deleted earlier is deleted as that user requested.
    assert_eq!(
        finalizers(&[FOREGROUND, FINALIZER]),
        [own(&[hook]), own(&[]), own(&[FINALIZER]), own(&[FINALIZER])]
    );
    assert_eq!(
        finalizers(&[FINALIZER]),
        [own(&[FINALIZER, hook]), own(&[&background]), own(&[FINALIZER]), own(&[FINALIZER])]
    );
}
