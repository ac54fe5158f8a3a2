//! Deletion of applications.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tidegate_cluster::sim::Verb;
use tidegate_cluster::{
    ApplyRequest, Cluster, ClusterError, IncompleteSearch, Layer, LiveQuery, LiveResult, MissingRight,
    SearchScope, WriteMode,
};
use tidegate_executor::Engine;
use tidegate_model::{Cascade, Destination, GroupKind, Gvk, LiveObject, Object, OperationPhase, annotations};
use tidegate_testkit::scenario::SyncSpec;

use crate::support::{FaultyCluster, Log, builder, config, submit, wait_for_end, wait_until};

fn deletion(manifests: &str) -> SyncSpec {
    SyncSpec::new(manifests).with_request(|request| {
        request.options.prune = true;
        request.deletion = Some(Cascade::Foreground);
    })
}

fn deleted_names(cluster: &FaultyCluster) -> Vec<String> {
    let audit = cluster.sim.audit();
    let done = audit.into_iter().filter(|entry| entry.verb == Verb::Delete && !entry.dry_run);
    done.map(|entry| entry.name).collect()
}

/// A process was killed during a hook, and its operation wasn't resumed. The hook must be deleted with its
/// application, and its finalizer must not block the deletion forever.
#[tokio::test(start_paused = true)]
async fn the_hook_of_an_interrupted_sync_is_deleted_too() {
    let cluster = FaultyCluster::reliable();
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let manifests = config("a", 0, &[]);
    let first = submit(&engine, &SyncSpec::new(&manifests)).await;
    wait_for_end(&engine, first).await;
    let left = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": "left", "namespace": "default", "finalizers": [annotations::HOOK_FINALIZER],
            "annotations": {
                annotations::HOOK: "PreSync",
                annotations::TRACKING_ID: "shop:/ConfigMap:default/left",
                annotations::OPERATION_ID: "0190aaaa-0000-7000-8000-000000000000",
            },
        },
    });
    let left = Object::try_from(left).unwrap();
    cluster.sim.apply(ApplyRequest::new(left, WriteMode::Apply { force: true })).await.unwrap();
    // The hook exists but isn't in the log. The deletion must find it by searching the application's
    // namespaces.
    let id = submit(&engine, &deletion(&manifests)).await;
    let view = wait_for_end(&engine, id).await;
    assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
    let objects = cluster.sim.objects();
    assert!(objects.iter().all(|object| object.kind() != "ConfigMap"), "{objects:?}");
}

/// After a sync has searched the cluster, later plans don't search again, and the inventory doesn't contain
/// hooks.
#[tokio::test(start_paused = true)]
async fn a_hook_kept_by_its_policy_is_deleted_too() {
    let cluster = FaultyCluster::reliable();
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let hook = config("hook", 1, &[(annotations::HOOK, "Sync")]);
    let manifests = [config("a", 0, &[]), hook].concat();
    let first =
        submit(&engine, &SyncSpec::new(&manifests).with_request(|request| request.options.prune = true))
            .await;
    assert_eq!(wait_for_end(&engine, first).await.phase, OperationPhase::Succeeded);
    let there = |name: &str| cluster.sim.objects().iter().any(|object| object.name() == name);
    assert!(there("a") && there("hook"));
    let id = submit(&engine, &deletion(&manifests)).await;
    assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Succeeded);
    assert_eq!(deleted_names(&cluster), ["hook", "a"]);
    assert!(!there("a") && !there("hook"));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_deleted_before_everything_is_confirmed() {
    let cluster = FaultyCluster::reliable();
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let asks = [("argocd.argoproj.io/sync-options", "Delete=confirm")];
    // Only `a` requires a confirmation, and it would be deleted last.
    let manifests = [config("a", 0, &asks), config("b", 1, &[]), config("c", 2, &[])].concat();
    let first = submit(&engine, &SyncSpec::new(&manifests)).await;
    wait_for_end(&engine, first).await;
    let id = submit(&engine, &deletion(&manifests)).await;
    wait_until(&engine, id, |view, _| view.message == "waiting for pruning confirmation of /ConfigMap/a")
        .await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(deleted_names(&cluster), Vec::<String>::new());
    engine.confirm_prune(id, "ann").await.unwrap();
    assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Succeeded);
    assert_eq!(deleted_names(&cluster), ["c", "b", "a"]);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_is_not_deleted_before_a_later_hook_in_it() {
    let hook = |name: &str, phase: &str| {
        let inside = format!("name: {name}\n  namespace: store");
        config(name, 0, &[("argocd.argoproj.io/hook", phase)]).replace(&format!("name: {name}"), &inside)
    };
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: store}\n---\n";
    for (phase, outcome) in [("PreDelete", OperationPhase::Succeeded), ("PostDelete", OperationPhase::Failed)]
    {
        let cluster = FaultyCluster::reliable();
        let engine = builder(&cluster, &Log::new()).start().await.unwrap();
        let manifests = [namespace.to_owned(), config("a", 0, &[]), hook("farewell", phase)].concat();
        let first = submit(&engine, &SyncSpec::new(&manifests)).await;
        assert_eq!(wait_for_end(&engine, first).await.phase, OperationPhase::Succeeded);
        let id = submit(&engine, &deletion(&manifests)).await;
        let view = wait_for_end(&engine, id).await;
        assert_eq!(view.phase, outcome, "{phase}: {}", view.message);
        if outcome == OperationPhase::Failed {
            assert!(
                view.message.contains("keep the namespace with the sync option Delete=false"),
                "{}",
                view.message
            );
            assert_eq!(deleted_names(&cluster), Vec::<String>::new());
        }
    }
}

/// Cluster with kinds that can't be searched.
struct UnsearchableCluster {
    inner: Arc<FaultyCluster>,
    kinds: Mutex<Vec<&'static str>>,
}

impl UnsearchableCluster {
    fn with_unsearchable(kinds: &[&'static str]) -> Arc<Self> {
        Arc::new(Self { inner: FaultyCluster::reliable(), kinds: Mutex::new(kinds.to_vec()) })
    }

    fn allow_searches(&self) {
        self.kinds.lock().unwrap().clear();
    }

    async fn engine(self: &Arc<Self>, log: &Log) -> Engine {
        let cluster = Arc::clone(self) as Arc<dyn Cluster>;
        let builder = Engine::builder(Arc::new(log.clone())).cluster(Destination::Simulated, cluster);
        builder.start().await.unwrap()
    }
}

impl Layer for UnsearchableCluster {
    fn inner(&self) -> &dyn Cluster {
        self.inner.as_ref()
    }

    async fn list_live(&self, query: &LiveQuery) -> Result<LiveResult, ClusterError> {
        let mut answer = Cluster::list_live(self.inner.as_ref(), query).await?;
        if query.search_scope == SearchScope::KnownObjects {
            return Ok(answer);
        }
        let kinds = self.kinds.lock().unwrap().clone();
        let is_named = |object: &LiveObject| {
            let key = object.key();
            let named = query.named.iter().chain(&query.inventory);
            named.into_iter().any(|(gvk, _, name)| gvk.kind == key.kind && *name == key.name)
        };
        answer.objects.retain(|one| is_named(one) || !kinds.contains(&one.key().kind.as_str()));
        answer.incomplete_searches.extend(kinds.into_iter().map(|kind| IncompleteSearch {
            kind: GroupKind::new("", kind),
            has_searched_namespaces: false,
            missing_rights: BTreeSet::from([MissingRight {
                namespace: "default".to_owned(),
                resource: format!("{}s", kind.to_lowercase()),
                verb: "list",
            }]),
            message: "forbidden".to_owned(),
        }));
        Ok(answer)
    }
}

/// Creates an object that the application `shop` tracks but no operation created.
async fn create_tracked_object(cluster: &FaultyCluster, kind: &str, namespace: &str, name: &str) {
    let home = if namespace.is_empty() { "default" } else { namespace };
    let mut object = json!({
        "apiVersion": "v1", "kind": kind,
        "metadata": {
            "name": name, "annotations": {annotations::TRACKING_ID: format!("shop:/{kind}:{home}/{name}")},
        },
    });
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = namespace.into();
    }
    let object = Object::try_from(object).unwrap();
    cluster.sim.apply(ApplyRequest::new(object, WriteMode::Apply { force: true })).await.unwrap();
}

/// A failed search must not make the application look empty, because its objects would never be found again.
#[tokio::test(start_paused = true)]
async fn an_application_is_not_deleted_if_its_objects_cannot_be_searched() {
    let (cluster, log) = (UnsearchableCluster::with_unsearchable(&["Secret", "Node"]), Log::new());
    for (kind, name) in [("ConfigMap", "a"), ("Secret", "b"), ("Secret", "c")] {
        create_tracked_object(&cluster.inner, kind, "default", name).await;
    }
    let secret = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: b}\n";
    let manifests = [&config("a", 0, &[]), secret].concat();
    let engine = cluster.engine(&log).await;
    let id = submit(&engine, &deletion(&manifests)).await;
    let view = wait_for_end(&engine, id).await;
    assert_eq!(view.phase, OperationPhase::Failed, "{}", view.message);
    for text in ["Secret", "list secrets in namespace default", "nothing is deleted"] {
        assert!(view.message.contains(text), "{text}: {}", view.message);
    }
    assert!(!view.message.contains("Node"), "it contains none of these: {}", view.message);
    assert!(deleted_names(&cluster.inner).is_empty());
    cluster.allow_searches();
    let id = submit(&engine, &deletion(&manifests)).await;
    let view = wait_for_end(&engine, id).await;
    assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
    let mut gone = deleted_names(&cluster.inner);
    gone.sort_unstable();
    assert_eq!(gone, ["a", "b", "c"]);
}

/// A forbidden search doesn't count, so a later plan must search again.
#[tokio::test(start_paused = true)]
async fn a_refused_search_is_repeated() {
    let (cluster, log) = (UnsearchableCluster::with_unsearchable(&["Secret"]), Log::new());
    create_tracked_object(&cluster.inner, "Secret", "default", "old").await;
    let engine = cluster.engine(&log).await;
    let secret = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: b}\n";
    let sync = SyncSpec::new(&[&config("a", 0, &[]), secret].concat())
        .with_request(|request| request.options.prune = true);
    for (sees, expected) in [(false, &[][..]), (true, &["old"][..])] {
        if sees {
            cluster.allow_searches();
        }
        let id = submit(&engine, &sync).await;
        let view = wait_for_end(&engine, id).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
        assert_eq!(deleted_names(&cluster.inner), expected);
        let warned = view.warnings.iter().find(|one| one.code == "not-searched");
        assert_eq!(
            warned.is_some_and(|one| one.message.contains("list secrets in namespace default")),
            !sees
        );
    }
}

/// A mark alone doesn't prove ownership in other namespaces or of cluster-scoped objects. Objects in the
/// manifests or the inventory must be deleted, and the message must contain the remaining ones.
#[tokio::test(start_paused = true)]
async fn known_objects_are_deleted_and_remaining_ones_are_named() {
    let (cluster, log) = (FaultyCluster::reliable(), Log::new());
    for (kind, namespace, name) in [
        ("Namespace", "", "in-git"),
        ("Namespace", "", "in-status"),
        ("Namespace", "", "nowhere"),
        ("ConfigMap", "in-status", "far"),
        ("ConfigMap", "default", "a"),
    ] {
        create_tracked_object(&cluster, kind, namespace, name).await;
    }
    let kept = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "kept", "namespace": "default", "annotations": {
            annotations::HELM_RESOURCE_POLICY: "keep", annotations::TRACKING_ID: "shop:/ConfigMap:default/kept",
        }},
    });
    let kept = Object::try_from(kept).unwrap();
    cluster.sim.apply(ApplyRequest::new(kept, WriteMode::Apply { force: true })).await.unwrap();
    let engine = builder(&cluster, &log).start().await.unwrap();
    let namespace = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: in-git}\n";
    let sync = deletion(&[&config("a", 0, &[]), namespace].concat());
    let mut targets = sync.targets();
    for (kind, namespace, name) in [("Namespace", "", "in-status"), ("ConfigMap", "in-status", "far")] {
        targets.owned.insert((Gvk::new("", "v1", kind), namespace.to_owned(), name.to_owned()));
    }
    let id = engine.submit(sync.request.clone(), targets).await.unwrap();
    let view = wait_for_end(&engine, id).await;
    assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
    let mut gone = deleted_names(&cluster);
    gone.sort_unstable();
    assert_eq!(gone, ["a", "far", "in-git", "in-status"]);
    assert!(view.message.starts_with("successfully deleted; left in place: "), "{}", view.message);
    for one in [
        "ConfigMap default/kept (helm.sh/resource-policy: keep)",
        "Namespace nowhere (found elsewhere, requires adoption)",
    ] {
        assert!(view.message.contains(one), "{} lacks {one}", view.message);
    }
}
