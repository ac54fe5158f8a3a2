//! Replaced and recreated objects.

use serde_json::json;
use tidegate_executor::effects::{self, ComparisonPurpose, ObjectStatus};
use tidegate_kube::ConnectOptions;
use tidegate_model::{OperationPhase, Timestamp};
use tidegate_testkit::kube::{ControlPlane, User};
use tidegate_testkit::scenario::SyncSpec;

use crate::engine::Bench;

/// The dry run detects the rejection, and so must a sync without a dry run.
pub async fn nothing_is_deleted_for_an_object_that_the_server_refuses() {
    let control = ControlPlane::shared();
    let bench = Bench::for_test(control, "replaced").await;
    let options = "{name: a, annotations: {argocd.argoproj.io/sync-options: 'Replace=true,Force=true'}}";
    let deployment = |label: &str| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {options}\nspec:\n  replicas: 0\n  selector: {{matchLabels: \
             {{a: b}}}}\n  template:\n    metadata: {{labels: {{a: {label}}}}}\n    spec: {{containers: [{{name: m, image: \
             i}}]}}\n---\n"
        )
    };
    let binding = |subject: &str| {
        format!(
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {options}\nroleRef: {{apiGroup: \
             rbac.authorization.k8s.io, kind: ClusterRole, name: view}}\nsubjects: [{{apiGroup: rbac.authorization.k8s.io, kind: User, name: {subject}}}]\n---\n"
        )
    };
    for (old, new, text) in [
        (deployment("b"), deployment("c"), "\"a\" is invalid: spec.template.metadata.labels"),
        (binding("a"), binding("''"), "subjects[0].name: Required value"),
    ] {
        let (_, view) = bench.run(&SyncSpec::new(&old)).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{old}: {}", view.message);
        for (dry_run, skips) in [(true, false), (false, false), (false, true)] {
            let sync = SyncSpec::new(&new).with_request(|request| {
                request.options.dry_run = dry_run;
                request.options.skip_dry_run = skips;
            });
            let (id, view) = bench.run(&sync).await;
            assert_eq!(view.phase, OperationPhase::Failed, "{new}: {}", view.message);
            let is_reported = |result: &tidegate_model::ResourceResult| result.message.contains(text);
            assert!(view.resources.iter().any(is_reported), "{text}: {:?}", view.resources);
            assert_eq!(bench.writes(id).await.summaries(), [""; 0], "{new}");
        }
        // If the server accepts the object, it is deleted and recreated.
        let (id, view) = bench.run(&SyncSpec::new(&old)).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{old}: {}", view.message);
        let verbs: Vec<String> = bench.writes(id).await.0.iter().map(|event| event.verb.clone()).collect();
        assert_eq!(verbs, ["delete", "create"], "{old}");
    }
}

/// The difference must show the other managers' fields that the replacement drops, exactly as the server
/// reports them. With `Force`, it comes from a dry run under a different name, which must not appear in it.
pub async fn the_difference_shows_foreign_fields_that_a_replacement_drops() {
    let control = ControlPlane::shared();
    let options = ConnectOptions { kubeconfig: Some(control.kubeconfig(User::ENGINE)), ..Default::default() };
    let cluster = tidegate_kube::connect(&options).await.unwrap();
    for (text, estimate) in [("Replace=true", false), ("Replace=true,Force=true", true)] {
        let bench = Bench::for_test(control, "foreign").await;
        let annotations = format!("annotations: {{argocd.argoproj.io/sync-options: '{text}'}}");
        let manifest = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: rf, {annotations}}}\ndata: {{a: '1'}}\n---\n\
             apiVersion: batch/v1\nkind: Job\nmetadata: {{name: once, {annotations}}}\nspec:\n  suspend: true\n  template: \
             {{spec: {{restartPolicy: Never, containers: [{{name: m, image: i}}]}}}}\n"
        );
        // Without `Force`, leave out the Job. It can't be replaced, because the server has added a selector.
        let manifest = if estimate { manifest } else { manifest.split("---").next().unwrap().to_owned() };
        let sync = SyncSpec::new(&manifest).with_request(|request| {
            request.namespace.clone_from(&bench.namespace);
            request.application.clone_from(&bench.namespace);
        });
        let (_, view) = bench.run(&sync).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{text}: {}", view.message);
        // Use another field manager, because the engine's own fields would differ from the manifest.
        let place = format!("/api/v1/namespaces/{}/configmaps/rf", bench.namespace);
        let foreign = json!({"data": {"b": "2"}, "metadata": {"annotations": {"theirs": "1"}}});
        control.client(User::OBSERVER).patch(&place, &foreign).await.unwrap();
        let (purpose, now) = (ComparisonPurpose::Sync, Timestamp::from_millis(0));
        let comparing = effects::diff(&cluster, purpose, &sync.request, sync.targets(), now, None);
        let objects = comparing.await.unwrap().objects;
        for object in objects {
            assert_eq!((object.refused, object.estimate), (None, estimate), "{text}");
            let paths: Vec<String> =
                object.difference.changes.iter().map(|change| change.path.clone()).collect();
            if object.task.name == "rf" {
                assert_eq!(object.status, ObjectStatus::Modified, "{text}");
                for wanted in ["/data/b", "/metadata/annotations/theirs"] {
                    assert!(paths.iter().any(|path| path == wanted), "{text}: {paths:?}");
                }
            }
            let after = object.difference.after.to_string();
            assert!(!after.contains("tidegate-check"), "{text}: {after}");
        }
        let (_, view) = bench.run(&sync).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{text}: {}", view.message);
        let found = control.client(User::OBSERVER).get(&place).await.unwrap();
        assert_eq!(found["data"], json!({"a": "1"}), "{text}");
    }
}
