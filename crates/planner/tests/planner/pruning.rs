//! What is pruned, when, and what is left alone.

use serde_json::json;
use tidegate_model::Cascade;

use crate::support::{case, codes, object, objects, targets};

#[test]
fn prune_decisions() {
    type Row = (&'static str, &'static [&'static str], bool, bool, &'static str, bool);
    let table: [Row; 12] = [
        ("", &[], false, false, "prune-skipped: ignored (requires pruning)", false),
        ("Prune=confirm", &[], false, false, "prune-skipped: ignored (requires pruning)", false),
        ("Prune=false", &[], false, false, "prune-skipped: ignored (requires pruning)", false),
        ("", &[], true, false, "prune: no longer in the manifests", false),
        ("Prune=false", &[], true, false, "prune-skipped: ignored (no prune)", false),
        ("", &["Prune=false"], true, false, "prune-skipped: ignored (no prune)", false),
        ("Prune=true", &["Prune=false"], true, false, "prune: no longer in the manifests", false),
        (
            "Prune=confirm",
            &["Prune=false"],
            true,
            false,
            "prune: no longer in the manifests; waits for confirmation",
            true,
        ),
        (
            "Prune=confirm",
            &[],
            true,
            false,
            "prune: no longer in the manifests; waits for confirmation",
            true,
        ),
        ("Prune=confirm", &[], true, true, "prune: no longer in the manifests", false),
        (
            "",
            &["Prune=confirm"],
            true,
            false,
            "prune: no longer in the manifests; waits for confirmation",
            true,
        ),
        ("Prune=false", &["Prune=confirm"], true, true, "prune-skipped: ignored (no prune)", false),
    ];
    for (annotation, flags, prune, confirmed, expected, waits) in table {
        let live = object("v1 ConfigMap shop/a", &format!("tracked; sync-options={annotation}"));
        let case = case("").live(&live).flags(flags).options(|options| {
            options.prune = prune;
            options.prune_confirmed = confirmed;
        });
        let planned = case.plan();
        let task = &planned.plan.tasks[0];
        assert_eq!(format!("{}: {}", task.action.as_str(), task.reason), expected, "{annotation} {flags:?}");
        assert_eq!(task.options.confirm_prune, waits, "{annotation} {flags:?}");
        assert!(task.manifest.is_none());
    }
}

#[test]
fn only_objects_of_the_application_are_pruned() {
    let mut live = targets(&objects(&[
        ("v1 ConfigMap shop/ours", "tracked"),
        ("v1 ConfigMap shop/untracked", ""),
        ("v1 ConfigMap shop/theirs", "tracking-id=other:/ConfigMap:shop/theirs"),
        ("v1 ConfigMap shop/copy", "tracking-id=app:/ConfigMap:shop/original"),
        ("v1 ConfigMap shop/owned", "tracked"),
        ("rbac.authorization.k8s.io/v1 ClusterRole reader", "tracked"),
    ]));
    live[4].object.metadata_mut().insert("ownerReferences".to_owned(), json!([{"uid": "x"}]));
    let mut case = case("");
    case.live = live.into_iter().map(|target| target.object).collect();
    let case = case.known();
    assert_eq!(case.tasks(), ["Sync 0: prune ConfigMap shop/ours", "Sync 0: prune ClusterRole reader"]);
}

/// The same name does not make two applications one: only what is certainly ours is pruned.
#[test]
fn what_may_be_anothers_is_listed_and_left_alone() {
    const ROLE: &str = "rbac.authorization.k8s.io/v1 ClusterRole reader";
    const NAMESPACE: &str = "v1 Namespace team-a";
    let skipped = "prune-skipped: ignored (found elsewhere, requires adopting)";
    let plain = "prune: no longer in the manifests";
    for (what, manifests, namespace, expected) in [
        ("elsewhere", "v1 ConfigMap x", "team-a/", skipped),
        ("here", "v1 ConfigMap x", "shop/", plain),
        ("the destination, where the manifests name another", "v1 ConfigMap team-a/x", "shop/", skipped),
        ("where a manifest says", "v1 ConfigMap team-a/x", "team-a/", plain),
        ("a namespace of the manifests", "v1 Namespace team-a", "team-a/", plain),
        ("the destination, where nothing is wanted", "", "shop/", plain),
    ] {
        let manifests = if manifests.is_empty() { String::new() } else { object(manifests, "") };
        let live = object(&format!("v1 ConfigMap {namespace}a"), "tracked");
        let planned = case(&manifests).live(&live).plan();
        let task = planned.plan.tasks.iter().find(|task| task.name == "a").unwrap();
        assert_eq!(format!("{}: {}", task.action.as_str(), task.reason), expected, "{what}");
        let is_elsewhere = expected == skipped;
        assert_eq!(task.options.found_elsewhere, is_elsewhere, "{what}");
        assert_eq!(planned.elsewhere.len(), usize::from(is_elsewhere), "{what}");
        assert_eq!(codes(&planned).contains(&"found-elsewhere".to_owned()), is_elsewhere, "{what}");
    }
    // What is in no namespace is nobody's by its name.
    let live = objects(&[(ROLE, "tracked"), (NAMESPACE, "tracked"), ("v1 ConfigMap team-a/a", "tracked")]);
    let left = case(&object("v1 ConfigMap x", "")).live(&live);
    let planned = left.plan();
    assert!(planned.plan.tasks.iter().all(|task| task.action.as_str() != "prune"), "{:?}", left.tasks());
    let [warning] = planned.plan.warnings.as_slice() else { panic!("{:?}", planned.plan.warnings) };
    for word in
        ["ClusterRole reader", "Namespace team-a", "ConfigMap team-a/a", "--adopt", "--installation-id"]
    {
        assert!(warning.message.contains(word), "{word}: {}", warning.message);
    }
}

#[test]
fn what_is_known_adopted_or_of_our_installation_is_pruned_anywhere() {
    let live = objects(&[
        ("rbac.authorization.k8s.io/v1 ClusterRole reader", "tracked"),
        ("v1 ConfigMap team-a/a", "tracked"),
    ]);
    let pruned = ["Sync 0: prune ConfigMap team-a/a", "Sync 0: prune ClusterRole reader"];
    let wanted = object("v1 ConfigMap x", "");
    let without_x =
        |tasks: Vec<String>| tasks.into_iter().filter(|task| !task.ends_with("/x")).collect::<Vec<_>>();
    let known = case(&wanted).live(&live).known();
    assert_eq!(without_x(known.tasks()), pruned);
    assert_eq!(known.codes(), Vec::<String>::new());
    let adopted = case(&wanted).live(&live).options(|options| options.adopt = true);
    assert_eq!(without_x(adopted.tasks()), pruned);
    assert_eq!(adopted.codes(), Vec::<String>::new());
    assert!(adopted.plan().plan.tasks.iter().all(|task| task.name == "x" || task.reason.contains("adopted")));
    let kept = adopted.options(|options| options.prune = false).plan();
    assert!(kept.plan.tasks.iter().all(|task| task.action.as_str() != "prune"));
    let id = "tracked; argocd.argoproj.io/installation-id=blue";
    let of_ours = objects(&[
        ("rbac.authorization.k8s.io/v1 ClusterRole reader", id),
        ("v1 ConfigMap team-a/a", id),
        ("v1 ConfigMap team-a/b", "tracked"),
    ]);
    let mut installed = case(&wanted).live(&of_ours);
    installed.request.tracking.installation = "blue".to_owned();
    assert_eq!(without_x(installed.tasks()), pruned);
}

/// A namespace takes everything in it along.
#[test]
fn a_namespace_does_not_go_while_objects_go_into_it() {
    let live = objects(&[("v1 Namespace old", "tracked"), ("v1 Namespace empty", "tracked")]);
    for (manifests, prune, expected) in [
        (object("v1 ConfigMap old/a", ""), true, &["namespace-pruned"][..]),
        (object("v1 Pod old/a", "hook=PostSync"), true, &["namespace-pruned"]),
        (object("v1 ConfigMap old/a", ""), false, &[]),
        (object("v1 ConfigMap shop/a", ""), true, &[]),
        (objects(&[("v1 ConfigMap old/a", ""), ("v1 Namespace old", "")]), true, &[]),
    ] {
        let case = case(&manifests).live(&live).known().options(|options| options.prune = prune);
        assert_eq!(case.codes(), expected, "{manifests}");
    }
    let mut case = case(&object("v1 ConfigMap a", ""));
    case.terminating = ["shop".to_owned(), "other".to_owned()].into();
    assert_eq!(case.codes(), ["namespace-terminating"]);
    assert!(case.plan().plan.warnings[0].message.contains("ConfigMap shop/a"));
}

#[test]
fn one_object_under_two_groups_is_not_deleted() {
    let yaml = object("networking.k8s.io/v1 Ingress web", "");
    let live = objects(&[
        ("networking.k8s.io/v1 Ingress shop/web", "tracked"),
        ("extensions/v1 Ingress shop/web", "tracked"),
    ]);
    assert_eq!(case(&yaml).live(&live).tasks(), ["Sync 0: apply Ingress shop/web"]);
    assert_eq!(case("").live(&live).tasks().len(), 1);
}

#[test]
fn prunes_run_in_reversed_waves_among_the_others() {
    let yaml = objects(&[("v1 ConfigMap a", ""), ("v1 ConfigMap b", "sync-wave=2")]);
    let live = objects(&[
        ("v1 ConfigMap shop/p1", "tracked; sync-wave=1"),
        ("v1 ConfigMap shop/p3", "tracked; sync-wave=3"),
        ("v1 ConfigMap shop/p4", "tracked; sync-wave=4"),
    ]);
    assert_eq!(
        case(&yaml).live(&live).tasks(),
        [
            "Sync 0: create ConfigMap shop/a",
            "Sync 1: prune ConfigMap shop/p4",
            "Sync 2: create ConfigMap shop/b",
            "Sync 3: prune ConfigMap shop/p3",
            "Sync 4: prune ConfigMap shop/p1",
        ]
    );
    assert_eq!(
        case(&yaml).live(&live).flags(&["PruneLast=true"]).tasks()[2..],
        [
            "Sync 5: prune ConfigMap shop/p1",
            "Sync 5: prune ConfigMap shop/p3",
            "Sync 5: prune ConfigMap shop/p4",
        ]
    );
}

#[test]
fn skipped_objects_are_neither_applied_nor_pruned() {
    let case = case(&object("v1 ConfigMap a", "hook=Skip")).live(&object("v1 ConfigMap shop/a", "tracked"));
    assert!(case.tasks().is_empty());
    assert_eq!(case.codes(), ["skipped"]);
    assert_eq!(case.plan().left_out.len(), 1);
}

#[test]
fn a_namespace_that_is_asked_for_is_not_pruned() {
    let live = object("v1 Namespace shop", "tracked");
    assert_eq!(case("").live(&live).known().tasks(), ["Sync 0: prune Namespace shop"]);
    let kept = case("").live(&live).flags(&["CreateNamespace=true"]);
    assert!(kept.tasks().is_empty());
    assert_eq!(kept.codes(), ["namespace-not-pruned"]);
}

/// The plan of a deletion numbers its waves in the order in which they come; people know them by the annotations.
#[test]
fn waves_of_a_deletion_are_known_by_the_annotations_of_their_objects() {
    let rows = [("first", "-2"), ("second", "3"), ("second-too", "3"), ("last", "10")];
    let live: String = rows
        .iter()
        .map(|(name, wave)| {
            object(&format!("v1 ConfigMap shop/{name}"), &format!("tracked; sync-wave={wave}"))
        })
        .collect();
    let hook = object("v1 ConfigMap shop/before", "hook=PreDelete; sync-wave=-2");
    let planned = case(&hook).live(&live).deleted(Cascade::Foreground).plan();
    let plan = &planned.plan;
    let (numbers, of_a_sync) = (plan.wave_numbers(true), plan.wave_numbers(false));
    let shown: Vec<_> = plan
        .tasks
        .iter()
        .map(|task| (task.key().name.clone(), numbers.shown(task.phase, task.wave).to_string()))
        .collect();
    let expected = [("before", "-2"), ("last", "10"), ("second", "3"), ("second-too", "3"), ("first", "-2")];
    assert_eq!(shown, expected.map(|(name, wave)| (name.to_owned(), wave.to_owned())));
    assert!(plan.waves.iter().all(|wave| of_a_sync.shown(wave.phase, wave.wave) == wave.wave));
}
