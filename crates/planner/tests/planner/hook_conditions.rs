//! Conditions for running hooks: types of operations, and inputs.

use std::collections::BTreeSet;

use serde_json::json;
use tidegate_model::{Cascade, ObjectKey, SyncRequest};
use tidegate_planner::{LastRun, runs_when_inputs_change, unchanged_hooks};

use crate::support::*;

const JOB: &str = "batch/v1 Job migrate";
const MAP: &str = "v1 ConfigMap settings";

/// Returns a case with a hook that has these annotations, and a resource to deploy.
fn case_with_hook(annotations: &str) -> Case {
    case(&manifest_texts(&[(JOB, &format!("hook=PreSync; {annotations}")), (MAP, "")]))
}

/// Returns true if the plan runs the hook.
fn hook_runs(case: &Case) -> bool {
    case.tasks().iter().any(|task| task.contains("Job shop/migrate"))
}

fn as_self_heal(case: Case) -> Case {
    let mut case = case.select(&[":ConfigMap:settings"]);
    case.request.initiated_by = SyncRequest::AUTOMATED_REQUESTER.to_owned();
    case
}

#[test]
fn the_hook_on_annotation_selects_operations() {
    for (contract, sync, heal) in [
        ("", true, false),
        ("tidegate.dev/hook-on=sync", true, false),
        ("tidegate.dev/hook-on=selfheal", false, true),
        ("tidegate.dev/hook-on=sync, selfheal", true, true),
        // An invalid value has no effect.
        ("tidegate.dev/hook-on=self-heal", true, false),
        ("tidegate.dev/hook-on=", true, false),
    ] {
        assert_eq!(hook_runs(&case_with_hook(contract)), sync, "{contract:?}, a manual sync");
        let mut automated = case_with_hook(contract);
        automated.request.initiated_by = SyncRequest::AUTOMATED_REQUESTER.to_owned();
        assert_eq!(hook_runs(&automated), sync, "{contract:?}, an automated sync");
        assert_eq!(hook_runs(&as_self_heal(case_with_hook(contract))), heal, "{contract:?}, a self-heal");
        let selected = case_with_hook(contract).select(&[":ConfigMap:settings"]);
        assert!(!hook_runs(&selected), "{contract:?}, a manual selective sync");
        let without = case_with_hook(contract).options(|options| options.skip_hooks = true);
        assert!(!hook_runs(&without), "{contract:?}, a sync without hooks");
        assert!(!hook_runs(&as_self_heal(without)), "{contract:?}, a self-heal without hooks");
    }
    let left_out = case_with_hook("tidegate.dev/hook-on=selfheal").plan().excluded;
    assert_eq!(left_out[0].reason, "its tidegate.dev/hook-on annotation contains only selfheal");
}

#[test]
fn a_self_heal_runs_its_hooks_before_the_corrected_objects() {
    let healing = as_self_heal(case_with_hook("tidegate.dev/hook-on=selfheal"));
    assert_eq!(
        healing.tasks(),
        ["PreSync 0: create Job shop/migrate", "Sync 0: create ConfigMap shop/settings"]
    );
}

#[test]
fn hooks_of_a_deletion_have_no_conditions() {
    let hook = manifest_texts(&[(JOB, "hook=PreDelete; tidegate.dev/hook-on=selfheal")]);
    let deleted = case(&hook).for_deletion(Cascade::Foreground);
    assert_eq!(deleted.tasks(), ["PreDelete 0: create Job shop/migrate"]);
}

#[test]
fn surprising_conditions_are_reported() {
    for (annotations, codes) in [
        ("hook=PreSync; tidegate.dev/hook-on=sync, selfheal; tidegate.dev/run-when=inputs-changed", &[][..]),
        ("hook=PreSync; tidegate.dev/run-when=inputs-changed; tidegate.dev/inputs=:ConfigMap:settings", &[]),
        ("hook=PreSync; tidegate.dev/hook-on=self-heal", &["unknown-hook-on"]),
        ("hook=PreSync; tidegate.dev/run-when=changed", &["unknown-run-when"]),
        ("hook=PreSync; tidegate.dev/inputs=:ConfigMap:settings", &["annotation-without-effect"]),
        ("hook=SyncFail; tidegate.dev/run-when=inputs-changed", &["annotation-without-effect"]),
        (
            "hook=PreSync; tidegate.dev/run-when=inputs-changed; tidegate.dev/inputs=settings",
            &["invalid-input"],
        ),
        (
            "hook=PreSync; tidegate.dev/run-when=inputs-changed; tidegate.dev/inputs=:ConfigMap:other",
            &["missing-input"],
        ),
        ("tidegate.dev/hook-on=sync", &["annotation-without-effect"]),
        (
            "tidegate.dev/run-when=inputs-changed; tidegate.dev/inputs=:ConfigMap:settings",
            &["annotation-without-effect", "annotation-without-effect"],
        ),
    ] {
        let found = case(&manifest_texts(&[(JOB, annotations), (MAP, "")])).codes();
        assert_eq!(found, codes, "{annotations}");
    }
}

const KEYED: &str = "hook=PreSync; tidegate.dev/run-when=inputs-changed";

/// Returns the manifests of a hook with these annotations, and of the hook's possible inputs.
fn manifests(annotations: &str, value: &str, wave: &str) -> String {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"value": value}});
    let service = manifest_text("v1 Service web", &format!("sync-wave={wave}"));
    format!("{}{map}\n---\n{service}", manifest_text(JOB, annotations))
}

fn unchanged_hooks_between(now: &str, before: &str) -> BTreeSet<ObjectKey> {
    let now = case(now);
    let hook = ObjectKey::new("batch", "Job", "shop", "migrate");
    let last = [LastRun { hook, targets: targets(before) }];
    unchanged_hooks(&now.request, &now.targets, &now.discovery, &last)
}

#[test]
fn a_hook_is_unchanged_if_its_manifest_and_inputs_are() {
    let named = format!("{KEYED}; tidegate.dev/inputs=:ConfigMap:settings");
    let both = format!("{KEYED}; tidegate.dev/inputs=:ConfigMap:shop/settings, :Service:web");
    let gone = format!("{KEYED}; tidegate.dev/inputs=:ConfigMap:other");
    let elsewhere = format!("{KEYED}; tidegate.dev/inputs=:ConfigMap:stock/settings");
    let wrong = format!("{KEYED}; tidegate.dev/inputs=settings");
    let plain = "hook=PreSync".to_owned();
    let keyed = KEYED.to_owned();
    let failing = "hook=PreSync,SyncFail; tidegate.dev/run-when=inputs-changed".to_owned();
    let later = format!("{KEYED}; sync-wave=1");
    for (annotations, before, expected) in [
        (&keyed, manifests(&keyed, "1", "0"), true),
        (&keyed, manifests(&keyed, "2", "1"), true),
        (&named, manifests(&named, "1", "0"), true),
        (&named, manifests(&named, "1", "1"), true),
        (&named, manifests(&named, "2", "0"), false),
        (&both, manifests(&both, "1", "0"), true),
        (&both, manifests(&both, "1", "1"), false),
        (&keyed, manifests(&later, "1", "0"), false),
        (&named, manifests(&keyed, "1", "0"), false),
        (&keyed, manifests(&plain, "1", "0"), false),
        (&plain, manifests(&plain, "1", "0"), false),
        (&failing, manifests(&failing, "1", "0"), false),
        (&gone, manifests(&gone, "1", "0"), false),
        (&elsewhere, manifests(&elsewhere, "1", "0"), false),
        (&wrong, manifests(&wrong, "1", "0"), false),
        (&keyed, manifest_text(MAP, ""), false),
    ] {
        let found = unchanged_hooks_between(&manifests(annotations, "1", "0"), &before);
        assert_eq!(!found.is_empty(), expected, "{annotations}\n{before}");
    }
    // The hook has never run, or its record no longer exists.
    let now = case(&manifests(KEYED, "1", "0"));
    assert!(unchanged_hooks(&now.request, &now.targets, &now.discovery, &[]).is_empty());
    assert!(unchanged_hooks_between(&manifest_text(MAP, ""), &manifests(KEYED, "1", "0")).is_empty());
    assert!(
        runs_when_inputs_change(&now.targets[0].object) && !runs_when_inputs_change(&now.targets[1].object)
    );
}

#[test]
fn manifest_order_and_default_namespace_are_not_changes() {
    let named = format!("{KEYED}; tidegate.dev/inputs=:ConfigMap:settings, :Service:web");
    let [job, map, service] =
        [manifest_text(JOB, &named), manifest_text(MAP, ""), manifest_text("v1 Service web", "")];
    let now = format!("{job}{map}{service}");
    assert!(!unchanged_hooks_between(&now, &format!("{service}{job}{map}")).is_empty());
}

#[test]
fn an_unchanged_hook_is_excluded_and_reported() {
    let mut case = case_with_hook("tidegate.dev/run-when=inputs-changed");
    case.unchanged_hooks.insert(ObjectKey::new("batch", "Job", "shop", "migrate"));
    assert!(!hook_runs(&case));
    assert_eq!(case.plan().excluded[0].reason, "its inputs have not changed since it succeeded");
    // The object that an earlier operation created is kept.
    let live = case.with_live(&manifest_text(JOB, "hook=PreSync; tracked"));
    assert_eq!(live.tasks(), ["Sync 0: create ConfigMap shop/settings"]);
}
