//! Objects that are replaced as a whole, or deleted and made anew.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidegate_cluster::sim::{SimConfig, Verb};
use tidegate_cluster::{ApplyRequest, WriteMode};
use tidegate_executor::effects::{self, ObjectStatus, Question};
use tidegate_model::{Object, OperationPhase, ResultCode, Timestamp};
use tidegate_testkit::scenario::Sync;

use crate::support::{Fate, Log, Moody, builder, config, end, submit};

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

/// It is the creation under its own name that counts: a server may refuse just that, or just another.
#[tokio::test(start_paused = true)]
async fn what_a_server_says_of_another_name_decides_nothing() {
    for (refused, outcome, deletions) in
        [("a", OperationPhase::Failed, 0), ("a-tidegate-check", OperationPhase::Succeeded, 1)]
    {
        for options in ["Replace=true,Force=true", "Force=true"] {
            let is_strict = Arc::new(AtomicBool::new(false));
            let strict = Arc::clone(&is_strict);
            let cluster = Moody::new(SimConfig::default(), move |verb, name| {
                let refuses = verb == "check" && name == refused && strict.load(Ordering::SeqCst);
                if refuses { Fate::Say("this name is not allowed") } else { Fate::Answer }
            });
            let engine = builder(&cluster, &Log::new()).start().await.unwrap();
            let sync = |label: &str| {
                let selected =
                    deployment(label).replace("matchLabels: {a: b}", &format!("matchLabels: {{a: {label}}}"));
                Sync::of(&with_options(&selected, options))
                    .with(|request| request.options.skip_dry_run = true)
            };
            let id = submit(&engine, &sync("b")).await;
            assert_eq!(end(&engine, id).await.phase, OperationPhase::Succeeded, "{options}");
            is_strict.store(true, Ordering::SeqCst);
            // Its selector cannot be changed.
            let id = submit(&engine, &sync("c")).await;
            let view = end(&engine, id).await;
            assert_eq!(view.phase, outcome, "{refused}, {options}: {}", view.message);
            let deleted = cluster.writes().iter().filter(|entry| entry.verb == Verb::Delete).count();
            assert_eq!(deleted, deletions, "{refused}, {options}: {:?}", cluster.writes());
            engine.shutdown().await;
        }
    }
}

/// The status of the only object, whether that is an estimate, and where it differs.
async fn difference(cluster: &Moody, question: Question, sync: &Sync) -> (ObjectStatus, bool, Vec<String>) {
    let asked = (question, &sync.request);
    let now = Timestamp::from_millis(0);
    let objects = effects::diff(&cluster.sim, asked, sync.targets(), now, None).await.unwrap().objects;
    let [object] = &objects[..] else { panic!("{objects:?}") };
    assert_eq!(object.refused, None);
    let paths = object.difference.changes.iter().map(|change| change.path.clone());
    (object.status, object.estimate, paths.collect())
}

/// What others wrote to an object goes with its replacement, and the difference says so before. For whoever asks for the
/// manifests alone it is no difference.
#[tokio::test(start_paused = true)]
async fn the_difference_shows_what_a_replacement_takes_from_others() {
    for (options, estimate) in [("Replace=true", false), ("Replace=true,Force=true", true)] {
        let cluster = Moody::calm();
        let engine = builder(&cluster, &Log::new()).start().await.unwrap();
        let sync = Sync::of(&config("a", 0, &[("argocd.argoproj.io/sync-options", options)]));
        let id = submit(&engine, &sync).await;
        assert_eq!(end(&engine, id).await.phase, OperationPhase::Succeeded);
        let same = (ObjectStatus::Same, estimate, Vec::new());
        assert_eq!(difference(&cluster, Question::Sync, &sync).await, same, "{options}");
        let foreign = serde_json::json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"b": "2"},
            "metadata": {"name": "a", "namespace": "default", "annotations": {"theirs": "1"}},
        });
        let request =
            ApplyRequest::new(Object::try_from(foreign).unwrap(), WriteMode::Apply { force: false });
        cluster.sim.apply_as("somebody", request).await.unwrap();
        let (status, estimated, mut paths) = difference(&cluster, Question::Sync, &sync).await;
        paths.sort();
        assert_eq!((status, estimated), (ObjectStatus::Modified, estimate), "{options}");
        assert_eq!(paths, ["/data/b", "/metadata/annotations/theirs"], "{options}");
        let by_manifests = difference(&cluster, Question::Manifests, &sync).await;
        assert_eq!(by_manifests, (ObjectStatus::Same, false, Vec::new()), "{options}");
        // This sync would leave it alone.
        let only =
            sync.clone().with(|request| request.options.flags.push("ApplyOutOfSyncOnly=true".to_owned()));
        let left_alone = difference(&cluster, Question::Sync, &only).await;
        assert_eq!(left_alone, (ObjectStatus::Same, false, Vec::new()), "{options}");
        let id = submit(&engine, &sync).await;
        assert_eq!(end(&engine, id).await.phase, OperationPhase::Succeeded);
        let live = cluster.sim.objects().into_iter().find(|object| object.name() == "a").unwrap();
        assert_eq!((live.text("/data/b"), live.annotation("theirs")), ("", None), "{options}");
        assert_eq!(difference(&cluster, Question::Sync, &sync).await, same, "{options}");
        engine.shutdown().await;
    }
}
