//! Objects that are replaced as a whole, or deleted and made anew.

use tidegate_model::OperationPhase;
use tidegate_testkit::kube::ControlPlane;
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
