//! Hooks: tasks, names, policies and exclusions.

use tidegate_model::{Action, Cascade, DeletePolicy, Phase};

use crate::support::{Case, case, manifest_text, manifest_texts};

const JOB: &str = "batch/v1 Job shop/migrate";

fn one_hook(annotations: &str) -> Case {
    case(&manifest_text(JOB, annotations))
}

#[test]
fn one_task_per_phase() {
    let case = one_hook("hook=PostSync,PreSync; sync-wave=3");
    assert_eq!(case.tasks(), ["PreSync 3: create Job shop/migrate", "PostSync 3: create Job shop/migrate"]);
    assert!(case.codes().is_empty());
    let planned = case.plan();
    assert_eq!(
        planned.plan.tasks[0].hook.as_ref().unwrap().delete_policies,
        [DeletePolicy::BeforeHookCreation]
    );
    assert_eq!(planned.plan.tasks[0].reason, "PreSync hook");
    let manifest = &planned.manifests[planned.plan.tasks[0].manifest.unwrap().index()];
    assert!(manifest.has_finalizer("argocd.argoproj.io/hook-finalizer"));
    assert_eq!(manifest.annotation("argocd.argoproj.io/tracking-id"), Some("app:batch/Job:shop/migrate"));
}

#[test]
fn helm_hooks_take_part() {
    let yaml = manifest_texts(&[
        ("batch/v1 Job before", "helm.sh/hook=pre-install,pre-upgrade; helm.sh/hook-weight=-5"),
        ("batch/v1 Job after", "helm.sh/hook=post-install; helm.sh/hook-delete-policy=hook-succeeded"),
        ("v1 Pod check", "helm.sh/hook=test"),
        ("v1 ConfigMap crd", "helm.sh/hook=crd-install; helm.sh/hook-weight=4"),
        ("batch/v1 Job end", "helm.sh/hook=pre-delete"),
    ]);
    let planned = case(&yaml).plan();
    assert_eq!(
        crate::support::tasks(&planned),
        [
            "PreSync -5: create Job shop/before",
            "Sync 4: create ConfigMap shop/crd",
            "PostSync 0: create Job shop/after",
        ]
    );
    assert!(planned.plan.warnings.is_empty());
    let left_out: Vec<&str> = planned.excluded.iter().map(|left| left.object.as_str()).collect();
    assert_eq!(left_out, ["Pod shop/check", "Job shop/end"]);
    assert_eq!(planned.plan.tasks[2].hook.as_ref().unwrap().delete_policies, [DeletePolicy::HookSucceeded]);
}

/// A deletion that keeps the objects runs no hooks, because a hook could drop data that is still needed.
#[test]
fn no_deletion_hook_runs_if_objects_stay() {
    let yaml = manifest_texts(&[
        ("v1 ConfigMap a", ""),
        ("batch/v1 Job drain", "hook=PreDelete"),
        ("batch/v1 Job wipe", "helm.sh/hook=post-delete"),
    ]);
    let live = manifest_text("v1 ConfigMap shop/a", "tracked");
    let deleted = |cascade| case(&yaml).with_live(&live).with_inventory().for_deletion(cascade);
    let goes = [
        "PreDelete 0: create Job shop/drain",
        "Sync 0: prune ConfigMap shop/a",
        "PostDelete 0: create Job shop/wipe",
    ];
    assert_eq!(deleted(Cascade::Background).tasks(), goes);
    for (case, task, reason) in [
        (
            deleted(Cascade::Orphan),
            "Sync 0: prune-skipped ConfigMap shop/a",
            "a deletion that keeps the objects",
        ),
        (
            deleted(Cascade::Background).options(|options| options.skip_hooks = true),
            "Sync 0: prune ConfigMap shop/a",
            "do not run during this deletion",
        ),
    ] {
        let planned = case.plan();
        assert_eq!(crate::support::tasks(&planned), [task]);
        let left_out: Vec<&str> = planned.excluded.iter().map(|left| left.object.as_str()).collect();
        assert_eq!(left_out, ["Job shop/drain", "Job shop/wipe"]);
        let [warning] = &planned.plan.warnings[..] else { panic!("{:?}", planned.plan.warnings) };
        assert!(warning.message.starts_with("2 deletion hooks will not run: "), "{warning}");
        assert!(warning.message.contains(reason), "{warning}");
    }
}

#[test]
fn generated_names_follow_revision_phase_and_start() {
    let mut case = case(&manifest_text("batch/v1 Job migrate-*", "hook=PreSync,Sync"));
    assert_eq!(
        case.tasks(),
        [
            "PreSync 0: create Job shop/migrate-0123456-presync-1700000000",
            "Sync 0: create Job shop/migrate-0123456-sync-1700000000",
        ]
    );
    case.request.revision = String::new();
    assert_eq!(case.tasks()[0], "PreSync 0: create Job shop/migrate--presync-1700000000");
    let manifest = &case.plan().manifests[0];
    assert_eq!(manifest.name(), "migrate--presync-1700000000");
    let id = manifest.annotation("argocd.argoproj.io/tracking-id").unwrap();
    assert_eq!(id, "app:batch/Job:shop/migrate--presync-1700000000");
}

#[test]
fn hooks_that_would_get_the_same_name() {
    let hook = |annotations: &str| manifest_text("batch/v1 Job migrate-*", annotations);
    let (one, other) = (hook("hook=Sync"), hook("hook=Sync,PostSync"));
    let mut orders = [format!("{one}{other}"), format!("{other}{one}")].map(|yaml| case(&yaml));
    for different in &mut orders {
        assert!(different.codes().is_empty());
        assert_eq!(
            different.tasks(),
            [
                "Sync 0: create Job shop/migrate-0123456-sync-1700000000",
                "Sync 0: create Job shop/migrate-0123456-sync-1700000000-2",
                "PostSync 0: create Job shop/migrate-0123456-postsync-1700000000",
            ]
        );
    }
    assert_eq!(
        orders[0].plan().manifests,
        orders[1].plan().manifests,
        "the order of the input does not matter"
    );
    let named = manifest_text("batch/v1 Job shop/migrate-0123456-sync-1700000000", "hook=Sync");
    assert_eq!(case(&format!("{one}{named}")).codes(), ["!hook-name-collision"]);
    let equal = case(&format!("{}{}", hook("hook=Sync"), hook("hook=Sync")));
    assert_eq!(equal.codes(), ["hook-name-collision"]);
    assert_eq!(equal.tasks().len(), 1);
    assert_eq!(equal.plan().excluded.len(), 1);
    let long = case(&manifest_text(&format!("batch/v1 Job {}*", "a".repeat(250)), "hook=Sync"));
    assert_eq!(long.codes(), ["!hook-name-too-long"]);
}

#[test]
fn an_earlier_object_is_deleted_first_or_kept() {
    let live = manifest_text(JOB, "hook=PreSync; tracked");
    let default = one_hook("hook=PreSync").with_live(&live);
    let planned = default.plan();
    let task = &planned.plan.tasks[0];
    assert_eq!((task.action, task.live.as_ref().unwrap().uid.as_str()), (Action::Create, "uid-migrate"));
    assert_eq!(task.reason, "PreSync hook; the object from an earlier operation will be deleted first");
    assert!(planned.plan.warnings.is_empty());
    let kept = one_hook("hook=PreSync; hook-delete-policy=HookFailed").with_live(&live);
    assert_eq!(kept.tasks(), ["PreSync 0: apply Job shop/migrate"]);
    assert_eq!(kept.codes(), ["hook-object-kept"]);
    let replaced =
        one_hook("hook=PreSync; hook-delete-policy=HookFailed; sync-options=Replace=true").with_live(&live);
    assert_eq!(replaced.tasks(), ["PreSync 0: replace Job shop/migrate"]);
    assert_eq!(replaced.codes(), ["hook-object-kept"]);
    // An object that is being deleted can neither be kept nor applied to.
    let going =
        live.replace("\"metadata\":{", "\"metadata\":{\"deletionTimestamp\":\"2026-01-01T00:00:00Z\",");
    let gone_by_then = one_hook("hook=PreSync; hook-delete-policy=HookFailed").with_live(&going);
    assert_eq!(gone_by_then.tasks(), ["PreSync 0: create Job shop/migrate"]);
    assert_eq!(gone_by_then.codes(), [""; 0]);
}

/// A hook that `Force` recreates runs again, so its earlier result isn't used.
#[test]
fn a_kept_hook_that_force_recreates_is_not_reported() {
    let with_image = |manifest: &str, image: &str| {
        manifest.replacen(
            "\"kind\":\"Job\"",
            &format!(
                "\"kind\":\"Job\",\"spec\":{{\"template\":{{\"spec\":{{\"containers\":[{{\"name\":\"m\",\"image\":\"{image}\"}}]}}}}}}"
            ),
            1,
        )
    };
    let live = with_image(&manifest_text(JOB, "hook=PreSync; tracked"), "m:1");
    let keeps = "hook=PreSync; hook-delete-policy=HookFailed; sync-options=";
    let (anew, applied) =
        ("will be deleted and recreated", "applied to the object from an earlier operation");
    for (options, image, warned, unless, reason) in [
        ("Replace=true,Force=true", "m:1", false, false, anew),
        ("Force=true", "m:2", false, false, anew),
        // The server may reject changes to other fields.
        ("Force=true", "m:1", true, true, applied),
        ("Replace=true", "m:2", true, false, applied),
        ("Prune=false", "m:2", true, false, applied),
    ] {
        let target = with_image(&manifest_text(JOB, &format!("{keeps}{options}")), image);
        let planned = case(&target).with_live(&live).plan();
        let found: Vec<bool> =
            planned.plan.warnings.iter().map(|one| one.message.contains(", unless the API server")).collect();
        assert_eq!(found, if warned { vec![unless] } else { Vec::new() }, "{options} {image}");
        let told = &planned.plan.tasks[0].reason;
        assert!(told.ends_with(reason), "{options} {image}: {told}");
    }
}

#[test]
fn a_foreign_object_is_never_treated_as_a_hook() {
    for live in [
        manifest_text(JOB, ""),
        manifest_text(JOB, "tracking-id=other:batch/Job:shop/migrate"),
        manifest_text(JOB, "hook=PreSync"),
    ] {
        let planned = one_hook("hook=PreSync").with_live(&live).plan();
        let errors = planned.plan.errors();
        assert_eq!(errors.len(), 1, "{live}");
        assert!(
            errors[0]
                .contains("Job shop/migrate exists in the cluster but does not belong to application app"),
            "{errors:?}"
        );
        assert!(errors[0].contains("hook Job shop/migrate would delete or overwrite it"), "{errors:?}");
        assert_eq!(planned.plan.warnings[0].code, "untracked-hook-object");
        assert_eq!(planned.plan.tasks.len(), 1, "no prune either");
    }
}

#[test]
fn hooks_of_earlier_operations_are_never_pruned() {
    let live = manifest_texts(&[
        ("batch/v1 Job shop/old", "hook=PreSync; tracked"),
        ("batch/v1 Job shop/helm", "helm.sh/hook=pre-install; tracked"),
        ("batch/v1 Job shop/odd", "hook=Foo; tracked"),
        ("batch/v1 Job shop/skip", "hook=Skip; tracked"),
        ("batch/v1 Job shop/plain", "tracked"),
    ]);
    assert_eq!(case("").with_live(&live).tasks(), ["Sync 0: prune Job shop/plain"]);
}

#[test]
fn a_resource_that_became_a_hook() {
    let live = manifest_text(JOB, "tracked");
    assert_eq!(one_hook("hook=PreSync").with_live(&live).tasks(), ["PreSync 0: create Job shop/migrate"]);
    for phase in ["PostSync", "SyncFail"] {
        let tasks = one_hook(&format!("hook={phase}")).with_live(&live).tasks();
        assert_eq!(tasks, [format!("{phase} 0: create Job shop/migrate")], "the live object is not pruned");
    }
    let yaml = manifest_texts(&[("v1 Namespace other", "hook=PostSync"), ("v1 ConfigMap other/a", "")]);
    let namespace = case(&yaml).with_live(&manifest_text("v1 Namespace other", "tracked"));
    assert_eq!(
        namespace.tasks(),
        ["Sync 0: create Namespace other", "Sync 0: create ConfigMap other/a"],
        "the namespace is moved to the front, so it is not pruned"
    );
}

#[test]
fn hooks_do_not_run_when_they_should_not() {
    let yaml = manifest_texts(&[(JOB, "hook=PreSync"), ("v1 ConfigMap a", "")]);
    let applied = case(&yaml).options(|options| options.skip_hooks = true);
    assert_eq!(applied.tasks(), ["Sync 0: create ConfigMap shop/a"]);
    assert_eq!(applied.plan().excluded[0].reason, "hooks do not run during this sync");
    let selected = case(&yaml).select(&[":ConfigMap:a"]);
    assert_eq!(selected.tasks(), ["Sync 0: create ConfigMap shop/a"]);
    assert_eq!(selected.plan().excluded[0].reason, "hooks do not run during a selective sync");
}

#[test]
fn hook_runners_run_hooks() {
    let annotations = "hook=PostSync; tidegate.dev/hook-runner=http; tidegate.dev/timeout=2m";
    let case = case(&manifest_text("example.com/v1 Anything check", annotations))
        .with_live(&manifest_text("example.com/v1 Anything shop/check", ""));
    let planned = case.plan();
    assert!(planned.plan.warnings.is_empty(), "{:?}", planned.plan.warnings);
    let task = &planned.plan.tasks[0];
    assert_eq!((task.phase, task.action, &task.live), (Phase::PostSync, Action::Create, &None));
    let hook = task.hook.as_ref().unwrap();
    assert_eq!((hook.runner.as_deref(), hook.timeout.unwrap().as_secs()), (Some("http"), 120));
}

#[test]
fn a_hook_of_two_phases_runs_in_each_with_any_policy() {
    for policy in ["HookSucceeded", "HookSucceeded,BeforeHookCreation"] {
        let case = one_hook(&format!("hook=PreSync,PostSync; hook-delete-policy={policy}"));
        assert!(case.codes().is_empty());
        let tasks = ["PreSync 0: create Job shop/migrate", "PostSync 0: create Job shop/migrate"];
        assert_eq!(case.tasks(), tasks);
    }
}
