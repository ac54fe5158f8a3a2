//! Live objects: matching with targets, options, namespaces, selections and kinds.

use std::collections::BTreeSet;

use serde_json::json;
use tidegate_model::{Action, Cascade, Discovery, Gvk, Object, Phase};
use tidegate_planner::named_objects;

use crate::support::{STARTED_AT, case, crd, manifest_text, manifest_texts, targets};

#[test]
fn actions_and_reasons() {
    let yaml = manifest_texts(&[
        ("v1 ConfigMap a", ""),
        ("v1 ConfigMap b", ""),
        ("v1 ConfigMap c", "sync-options=Replace=true"),
    ]);
    let live = manifest_texts(&[
        ("v1 ConfigMap shop/b", "tracked"),
        ("v1 ConfigMap shop/c", ""),
        ("v1 ConfigMap shop/d", "tracked"),
    ]);
    let planned = case(&yaml).with_live(&live).plan();
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
            ("apply", "in the cluster; manifest will be applied", true),
            ("replace", "in the cluster; replaced as a whole", true),
            ("prune", "no longer in the manifests", true),
        ]
    );
    assert_eq!(planned.manifests.len(), 3);
}

#[test]
fn selections_include_resources_and_prunes() {
    let yaml =
        manifest_texts(&[("v1 ConfigMap a", ""), ("v1 ConfigMap b", ""), ("apps/v1 Deployment a", "")]);
    let live =
        manifest_texts(&[("v1 ConfigMap shop/old", "tracked"), ("v1 ConfigMap shop/older", "tracked")]);
    let case = case(&yaml).with_live(&live).select(&[
        ":ConfigMap:shop/b",
        ":ConfigMap:old",
        "apps:Deployment:other/a",
    ]);
    assert_eq!(case.tasks(), ["Sync 0: create ConfigMap shop/b", "Sync 0: prune ConfigMap shop/old"]);
    assert_eq!(case.codes(), ["selection-without-match"]);
    let left_out: Vec<String> = case.plan().excluded.into_iter().map(|left| left.reason).collect();
    assert_eq!(left_out, ["not selected", "not selected"]);
}

#[test]
fn apply_out_of_sync_only() {
    let with_data = |value: &str| {
        let text = manifest_text("v1 ConfigMap shop/a", "");
        text.replace("\"kind\"", &format!("\"data\":{{\"k\":\"{value}\"}},\"kind\""))
    };
    let live_data = |value: &str| {
        let text = manifest_text("v1 ConfigMap shop/a", "tracked");
        text.replace("\"kind\"", &format!("\"data\":{{\"k\":\"{value}\"}},\"kind\""))
    };
    let flags = &["ApplyOutOfSyncOnly=true"];
    let in_sync = case(&with_data("1")).with_live(&live_data("1")).flags(flags).plan();
    assert_eq!(
        (in_sync.plan.tasks[0].action.as_str(), in_sync.plan.tasks[0].reason.as_str()),
        ("unchanged", "in sync")
    );
    let changed = case(&with_data("2")).with_live(&live_data("1")).flags(flags).plan();
    assert_eq!(changed.plan.tasks[0].reason, "out of sync at /data/k; manifest will be applied");
    let untracked = case(&with_data("1")).with_live(&with_data("1")).flags(flags);
    assert_eq!(untracked.tasks(), ["Sync 0: apply ConfigMap shop/a"], "its tracking id is missing");
    let hook = case(&manifest_text("batch/v1 Job shop/j", "hook=Sync"))
        .with_live(&manifest_text("batch/v1 Job shop/j", "hook=Sync; tracked"));
    assert_eq!(hook.flags(flags).tasks(), ["Sync 0: create Job shop/j"]);
}

#[test]
fn the_namespace_is_created_if_requested() {
    let yaml = manifest_text("v1 ConfigMap a", "");
    let flags = &["CreateNamespace=true"];
    assert_eq!(
        case(&yaml).flags(flags).tasks(),
        ["PreSync 0: create Namespace shop", "Sync 0: create ConfigMap shop/a"]
    );
    let planned = case(&yaml).flags(flags).plan();
    assert_eq!(planned.plan.tasks[0].reason, "required by CreateNamespace=true");
    assert_eq!(
        planned.manifests[0].as_value(),
        &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    );
    assert!(planned.plan.tasks[1].options.dry_run_at_wave, "the operation creates the namespace");
    assert!(!planned.plan.tasks[0].options.dry_run_at_wave);
    let there = manifest_text("v1 Namespace shop", "");
    assert_eq!(case(&yaml).flags(flags).with_live(&there).tasks(), ["Sync 0: create ConfigMap shop/a"]);
    let with_metadata = case(&yaml).flags(flags).with_live(&there).options(|options| {
        options.namespace_labels = vec![("team".to_owned(), "a".to_owned())];
        options.namespace_annotations = vec![("note".to_owned(), "b".to_owned())];
    });
    assert_eq!(with_metadata.tasks()[0], "PreSync 0: apply Namespace shop");
    assert_eq!(
        with_metadata.plan().manifests[0].pointer("/metadata"),
        Some(&json!({"name": "shop", "labels": {"team": "a"},
            "annotations": {"note": "b", "argocd.argoproj.io/sync-options": "ServerSideApply=true"}}))
    );
    let declared = manifest_texts(&[("v1 ConfigMap a", ""), ("v1 Namespace shop", "sync-wave=5")]);
    assert_eq!(
        case(&declared).flags(flags).tasks(),
        ["Sync 0: create Namespace shop", "Sync 0: create ConfigMap shop/a"]
    );
    let hook = manifest_texts(&[("v1 ConfigMap a", ""), ("v1 Namespace shop", "hook=PreSync")]);
    assert_eq!(case(&hook).flags(flags).tasks().len(), 2);
    assert_eq!(case(&hook).flags(flags).codes(), ["namespace-is-hook"]);
}

#[test]
fn namespaces_follow_the_scope_of_the_kind() {
    let yaml = manifest_texts(&[
        ("rbac.authorization.k8s.io/v1 ClusterRole shop/r", ""),
        ("v1 ConfigMap a", ""),
        ("example.com/v1 Widget w", ""),
    ]);
    let cluster_crd = crd("Widget", "").replace("Namespaced", "Cluster");
    let planned = case(&format!("{yaml}{cluster_crd}")).plan();
    let namespaces: BTreeSet<(&str, &str)> =
        planned.plan.tasks.iter().map(|task| (task.gvk.kind.as_str(), task.namespace.as_str())).collect();
    assert!(namespaces.contains(&("ClusterRole", "")) && namespaces.contains(&("ConfigMap", "shop")));
    assert!(
        namespaces.contains(&("Widget", "")),
        "the CRD in the manifests defines the scope: {namespaces:?}"
    );
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
fn objects_of_unknown_scope_are_looked_up_in_both_scopes() {
    let yaml = manifest_text("example.com/v1 Widget w", "");
    let live = manifest_text("example.com/v1 Widget w", "tracked");
    let mut cluster = case(&yaml).with_live(&live);
    assert_eq!(cluster.tasks(), ["Sync 0: apply Widget w"]);
    assert_eq!(cluster.plan().manifests[0].namespace(), "");
    cluster.live.extend(
        targets(&manifest_text("example.com/v1 Widget shop/w", "")).into_iter().map(|target| target.object),
    );
    assert!(cluster.tasks().contains(&"Sync 0: apply Widget shop/w".to_owned()), "{:?}", cluster.tasks());
}

#[test]
fn unavailable_kinds() {
    let widget = manifest_text("example.com/v1 Widget w", "");
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
    let annotated =
        case(&manifest_text("example.com/v1 Widget w", "sync-options=SkipDryRunOnMissingResource=true"));
    assert!(annotated.codes().is_empty());
    let version = case(&manifest_text("batch/v2alpha1 CronJob c", "")).plan();
    assert_eq!(
        version.plan.errors(),
        [
            "The Kubernetes API could not find version \"v2alpha1\" of batch/CronJob for requested resource shop/c. Version \"v1\", \"v1beta1\" of batch/CronJob is installed on the destination cluster."
        ]
    );
}

#[test]
fn kinds_of_new_crds_are_dry_run_in_their_wave() {
    let late = |case: &crate::support::Case| {
        let planned = case.plan();
        assert!(planned.plan.warnings.is_empty(), "{:?}", planned.plan.warnings);
        let widget = planned.plan.tasks.iter().find(|task| task.gvk.kind == "Widget").unwrap();
        widget.options.dry_run_at_wave
    };
    let yaml = format!("{}{}", manifest_text("example.com/v1 Widget w", ""), crd("Widget", ""));
    assert!(late(&case(&yaml)));
    let hook = format!("{}{}", manifest_text("example.com/v1 Widget w", ""), crd("Widget", "hook=PreSync"));
    assert!(late(&case(&hook)));
    let served = |live: &str| {
        let mut case = case(&yaml).with_live(live);
        let info = tidegate_model::KindInfo { versions: vec!["v1".to_owned()], namespaced: true };
        case.discovery.kinds.insert(tidegate_model::GroupKind::new("example.com", "Widget"), info);
        case
    };
    assert!(!late(&served(&crd("Widget", ""))), "the CRD exists and is unchanged");
    assert!(late(&served(&crd("Widget", "").replace("Namespaced", "Cluster"))), "the CRD changes");
}

#[test]
fn shared_resources() {
    let yaml = manifest_text("v1 ConfigMap shop/a", "");
    let live = manifest_text("v1 ConfigMap shop/a", "tracking-id=other:/ConfigMap:shop/a");
    let warned = case(&yaml).with_live(&live).plan();
    assert_eq!(warned.plan.warnings[0].message, "ConfigMap/a is part of applications app and other");
    assert!(warned.plan.errors().is_empty());
    let failed = case(&yaml).with_live(&live).flags(&["FailOnSharedResource=true"]).plan();
    assert_eq!(
        failed.plan.errors(),
        ["Shared resource found: ConfigMap/a is part of applications app and other"]
    );
}

/// The manifest was exported from the cluster with its annotations, or copied from another application's
/// manifests.
#[test]
fn a_manifest_with_the_tracking_id_of_another_application_is_reported() {
    let exported =
        |what: &str, more: &str| manifest_text(what, &format!("tracking-id=other:/ConfigMap:shop/a{more}"));
    for (yaml, live, expected) in [
        (exported("v1 ConfigMap shop/a", ""), String::new(), true),
        (exported("v1 ConfigMap shop/a", ""), manifest_text("v1 ConfigMap shop/a", "tracked"), true),
        // A tracking ID that was copied from a manifest for a different object is reported too.
        (exported("v1 ConfigMap shop/b", ""), String::new(), true),
        (exported("v1 Pod shop/a", "; hook=PreSync"), String::new(), true),
        (manifest_text("v1 ConfigMap shop/a", "tracking-id=app:/ConfigMap:shop/other"), String::new(), false),
        (manifest_text("v1 ConfigMap shop/a", "tracking-id=no id at all"), String::new(), false),
    ] {
        let warned = case(&yaml).with_live(&live);
        assert_eq!(warned.codes().contains(&"shared-resource".to_owned()), expected, "{yaml}");
        assert!(warned.plan().plan.errors().is_empty());
        let failed = case(&yaml).with_live(&live).flags(&["FailOnSharedResource=true"]);
        assert_eq!(failed.codes().contains(&"!shared-resource".to_owned()), expected, "{yaml}");
    }
    let planned = case(&exported("v1 ConfigMap shop/a", "")).plan();
    let message = &planned.plan.warnings[0].message;
    assert!(message.starts_with("ConfigMap/a is part of applications app and other: "), "{message}");
    let id = planned.manifests[0].annotation("argocd.argoproj.io/tracking-id");
    assert_eq!(id, Some("app:/ConfigMap:shop/a"), "the manifest gets the application's own tracking ID");
}

#[test]
fn offline_plans_have_no_live_objects() {
    let mut case = case(&manifest_text("v1 ConfigMap a", "")).with_live(&manifest_texts(&[
        ("v1 ConfigMap shop/a", "tracked"),
        ("v1 ConfigMap shop/b", "tracked"),
    ]));
    case.offline = true;
    assert_eq!(case.tasks(), ["Sync 0: create ConfigMap shop/a"]);
}

#[test]
fn task_options_come_from_everywhere() {
    let yaml = manifest_texts(&[
        ("v1 ConfigMap a", "sync-options=ServerSideApply=false,Validate=false"),
        ("v1 ConfigMap b", "sync-options=Force=true"),
        ("v1 ConfigMap c", ""),
        ("v1 Namespace n", "sync-options=Replace=true,Force=true; tidegate.dev/health-judge=slo"),
    ]);
    let yaml = format!("{yaml}{}", crd("Widget", "sync-options=Force=true"));
    let live = manifest_texts(&[("v1 ConfigMap shop/c", "sync-options=Force=true"), ("v1 Namespace n", "")]);
    let live = format!("{live}{}", crd("Widget", ""));
    let planned = case(&yaml).with_live(&live).plan();
    let by_name = |name: &str| planned.plan.tasks.iter().find(|task| task.name == name).unwrap();
    assert!(
        !by_name("a").options.server_side && !by_name("a").options.validate && !by_name("a").options.force
    );
    assert!(by_name("b").options.force && by_name("b").options.server_side && by_name("b").options.validate);
    assert!(by_name("c").options.force, "the live object sets it");
    assert!(!by_name("n").options.force, "a namespace is never deleted to be replaced");
    assert!(
        !by_name("widgets.example.com").options.force,
        "a CRD isn't either, because its objects would be deleted with it"
    );
    assert_eq!(by_name("n").health_judge.as_deref(), Some("slo"));
}

#[test]
fn objects_to_read_by_name() {
    let yaml = manifest_texts(&[
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
fn server_managed_fields_are_removed() {
    let mut case = case(&manifest_text("v1 ConfigMap a", "tidegate.dev/operation-id=x"));
    let object: &mut Object = &mut case.targets[0].object;
    object.metadata_mut().insert("managedFields".to_owned(), json!([]));
    let planned = case.plan();
    assert_eq!(crate::support::codes(&planned), ["reserved-annotation", "server-fields"]);
    assert!(planned.manifests[0].pointer("/metadata/managedFields").is_none());
    assert!(planned.manifests[0].annotation("tidegate.dev/operation-id").is_none());
}

/// Tidegate takes over fields that kubectl's client-side apply wrote, unless the options say otherwise. It
/// always takes over the fields of its own updates.
#[test]
fn fields_of_client_side_apply_are_taken_over() {
    let entry = |manager: &str, operation: &str, subresource: &str| json!({"manager": manager, "operation": operation, "subresource": subresource, "fieldsV1": {"f:data": {}}});
    let kubectl = "kubectl-client-side-apply";
    let named = "argocd.argoproj.io/client-side-apply-migration-manager";
    let both = json!([entry("tidegate", "Update", ""), entry(kubectl, "Update", "")]);
    let off = "ClientSideApplyMigration=false";
    for (entries, annotation, flag, expected) in [
        (json!([entry(kubectl, "Update", "")]), None, None, &[kubectl][..]),
        (json!([entry(kubectl, "Apply", "")]), None, None, &[]),
        (json!([entry(kubectl, "Update", "status")]), None, None, &[]),
        (json!([entry("helm", "Update", "")]), None, None, &[]),
        (json!([entry("tidegate", "Update", "")]), None, Some(off), &["tidegate"]),
        (both.clone(), None, None, &[kubectl, "tidegate"]),
        (both, None, Some(off), &["tidegate"]),
        (json!([entry("tidegate", "Apply", "")]), None, None, &[]),
        (json!([entry("helm", "Update", "")]), Some((named, "helm")), None, &["helm"]),
        (json!([entry("helm", "Update", "")]), None, Some("ClientSideApplyMigrationManager=helm"), &["helm"]),
        (json!([entry(kubectl, "Update", "")]), Some((named, "helm")), None, &[]),
        (json!([entry("helm", "Update", "")]), Some((named, "tidegate")), None, &[]),
        (json!([entry(kubectl, "Update", "")]), None, Some(off), &[]),
        (
            json!([entry(kubectl, "Update", "")]),
            Some(("argocd.argoproj.io/sync-options", "ServerSideApply=false")),
            None,
            &[],
        ),
        (json!("odd"), None, None, &[]),
        (json!([]), None, None, &[]),
    ] {
        let mut case = case(&manifest_text("v1 ConfigMap a", ""))
            .with_live(&manifest_text("v1 ConfigMap shop/a", "tracked"));
        case.live[0].metadata_mut().insert("managedFields".to_owned(), entries.clone());
        if let Some((name, value)) = annotation {
            case.targets[0].object.set_annotation(name, value);
        }
        case.request.options.flags.extend(flag.map(str::to_owned));
        let planned = case.plan();
        assert_eq!(planned.plan.tasks[0].options.take_over, expected, "{entries} {annotation:?} {flag:?}");
        assert_eq!(crate::support::codes(&planned), [""; 0], "{flag:?}");
    }
}

/// Tidegate takes over Argo CD's fields if the object's mark shows that Argo CD deployed it for this
/// application. The plan reports the takeover.
#[test]
fn fields_of_argo_cd_are_taken_over() {
    const LABEL: &str = "app.kubernetes.io/instance";
    const NOTE: &str = "kubectl.kubernetes.io/last-applied-configuration";
    const ID: &str = "argocd.argoproj.io/tracking-id";
    let ours = (ID, "app:/ConfigMap:shop/a");
    let entry_of = |manager: &str, operation: &str, subresource: &str| {
        let fields = json!({"f:data": {}, "f:metadata": {"f:labels": {(format!("f:{LABEL}")): {}}}});
        json!([{"manager": manager, "operation": operation, "subresource": subresource, "fieldsV1": fields}])
    };
    let off = Some("ClientSideApplyMigration=false");
    for manager in ["argocd-controller", "argocd-application-controller"] {
        let entry = |operation: &str, subresource: &str| entry_of(manager, operation, subresource);
        for (entries, annotations, label, flag, expected) in [
            (entry("Update", ""), &[ours, (NOTE, "{}")][..], None, None, true),
            (entry("Apply", ""), &[ours], None, None, true),
            (entry("Update", "status"), &[ours, (NOTE, "{}")], None, None, false),
            // Tidegate created or replaced the object, or added a finalizer to it.
            (entry("Update", ""), &[ours], None, None, false),
            // Migration concerns only client-side apply.
            (entry("Update", ""), &[ours, (NOTE, "{}")], None, off, false),
            (entry("Apply", ""), &[ours], None, off, true),
            // The object belongs to another application or installation, is a copy, or has no tracking mark.
            (entry("Apply", ""), &[(ID, "other:/ConfigMap:shop/a")], None, None, false),
            (entry("Apply", ""), &[(ID, "app:/ConfigMap:shop/b")], None, None, false),
            (entry("Apply", ""), &[ours, ("argocd.argoproj.io/installation-id", "x")], None, None, false),
            (entry("Apply", ""), &[], None, None, false),
            // The object is marked only by a label.
            (entry("Apply", ""), &[], Some("app"), None, true),
            (entry("Update", ""), &[(NOTE, "{}")], Some("app"), None, true),
            (entry("Apply", ""), &[], Some("other"), None, false),
        ] {
            let mut case = case(&manifest_text("v1 ConfigMap a", ""))
                .with_live(&manifest_text("v1 ConfigMap shop/a", ""));
            let live = &mut case.live[0];
            live.metadata_mut().insert("managedFields".to_owned(), entries.clone());
            annotations.iter().for_each(|(name, value)| live.set_annotation(name, *value));
            label.into_iter().for_each(|label| live.set_label(LABEL, label));
            case.request.options.flags.extend(flag.map(str::to_owned));
            let task = case.plan().plan.tasks.remove(0);
            let managers: Vec<&str> = expected.then_some(manager).into_iter().collect();
            assert_eq!(task.options.take_over, managers, "{entries} {annotations:?} {label:?} {flag:?}");
            let says = task.reason.ends_with(&format!("; takes over the fields of {manager}"));
            assert_eq!(says, expected, "{}", task.reason);
        }
    }
}

/// Client-side apply removes fields that are in the last-applied manifest but not in the new manifest, so
/// they are differences.
#[test]
fn fields_that_client_side_apply_would_remove_are_a_difference() {
    const NOTE: &str = "kubectl.kubernetes.io/last-applied-configuration";
    let fields = json!({"f:data": {"f:kept": {}, "f:gone": {}}});
    let noted = |data: serde_json::Value| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}).to_string()
    };
    for manager in
        ["tidegate", "argocd-controller", "argocd-application-controller", "kubectl-client-side-apply"]
    {
        for (note, expected) in [
            (Some(noted(json!({"kept": "1", "gone": "1"}))), Action::Apply),
            (Some(noted(json!({"kept": "1"}))), Action::Unchanged),
            (None, Action::Unchanged),
        ] {
            let wanted = manifest_text("v1 ConfigMap a", "sync-options=ServerSideApply=false");
            let there = manifest_text("v1 ConfigMap shop/a", "tracked; sync-options=ServerSideApply=false");
            let mut case = case(&wanted).with_live(&there).flags(&["ApplyOutOfSyncOnly=true"]);
            case.targets[0].object.fields_mut().insert("data".to_owned(), json!({"kept": "1"}));
            let live = &mut case.live[0];
            live.fields_mut().insert("data".to_owned(), json!({"kept": "1", "gone": "1"}));
            let entry = json!([{"manager": manager, "operation": "Update", "fieldsV1": fields}]);
            live.metadata_mut().insert("managedFields".to_owned(), entry);
            note.iter().for_each(|note| live.set_annotation(NOTE, note));
            assert_eq!(case.plan().plan.tasks[0].action, expected, "{manager} {note:?}");
        }
    }
}

/// If a manager retains all its fields, nothing is taken over, and the server can predict the differences.
#[test]
fn a_status_is_not_taken_over() {
    let entry = |fields: serde_json::Value| json!([{"manager": "tidegate", "operation": "Update", "fieldsV1": fields}]);
    let known = json!({"f:status": {"f:health": {}}, "f:operation": {}});
    let more = json!({"f:status": {"f:health": {}}, "f:spec": {"f:project": {}}});
    for (fields, expected) in [
        (known.clone(), &[][..]),
        (json!(known.to_string()), &[]),
        (more.clone(), &["tidegate"]),
        (json!(more.to_string()), &["tidegate"]),
    ] {
        let (wanted, live) =
            ("argoproj.io/v1alpha1 Application a", "argoproj.io/v1alpha1 Application shop/a");
        let mut case = case(&manifest_text(wanted, "")).with_live(&manifest_text(live, "tracked"));
        case.live[0].metadata_mut().insert("managedFields".to_owned(), entry(fields.clone()));
        assert_eq!(case.plan().plan.tasks[0].options.take_over, expected, "{fields}");
    }
}

/// A changed role is reported, because the binding is recreated and its subjects briefly lose their
/// permissions.
#[test]
fn a_binding_with_a_changed_role_is_reported() {
    let binding = |kind: &str, role: &str, subject: &str| {
        let namespace = if kind == "RoleBinding" { "shop" } else { "" };
        format!(
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\nmetadata:\n  name: readers\n  \
             namespace: '{namespace}'\nroleRef: {{kind: ClusterRole, name: {role}}}\nsubjects: [{{kind: User, name: {subject}}}]\n"
        )
    };
    let is_told = |live: &str, flags: &[&str], kind: &str| {
        let wanted = binding(kind, "edit", "jane");
        case(&wanted).with_live(live).flags(flags).codes().contains(&"role-changed".to_owned())
    };
    for kind in ["RoleBinding", "ClusterRoleBinding"] {
        for (live, flags, expected) in [
            (binding(kind, "view", "jane"), &[][..], true),
            (binding(kind, "view", "jane"), &["ServerSideApply=true"], true),
            (binding(kind, "view", "jane"), &["ApplyOutOfSyncOnly=true"], true),
            // The server would reject the replacement of the binding.
            (binding(kind, "view", "jane"), &["Replace=true"], false),
            (binding(kind, "edit", "joe"), &[], false),
            (String::new(), &[], false),
        ] {
            assert_eq!(is_told(&live, flags, kind), expected, "{kind} {flags:?}\n{live}");
        }
    }
}

/// Inventories don't contain a sync's hook objects, so a deletion reads them by name.
#[test]
fn a_deletion_reads_the_hooks_of_both() {
    let yaml = manifest_texts(&[
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
    assert_eq!(read(Cascade::Orphan), [""; 0], "kept objects are not examined, and no hook runs");
}
