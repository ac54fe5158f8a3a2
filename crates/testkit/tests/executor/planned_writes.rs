//! Writes of planned objects: missing kinds, retained hooks, replacements, and objects that are being
//! deleted.

use std::time::Duration;

use tidegate_cluster::sim::Verb;
use tidegate_cluster::{Cluster as _, FinalizerRemoval};
use tidegate_lifecycle::operation::OperationView;
use tidegate_model::{OperationPhase, ResultCode};
use tidegate_testkit::scenario::{SyncSpec, retry_policy};

use crate::support::{FaultyCluster, Log, builder, config, hook, submit, wait_for_end, wait_until};

const SKIP: (&str, &str) = ("argocd.argoproj.io/sync-options", "SkipDryRunOnMissingResource=true");

fn widget(options: &str) -> String {
    format!(
        "apiVersion: example.com/v1\nkind: Widget\nmetadata:\n  name: one\n  annotations: {{{options}}}\nspec: {{size: 1}}\n---\n"
    )
}

fn definition() -> String {
    "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: widgets.example.com}\nspec:\n  \
     group: example.com\n  scope: Namespaced\n  names: {kind: Widget, plural: widgets}\n  versions:\n  - {name: v1, served: \
     true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}\n---\n"
        .to_owned()
}

async fn run(cluster: &std::sync::Arc<FaultyCluster>, sync: &SyncSpec) -> OperationView {
    let engine = builder(cluster, &Log::new()).start().await.unwrap();
    let id = submit(&engine, sync).await;
    let view = wait_for_end(&engine, id).await;
    engine.shutdown().await;
    view
}

/// No definition provides the kind, so the operation must not wait for one.
#[tokio::test(start_paused = true)]
async fn a_kind_without_a_definition_is_an_ordinary_failure() {
    let cluster = FaultyCluster::reliable();
    let skip = format!("{}: {}", SKIP.0, SKIP.1);
    let sync = SyncSpec::new(&format!("{}{}", widget(&skip), hook("rescue", "SyncFail", &[])))
        .with_request(|request| request.retry = retry_policy(1));
    let began = tokio::time::Instant::now();
    let view = run(&cluster, &sync).await;
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert_eq!(view.phase, OperationPhase::Failed);
    assert!(view.message.contains("completed unsuccessfully, reason: "), "{}", view.message);
    assert!(view.message.ends_with("(retried 1 times)."), "{}", view.message);
    let result = view.resources.iter().find(|result| result.kind == "Widget").unwrap();
    assert_eq!(result.status, Some(ResultCode::SyncFailed));
    assert_eq!(cluster.creations_of("rescue"), 1);
}

/// The operation must not wait for a definition that serves a different version or has conflicting names
/// either.
#[tokio::test(start_paused = true)]
async fn a_definition_that_cannot_serve_the_kind_fails_the_wave_at_once() {
    let skip = format!("{}: {}", SKIP.0, SKIP.1);
    let other_version = definition().replace("name: v1", "name: v2");
    let refused = definition().replace(
        "{name: widgets.example.com}",
        "{name: widgets.example.com, annotations: {sim.tidegate.dev/outcome: fail}}",
    );
    for (definition, kind, text) in [
        (
            other_version,
            "Widget",
            "; CustomResourceDefinition widgets.example.com does not serve v1; served versions: v2",
        ),
        (
            refused,
            "CustomResourceDefinition",
            "the names in CustomResourceDefinition widgets.example.com are not accepted: the simulation is configured to refuse this definition",
        ),
    ] {
        let cluster = FaultyCluster::reliable();
        let began = tokio::time::Instant::now();
        let view = run(&cluster, &SyncSpec::new(&format!("{definition}{}", widget(&skip)))).await;
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        assert_eq!(view.phase, OperationPhase::Failed, "{text}");
        let result = view.resources.iter().find(|result| result.kind == kind).unwrap();
        assert_eq!(result.status, Some(ResultCode::SyncFailed), "{result:?}");
        assert!(result.message.ends_with(text), "{}", result.message);
        assert_eq!(cluster.creations_of("one"), 0);
    }
}

/// The first attempt's plan is invalid. Another operation creates the definition before the second attempt.
#[tokio::test(start_paused = true)]
async fn an_external_definition_makes_a_retry_succeed() {
    let cluster = FaultyCluster::reliable();
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let sync = SyncSpec::new(&format!("{}{}", widget(""), config("a", 0, &[]))).with_request(|request| {
        request.retry = retry_policy(3);
        request.retry.backoff.duration = Duration::from_secs(20);
    });
    let id = submit(&engine, &sync).await;
    wait_until(&engine, id, |view, _| view.message.contains("Retrying attempt #1")).await;
    let (view, _) = engine.inspect(id).await.unwrap();
    let [result] = view.resources.as_slice() else { panic!("{:?}", view.resources) };
    assert_eq!((result.kind.as_str(), result.status), ("Widget", Some(ResultCode::SyncFailed)));
    assert!(result.message.contains("could not find example.com/Widget"), "{}", result.message);
    assert_eq!(cluster.writes().len(), 0);
    let other =
        SyncSpec::new(&definition()).with_request(|request| request.application = "definitions".into());
    assert_eq!(run(&cluster, &other).await.phase, OperationPhase::Succeeded);
    let view = wait_for_end(&engine, id).await;
    assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
    assert_eq!((cluster.creations_of("one"), cluster.creations_of("a"), view.retry_count), (1, 1, 1));
}

/// A retained hook is overwritten. A change to an immutable field must fail the dry run, or recreate the hook
/// on request.
#[tokio::test(start_paused = true)]
async fn force_recreates_a_kept_hook() {
    let keep = ("argocd.argoproj.io/hook-delete-policy", "HookFailed");
    let force = ("argocd.argoproj.io/sync-options", "Force=true");
    let migrate = |image: &str, more: &[(&str, &str)]| {
        let annotations = [&[keep], more].concat();
        SyncSpec::new(&hook("migrate", "PreSync", &annotations).replace("busybox", image))
    };
    let cluster = FaultyCluster::reliable();
    assert_eq!(run(&cluster, &migrate("m:1", &[])).await.phase, OperationPhase::Succeeded);
    let refused = run(&cluster, &migrate("m:2", &[])).await;
    let begins = "one or more objects failed to apply (dry run), reason: ";
    assert!(refused.message.starts_with(begins), "{}", refused.message);
    let forced = run(&cluster, &migrate("m:2", &[force])).await;
    assert_eq!(forced.phase, OperationPhase::Succeeded, "{}", forced.message);
    assert_eq!(cluster.creations_of("migrate"), 2);
    assert_eq!(forced.resources[0].images, ["m:2"]);
}

#[tokio::test(start_paused = true)]
async fn a_replacement_creates_a_missing_object() {
    let replace = ("argocd.argoproj.io/sync-options", "Replace=true");
    let namespace = |label: &str| {
        format!(
            "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: store\n  labels: {{a: {label}}}\n  annotations: {{{}: {}}}\n---\n",
            replace.0, replace.1
        )
    };
    let cluster = FaultyCluster::reliable();
    let first =
        run(&cluster, &SyncSpec::new(&format!("{}{}", config("a", 0, &[replace]), namespace("one")))).await;
    assert_eq!(first.phase, OperationPhase::Succeeded, "{}", first.message);
    let verbs: Vec<_> = cluster.writes().iter().map(|entry| (entry.verb, entry.code)).collect();
    assert_eq!(verbs, [(Verb::Create, 201), (Verb::Create, 201)]);
    let message = |view: &OperationView, kind: &str| {
        view.resources.iter().find(|result| result.kind == kind).unwrap().message.clone()
    };
    assert_eq!(message(&first, "ConfigMap"), "configmap/a created");
    let second =
        run(&cluster, &SyncSpec::new(&format!("{}{}", config("a", 0, &[replace]), namespace("two")))).await;
    assert_eq!(message(&second, "Namespace"), "Namespace/store updated");
    assert_eq!(message(&second, "ConfigMap"), "configmap/a replaced");
}

#[tokio::test(start_paused = true)]
async fn an_object_being_deleted_is_not_deleted_again() {
    let cluster = FaultyCluster::reliable();
    let stuck = config("old", 0, &[("sim.tidegate.dev/outcome", "stuck-deleting")]);
    assert_eq!(run(&cluster, &SyncSpec::new(&stuck)).await.phase, OperationPhase::Succeeded);
    let prune = SyncSpec::new(&config("new", 0, &[])).with_request(|request| {
        request.options.prune = true;
        request.deadline = Some(std::time::Duration::from_secs(60));
    });
    for _ in 0..2 {
        let view = run(&cluster, &prune).await;
        assert_eq!(view.phase, OperationPhase::Failed, "{}", view.message);
        let old = view.resources.iter().find(|result| result.name == "old").unwrap();
        assert_eq!((old.status, old.hook_phase), (None, Some(OperationPhase::Failed)));
        let reason = "not deleted when the operation's deadline passed: deletion requested; waits for finalizer sim.tidegate.dev/stuck-deleting";
        assert_eq!(old.message, reason);
        let new = view.resources.iter().find(|result| result.name == "new").unwrap();
        assert_eq!(new.status, Some(ResultCode::Synced), "a last wave applies at once");
    }
    let deletions = cluster.writes().into_iter().filter(|entry| entry.verb == Verb::Delete);
    assert_eq!(deletions.count(), 1);
}

/// Deletion and recreation. While a finalizer keeps the old object, the operation must report the finalizer.
/// It must delete the object only once.
#[tokio::test(start_paused = true)]
async fn a_recreation_waits_until_the_old_object_is_gone() {
    let held = ("sim.tidegate.dev/outcome", "stuck-deleting");
    let forced = |options: &str| config("a", 0, &[("argocd.argoproj.io/sync-options", options), held]);
    let immutable = |value: &str, options: &str| {
        forced(options).replace("data: {a: b}", &format!("data: {{a: {value}}}\nimmutable: true"))
    };
    let binding = |role: &str| {
        format!(
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata:\n  name: a\n  annotations: \
             {{sim.tidegate.dev/outcome: stuck-deleting}}\nroleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, \
             name: {role}}}\n"
        )
    };
    for (old, new, kind) in [
        (forced("Force=true"), forced("Replace=true,Force=true"), "ConfigMap"),
        (immutable("b", "Force=true"), immutable("c", "Force=true"), "ConfigMap"),
        (binding("view"), binding("edit"), "RoleBinding"),
    ] {
        let cluster = FaultyCluster::reliable();
        assert_eq!(run(&cluster, &SyncSpec::new(&old)).await.phase, OperationPhase::Succeeded);
        let engine = builder(&cluster, &Log::new()).start().await.unwrap();
        let id = submit(&engine, &SyncSpec::new(&new)).await;
        let what = format!("{kind} default/a");
        let reason = "deletion requested; waits for finalizer sim.tidegate.dev/stuck-deleting";
        wait_until(&engine, id, |_, explanation| explanation.contains(&what) && explanation.contains(reason))
            .await;
        // However long the wait, the deletion isn't requested again.
        tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
        let object = cluster.sim.objects().into_iter().find(|object| object.kind() == kind).unwrap();
        let removal = FinalizerRemoval::for_object(&object, "sim.tidegate.dev/stuck-deleting");
        cluster.sim.remove_finalizer(removal).await.unwrap();
        let view = wait_for_end(&engine, id).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{kind}: {}", view.message);
        let count =
            |verb| cluster.writes().iter().filter(|entry| entry.verb == verb && entry.code < 300).count();
        assert_eq!(
            (count(Verb::Delete), cluster.creations_of("a")),
            (1, 2),
            "{kind}: {:?}",
            cluster.writes()
        );
        let found = cluster.sim.objects().into_iter().find(|found| found.kind() == kind).unwrap();
        assert_ne!(found.uid(), object.uid(), "{kind}");
    }
}
