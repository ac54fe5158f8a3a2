//! What is pruned, when, and what is left alone.

use serde_json::json;

use crate::support::{case, object, objects, targets};

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
    assert_eq!(case.tasks(), ["Sync 0: prune ConfigMap shop/ours", "Sync 0: prune ClusterRole reader"]);
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
    assert_eq!(case("").live(&live).tasks(), ["Sync 0: prune Namespace shop"]);
    let kept = case("").live(&live).flags(&["CreateNamespace=true"]);
    assert!(kept.tasks().is_empty());
    assert_eq!(kept.codes(), ["namespace-not-pruned"]);
}
