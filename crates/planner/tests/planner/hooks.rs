//! Hooks: their tasks, names, policies and what keeps them out.

use tidegate_model::{Action, DeletePolicy, Phase};

use crate::support::{Case, case, object, objects};

const JOB: &str = "batch/v1 Job shop/migrate";

fn one_hook(annotations: &str) -> Case {
    case(&object(JOB, annotations))
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
    let yaml = objects(&[
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
    let left_out: Vec<&str> = planned.left_out.iter().map(|left| left.object.as_str()).collect();
    assert_eq!(left_out, ["Pod shop/check", "Job shop/end"]);
    assert_eq!(planned.plan.tasks[2].hook.as_ref().unwrap().delete_policies, [DeletePolicy::HookSucceeded]);
}

#[test]
fn generated_names_follow_revision_phase_and_start() {
    let mut case = case(&object("batch/v1 Job migrate-*", "hook=PreSync,Sync"));
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
    let hook = |annotations: &str| object("batch/v1 Job migrate-*", annotations);
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
    assert_eq!(orders[0].plan().manifests, orders[1].plan().manifests, "the order of the input has no say");
    let named = object("batch/v1 Job shop/migrate-0123456-sync-1700000000", "hook=Sync");
    assert_eq!(case(&format!("{one}{named}")).codes(), ["!hook-name-collision"]);
    let equal = case(&format!("{}{}", hook("hook=Sync"), hook("hook=Sync")));
    assert_eq!(equal.codes(), ["hook-name-collision"]);
    assert_eq!(equal.tasks().len(), 1);
    assert_eq!(equal.plan().left_out.len(), 1);
    let long = case(&object(&format!("batch/v1 Job {}*", "a".repeat(250)), "hook=Sync"));
    assert_eq!(long.codes(), ["!hook-name-too-long"]);
}

#[test]
fn an_earlier_object_is_deleted_first_or_kept() {
    let live = object(JOB, "hook=PreSync; tracked");
    let default = one_hook("hook=PreSync").live(&live);
    let planned = default.plan();
    let task = &planned.plan.tasks[0];
    assert_eq!((task.action, task.live.as_ref().unwrap().uid.as_str()), (Action::Create, "uid-migrate"));
    assert_eq!(task.reason, "PreSync hook; the object of an earlier operation is deleted first");
    assert!(planned.plan.warnings.is_empty());
    let kept = one_hook("hook=PreSync; hook-delete-policy=HookFailed").live(&live);
    assert_eq!(kept.tasks(), ["PreSync 0: apply Job shop/migrate"]);
    assert_eq!(kept.codes(), ["hook-object-kept"]);
    let replaced =
        one_hook("hook=PreSync; hook-delete-policy=HookFailed; sync-options=Replace=true").live(&live);
    assert_eq!(replaced.tasks(), ["PreSync 0: replace Job shop/migrate"]);
    assert_eq!(replaced.codes(), ["hook-object-kept"]);
    // What is on its way out is no object to be kept, and nothing can be applied to it.
    let going =
        live.replace("\"metadata\":{", "\"metadata\":{\"deletionTimestamp\":\"2026-01-01T00:00:00Z\",");
    let gone_by_then = one_hook("hook=PreSync; hook-delete-policy=HookFailed").live(&going);
    assert_eq!(gone_by_then.tasks(), ["PreSync 0: create Job shop/migrate"]);
    assert_eq!(gone_by_then.codes(), [""; 0]);
}

/// A hook that `Force` runs anew is not said to be judged by its old result.
#[test]
fn a_kept_hook_that_force_makes_anew_is_not_warned_of() {
    let with_image = |manifest: &str, image: &str| {
        manifest.replacen(
            "\"kind\":\"Job\"",
            &format!(
                "\"kind\":\"Job\",\"spec\":{{\"template\":{{\"spec\":{{\"containers\":[{{\"name\":\"m\",\"image\":\"{image}\"}}]}}}}}}"
            ),
            1,
        )
    };
    let live = with_image(&object(JOB, "hook=PreSync; tracked"), "m:1");
    let keeps = "hook=PreSync; hook-delete-policy=HookFailed; sync-options=";
    let (anew, applied) = ("is deleted and made anew", "applied to the object of an earlier operation");
    for (options, image, warned, unless, reason) in [
        ("Replace=true,Force=true", "m:1", false, false, anew),
        ("Force=true", "m:2", false, false, anew),
        // Perhaps the server refuses something else.
        ("Force=true", "m:1", true, true, applied),
        ("Replace=true", "m:2", true, false, applied),
        ("Prune=false", "m:2", true, false, applied),
    ] {
        let target = with_image(&object(JOB, &format!("{keeps}{options}")), image);
        let planned = case(&target).live(&live).plan();
        let found: Vec<bool> =
            planned.plan.warnings.iter().map(|one| one.message.contains(", unless the server")).collect();
        assert_eq!(found, if warned { vec![unless] } else { Vec::new() }, "{options} {image}");
        let told = &planned.plan.tasks[0].reason;
        assert!(told.ends_with(reason), "{options} {image}: {told}");
    }
}

#[test]
fn an_object_of_somebody_else_is_never_taken_for_a_hook() {
    for live in [
        object(JOB, ""),
        object(JOB, "tracking-id=other:batch/Job:shop/migrate"),
        object(JOB, "hook=PreSync"),
    ] {
        let planned = one_hook("hook=PreSync").live(&live).plan();
        let errors = planned.plan.errors();
        assert_eq!(errors.len(), 1, "{live}");
        assert!(
            errors[0].contains("a Job shop/migrate that does not belong to application app"),
            "{errors:?}"
        );
        assert!(errors[0].contains("hook Job shop/migrate would delete it"), "{errors:?}");
        assert_eq!(planned.plan.warnings[0].code, "untracked-hook-object");
        assert_eq!(planned.plan.tasks.len(), 1, "no prune either");
    }
}

#[test]
fn hooks_of_earlier_operations_are_never_pruned() {
    let live = objects(&[
        ("batch/v1 Job shop/old", "hook=PreSync; tracked"),
        ("batch/v1 Job shop/helm", "helm.sh/hook=pre-install; tracked"),
        ("batch/v1 Job shop/odd", "hook=Foo; tracked"),
        ("batch/v1 Job shop/skip", "hook=Skip; tracked"),
        ("batch/v1 Job shop/plain", "tracked"),
    ]);
    assert_eq!(case("").live(&live).tasks(), ["Sync 0: prune Job shop/plain"]);
}

#[test]
fn a_resource_that_became_a_hook() {
    let live = object(JOB, "tracked");
    assert_eq!(one_hook("hook=PreSync").live(&live).tasks(), ["PreSync 0: create Job shop/migrate"]);
    for phase in ["PostSync", "SyncFail"] {
        let tasks = one_hook(&format!("hook={phase}")).live(&live).tasks();
        assert_eq!(tasks, [format!("{phase} 0: create Job shop/migrate")], "it is not pruned");
    }
    let yaml = objects(&[("v1 Namespace other", "hook=PostSync"), ("v1 ConfigMap other/a", "")]);
    let namespace = case(&yaml).live(&object("v1 Namespace other", "tracked"));
    assert_eq!(
        namespace.tasks(),
        ["Sync 0: create Namespace other", "Sync 0: create ConfigMap other/a"],
        "it is moved to the front, so it is not pruned there"
    );
}

#[test]
fn hooks_do_not_run_when_they_should_not() {
    let yaml = objects(&[(JOB, "hook=PreSync"), ("v1 ConfigMap a", "")]);
    let applied = case(&yaml).options(|options| options.skip_hooks = true);
    assert_eq!(applied.tasks(), ["Sync 0: create ConfigMap shop/a"]);
    assert_eq!(applied.plan().left_out[0].reason, "hooks do not run in this sync");
    let selected = case(&yaml).select(&[":ConfigMap:a"]);
    assert_eq!(selected.tasks(), ["Sync 0: create ConfigMap shop/a"]);
    assert_eq!(selected.plan().left_out[0].reason, "hooks do not run in a selective sync");
}

#[test]
fn runners_carry_hooks_out() {
    let annotations = "hook=PostSync; tidegate.dev/hook-runner=http; tidegate.dev/timeout=2m";
    let case = case(&object("example.com/v1 Anything check", annotations))
        .live(&object("example.com/v1 Anything shop/check", ""));
    let planned = case.plan();
    assert!(planned.plan.warnings.is_empty(), "{:?}", planned.plan.warnings);
    let task = &planned.plan.tasks[0];
    assert_eq!((task.phase, task.action, &task.live), (Phase::PostSync, Action::Create, &None));
    let hook = task.hook.as_ref().unwrap();
    assert_eq!((hook.runner.as_deref(), hook.timeout.unwrap().as_secs()), (Some("http"), 120));
}

#[test]
fn one_name_in_two_phases_runs_in_each_whatever_its_policy() {
    for policy in ["HookSucceeded", "HookSucceeded,BeforeHookCreation"] {
        let case = one_hook(&format!("hook=PreSync,PostSync; hook-delete-policy={policy}"));
        assert!(case.codes().is_empty());
        let tasks = ["PreSync 0: create Job shop/migrate", "PostSync 0: create Job shop/migrate"];
        assert_eq!(case.tasks(), tasks);
    }
}
