//! Pruning: affected objects, order, and objects that are kept.

use serde_json::json;
use tidegate_model::Cascade;

use crate::support::{case, codes, manifest_text, manifest_texts, targets};

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
            "prune: no longer in the manifests; waiting for confirmation",
            true,
        ),
        (
            "Prune=confirm",
            &[],
            true,
            false,
            "prune: no longer in the manifests; waiting for confirmation",
            true,
        ),
        ("Prune=confirm", &[], true, true, "prune: no longer in the manifests", false),
        (
            "",
            &["Prune=confirm"],
            true,
            false,
            "prune: no longer in the manifests; waiting for confirmation",
            true,
        ),
        ("Prune=false", &["Prune=confirm"], true, true, "prune-skipped: ignored (no prune)", false),
    ];
    for (annotation, flags, prune, confirmed, expected, waits) in table {
        let live = manifest_text("v1 ConfigMap shop/a", &format!("tracked; sync-options={annotation}"));
        let case = case("").with_live(&live).flags(flags).options(|options| {
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
    let mut live = targets(&manifest_texts(&[
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
    let case = case.with_inventory();
    assert_eq!(case.tasks(), ["Sync 0: prune ConfigMap shop/ours", "Sync 0: prune ClusterRole reader"]);
}

/// Two applications can have the same name, so only objects that certainly belong to this application are
/// pruned.
#[test]
fn possibly_foreign_objects_are_listed_and_not_pruned() {
    const ROLE: &str = "rbac.authorization.k8s.io/v1 ClusterRole reader";
    const NAMESPACE: &str = "v1 Namespace team-a";
    let skipped = "prune-skipped: ignored (found elsewhere, requires adoption)";
    let plain = "prune: no longer in the manifests";
    for (what, manifests, namespace, expected) in [
        ("another namespace", "v1 ConfigMap x", "team-a/", skipped),
        ("the destination namespace", "v1 ConfigMap x", "shop/", plain),
        (
            "the destination namespace, if the manifests use only another namespace",
            "v1 ConfigMap team-a/x",
            "shop/",
            skipped,
        ),
        ("the namespace of a manifest", "v1 ConfigMap team-a/x", "team-a/", plain),
        ("a namespace that is in the manifests", "v1 Namespace team-a", "team-a/", plain),
        ("the destination namespace, if there are no manifests", "", "shop/", plain),
    ] {
        let manifests = if manifests.is_empty() { String::new() } else { manifest_text(manifests, "") };
        let live = manifest_text(&format!("v1 ConfigMap {namespace}a"), "tracked");
        let planned = case(&manifests).with_live(&live).plan();
        let task = planned.plan.tasks.iter().find(|task| task.name == "a").unwrap();
        assert_eq!(format!("{}: {}", task.action.as_str(), task.reason), expected, "{what}");
        let is_elsewhere = expected == skipped;
        assert_eq!(task.options.found_elsewhere, is_elsewhere, "{what}");
        assert_eq!(planned.owned_elsewhere.len(), usize::from(is_elsewhere), "{what}");
        assert_eq!(codes(&planned).contains(&"found-elsewhere".to_owned()), is_elsewhere, "{what}");
    }
    // The name of a cluster-scoped object doesn't prove that it belongs to the application.
    let live =
        manifest_texts(&[(ROLE, "tracked"), (NAMESPACE, "tracked"), ("v1 ConfigMap team-a/a", "tracked")]);
    let left = case(&manifest_text("v1 ConfigMap x", "")).with_live(&live);
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
fn owned_objects_are_pruned_in_any_namespace() {
    let live = manifest_texts(&[
        ("rbac.authorization.k8s.io/v1 ClusterRole reader", "tracked"),
        ("v1 ConfigMap team-a/a", "tracked"),
    ]);
    let pruned = ["Sync 0: prune ConfigMap team-a/a", "Sync 0: prune ClusterRole reader"];
    let wanted = manifest_text("v1 ConfigMap x", "");
    let without_x =
        |tasks: Vec<String>| tasks.into_iter().filter(|task| !task.ends_with("/x")).collect::<Vec<_>>();
    let known = case(&wanted).with_live(&live).with_inventory();
    assert_eq!(without_x(known.tasks()), pruned);
    assert_eq!(known.codes(), Vec::<String>::new());
    let adopted = case(&wanted).with_live(&live).options(|options| options.adopt = true);
    assert_eq!(without_x(adopted.tasks()), pruned);
    assert_eq!(adopted.codes(), Vec::<String>::new());
    assert!(adopted.plan().plan.tasks.iter().all(|task| task.name == "x" || task.reason.contains("adopted")));
    let kept = adopted.options(|options| options.prune = false).plan();
    assert!(kept.plan.tasks.iter().all(|task| task.action.as_str() != "prune"));
    let id = "tracked; argocd.argoproj.io/installation-id=blue";
    let of_ours = manifest_texts(&[
        ("rbac.authorization.k8s.io/v1 ClusterRole reader", id),
        ("v1 ConfigMap team-a/a", id),
        ("v1 ConfigMap team-a/b", "tracked"),
    ]);
    let mut installed = case(&wanted).with_live(&of_ours);
    installed.request.tracking.installation = "blue".to_owned();
    assert_eq!(without_x(installed.tasks()), pruned);
}

/// Deleting a namespace deletes all objects in it.
#[test]
fn a_namespace_is_not_pruned_while_objects_are_deployed_to_it() {
    let live = manifest_texts(&[("v1 Namespace old", "tracked"), ("v1 Namespace empty", "tracked")]);
    for (manifests, prune, expected) in [
        (manifest_text("v1 ConfigMap old/a", ""), true, &["namespace-pruned"][..]),
        (manifest_text("v1 Pod old/a", "hook=PostSync"), true, &["namespace-pruned"]),
        (manifest_text("v1 ConfigMap old/a", ""), false, &[]),
        (manifest_text("v1 ConfigMap shop/a", ""), true, &[]),
        (manifest_texts(&[("v1 ConfigMap old/a", ""), ("v1 Namespace old", "")]), true, &[]),
    ] {
        let case =
            case(&manifests).with_live(&live).with_inventory().options(|options| options.prune = prune);
        assert_eq!(case.codes(), expected, "{manifests}");
    }
    let mut case = case(&manifest_text("v1 ConfigMap a", ""));
    case.terminating = ["shop".to_owned(), "other".to_owned()].into();
    assert_eq!(case.codes(), ["namespace-terminating"]);
    assert!(case.plan().plan.warnings[0].message.contains("ConfigMap shop/a"));
}

#[test]
fn one_object_under_two_groups_is_not_deleted() {
    let yaml = manifest_text("networking.k8s.io/v1 Ingress web", "");
    let live = manifest_texts(&[
        ("networking.k8s.io/v1 Ingress shop/web", "tracked"),
        ("extensions/v1 Ingress shop/web", "tracked"),
    ]);
    assert_eq!(case(&yaml).with_live(&live).tasks(), ["Sync 0: apply Ingress shop/web"]);
    assert_eq!(case("").with_live(&live).tasks().len(), 1);
}

#[test]
fn prunes_run_in_reversed_waves_among_the_others() {
    let yaml = manifest_texts(&[("v1 ConfigMap a", ""), ("v1 ConfigMap b", "sync-wave=2")]);
    let live = manifest_texts(&[
        ("v1 ConfigMap shop/p1", "tracked; sync-wave=1"),
        ("v1 ConfigMap shop/p3", "tracked; sync-wave=3"),
        ("v1 ConfigMap shop/p4", "tracked; sync-wave=4"),
    ]);
    assert_eq!(
        case(&yaml).with_live(&live).tasks(),
        [
            "Sync 0: create ConfigMap shop/a",
            "Sync 1: prune ConfigMap shop/p4",
            "Sync 2: create ConfigMap shop/b",
            "Sync 3: prune ConfigMap shop/p3",
            "Sync 4: prune ConfigMap shop/p1",
        ]
    );
    assert_eq!(
        case(&yaml).with_live(&live).flags(&["PruneLast=true"]).tasks()[2..],
        [
            "Sync 5: prune ConfigMap shop/p1",
            "Sync 5: prune ConfigMap shop/p3",
            "Sync 5: prune ConfigMap shop/p4",
        ]
    );
}

#[test]
fn skipped_objects_are_neither_applied_nor_pruned() {
    let case = case(&manifest_text("v1 ConfigMap a", "hook=Skip"))
        .with_live(&manifest_text("v1 ConfigMap shop/a", "tracked"));
    assert!(case.tasks().is_empty());
    assert_eq!(case.codes(), ["skipped"]);
    assert_eq!(case.plan().excluded.len(), 1);
}

#[test]
fn a_requested_namespace_is_not_pruned() {
    let live = manifest_text("v1 Namespace shop", "tracked");
    assert_eq!(case("").with_live(&live).with_inventory().tasks(), ["Sync 0: prune Namespace shop"]);
    let kept = case("").with_live(&live).flags(&["CreateNamespace=true"]);
    assert!(kept.tasks().is_empty());
    assert_eq!(kept.codes(), ["namespace-not-pruned"]);
}

/// A deletion plan numbers its waves in execution order, but users know them by their annotations.
#[test]
fn displayed_waves_of_a_deletion_follow_the_annotations() {
    let rows = [("first", "-2"), ("second", "3"), ("second-too", "3"), ("last", "10")];
    let live: String = rows
        .iter()
        .map(|(name, wave)| {
            manifest_text(&format!("v1 ConfigMap shop/{name}"), &format!("tracked; sync-wave={wave}"))
        })
        .collect();
    let hook = manifest_text("v1 ConfigMap shop/before", "hook=PreDelete; sync-wave=-2");
    let planned = case(&hook).with_live(&live).for_deletion(Cascade::Foreground).plan();
    let plan = &planned.plan;
    let (numbers, of_a_sync) = (plan.wave_numbers(true), plan.wave_numbers(false));
    let shown: Vec<_> = plan
        .tasks
        .iter()
        .map(|task| (task.key().name.clone(), numbers.displayed(task.phase, task.wave).to_string()))
        .collect();
    let expected = [("before", "-2"), ("last", "10"), ("second", "3"), ("second-too", "3"), ("first", "-2")];
    assert_eq!(shown, expected.map(|(name, wave)| (name.to_owned(), wave.to_owned())));
    assert!(plan.waves.iter().all(|wave| of_a_sync.displayed(wave.phase, wave.wave) == wave.wave));
}
