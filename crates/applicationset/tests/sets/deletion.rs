//! What becomes of Applications that go, and what is done when their set goes (specification, 2.2, 5.3, 7).

use serde_json::{Value, json};
use tidegate_applicationset::changes::{Generated, Left};
use tidegate_applicationset::deletion::{
    Next, deleting, departing, finalizers, finished, is_ordered, warning, was_before, witnessed,
};
use tidegate_applicationset::order::{InvalidOrder, order};
use tidegate_applicationset::ownership::released;
use tidegate_applicationset::policy::Options;
use tidegate_applicationset::status::Reason;
use tidegate_lifecycle::teardown::Order;
use tidegate_model::argo::{Application, ApplicationSet, ApplicationsSync};

use crate::{FINALIZER, Here, all, changes, generated, live, owner, set, with, words};

fn with_finalizers(mut set: ApplicationSet, finalizers: &[&str]) -> ApplicationSet {
    set.metadata.finalizers = finalizers.iter().map(|one| (*one).to_owned()).collect();
    set
}

/// A set whose strategy has these steps of a progressive sync, by a label, and this order of deletion.
fn ordered(order: &str, more: &Value) -> ApplicationSet {
    let step =
        |value: &str| json!({"matchExpressions": [{"key": "env", "operator": "In", "values": [value]}]});
    let mut strategy = json!({
        "type": "RollingSync", "deletionOrder": order,
        "rollingSync": {"steps": [step("dev"), step("prod")]},
    });
    strategy.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    set(&json!({"strategy": strategy}))
}

/// The values that the steps of an order select, in their order.
fn values(order: Result<Order, InvalidOrder>) -> Result<String, String> {
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
        // A deletion order of its own needs no progressive sync, and one that is turned around does.
        ("Custom", &with_type(&custom, "AllAtOnce"), Ok("web|api then db")),
        ("Reverse", &no_steps, Err("there are none")),
        ("Reverse", &json!({"rollingSync": null}), Err("there are none")),
        ("Reverse", &json!({"type": "AllAtOnce"}), Err("set spec.strategy.type to RollingSync")),
        (
            "Custom",
            &json!({"deletionSync": {"steps": [{}, {"maxUpdate": "few"}]}}),
            Err("spec.strategy.deletionSync, step 2: maxUpdate \"few\""),
        ),
        ("Backwards", &nothing, Err("\"Backwards\" is not known; write AllAtOnce, Reverse or Custom")),
    ] {
        let found = values(order(&ordered(order_is, more)));
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{order_is} {more}"),
            (Err(said), Err(expected)) if said.contains(expected) => {}
            (found, _) => panic!("{order_is} {more}: {found:?} where {expected:?} was expected"),
        }
    }
    assert_eq!(values(order(&set(&json!({})))), Ok("all at once".to_owned()));
}

fn with_type(strategy: &Value, kind: &str) -> Value {
    let mut all = strategy.clone();
    all["type"] = json!(kind);
    all
}

#[test]
fn the_order_in_an_annotation() {
    let annotated = |text: &str| {
        let mut set = ordered("Custom", &json!({}));
        set.metadata.annotations.insert("tidegate.dev/deletion-sync".to_owned(), text.to_owned());
        values(order(&set))
    };
    let step = "- matchExpressions:\n  - {key: env, operator: In, values: [qa]}\n  maxUpdate: 1\n";
    assert_eq!(annotated(&format!("steps:\n{step}{step}")), Ok("qa then qa".to_owned()));
    for wrong in ["steps: 7", "[", ""] {
        assert!(
            annotated(wrong).unwrap_err().contains("the annotation tidegate.dev/deletion-sync"),
            "{wrong}"
        );
    }
    assert!(annotated("steps: []").unwrap_err().contains("needs steps"));
}

#[test]
fn members_that_drop_out_go_in_the_order_of_the_set() {
    let there = [live("a", &json!({})), live("b", &json!({})), live("c", &json!({}))];
    let wanted = all(vec![generated("b")]);
    let at_once = changes(&ordered("AllAtOnce", &json!({})), &wanted, &there);
    assert_eq!((words(&at_once).as_str(), &at_once.order), ("-a -c", &Order::AllAtOnce));
    let reverse = changes(&ordered("Reverse", &json!({})), &wanted, &there);
    assert_eq!(words(&reverse), "-a -c");
    assert_eq!(values(Ok(reverse.order)), Ok("prod then dev".to_owned()));
    let unwanted = changes(
        &ordered("Reverse", &json!({})),
        &all(vec![generated("a"), generated("b"), generated("c")]),
        &there,
    );
    assert!(unwanted.is_empty() && unwanted.order == Order::AllAtOnce, "nothing goes");
    // Nobody knows what goes first, and so nothing does.
    let unknown = changes(&ordered("Backwards", &json!({})), &wanted, &there);
    assert_eq!(words(&unknown), "");
    assert_eq!(unknown.left["a"], Left::Waits);
    assert_eq!(unknown.failure().unwrap().reason, Reason::DeleteApplicationError);
}

#[test]
fn objects_stay_where_nobody_could_delete_them_or_somebody_keeps_them() {
    let preserving = |more: Value| {
        let policy = json!({"syncPolicy": {"preserveResourcesOnDeletion": true}});
        let mut set = set(&policy);
        if more.is_array() {
            set.spec.template.metadata.finalizers = serde_json::from_value(more).unwrap();
        } else {
            set.spec.template_patch = more.as_str().map(str::to_owned);
        }
        set
    };
    let plain = || set(&json!({}));
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
        // It may come to mean one again.
        (plain(), to("twice"), None),
        // Made before the set said that objects stay.
        (preserving(json!([])), json!({}), Some((json!([]), "preserveResourcesOnDeletion"))),
        (preserving(json!([])), json!({"metadata": {"finalizers": []}}), None),
        (preserving(json!([FINALIZER])), json!({}), None),
        (preserving(json!("metadata: {}")), json!({}), None),
    ] {
        let done = changes(&set, &Generated::default(), &[live("a", &there)]);
        let before =
            done.delete[0].before.as_ref().map(|before| (json!(before.finalizers), before.why.clone()));
        match (&before, &expected) {
            (None, None) => {}
            (Some((kept, why)), Some((expected, reason))) if kept == expected && why.contains(reason) => {}
            _ => panic!("{there}: {before:?} where {expected:?} was expected"),
        }
    }
}

/// What is done, in a few words.
fn next(set: &ApplicationSet, there: &[Application], options: &Options) -> String {
    let named = |all: &[&Application]| -> String {
        all.iter().map(|one| one.metadata.name.as_str()).collect::<Vec<_>>().join(" ")
    };
    let of = |all: &[tidegate_applicationset::deletion::Deletion]| {
        named(&all.iter().map(|one| &one.application).collect::<Vec<_>>())
    };
    match deleting(set, there, &Here, options) {
        Next::Release(free) => format!("release {}", named(&free.iter().collect::<Vec<_>>())),
        Next::TearDown { order, members } => {
            format!("tear down {}: {}", of(&members), values(Ok(order)).unwrap())
        }
        Next::Finish { members } => format!("finish {}", of(&members)),
        Next::Stay(invalid) => format!("stay: {invalid}"),
    }
}

#[test]
fn a_set_goes_by_its_order_and_policy() {
    let going = json!({"metadata": {"deletionTimestamp": "2026-11-21T09:30:00Z"}});
    let foreign = live("x", &json!({"metadata": {"ownerReferences": owner("ApplicationSet", "other")}}));
    let there = [live("a", &json!({})), live("b", &going), foreign];
    let free = Options::default();
    let kept = Options { policy: Some(ApplicationsSync::CreateUpdate), ..Options::default() };
    let reverse = || ordered("Reverse", &json!({}));
    for (set, options, with_members, without) in [
        (set(&json!({})), &free, "finish a", "finish "),
        (reverse(), &free, "tear down a b: prod then dev", "finish "),
        (
            ordered("Backwards", &json!({})),
            &free,
            "stay: spec.strategy.deletionOrder \"Backwards\"",
            "finish ",
        ),
        (
            ordered("Reverse", &json!({"type": ""})),
            &free,
            "stay: spec.strategy.deletionOrder Reverse",
            "finish ",
        ),
        // Applications outlive a set that may not delete them, and one whose deletion leaves them behind.
        (set(&json!({})), &kept, "release a b", "finish "),
        (reverse(), &kept, "release a b", "finish "),
        (ordered("Backwards", &json!({})), &kept, "release a b", "finish "),
        (with_finalizers(reverse(), &["orphan", FINALIZER]), &free, "release a b", "finish "),
    ] {
        let found = next(&set, &there, options);
        assert!(found.starts_with(with_members), "{found} where {with_members} was expected");
        assert_eq!(next(&set, &there[2..], options), without, "what others own is not its business");
    }
}

/// What is recorded of a deletion without an order, and of whom.
#[test]
fn a_deletion_without_an_order_is_recorded_as_what_it_is() {
    let going = json!({"metadata": {"deletionTimestamp": "2026-11-21T09:30:00Z"}});
    let foreign = live("x", &json!({"metadata": {"ownerReferences": owner("ApplicationSet", "other")}}));
    let own = set(&json!({}));
    // Kubernetes was faster: its mark is all that is left.
    let taken = released(&own, &live("c", &json!({})));
    let mut nobodys = released(&own, &live("d", &json!({})));
    nobodys.metadata.annotations.clear();
    let there = [live("a", &json!({})), live("b", &going), taken, nobodys, foreign];
    let free = Options::default();
    let kept = Options { policy: Some(ApplicationsSync::CreateUpdate), ..Options::default() };
    let orphaned = with_finalizers(own.clone(), &["orphan"]);
    for (set, options, order, members) in [
        (&own, &free, Order::Collected, "a b"),
        (&own, &kept, Order::Orphaned, "a b c"),
        (&orphaned, &free, Order::Orphaned, "a b c"),
    ] {
        assert_eq!(witnessed(set, options), order);
        let found = departing(set, &there, options);
        let names: Vec<_> = found.iter().map(|one| one.metadata.name.as_str()).collect();
        assert_eq!(names.join(" "), members, "{order:?}");
    }
}

#[test]
fn what_is_released_is_nobodys_and_can_be_taken_again() {
    let own = set(&json!({}));
    let kept = Options { policy: Some(ApplicationsSync::CreateOnly), ..Options::default() };
    let mut owners = owner("ApplicationSet", "fleet");
    let more = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u-x"});
    owners.as_array_mut().unwrap().push(more.clone());
    let there = [live("a", &json!({})), live("b", &json!({"metadata": {"ownerReferences": owners}}))];
    let Next::Release(free) = deleting(&own, &there, &Here, &kept) else { panic!("they outlive the set") };
    assert_eq!(free[0].metadata.rest.get("ownerReferences"), None);
    assert_eq!(free[1].metadata.rest["ownerReferences"], json!([more]), "what others say stays");
    assert_eq!(next(&own, &free, &kept), "finish ", "and then the set goes");
    let again = changes(&own, &all(vec![generated("a"), generated("b")]), &free);
    assert_eq!(words(&again), "~a ~b", "a set of the same name has them again");
}

#[test]
fn a_set_whose_deletion_needs_us_bears_a_finalizer() {
    let kept = Options { policy: Some(ApplicationsSync::CreateUpdate), ..Options::default() };
    let free = Options::default();
    for (set, options, expected) in [
        (set(&json!({})), &free, None),
        (set(&json!({})), &kept, Some(vec![FINALIZER])),
        (ordered("Reverse", &json!({})), &free, Some(vec![FINALIZER])),
        (ordered("Backwards", &json!({})), &free, Some(vec![FINALIZER])),
        (ordered("AllAtOnce", &json!({})), &free, None),
        (with_finalizers(ordered("Reverse", &json!({})), &[FINALIZER]), &free, None),
        (with_finalizers(ordered("Reverse", &json!({})), &["x/y"]), &free, Some(vec!["x/y", FINALIZER])),
    ] {
        let expected = expected.map(|all| all.into_iter().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(finalizers(&set, options), expected, "{:?}", set.spec.strategy);
        let going = with_deletion(set);
        assert_eq!(finalizers(&going, options), None, "none can be added to what is being deleted");
    }
    assert_eq!(
        finished(&with_finalizers(set(&json!({})), &["x/y", FINALIZER])),
        Some(vec!["x/y".to_owned()])
    );
    assert_eq!(finished(&with_finalizers(set(&json!({})), &["x/y"])), None);
}

fn with_deletion(mut set: ApplicationSet) -> ApplicationSet {
    set.metadata.deletion_timestamp = Some(crate::at(0).into());
    set
}

/// A finalizer is not what makes an Application another one.
#[test]
fn a_deletion_names_what_was_looked_at() {
    let there = with(&live("a", &json!({})), &json!({"metadata": {"labels": {"env": "dev"}}}));
    let done = changes(&set(&json!({})), &Generated::default(), std::slice::from_ref(&there));
    assert_eq!(done.delete[0].application, there, "with its uid, its version, and the labels that order it");
}

/// A set that was deleted at a time, with these finalizers.
fn going(set: ApplicationSet, finalizers: &[&str]) -> ApplicationSet {
    let mut set = with_finalizers(set, finalizers);
    set.metadata.deletion_timestamp = Some(crate::at(60).into());
    set
}

/// Deleted so many seconds after the beginning of the tests.
fn deleted(name: &str, seconds: i64) -> Application {
    let mut one = live(name, &json!({}));
    one.metadata.deletion_timestamp = Some(crate::at(seconds).into());
    one
}

const FOREGROUND: &str = "foregroundDeletion";

#[test]
fn an_application_is_called_when_it_is_its_turn_or_was_deleted_before_the_set() {
    let free = Options::default();
    let kept = Options { policy: Some(ApplicationsSync::CreateUpdate), ..Options::default() };
    for (set, options, expected) in [
        (set(&json!({})), &free, false),
        (ordered("AllAtOnce", &json!({})), &free, false),
        (ordered("Reverse", &json!({})), &free, true),
        (ordered("Backwards", &json!({})), &free, true),
        (set(&json!({})), &kept, true),
    ] {
        assert_eq!(is_ordered(&set, options), expected, "{:?}", set.spec.strategy);
    }
    let all = going(ordered("Reverse", &json!({})), &[FOREGROUND]);
    for (seconds, expected) in [(59, true), (60, false), (61, false)] {
        assert_eq!(was_before(&all, &deleted("a", seconds)), expected, "{seconds}");
    }
    assert!(!was_before(&all, &live("a", &json!({}))), "nobody has deleted it");
    assert!(!was_before(&ordered("Reverse", &json!({})), &deleted("a", 0)), "nobody has deleted the set");
}

#[test]
fn a_deletion_in_the_foreground_is_told_where_the_set_says_the_order() {
    let free = Options::default();
    let kept = Options { policy: Some(ApplicationsSync::CreateUpdate), ..Options::default() };
    let reverse = || ordered("Reverse", &json!({}));
    let there: Vec<_> = ["a", "b", "c", "d", "e", "f", "g"].iter().map(|name| deleted(name, 61)).collect();
    let told = |set: &ApplicationSet, there: &[Application], options| warning(set, there, options);
    let said = told(&going(reverse(), &[FOREGROUND, FINALIZER]), &there, &free).unwrap();
    assert!(
        said.contains("--cascade=foreground") && said.contains("(a, b, c, d, e, 2 more are left)"),
        "{said}"
    );
    assert!(said.contains("when its turn in the order has come"), "{said}");
    let unmoved = [live("a", &json!({})), deleted("b", 59)];
    let said = told(&going(reverse(), &[FOREGROUND]), &unmoved, &free).unwrap();
    assert!(said.contains("at once; the objects"), "who is not deleted by it is not named: {said}");
    let said = told(&going(set(&json!({})), &[FOREGROUND]), &there, &kept).unwrap();
    assert!(said.contains("their objects stay, as the policy allows no deletion"), "{said}");
    for (set, options) in [
        (going(reverse(), &[FINALIZER]), &free),
        (going(set(&json!({})), &[FOREGROUND]), &free),
        (with_finalizers(reverse(), &[FOREGROUND]), &free),
    ] {
        assert_eq!(told(&set, &there, options), None, "{:?}", set.metadata);
    }
}

#[test]
fn objects_outlive_a_set_that_may_not_delete_them_though_kubernetes_deletes_their_applications() {
    let kept = Options { policy: Some(ApplicationsSync::CreateOnly), ..Options::default() };
    let hook = "post-delete-finalizer.argocd.argoproj.io";
    let background = format!("{FINALIZER}/background");
    let with_both = |mut one: Application, finalizers: &[&str]| {
        one.metadata.finalizers = finalizers.iter().map(|one| (*one).to_owned()).collect();
        one
    };
    let there = [
        with_both(deleted("after", 60), &[FINALIZER, hook]),
        with_both(deleted("background", 61), &[&background]),
        with_both(deleted("before", 59), &[FINALIZER]),
        with_both(live("not", &json!({})), &[FINALIZER]),
    ];
    let finalizers = |of: &[&str]| -> Vec<Vec<String>> {
        let Next::Release(free) = deleting(&going(set(&json!({})), of), &there, &Here, &kept) else {
            panic!("they outlive the set")
        };
        free.into_iter().map(|one| one.metadata.finalizers).collect()
    };
    let own = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
    // One that somebody has deleted before goes as that wanted.
    assert_eq!(
        finalizers(&[FOREGROUND, FINALIZER]),
        [own(&[hook]), own(&[]), own(&[FINALIZER]), own(&[FINALIZER])]
    );
    assert_eq!(
        finalizers(&[FINALIZER]),
        [own(&[FINALIZER, hook]), own(&[&background]), own(&[FINALIZER]), own(&[FINALIZER])]
    );
}
