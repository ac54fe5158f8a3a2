//! Objects that are replaced as a whole, or deleted and made anew.

use serde_json::json;
use tidegate_executor::effects::{self, ObjectStatus, Question};
use tidegate_kube::ConnectOptions;
use tidegate_model::{OperationPhase, Timestamp};
use tidegate_testkit::kube::{ControlPlane, User};
use tidegate_testkit::scenario::Sync;

use crate::engine::Bench;

/// Nothing is deleted for an object that the server refuses: the trial says so, and so does a sync without one.
pub async fn nothing_is_deleted_for_an_object_that_the_server_refuses() {
    let control = ControlPlane::shared();
    let bench = Bench::of(control, "replaced").await;
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
    for (old, new, words) in [
        (deployment("b"), deployment("c"), "\"a\" is invalid: spec.template.metadata.labels"),
        (binding("a"), binding("''"), "subjects[0].name: Required value"),
    ] {
        let (_, view) = bench.run(&Sync::of(&old)).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{old}: {}", view.message);
        for (dry_run, skips) in [(true, false), (false, false), (false, true)] {
            let sync = Sync::of(&new).with(|request| {
                request.options.dry_run = dry_run;
                request.options.skip_dry_run = skips;
            });
            let (id, view) = bench.run(&sync).await;
            assert_eq!(view.phase, OperationPhase::Failed, "{new}: {}", view.message);
            let told = |result: &tidegate_model::ResourceResult| result.message.contains(words);
            assert!(view.resources.iter().any(told), "{words}: {:?}", view.resources);
            assert_eq!(bench.writes(id).await.summaries(), [""; 0], "{new}");
        }
        // What the server takes is deleted and made anew.
        let (id, view) = bench.run(&Sync::of(&old)).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{old}: {}", view.message);
        let verbs: Vec<String> = bench.writes(id).await.0.iter().map(|event| event.verb.clone()).collect();
        assert_eq!(verbs, ["delete", "create"], "{old}");
    }
}

/// The difference of an object that is replaced shows what others wrote to it, for what comes next takes it away: exactly
/// what the server would do, or with `Force` by a trial under another name, which leaves no trace of that name.
pub async fn the_difference_shows_what_a_replacement_takes_from_others() {
    let control = ControlPlane::shared();
    let options = ConnectOptions { kubeconfig: Some(control.kubeconfig(User::ENGINE)), ..Default::default() };
    let cluster = tidegate_kube::connect(&options).await.unwrap();
    for (words, estimate) in [("Replace=true", false), ("Replace=true,Force=true", true)] {
        let bench = Bench::of(control, "foreign").await;
        let annotations = format!("annotations: {{argocd.argoproj.io/sync-options: '{words}'}}");
        let manifest = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: rf, {annotations}}}\ndata: {{a: '1'}}\n---\n\
             apiVersion: batch/v1\nkind: Job\nmetadata: {{name: once, {annotations}}}\nspec:\n  suspend: true\n  template: \
             {{spec: {{restartPolicy: Never, containers: [{{name: m, image: i}}]}}}}\n"
        );
        // A server refuses to replace a Job, which has a selector by now.
        let manifest = if estimate { manifest } else { manifest.split("---").next().unwrap().to_owned() };
        let sync = Sync::of(&manifest).with(|request| {
            request.namespace.clone_from(&bench.namespace);
            request.application.clone_from(&bench.namespace);
        });
        let (_, view) = bench.run(&sync).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{words}: {}", view.message);
        // By a writer of its own: what we had written ourselves would be a difference to the manifest.
        let place = format!("/api/v1/namespaces/{}/configmaps/rf", bench.namespace);
        let foreign = json!({"data": {"b": "2"}, "metadata": {"annotations": {"theirs": "1"}}});
        control.caller(User::OBSERVER).patch(&place, &foreign).await.unwrap();
        let asked = (Question::Sync, &sync.request);
        let now = Timestamp::from_millis(0);
        let objects = effects::diff(&cluster, asked, sync.targets(), now, None).await.unwrap().objects;
        for object in objects {
            assert_eq!((object.refused, object.estimate), (None, estimate), "{words}");
            let paths: Vec<String> =
                object.difference.changes.iter().map(|change| change.path.clone()).collect();
            if object.task.name == "rf" {
                assert_eq!(object.status, ObjectStatus::Modified, "{words}");
                for wanted in ["/data/b", "/metadata/annotations/theirs"] {
                    assert!(paths.iter().any(|path| path == wanted), "{words}: {paths:?}");
                }
            }
            let after = object.difference.after.to_string();
            assert!(!after.contains("tidegate-check"), "{words}: {after}");
        }
        let (_, view) = bench.run(&sync).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{words}: {}", view.message);
        let found = control.caller(User::OBSERVER).get(&place).await.unwrap();
        assert_eq!(found["data"], json!({"a": "1"}), "{words}");
    }
}
