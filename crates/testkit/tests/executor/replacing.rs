//! Objects that are replaced as a whole, or deleted and made anew.

use tidegate_cluster::sim::Verb;
use tidegate_model::{OperationPhase, ResultCode};
use tidegate_testkit::scenario::Sync;

use crate::support::{Log, Moody, builder, end, submit};

fn with_options(manifest: &str, options: &str) -> String {
    manifest.replacen(
        "  name:",
        &format!("  annotations: {{argocd.argoproj.io/sync-options: '{options}'}}\n  name:"),
        1,
    )
}

fn binding(subject: &str) -> String {
    format!(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata:\n  name: a\nroleRef: {{apiGroup: \
         rbac.authorization.k8s.io, kind: ClusterRole, name: view}}\nsubjects: [{{apiGroup: rbac.authorization.k8s.io, kind: User, name: {subject}}}]\n"
    )
}

fn deployment(label: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: a\nspec:\n  selector: {{matchLabels: {{a: b}}}}\n  \
         template:\n    metadata: {{labels: {{a: {label}}}}}\n    spec: {{containers: [{{name: m, image: i}}]}}\n"
    )
}

/// What stands is not deleted for an object that the server would refuse: the trial says so, and so does a sync that
/// tries nothing before.
#[tokio::test(start_paused = true)]
async fn nothing_is_deleted_for_an_object_that_the_server_refuses() {
    for (old, new, words) in [
        (deployment("b"), deployment("c"), "Deployment.apps \"a\" is invalid: spec.template.metadata.labels"),
        (
            binding("a"),
            binding("''"),
            "RoleBinding.rbac.authorization.k8s.io \"a\" is invalid: subjects[0].name: Required value",
        ),
    ] {
        let cluster = Moody::calm();
        let engine = builder(&cluster, &Log::new()).start().await.unwrap();
        let options = "Replace=true,Force=true";
        let (old, new) = (with_options(&old, options), with_options(&new, options));
        let id = submit(&engine, &Sync::of(&old)).await;
        assert_eq!(end(&engine, id).await.phase, OperationPhase::Succeeded, "{old}");
        for (dry_run, skips) in [(true, false), (false, false), (false, true)] {
            let sync = Sync::of(&new).with(|request| {
                request.options.dry_run = dry_run;
                request.options.skip_dry_run = skips;
            });
            let id = submit(&engine, &sync).await;
            let view = end(&engine, id).await;
            assert_eq!(view.phase, OperationPhase::Failed, "{new}: {}", view.message);
            let result = &view.resources[0];
            assert_eq!(result.status, Some(ResultCode::SyncFailed));
            assert!(result.message.contains(words), "{}", result.message);
            assert!(
                cluster.writes().iter().all(|entry| entry.verb != Verb::Delete),
                "{:?}",
                cluster.writes()
            );
        }
        // What the server takes goes on as before, with one deletion.
        let id = submit(&engine, &Sync::of(&old)).await;
        assert_eq!(end(&engine, id).await.phase, OperationPhase::Succeeded, "{old}");
        let deletions = cluster.writes().iter().filter(|entry| entry.verb == Verb::Delete).count();
        assert_eq!((deletions, cluster.created("a")), (1, 2), "{:?}", cluster.writes());
        engine.shutdown().await;
    }
}
