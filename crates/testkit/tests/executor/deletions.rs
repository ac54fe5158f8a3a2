//! Applications that are deleted.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tidegate_cluster::sim::Verb;
use tidegate_cluster::{
    ApplyRequest, Cluster, ClusterError, Layer, LiveAnswer, LiveQuery, MissingRight, Reach, Unsearched,
    WriteMode,
};
use tidegate_executor::Engine;
use tidegate_model::{Cascade, Destination, GroupKind, Gvk, LiveObject, Object, OperationPhase, annotations};
use tidegate_testkit::scenario::Sync;

use crate::support::{Log, Moody, builder, config, end, submit, until};

fn deletion(manifests: &str) -> Sync {
    Sync::of(manifests).with(|request| {
        request.options.prune = true;
        request.deletion = Some(Cascade::Foreground);
    })
}

fn deleted(cluster: &Moody) -> Vec<String> {
    let audit = cluster.sim.audit();
    let done = audit.into_iter().filter(|entry| entry.verb == Verb::Delete && !entry.dry_run);
    done.map(|entry| entry.name).collect()
}

/// A process was killed while a hook ran, and nobody went on with its operation: the hook goes with its application, and the
/// finalizer that kept it visible does not keep it for ever.
#[tokio::test(start_paused = true)]
async fn what_an_interrupted_sync_left_goes_too() {
    let cluster = Moody::calm();
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let manifests = config("a", 0, &[]);
    let first = submit(&engine, &Sync::of(&manifests)).await;
    end(&engine, first).await;
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
    // It was there, and the log does not know it: it is found where the application deploys.
    let id = submit(&engine, &deletion(&manifests)).await;
    let view = end(&engine, id).await;
    assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
    let objects = cluster.sim.objects();
    assert!(objects.iter().all(|object| object.kind() != "ConfigMap"), "{objects:?}");
}

/// Where a sync has searched the cluster, nobody does it again; and no inventory has hooks.
#[tokio::test(start_paused = true)]
async fn a_hook_that_its_policy_has_kept_goes_too() {
    let cluster = Moody::calm();
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let hook = config("hook", 1, &[(annotations::HOOK, "Sync")]);
    let manifests = [config("a", 0, &[]), hook].concat();
    let first = submit(&engine, &Sync::of(&manifests).with(|request| request.options.prune = true)).await;
    assert_eq!(end(&engine, first).await.phase, OperationPhase::Succeeded);
    let there = |name: &str| cluster.sim.objects().iter().any(|object| object.name() == name);
    assert!(there("a") && there("hook"));
    let id = submit(&engine, &deletion(&manifests)).await;
    assert_eq!(end(&engine, id).await.phase, OperationPhase::Succeeded);
    assert_eq!(deleted(&cluster), ["hook", "a"]);
    assert!(!there("a") && !there("hook"));
}

#[tokio::test(start_paused = true)]
async fn nothing_goes_before_all_is_confirmed() {
    let cluster = Moody::calm();
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let asks = [("argocd.argoproj.io/sync-options", "Delete=confirm")];
    // The one that asks would go last.
    let manifests = [config("a", 0, &asks), config("b", 1, &[]), config("c", 2, &[])].concat();
    let first = submit(&engine, &Sync::of(&manifests)).await;
    end(&engine, first).await;
    let id = submit(&engine, &deletion(&manifests)).await;
    until(&engine, id, |view, _| view.message == "waiting for pruning confirmation of /ConfigMap/a").await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(deleted(&cluster), Vec::<String>::new());
    engine.confirm_prune(id, "ann").await.unwrap();
    assert_eq!(end(&engine, id).await.phase, OperationPhase::Succeeded);
    assert_eq!(deleted(&cluster), ["c", "b", "a"]);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_does_not_go_from_under_a_hook_that_comes_after_it() {
    let hook = |name: &str, phase: &str| {
        let inside = format!("name: {name}\n  namespace: store");
        config(name, 0, &[("argocd.argoproj.io/hook", phase)]).replace(&format!("name: {name}"), &inside)
    };
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: store}\n---\n";
    for (phase, outcome) in [("PreDelete", OperationPhase::Succeeded), ("PostDelete", OperationPhase::Failed)]
    {
        let cluster = Moody::calm();
        let engine = builder(&cluster, &Log::new()).start().await.unwrap();
        let manifests = [namespace.to_owned(), config("a", 0, &[]), hook("farewell", phase)].concat();
        let first = submit(&engine, &Sync::of(&manifests)).await;
        assert_eq!(end(&engine, first).await.phase, OperationPhase::Succeeded);
        let id = submit(&engine, &deletion(&manifests)).await;
        let view = end(&engine, id).await;
        assert_eq!(view.phase, outcome, "{phase}: {}", view.message);
        if outcome == OperationPhase::Failed {
            assert!(view.message.contains("keep it with the sync option Delete=false"), "{}", view.message);
            assert_eq!(deleted(&cluster), Vec::<String>::new());
        }
    }
}

/// A cluster of which some kinds cannot be searched.
struct Blind {
    inner: Arc<Moody>,
    kinds: Mutex<Vec<&'static str>>,
}

impl Blind {
    fn to(kinds: &[&'static str]) -> Arc<Self> {
        Arc::new(Self { inner: Moody::calm(), kinds: Mutex::new(kinds.to_vec()) })
    }

    fn sees(&self) {
        self.kinds.lock().unwrap().clear();
    }

    async fn engine(self: &Arc<Self>, log: &Log) -> Engine {
        let cluster = Arc::clone(self) as Arc<dyn Cluster>;
        let builder = Engine::builder(Arc::new(log.clone())).cluster(Destination::Simulated, cluster);
        builder.start().await.unwrap()
    }
}

impl Layer for Blind {
    fn inner(&self) -> &dyn Cluster {
        self.inner.as_ref()
    }

    async fn live(&self, query: &LiveQuery) -> Result<LiveAnswer, ClusterError> {
        let mut answer = Cluster::live(self.inner.as_ref(), query).await?;
        if query.reach == Reach::Places {
            return Ok(answer);
        }
        let kinds = self.kinds.lock().unwrap().clone();
        let is_named = |object: &LiveObject| {
            let key = object.key();
            let named = query.named.iter().chain(&query.inventory);
            named.into_iter().any(|(gvk, _, name)| gvk.kind == key.kind && *name == key.name)
        };
        answer.objects.retain(|one| is_named(one) || !kinds.contains(&one.key().kind.as_str()));
        answer.unsearched.extend(kinds.into_iter().map(|kind| Unsearched {
            kind: GroupKind::new("", kind),
            is_beyond: false,
            missing: BTreeSet::from([MissingRight {
                namespace: "default".to_owned(),
                resource: format!("{}s", kind.to_lowercase()),
                verb: "list",
            }]),
            message: "forbidden".to_owned(),
        }));
        Ok(answer)
    }
}

/// What is tracked by an application `shop`, and that no operation of ours has put there.
async fn taken_over(cluster: &Moody, kind: &str, namespace: &str, name: &str) {
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

/// It is not taken for one that has nothing: nobody would find its objects again.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_looked_for_keeps_an_application_from_being_deleted() {
    let (cluster, log) = (Blind::to(&["Secret", "Node"]), Log::new());
    for (kind, name) in [("ConfigMap", "a"), ("Secret", "b"), ("Secret", "c")] {
        taken_over(&cluster.inner, kind, "default", name).await;
    }
    let secret = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: b}\n";
    let manifests = [&config("a", 0, &[]), secret].concat();
    let engine = cluster.engine(&log).await;
    let id = submit(&engine, &deletion(&manifests)).await;
    let view = end(&engine, id).await;
    assert_eq!(view.phase, OperationPhase::Failed, "{}", view.message);
    for words in ["Secret", "list secrets in namespace default", "nothing is deleted"] {
        assert!(view.message.contains(words), "{words}: {}", view.message);
    }
    assert!(!view.message.contains("Node"), "it has none of those: {}", view.message);
    assert!(deleted(&cluster.inner).is_empty());
    cluster.sees();
    let id = submit(&engine, &deletion(&manifests)).await;
    let view = end(&engine, id).await;
    assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
    let mut gone = deleted(&cluster.inner);
    gone.sort_unstable();
    assert_eq!(gone, ["a", "b", "c"]);
}

/// A search that was not allowed is none: what it did not find is looked for again.
#[tokio::test(start_paused = true)]
async fn a_search_that_was_refused_is_made_again() {
    let (cluster, log) = (Blind::to(&["Secret"]), Log::new());
    taken_over(&cluster.inner, "Secret", "default", "old").await;
    let engine = cluster.engine(&log).await;
    let secret = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: b}\n";
    let sync =
        Sync::of(&[&config("a", 0, &[]), secret].concat()).with(|request| request.options.prune = true);
    for (sees, expected) in [(false, &[][..]), (true, &["old"][..])] {
        if sees {
            cluster.sees();
        }
        let id = submit(&engine, &sync).await;
        let view = end(&engine, id).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
        assert_eq!(deleted(&cluster.inner), expected);
        let warned = view.warnings.iter().find(|one| one.code == "not-searched");
        assert_eq!(
            warned.is_some_and(|one| one.message.contains("list secrets in namespace default")),
            !sees
        );
    }
}

/// Objects of the cluster scope and in other namespaces, which a mark alone does not prove to be its own: those of its
/// manifests and those that it is known to have go, and what else stays is named.
#[tokio::test(start_paused = true)]
async fn what_an_application_is_known_to_have_goes_and_what_stays_is_named() {
    let (cluster, log) = (Moody::calm(), Log::new());
    for (kind, namespace, name) in [
        ("Namespace", "", "in-git"),
        ("Namespace", "", "in-status"),
        ("Namespace", "", "nowhere"),
        ("ConfigMap", "in-status", "far"),
        ("ConfigMap", "default", "a"),
    ] {
        taken_over(&cluster, kind, namespace, name).await;
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
    let view = end(&engine, id).await;
    assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
    let mut gone = deleted(&cluster);
    gone.sort_unstable();
    assert_eq!(gone, ["a", "far", "in-git", "in-status"]);
    assert!(view.message.starts_with("successfully deleted; left alone: "), "{}", view.message);
    for one in [
        "ConfigMap default/kept (helm.sh/resource-policy: keep)",
        "Namespace nowhere (found elsewhere, requires adopting)",
    ] {
        assert!(view.message.contains(one), "{} lacks {one}", view.message);
    }
}
