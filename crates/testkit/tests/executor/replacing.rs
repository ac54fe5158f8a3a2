//! Replaced and recreated objects.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidegate_cluster::sim::{SimConfig, Verb};
use tidegate_cluster::{ApplyRequest, WriteMode};
use tidegate_executor::effects::{self, ComparisonPurpose, ObjectStatus};
use tidegate_model::{Object, OperationPhase, ResultCode, Timestamp};
use tidegate_testkit::scenario::SyncSpec;

use crate::support::{CallOutcome, FaultyCluster, Log, builder, config, submit, wait_for_end};

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

/// An existing object must not be deleted if the server would refuse its replacement. The dry run detects the
/// refusal, and so must a sync without a dry run.
#[tokio::test(start_paused = true)]
async fn nothing_is_deleted_for_an_object_that_the_server_refuses() {
    for (old, new, text) in [
        (deployment("b"), deployment("c"), "Deployment.apps \"a\" is invalid: spec.template.metadata.labels"),
        (
            binding("a"),
            binding("''"),
            "RoleBinding.rbac.authorization.k8s.io \"a\" is invalid: subjects[0].name: Required value",
        ),
    ] {
        let cluster = FaultyCluster::reliable();
        let engine = builder(&cluster, &Log::new()).start().await.unwrap();
        let options = "Replace=true,Force=true";
        let (old, new) = (with_options(&old, options), with_options(&new, options));
        let id = submit(&engine, &SyncSpec::new(&old)).await;
        assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Succeeded, "{old}");
        for (dry_run, skips) in [(true, false), (false, false), (false, true)] {
            let sync = SyncSpec::new(&new).with_request(|request| {
                request.options.dry_run = dry_run;
                request.options.skip_dry_run = skips;
            });
            let id = submit(&engine, &sync).await;
            let view = wait_for_end(&engine, id).await;
            assert_eq!(view.phase, OperationPhase::Failed, "{new}: {}", view.message);
            let result = &view.resources[0];
            assert_eq!(result.status, Some(ResultCode::SyncFailed));
            assert!(result.message.contains(text), "{}", result.message);
            assert!(
                cluster.writes().iter().all(|entry| entry.verb != Verb::Delete),
                "{:?}",
                cluster.writes()
            );
        }
        // If the server accepts the replacement, the old object is deleted once.
        let id = submit(&engine, &SyncSpec::new(&old)).await;
        assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Succeeded, "{old}");
        let deletions = cluster.writes().iter().filter(|entry| entry.verb == Verb::Delete).count();
        assert_eq!((deletions, cluster.creations_of("a")), (1, 2), "{:?}", cluster.writes());
        engine.shutdown().await;
    }
}

/// Only a creation under the actual name is decisive, because a server may reject just that name, or just
/// another one.
#[tokio::test(start_paused = true)]
async fn refusals_of_another_name_do_not_decide() {
    for (refused, outcome, deletions) in
        [("a", OperationPhase::Failed, 0), ("a-tidegate-check", OperationPhase::Succeeded, 1)]
    {
        for options in ["Replace=true,Force=true", "Force=true"] {
            let is_strict = Arc::new(AtomicBool::new(false));
            let strict = Arc::clone(&is_strict);
            let cluster = FaultyCluster::new(SimConfig::default(), move |verb, name| {
                let refuses = verb == "check" && name == refused && strict.load(Ordering::SeqCst);
                if refuses {
                    CallOutcome::RefuseWithMessage("this name is not allowed")
                } else {
                    CallOutcome::Answer
                }
            });
            let engine = builder(&cluster, &Log::new()).start().await.unwrap();
            let sync = |label: &str| {
                let selected =
                    deployment(label).replace("matchLabels: {a: b}", &format!("matchLabels: {{a: {label}}}"));
                SyncSpec::new(&with_options(&selected, options))
                    .with_request(|request| request.options.skip_dry_run = true)
            };
            let id = submit(&engine, &sync("b")).await;
            assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Succeeded, "{options}");
            is_strict.store(true, Ordering::SeqCst);
            // An update can't change the selector, so `c` requires a recreation.
            let id = submit(&engine, &sync("c")).await;
            let view = wait_for_end(&engine, id).await;
            assert_eq!(view.phase, outcome, "{refused}, {options}: {}", view.message);
            let deleted = cluster.writes().iter().filter(|entry| entry.verb == Verb::Delete).count();
            assert_eq!(deleted, deletions, "{refused}, {options}: {:?}", cluster.writes());
            engine.shutdown().await;
        }
    }
}

/// Returns the only object's status, true if it is an estimate, and the object's differences.
async fn difference(
    cluster: &FaultyCluster,
    question: ComparisonPurpose,
    sync: &SyncSpec,
) -> (ObjectStatus, bool, Vec<String>) {
    let now = Timestamp::from_millis(0);
    let comparing = effects::diff(&cluster.sim, question, &sync.request, sync.targets(), now, None);
    let objects = comparing.await.unwrap().objects;
    let [object] = &objects[..] else { panic!("{objects:?}") };
    assert_eq!(object.refused, None);
    let paths = object.difference.changes.iter().map(|change| change.path.clone());
    (object.status, object.estimate, paths.collect())
}

/// A replacement drops other managers' fields. The difference must show this before the sync, but a
/// comparison with just the manifests must not.
#[tokio::test(start_paused = true)]
async fn the_difference_shows_foreign_fields_that_a_replacement_drops() {
    for (options, estimate) in [("Replace=true", false), ("Replace=true,Force=true", true)] {
        let cluster = FaultyCluster::reliable();
        let engine = builder(&cluster, &Log::new()).start().await.unwrap();
        let sync = SyncSpec::new(&config("a", 0, &[("argocd.argoproj.io/sync-options", options)]));
        let id = submit(&engine, &sync).await;
        assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Succeeded);
        let same = (ObjectStatus::Same, estimate, Vec::new());
        assert_eq!(difference(&cluster, ComparisonPurpose::Sync, &sync).await, same, "{options}");
        let foreign = serde_json::json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"b": "2"},
            "metadata": {"name": "a", "namespace": "default", "annotations": {"theirs": "1"}},
        });
        let request =
            ApplyRequest::new(Object::try_from(foreign).unwrap(), WriteMode::Apply { force: false });
        cluster.sim.apply_as("somebody", request).await.unwrap();
        let (status, estimated, mut paths) = difference(&cluster, ComparisonPurpose::Sync, &sync).await;
        paths.sort();
        assert_eq!((status, estimated), (ObjectStatus::Modified, estimate), "{options}");
        assert_eq!(paths, ["/data/b", "/metadata/annotations/theirs"], "{options}");
        let by_manifests = difference(&cluster, ComparisonPurpose::Manifests, &sync).await;
        assert_eq!(by_manifests, (ObjectStatus::Same, false, Vec::new()), "{options}");
        // With this option, a sync would leave the object unchanged.
        let only = sync
            .clone()
            .with_request(|request| request.options.flags.push("ApplyOutOfSyncOnly=true".to_owned()));
        let left_alone = difference(&cluster, ComparisonPurpose::Sync, &only).await;
        assert_eq!(left_alone, (ObjectStatus::Same, false, Vec::new()), "{options}");
        let id = submit(&engine, &sync).await;
        assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Succeeded);
        let live = cluster.sim.objects().into_iter().find(|object| object.name() == "a").unwrap();
        assert_eq!((live.text("/data/b"), live.annotation("theirs")), ("", None), "{options}");
        assert_eq!(difference(&cluster, ComparisonPurpose::Sync, &sync).await, same, "{options}");
        engine.shutdown().await;
    }
}
