//! Order by phase, wave, kind and name, including tasks that are moved in front of their users.

use std::time::Duration;

use crate::support::{case, crd, manifest_text, manifest_texts};

#[test]
fn phases_then_waves_then_kinds_then_names() {
    let yaml = manifest_texts(&[
        ("batch/v1 Job fail", "hook=SyncFail; sync-wave=-9"),
        ("batch/v1 Job after", "hook=PostSync; sync-wave=-9"),
        ("batch/v1 Job before", "hook=PreSync; sync-wave=9"),
        ("apps/v1 Deployment b", ""),
        ("apps/v1 Deployment a", ""),
        ("v1 Service s", ""),
        ("serving.knative.dev/v1 Service r", "sync-options=SkipDryRunOnMissingResource=true"),
        ("scheduling.k8s.io/v1 PriorityClass p", ""),
        ("v1 ConfigMap late", "sync-wave=1"),
        ("v1 Secret early", "sync-wave=-1"),
        ("v1 ConfigMap c", ""),
        ("v1 ConfigMap other/a", ""),
    ]);
    assert_eq!(
        case(&yaml).tasks(),
        [
            "PreSync 9: create Job shop/before",
            "Sync -1: create Secret shop/early",
            "Sync 0: create ConfigMap other/a",
            "Sync 0: create ConfigMap shop/c",
            "Sync 0: create Service shop/r",
            "Sync 0: create Service shop/s",
            "Sync 0: create Deployment shop/a",
            "Sync 0: create Deployment shop/b",
            "Sync 0: create PriorityClass p",
            "Sync 1: create ConfigMap shop/late",
            "PostSync -9: create Job shop/after",
            "SyncFail -9: create Job shop/fail",
        ]
    );
}

#[test]
fn equal_names_are_ordered_by_group_kind_and_namespace() {
    let yaml = manifest_texts(&[
        ("v1 ConfigMap b/x", ""),
        ("v1 ConfigMap a/x", ""),
        ("z.example.com/v1 Aaa a/x", "sync-options=SkipDryRunOnMissingResource=true"),
        ("a.example.com/v1 Zzz a/x", "sync-options=SkipDryRunOnMissingResource=true"),
    ]);
    assert_eq!(
        case(&yaml).tasks(),
        [
            "Sync 0: create ConfigMap a/x",
            "Sync 0: create ConfigMap b/x",
            "Sync 0: create Zzz a/x",
            "Sync 0: create Aaa a/x",
        ]
    );
}

#[test]
fn a_namespace_comes_before_the_first_object_inside() {
    let yaml = manifest_texts(&[
        ("v1 Namespace other", "sync-wave=1"),
        ("batch/v1 Job other/j", "hook=PreSync"),
        ("v1 ConfigMap a", ""),
    ]);
    let planned = case(&yaml).plan();
    assert_eq!(
        crate::support::tasks(&planned),
        [
            "PreSync 0: create Namespace other",
            "PreSync 0: create Job other/j",
            "Sync 0: create ConfigMap shop/a",
        ]
    );
    assert_eq!(
        planned.plan.tasks[0].reason,
        "not in the cluster yet; moved before the first object that needs it"
    );
    assert!(planned.plan.tasks[1].options.dry_run_at_wave);
}

#[test]
fn a_namespace_that_is_already_first_stays() {
    let yaml =
        manifest_texts(&[("v1 Namespace other", "sync-wave=-5"), ("v1 ConfigMap other/a", "sync-wave=3")]);
    assert_eq!(case(&yaml).tasks(), ["Sync -5: create Namespace other", "Sync 3: create ConfigMap other/a"]);
}

#[test]
fn the_destination_namespace_comes_before_objects_of_the_cluster_scope() {
    let yaml = manifest_texts(&[
        ("v1 Namespace shop", ""),
        ("v1 Namespace other", ""),
        ("rbac.authorization.k8s.io/v1 ClusterRole r", "sync-wave=-5"),
    ]);
    assert_eq!(
        case(&yaml).tasks(),
        ["Sync -5: create Namespace shop", "Sync -5: create ClusterRole r", "Sync 0: create Namespace other",]
    );
}

#[test]
fn a_crd_comes_before_the_first_object_of_its_kind() {
    let yaml = format!(
        "{}{}{}",
        crd("Widget", "sync-wave=4"),
        manifest_text("example.com/v1 Widget w", "hook=PreSync; sync-wave=2"),
        manifest_text("v1 ConfigMap a", "hook=PreSync; sync-wave=2"),
    );
    assert_eq!(
        case(&yaml).tasks(),
        [
            "PreSync 2: create ConfigMap shop/a",
            "PreSync 2: create CustomResourceDefinition widgets.example.com",
            "PreSync 2: create Widget shop/w",
        ]
    );
}

#[test]
fn namespace_and_crd_are_both_moved_and_waves_stay_whole() {
    let yaml = format!(
        "{}{}",
        crd("Widget", "sync-wave=9"),
        manifest_texts(&[
            ("v1 Namespace other", "sync-wave=9"),
            ("example.com/v1 Widget other/w", "sync-wave=1"),
            ("v1 ConfigMap other/a", "sync-wave=1"),
            ("v1 ConfigMap a", "sync-wave=9"),
        ])
    );
    let planned = case(&yaml).plan();
    assert_eq!(
        crate::support::tasks(&planned),
        [
            "Sync 1: create Namespace other",
            "Sync 1: create ConfigMap other/a",
            "Sync 1: create CustomResourceDefinition widgets.example.com",
            "Sync 1: create Widget other/w",
            "Sync 9: create ConfigMap shop/a",
        ]
    );
    let waves: Vec<(i64, u32, u32)> =
        planned.plan.waves.iter().map(|wave| (wave.wave, wave.first, wave.count)).collect();
    assert_eq!(waves, [(1, 0, 4), (9, 4, 1)]);
}

#[test]
fn prunes_are_not_moved_by_dependencies() {
    let yaml = manifest_text("v1 Namespace other", "sync-wave=2");
    let live = manifest_text("v1 ConfigMap other/a", "tracked; sync-wave=1");
    assert_eq!(
        case(&yaml).with_live(&live).tasks(),
        ["Sync 1: prune ConfigMap other/a", "Sync 2: create Namespace other"]
    );
}

#[test]
fn waves_know_their_timeouts_and_gates() {
    let yaml = manifest_texts(&[
        ("v1 ConfigMap a", "tidegate.dev/wave-timeout=5m; tidegate.dev/gate=soak"),
        ("v1 ConfigMap b", "tidegate.dev/wave-timeout=1h; tidegate.dev/gate=approval,soak"),
        ("v1 ConfigMap c", "tidegate.dev/wave-timeout=30s"),
        ("v1 ConfigMap d", "sync-wave=1; tidegate.dev/retry=restart"),
    ]);
    let plan = case(&yaml).plan().plan;
    assert_eq!(plan.waves[0].timeout, Some(Duration::from_secs(3600)));
    assert_eq!(plan.waves[0].gates, ["approval", "soak"]);
    assert_eq!((plan.waves[1].timeout, plan.waves[1].gates.len()), (None, 0));
    assert!(plan.restart_on_retry);
}

#[test]
fn a_namespace_that_is_a_hook_of_several_phases_is_moved_once() {
    let yaml = manifest_texts(&[
        ("v1 Namespace other", "hook=Sync,SyncFail; sync-wave=1"),
        ("v1 ConfigMap other/a", ""),
    ]);
    assert_eq!(
        case(&yaml).tasks(),
        [
            "Sync 0: create Namespace other",
            "Sync 0: create ConfigMap other/a",
            "SyncFail 1: create Namespace other",
        ]
    );
}
