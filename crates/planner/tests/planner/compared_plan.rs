//! A comparison's plan is reused only if planning again would give the same result.

use tidegate_model::{Action, Destination, KindInfo, Object, ObjectKey};
use tidegate_model::{Cascade, IgnoreDifference, Impersonation};
use tidegate_planner::ONLY_OUT_OF_SYNC;

use crate::support::{Case, case, manifest_text, targets};

const MOVED: &str = "; moved before the first object that needs it";

/// An object of each kind of action: created, out of sync, in sync, replaced, pruned and hook.
fn mixed_case() -> Case {
    let manifests = [
        manifest_text("v1 ConfigMap shop/new", ""),
        manifest_text("v1 ConfigMap shop/changed", "team=a"),
        manifest_text("v1 ConfigMap shop/same", ""),
        manifest_text("v1 ConfigMap shop/replaced", "sync-options=Replace=true"),
        manifest_text("v1 Namespace shop", ""),
        manifest_text("batch/v1 Job shop/migrate", "hook=PreSync"),
    ];
    let live = [
        manifest_text("v1 ConfigMap shop/changed", "tracked"),
        manifest_text("v1 ConfigMap shop/same", "tracked"),
        manifest_text("v1 ConfigMap shop/replaced", "sync-options=Replace=true; tracked"),
        manifest_text("v1 ConfigMap shop/gone", "tracked"),
    ];
    let mut case = case(&manifests.concat()).with_live(&live.concat());
    let namespace = manifest_text("v1 Namespace shop", "tracked").replace("shop:shop", "shop:");
    case.live.extend(targets(&namespace).into_iter().map(|target| target.object));
    case
}

#[test]
fn an_operation_gets_the_same_plan_as_without_a_comparison() {
    for flags in [&[][..], &[ONLY_OUT_OF_SYNC], &["PruneLast=true"], &["CreateNamespace=true"]] {
        let case = mixed_case().flags(flags);
        let compared = case.compared_plan();
        let actions: Vec<Action> = compared.planned.plan.tasks.iter().map(|task| task.action).collect();
        for action in [Action::Create, Action::Apply, Action::Unchanged, Action::Prune] {
            assert!(actions.contains(&action), "{flags:?}: {actions:?}");
        }
        assert_eq!(case.reuse(compared), Some(case.plan()), "{flags:?}");
    }
    let reasons: Vec<String> = mixed_case().plan().plan.tasks.into_iter().map(|task| task.reason).collect();
    assert!(reasons.iter().any(|reason| reason.ends_with(MOVED)), "{reasons:?}");
}

type Change = (&'static str, fn(&mut Case), bool);

fn set_data(object: &mut Object) {
    object.set_annotation("note", "edited");
}

#[test]
fn only_differences_without_effect_are_ignored() {
    let changes: [Change; 27] = [
        ("revision", |case| case.request.revision = "other".to_owned(), true),
        ("requester", |case| case.request.initiated_by = "automated sync".to_owned(), true),
        ("retries", |case| case.request.retry.limit = 5, true),
        ("sources", |case| case.request.sources = vec!["here".to_owned()], true),
        ("dry run before the first wave", |case| case.request.options.skip_dry_run = true, true),
        ("objects in sync", |case| case.request.options.flags.push(ONLY_OUT_OF_SYNC.to_owned()), true),
        (
            "unshared objects",
            |case| case.request.options.flags.push("FailOnSharedResource=true".to_owned()),
            true,
        ),
        ("application", |case| case.request.application = "other".to_owned(), false),
        ("namespace", |case| case.request.namespace = "other".to_owned(), false),
        (
            "destination",
            |case| {
                case.request.destination = Destination::Kubernetes {
                    context: String::new(),
                    server: "https://other".to_owned(),
                    kubeconfig: None,
                    impersonate: Impersonation::default(),
                    uid: String::new(),
                };
            },
            false,
        ),
        ("selection", |case| case.request.selection = vec![":ConfigMap:shop/new".parse().unwrap()], false),
        ("deletion", |case| case.request.deletion = Some(Cascade::Background), false),
        ("tracking", |case| case.request.tracking.installation = "other".to_owned(), false),
        (
            "ignored differences",
            |case| case.request.ignore_differences = vec![IgnoreDifference::default()],
            false,
        ),
        ("pruning", |case| case.request.options.prune = false, false),
        ("confirmation", |case| case.request.options.prune_confirmed = true, false),
        ("adoption", |case| case.request.options.adopt = true, false),
        ("dry run", |case| case.request.options.dry_run = true, false),
        ("force", |case| case.request.options.force = true, false),
        ("hooks", |case| case.request.options.skip_hooks = true, false),
        ("flags", |case| case.request.options.flags.push("Validate=false".to_owned()), false),
        (
            "namespace metadata",
            |case| case.request.options.namespace_labels = vec![("a".to_owned(), "b".to_owned())],
            false,
        ),
        ("manifest", |case| set_data(&mut case.targets[0].object), false),
        ("live object", |case| set_data(&mut case.live[0]), false),
        (
            "inventory",
            |case| {
                case.inventory.insert(ObjectKey::new("", "ConfigMap", "else", "a"));
            },
            false,
        ),
        (
            "terminating namespace",
            |case| {
                case.terminating.insert("shop".to_owned());
            },
            false,
        ),
        (
            "discovery",
            |case| {
                let gadget = tidegate_model::GroupKind::new("tools.example", "Gadget");
                let versions = vec!["v1".to_owned()];
                case.discovery.kinds.insert(gadget, KindInfo { versions, namespaced: true });
            },
            false,
        ),
    ];
    for (what, change, is_reused) in changes {
        let mut case = mixed_case();
        let compared = case.compared_plan();
        change(&mut case);
        let reused = case.reuse(compared);
        assert_eq!(reused.is_some(), is_reused, "{what}");
        assert!(reused.is_none_or(|reused| reused == case.plan()), "{what}");
    }
}

#[test]
fn hooks_without_a_need_to_run_are_planned_again() {
    let mut case = mixed_case();
    let compared = case.compared_plan();
    case.unchanged_hooks.insert(ObjectKey::new("batch", "Job", "shop", "migrate"));
    assert_eq!(case.reuse(compared), None);
}

/// The name contains the start time of the operation, which the comparison can't know.
#[test]
fn generated_names_are_planned_again() {
    let mut case = mixed_case();
    case.targets.extend(targets(
        "{apiVersion: batch/v1, kind: Job, metadata: {generateName: check-, annotations: {argocd.argoproj.io/hook: PreSync}}}",
    ));
    assert_eq!(case.reuse(case.compared_plan()), None);
}

#[test]
fn the_prune_option_does_not_matter_without_objects_to_prune() {
    let mut case = mixed_case().options(|options| options.prune = false);
    case.live.retain(|object| object.name() != "gone");
    assert_eq!(case.reuse(case.compared_plan()), Some(case.plan()));
}

#[test]
fn shared_objects_are_planned_again_if_they_are_an_error() {
    let mut case = mixed_case().flags(&["FailOnSharedResource=true"]);
    let mark = "argocd.argoproj.io/tracking-id";
    case.live[0].set_annotation(mark, "other:/ConfigMap:shop/changed");
    assert_eq!(case.reuse(case.compared_plan()), None);
    let case = case.flags(&[]);
    assert_eq!(case.reuse(case.compared_plan()), Some(case.plan()));
}

/// An operation that writes the binding warns about the role, but a comparison that ignores the role doesn't.
#[test]
fn a_binding_with_another_role_is_planned_again() {
    let binding = |role: &str, marks: &str| {
        let text = manifest_text("rbac.authorization.k8s.io/v1 RoleBinding shop/a", marks);
        let mut object = targets(&text).remove(0).object;
        let role = serde_json::json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role});
        object.fields_mut().insert("roleRef".to_owned(), role);
        object
    };
    for (role, is_reused) in [("a", true), ("b", false)] {
        let mut case = case("");
        case.targets = targets(&binding("a", "").as_value().to_string());
        case.live = vec![binding(role, "tracked")];
        let ignored = serde_json::json!({"group": "rbac.authorization.k8s.io", "kind": "RoleBinding", "jsonPointers": ["/roleRef"]});
        case.request.ignore_differences = vec![serde_json::from_value(ignored).unwrap()];
        let compared = case.compared_plan();
        assert_eq!(compared.planned.plan.tasks[0].action, Action::Unchanged);
        let reused = case.reuse(compared);
        assert_eq!(reused.is_some(), is_reused);
        assert!(reused.is_none_or(|reused| reused == case.plan()));
    }
}
