//! Live objects: pairing, options, namespaces, selections, kinds.

use std::collections::BTreeSet;

use serde_json::json;
use tidegate_model::{Cascade, Discovery, Gvk, Object, Phase};
use tidegate_planner::named_objects;

use crate::support::{STARTED_AT, case, crd, object, objects, targets};

#[test]
fn actions_and_reasons() {
    let yaml = objects(&[
        ("v1 ConfigMap a", ""),
        ("v1 ConfigMap b", ""),
        ("v1 ConfigMap c", "sync-options=Replace=true"),
    ]);
    let live = objects(&[
        ("v1 ConfigMap shop/b", "tracked"),
        ("v1 ConfigMap shop/c", ""),
        ("v1 ConfigMap shop/d", "tracked"),
    ]);
    let planned = case(&yaml).live(&live).plan();
    let found: Vec<(&str, &str, bool)> = planned
        .plan
        .tasks
        .iter()
        .map(|task| (task.action.as_str(), task.reason.as_str(), task.live.is_some()))
        .collect();
    assert_eq!(
        found,
        [
            ("create", "not in the cluster yet", false),
            ("apply", "in the cluster; manifest is applied", true),
            ("replace", "in the cluster; replaced as a whole", true),
            ("prune", "no longer in the manifests", true),
        ]
    );
    assert_eq!(planned.manifests.len(), 3);
}

#[test]
fn selections_take_in_resources_and_prunes() {
    let yaml = objects(&[("v1 ConfigMap a", ""), ("v1 ConfigMap b", ""), ("apps/v1 Deployment a", "")]);
    let live = objects(&[("v1 ConfigMap shop/old", "tracked"), ("v1 ConfigMap shop/older", "tracked")]);
    let case =
        case(&yaml).live(&live).select(&[":ConfigMap:shop/b", ":ConfigMap:old", "apps:Deployment:other/a"]);
    assert_eq!(case.tasks(), ["Sync 0: create ConfigMap shop/b", "Sync 0: prune ConfigMap shop/old"]);
    assert_eq!(case.codes(), ["selection-without-match"]);
    let left_out: Vec<String> = case.plan().left_out.into_iter().map(|left| left.reason).collect();
    assert_eq!(left_out, ["not selected", "not selected"]);
}

#[test]
fn apply_out_of_sync_only() {
    let with_data = |value: &str| {
        let text = object("v1 ConfigMap shop/a", "");
        text.replace("\"kind\"", &format!("\"data\":{{\"k\":\"{value}\"}},\"kind\""))
    };
    let live_data = |value: &str| {
        let text = object("v1 ConfigMap shop/a", "tracked");
        text.replace("\"kind\"", &format!("\"data\":{{\"k\":\"{value}\"}},\"kind\""))
    };
    let flags = &["ApplyOutOfSyncOnly=true"];
    let in_sync = case(&with_data("1")).live(&live_data("1")).flags(flags).plan();
    assert_eq!(
        (in_sync.plan.tasks[0].action.as_str(), in_sync.plan.tasks[0].reason.as_str()),
        ("unchanged", "in sync")
    );
    let changed = case(&with_data("2")).live(&live_data("1")).flags(flags).plan();
    assert_eq!(changed.plan.tasks[0].reason, "out of sync at /data/k; manifest is applied");
    let untracked = case(&with_data("1")).live(&with_data("1")).flags(flags);
    assert_eq!(untracked.tasks(), ["Sync 0: apply ConfigMap shop/a"], "its tracking id is missing");
    let hook = case(&object("batch/v1 Job shop/j", "hook=Sync"))
        .live(&object("batch/v1 Job shop/j", "hook=Sync; tracked"));
    assert_eq!(hook.flags(flags).tasks(), ["Sync 0: create Job shop/j"]);
}

#[test]
fn the_namespace_is_made_when_asked_for() {
    let yaml = object("v1 ConfigMap a", "");
    let flags = &["CreateNamespace=true"];
    assert_eq!(
        case(&yaml).flags(flags).tasks(),
        ["PreSync 0: create Namespace shop", "Sync 0: create ConfigMap shop/a"]
    );
    let planned = case(&yaml).flags(flags).plan();
    assert_eq!(planned.plan.tasks[0].reason, "automatic namespace");
    assert_eq!(
        planned.manifests[0].as_value(),
        &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    );
    assert!(planned.plan.tasks[1].options.dry_run_at_wave, "its namespace comes with the operation");
    assert!(!planned.plan.tasks[0].options.dry_run_at_wave);
    let there = object("v1 Namespace shop", "");
    assert_eq!(case(&yaml).flags(flags).live(&there).tasks(), ["Sync 0: create ConfigMap shop/a"]);
    let with_metadata = case(&yaml).flags(flags).live(&there).options(|options| {
        options.namespace_labels = vec![("team".to_owned(), "a".to_owned())];
        options.namespace_annotations = vec![("note".to_owned(), "b".to_owned())];
    });
    assert_eq!(with_metadata.tasks()[0], "PreSync 0: apply Namespace shop");
    assert_eq!(
        with_metadata.plan().manifests[0].pointer("/metadata"),
        Some(&json!({"name": "shop", "labels": {"team": "a"},
            "annotations": {"note": "b", "argocd.argoproj.io/sync-options": "ServerSideApply=true"}}))
    );
    let declared = objects(&[("v1 ConfigMap a", ""), ("v1 Namespace shop", "sync-wave=5")]);
    assert_eq!(
        case(&declared).flags(flags).tasks(),
        ["Sync 0: create Namespace shop", "Sync 0: create ConfigMap shop/a"]
    );
    let hook = objects(&[("v1 ConfigMap a", ""), ("v1 Namespace shop", "hook=PreSync")]);
    assert_eq!(case(&hook).flags(flags).tasks().len(), 2);
    assert_eq!(case(&hook).flags(flags).codes(), ["namespace-is-hook"]);
}

#[test]
fn scope_is_set_right() {
    let yaml = objects(&[
        ("rbac.authorization.k8s.io/v1 ClusterRole shop/r", ""),
        ("v1 ConfigMap a", ""),
        ("example.com/v1 Widget w", ""),
    ]);
    let cluster_crd = crd("Widget", "").replace("Namespaced", "Cluster");
    let planned = case(&format!("{yaml}{cluster_crd}")).plan();
    let namespaces: BTreeSet<(&str, &str)> =
        planned.plan.tasks.iter().map(|task| (task.gvk.kind.as_str(), task.namespace.as_str())).collect();
    assert!(namespaces.contains(&("ClusterRole", "")) && namespaces.contains(&("ConfigMap", "shop")));
    assert!(namespaces.contains(&("Widget", "")), "the CRD of the operation says so: {namespaces:?}");
    for (task, manifest) in
        planned.plan.tasks.iter().map(|task| (task, &planned.manifests[task.manifest.unwrap().index()]))
    {
        assert_eq!(task.namespace, manifest.namespace());
    }
    let ids: Vec<Option<&str>> = planned
        .manifests
        .iter()
        .map(|manifest| manifest.annotation("argocd.argoproj.io/tracking-id"))
        .collect();
    assert!(ids.contains(&Some("app:rbac.authorization.k8s.io/ClusterRole:shop/r")));
    assert!(ids.contains(&None), "CRDs are not tracked");
}

#[test]
fn objects_of_unknown_scope_are_looked_up_both_ways() {
    let yaml = object("example.com/v1 Widget w", "");
    let live = object("example.com/v1 Widget w", "tracked");
    let mut cluster = case(&yaml).live(&live);
    assert_eq!(cluster.tasks(), ["Sync 0: apply Widget w"]);
    assert_eq!(cluster.plan().manifests[0].namespace(), "");
    cluster
        .live
        .extend(targets(&object("example.com/v1 Widget shop/w", "")).into_iter().map(|target| target.object));
    assert!(cluster.tasks().contains(&"Sync 0: apply Widget shop/w".to_owned()), "{:?}", cluster.tasks());
}

#[test]
fn kinds_nobody_provides() {
    let widget = object("example.com/v1 Widget w", "");
    let missing = case(&widget).plan();
    assert_eq!(
        missing.plan.errors(),
        [
            "The Kubernetes API could not find example.com/Widget for requested resource shop/w. Make sure the \"Widget\" CRD is installed on the destination cluster."
        ]
    );
    let mut offline = case(&widget);
    offline.offline = true;
    assert_eq!(offline.codes(), ["unknown-kind"]);
    let allowed = case(&widget).flags(&["SkipDryRunOnMissingResource=true"]).plan();
    assert!(allowed.plan.warnings.is_empty() && allowed.plan.tasks[0].options.dry_run_at_wave);
    let annotated = case(&object("example.com/v1 Widget w", "sync-options=SkipDryRunOnMissingResource=true"));
    assert!(annotated.codes().is_empty());
    let version = case(&object("batch/v2alpha1 CronJob c", "")).plan();
    assert_eq!(
        version.plan.errors(),
        [
            "The Kubernetes API could not find version \"v2alpha1\" of batch/CronJob for requested resource shop/c. Version \"v1\", \"v1beta1\" of batch/CronJob is installed on the destination cluster."
        ]
    );
}

#[test]
fn kinds_that_come_with_the_operation_are_tried_in_their_wave() {
    let late = |case: &crate::support::Case| {
        let planned = case.plan();
        assert!(planned.plan.warnings.is_empty(), "{:?}", planned.plan.warnings);
        let widget = planned.plan.tasks.iter().find(|task| task.gvk.kind == "Widget").unwrap();
        widget.options.dry_run_at_wave
    };
    let yaml = format!("{}{}", object("example.com/v1 Widget w", ""), crd("Widget", ""));
    assert!(late(&case(&yaml)));
    let hook = format!("{}{}", object("example.com/v1 Widget w", ""), crd("Widget", "hook=PreSync"));
    assert!(late(&case(&hook)));
    let served = |live: &str| {
        let mut case = case(&yaml).live(live);
        let info = tidegate_model::KindInfo { versions: vec!["v1".to_owned()], namespaced: true };
        case.discovery.kinds.insert(tidegate_model::GroupKind::new("example.com", "Widget"), info);
        case
    };
    assert!(!late(&served(&crd("Widget", ""))), "the CRD is there and stays as it is");
    assert!(late(&served(&crd("Widget", "").replace("Namespaced", "Cluster"))), "the CRD changes");
}

#[test]
fn shared_resources() {
    let yaml = object("v1 ConfigMap shop/a", "");
    let live = object("v1 ConfigMap shop/a", "tracking-id=other:/ConfigMap:shop/a");
    let warned = case(&yaml).live(&live).plan();
    assert_eq!(warned.plan.warnings[0].message, "ConfigMap/a is part of applications app and other");
    assert!(warned.plan.errors().is_empty());
    let failed = case(&yaml).live(&live).flags(&["FailOnSharedResource=true"]).plan();
    assert_eq!(
        failed.plan.errors(),
        ["Shared resource found: ConfigMap/a is part of applications app and other"]
    );
}

/// Exported with its annotations, or copied from the other application's manifests.
#[test]
fn a_manifest_with_the_tracking_id_of_another_application_is_told() {
    let exported =
        |what: &str, more: &str| object(what, &format!("tracking-id=other:/ConfigMap:shop/a{more}"));
    for (yaml, live, expected) in [
        (exported("v1 ConfigMap shop/a", ""), String::new(), true),
        (exported("v1 ConfigMap shop/a", ""), object("v1 ConfigMap shop/a", "tracked"), true),
        // A copy for another object of it is a copy all the same.
        (exported("v1 ConfigMap shop/b", ""), String::new(), true),
        (exported("v1 Pod shop/a", "; hook=PreSync"), String::new(), true),
        (object("v1 ConfigMap shop/a", "tracking-id=app:/ConfigMap:shop/other"), String::new(), false),
        (object("v1 ConfigMap shop/a", "tracking-id=no id at all"), String::new(), false),
    ] {
        let warned = case(&yaml).live(&live);
        assert_eq!(warned.codes().contains(&"shared-resource".to_owned()), expected, "{yaml}");
        assert!(warned.plan().plan.errors().is_empty());
        let failed = case(&yaml).live(&live).flags(&["FailOnSharedResource=true"]);
        assert_eq!(failed.codes().contains(&"!shared-resource".to_owned()), expected, "{yaml}");
    }
    let planned = case(&exported("v1 ConfigMap shop/a", "")).plan();
    let message = &planned.plan.warnings[0].message;
    assert!(message.starts_with("ConfigMap/a is part of applications app and other: "), "{message}");
    let id = planned.manifests[0].annotation("argocd.argoproj.io/tracking-id");
    assert_eq!(id, Some("app:/ConfigMap:shop/a"), "what is applied is ours");
}

#[test]
fn offline_nothing_is_live() {
    let mut case = case(&object("v1 ConfigMap a", ""))
        .live(&objects(&[("v1 ConfigMap shop/a", "tracked"), ("v1 ConfigMap shop/b", "tracked")]));
    case.offline = true;
    assert_eq!(case.tasks(), ["Sync 0: create ConfigMap shop/a"]);
}

#[test]
fn task_options_come_from_everywhere() {
    let yaml = objects(&[
        ("v1 ConfigMap a", "sync-options=ServerSideApply=false,Validate=false"),
        ("v1 ConfigMap b", "sync-options=Force=true"),
        ("v1 ConfigMap c", ""),
        ("v1 Namespace n", "sync-options=Replace=true,Force=true; tidegate.dev/health-judge=slo"),
    ]);
    let yaml = format!("{yaml}{}", crd("Widget", "sync-options=Force=true"));
    let live = objects(&[("v1 ConfigMap shop/c", "sync-options=Force=true"), ("v1 Namespace n", "")]);
    let live = format!("{live}{}", crd("Widget", ""));
    let planned = case(&yaml).live(&live).plan();
    let by_name = |name: &str| planned.plan.tasks.iter().find(|task| task.name == name).unwrap();
    assert!(
        !by_name("a").options.server_side && !by_name("a").options.validate && !by_name("a").options.force
    );
    assert!(by_name("b").options.force && by_name("b").options.server_side && by_name("b").options.validate);
    assert!(by_name("c").options.force, "the live object says so");
    assert!(!by_name("n").options.force, "a namespace is never deleted to be replaced");
    assert!(
        !by_name("widgets.example.com").options.force,
        "nor is a definition: its objects would go with it"
    );
    assert_eq!(by_name("n").health_judge.as_deref(), Some("slo"));
}

#[test]
fn objects_to_read_by_name() {
    let yaml = objects(&[
        ("v1 ConfigMap a", ""),
        ("rbac.authorization.k8s.io/v1 ClusterRole shop/r", ""),
        ("batch/v1 Job j-*", "hook=PreSync,PostSync"),
        ("batch/v2 CronJob c", ""),
        ("example.com/v1 Widget w", ""),
    ]);
    let case = case(&yaml).flags(&["CreateNamespace=true"]);
    let named = named_objects(&case.request, &case.targets, &Discovery::built_in(), STARTED_AT);
    let row = |group: &str, version: &str, kind: &str, namespace: &str, name: &str| {
        (Gvk::new(group, version, kind), namespace.to_owned(), name.to_owned())
    };
    assert_eq!(
        named,
        BTreeSet::from([
            row("", "v1", "ConfigMap", "shop", "a"),
            row("", "v1", "Namespace", "", "shop"),
            row("batch", "v1", "CronJob", "shop", "c"),
            row("batch", "v1", "Job", "shop", "j-0123456-postsync-1700000000"),
            row("batch", "v1", "Job", "shop", "j-0123456-presync-1700000000"),
            row("rbac.authorization.k8s.io", "v1", "ClusterRole", "", "r"),
        ])
    );
    let planned = case.plan();
    let hooks = planned.plan.tasks.iter().filter(|task| task.phase != Phase::Sync && task.is_hook());
    for task in hooks {
        assert!(named.contains(&(task.gvk.clone(), task.namespace.clone(), task.name.clone())));
    }
}

#[test]
fn what_only_a_cluster_writes_is_removed() {
    let mut case = case(&object("v1 ConfigMap a", "tidegate.dev/operation-id=x"));
    let object: &mut Object = &mut case.targets[0].object;
    object.metadata_mut().insert("managedFields".to_owned(), json!([]));
    let planned = case.plan();
    assert_eq!(crate::support::codes(&planned), ["reserved-annotation", "server-fields"]);
    assert!(planned.manifests[0].pointer("/metadata/managedFields").is_none());
    assert!(planned.manifests[0].annotation("tidegate.dev/operation-id").is_none());
}

/// What kubectl wrote by client-side apply becomes ours, unless somebody asks otherwise; what we wrote by updates always.
#[test]
fn fields_of_client_side_apply_are_taken_over() {
    let entry = |manager: &str, operation: &str, subresource: &str| json!({"manager": manager, "operation": operation, "subresource": subresource, "fieldsV1": {"f:data": {}}});
    let kubectl = "kubectl-client-side-apply";
    let named = "argocd.argoproj.io/client-side-apply-migration-manager";
    for (entries, annotation, flag, expected) in [
        (json!([entry(kubectl, "Update", "")]), None, None, Some(kubectl)),
        (json!([entry(kubectl, "Apply", "")]), None, None, None),
        (json!([entry(kubectl, "Update", "status")]), None, None, None),
        (json!([entry("helm", "Update", "")]), None, None, None),
        (
            json!([entry("tidegate", "Update", "")]),
            None,
            Some("ClientSideApplyMigration=false"),
            Some("tidegate"),
        ),
        (json!([entry("tidegate", "Update", ""), entry(kubectl, "Update", "")]), None, None, Some(kubectl)),
        (json!([entry("tidegate", "Apply", "")]), None, None, None),
        (json!([entry("helm", "Update", "")]), Some((named, "helm")), None, Some("helm")),
        (json!([entry(kubectl, "Update", "")]), Some((named, "helm")), None, None),
        (json!([entry(kubectl, "Update", "")]), None, Some("ClientSideApplyMigration=false"), None),
        (
            json!([entry(kubectl, "Update", "")]),
            Some(("argocd.argoproj.io/sync-options", "ServerSideApply=false")),
            None,
            None,
        ),
        (json!("odd"), None, None, None),
        (json!([]), None, None, None),
    ] {
        let mut case = case(&object("v1 ConfigMap a", "")).live(&object("v1 ConfigMap shop/a", "tracked"));
        case.live[0].metadata_mut().insert("managedFields".to_owned(), entries.clone());
        if let Some((name, value)) = annotation {
            case.targets[0].object.set_annotation(name, value);
        }
        case.request.options.flags.extend(flag.map(str::to_owned));
        let found = case.plan().plan.tasks[0].options.take_over.clone();
        assert_eq!(found.as_deref(), expected, "{entries} {annotation:?} {flag:?}");
    }
}

/// Where all that a manager wrote stays its own there is nothing to take over, and the server can be asked what differs.
#[test]
fn a_status_is_not_taken_over() {
    let entry = |fields: serde_json::Value| json!([{"manager": "tidegate", "operation": "Update", "fieldsV1": fields}]);
    let known = json!({"f:status": {"f:health": {}}, "f:operation": {}});
    let more = json!({"f:status": {"f:health": {}}, "f:spec": {"f:project": {}}});
    for (fields, expected) in [
        (known.clone(), None),
        (json!(known.to_string()), None),
        (more.clone(), Some("tidegate")),
        (json!(more.to_string()), Some("tidegate")),
    ] {
        let (wanted, live) =
            ("argoproj.io/v1alpha1 Application a", "argoproj.io/v1alpha1 Application shop/a");
        let mut case = case(&object(wanted, "")).live(&object(live, "tracked"));
        case.live[0].metadata_mut().insert("managedFields".to_owned(), entry(fields.clone()));
        let found = case.plan().plan.tasks[0].options.take_over.clone();
        assert_eq!(found.as_deref(), expected, "{fields}");
    }
}

/// Nobody is surprised by a moment without rights: a role cannot be changed, so the binding is made anew.
#[test]
fn a_binding_that_is_to_give_another_role_is_told() {
    let binding = |kind: &str, role: &str, subject: &str| {
        let namespace = if kind == "RoleBinding" { "shop" } else { "" };
        format!(
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\nmetadata:\n  name: readers\n  \
             namespace: '{namespace}'\nroleRef: {{kind: ClusterRole, name: {role}}}\nsubjects: [{{kind: User, name: {subject}}}]\n"
        )
    };
    let is_told = |live: &str, flags: &[&str], kind: &str| {
        let wanted = binding(kind, "edit", "jane");
        case(&wanted).live(live).flags(flags).codes().contains(&"role-changed".to_owned())
    };
    for kind in ["RoleBinding", "ClusterRoleBinding"] {
        for (live, flags, expected) in [
            (binding(kind, "view", "jane"), &[][..], true),
            (binding(kind, "view", "jane"), &["ServerSideApply=true"], true),
            (binding(kind, "view", "jane"), &["ApplyOutOfSyncOnly=true"], true),
            // The server refuses to replace it.
            (binding(kind, "view", "jane"), &["Replace=true"], false),
            (binding(kind, "edit", "joe"), &[], false),
            (String::new(), &[], false),
        ] {
            assert_eq!(is_told(&live, flags, kind), expected, "{kind} {flags:?}\n{live}");
        }
    }
}

/// What a sync has left of its hooks is in no inventory.
#[test]
fn a_deletion_reads_the_hooks_of_both() {
    let yaml = objects(&[
        ("v1 ConfigMap a", ""),
        ("batch/v1 Job migrate", "hook=PreSync"),
        ("batch/v1 Job generated-*", "hook=PreSync"),
        ("batch/v1 Job drain", "hook=PreDelete"),
        ("batch/v1 Job left-out", "hook=Skip"),
    ]);
    let mut case = case(&yaml);
    let mut read = |cascade| {
        case.request.deletion = Some(cascade);
        let named = named_objects(&case.request, &case.targets, &Discovery::built_in(), STARTED_AT);
        named.into_iter().map(|(_, _, name)| name).collect::<Vec<_>>()
    };
    assert_eq!(read(Cascade::Foreground), ["drain", "migrate"]);
    assert_eq!(read(Cascade::Orphan), ["drain"], "what stays is not looked at");
}
