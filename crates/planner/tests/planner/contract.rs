//! In which operations hooks run, and with which inputs.

use std::collections::BTreeSet;

use serde_json::json;
use tidegate_model::{Cascade, ObjectKey, SyncRequest};
use tidegate_planner::{LastRun, runs_when_inputs_change, unchanged_hooks};

use crate::support::*;

const JOB: &str = "batch/v1 Job migrate";
const MAP: &str = "v1 ConfigMap settings";

/// A hook that says this, and what it is to work on.
fn with(annotations: &str) -> Case {
    case(&objects(&[(JOB, &format!("hook=PreSync; {annotations}")), (MAP, "")]))
}

/// Whether the hook runs.
fn runs(case: &Case) -> bool {
    case.tasks().iter().any(|task| task.contains("Job shop/migrate"))
}

fn heals(case: Case) -> Case {
    let mut case = case.select(&[":ConfigMap:settings"]);
    case.request.initiated_by = SyncRequest::AUTOMATED.to_owned();
    case
}

#[test]
fn the_contract_of_a_hook_says_in_which_operations_it_runs() {
    for (contract, sync, heal) in [
        ("", true, false),
        ("tidegate.dev/hook-on=sync", true, false),
        ("tidegate.dev/hook-on=selfheal", false, true),
        ("tidegate.dev/hook-on=sync, selfheal", true, true),
        // What means nothing says nothing.
        ("tidegate.dev/hook-on=self-heal", true, false),
        ("tidegate.dev/hook-on=", true, false),
    ] {
        assert_eq!(runs(&with(contract)), sync, "{contract:?}, a sync of a person");
        let mut automated = with(contract);
        automated.request.initiated_by = SyncRequest::AUTOMATED.to_owned();
        assert_eq!(runs(&automated), sync, "{contract:?}, an automated sync");
        assert_eq!(runs(&heals(with(contract))), heal, "{contract:?}, a self-heal");
        let selected = with(contract).select(&[":ConfigMap:settings"]);
        assert!(!runs(&selected), "{contract:?}, a selective sync of a person");
        let without = with(contract).options(|options| options.skip_hooks = true);
        assert!(!runs(&without), "{contract:?}, a sync without hooks");
        assert!(!runs(&heals(without)), "{contract:?}, a self-heal without hooks");
    }
    let left_out = with("tidegate.dev/hook-on=selfheal").plan().left_out;
    assert_eq!(left_out[0].reason, "its contract names only selfheal");
}

#[test]
fn a_self_heal_runs_its_hooks_before_what_it_puts_right() {
    let healing = heals(with("tidegate.dev/hook-on=selfheal"));
    assert_eq!(
        healing.tasks(),
        ["PreSync 0: create Job shop/migrate", "Sync 0: create ConfigMap shop/settings"]
    );
}

#[test]
fn hooks_of_a_deletion_have_no_such_contract() {
    let hook = objects(&[(JOB, "hook=PreDelete; tidegate.dev/hook-on=selfheal")]);
    let deleted = case(&hook).deleted(Cascade::Foreground);
    assert_eq!(deleted.tasks(), ["PreDelete 0: create Job shop/migrate"]);
}

#[test]
fn what_is_surprising_is_said() {
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
        let found = case(&objects(&[(JOB, annotations), (MAP, "")])).codes();
        assert_eq!(found, codes, "{annotations}");
    }
}

const KEYED: &str = "hook=PreSync; tidegate.dev/run-when=inputs-changed";

/// The manifests of the hook with these annotations, and of what it may name.
fn manifests(annotations: &str, value: &str, wave: &str) -> String {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"value": value}});
    let service = object("v1 Service web", &format!("sync-wave={wave}"));
    format!("{}{map}\n---\n{service}", object(JOB, annotations))
}

fn unchanged(now: &str, before: &str) -> BTreeSet<ObjectKey> {
    let now = case(now);
    let hook = ObjectKey::new("batch", "Job", "shop", "migrate");
    let last = [LastRun { hook, targets: targets(before) }];
    unchanged_hooks(&now.request, &now.targets, &now.discovery, &last)
}

#[test]
fn a_hook_is_unchanged_when_its_manifest_and_what_it_names_are() {
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
        (&keyed, object(MAP, ""), false),
    ] {
        let found = unchanged(&manifests(annotations, "1", "0"), &before);
        assert_eq!(!found.is_empty(), expected, "{annotations}\n{before}");
    }
    // It ran nowhere, or is not there any more.
    let now = case(&manifests(KEYED, "1", "0"));
    assert!(unchanged_hooks(&now.request, &now.targets, &now.discovery, &[]).is_empty());
    assert!(unchanged(&object(MAP, ""), &manifests(KEYED, "1", "0")).is_empty());
    assert!(
        runs_when_inputs_change(&now.targets[0].object) && !runs_when_inputs_change(&now.targets[1].object)
    );
}

#[test]
fn the_order_of_the_manifests_and_the_namespace_that_is_meant_are_no_change() {
    let named = format!("{KEYED}; tidegate.dev/inputs=:ConfigMap:settings, :Service:web");
    let [job, map, service] = [object(JOB, &named), object(MAP, ""), object("v1 Service web", "")];
    let now = format!("{job}{map}{service}");
    assert!(!unchanged(&now, &format!("{service}{job}{map}")).is_empty());
}

#[test]
fn an_unchanged_hook_is_left_out_and_said_to_be() {
    let mut case = with("tidegate.dev/run-when=inputs-changed");
    case.unchanged.insert(ObjectKey::new("batch", "Job", "shop", "migrate"));
    assert!(!runs(&case));
    assert_eq!(case.plan().left_out[0].reason, "its inputs are those it has succeeded with");
    // What an earlier operation has left of it stays.
    let live = case.live(&object(JOB, "hook=PreSync; tracked"));
    assert_eq!(live.tasks(), ["Sync 0: create ConfigMap shop/settings"]);
}
