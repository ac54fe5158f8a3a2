use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate_cluster::{
    ApplyRequest, Call, DeleteRequest, ErrorKind, PendingCall, Propagation, Verb, WriteMode, sim::SimCluster,
};
use tidegate_model::{GroupKind, KindInfo};
use tidegate_state::simulated;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::*;
use crate::testing::gadget_definition;

/// Cluster that counts requests, except lists, watches and version requests. Lists and watches can be
/// forbidden.
struct CountingCluster {
    sim: SimCluster,
    calls: AtomicUsize,
    forbids_watches: bool,
}

impl Layer for CountingCluster {
    fn inner(&self) -> &dyn Cluster {
        &self.sim
    }

    async fn intercept<T: Send>(&self, call: Call, answer: impl PendingCall<T>) -> Result<T, ClusterError> {
        match call.verb {
            Verb::List if self.forbids_watches => Err(ClusterError::new(ErrorKind::Forbidden, "not for you")),
            Verb::List | Verb::Watch => answer.await,
            Verb::Discover if call.name == "version" => answer.await,
            _ => {
                self.calls.fetch_add(1, Ordering::SeqCst);
                answer.await
            }
        }
    }
}

struct Fixture {
    cluster: Arc<CountingCluster>,
    discovery: Arc<DiscoveryCache>,
    changes: UnboundedReceiver<ClusterChange>,
}

impl Fixture {
    fn new(forbids_watches: bool) -> Self {
        let counting = Arc::new(CountingCluster {
            sim: simulated::empty_cluster(),
            calls: AtomicUsize::new(0),
            forbids_watches,
        });
        let (tell, changes) = unbounded_channel();
        let cluster = Arc::clone(&counting) as Arc<dyn Cluster>;
        let discovery = Arc::new(DiscoveryCache::new(&cluster, move |news| drop(tell.send(news))));
        Self { cluster: counting, discovery, changes }
    }

    fn cached_cluster(&self, kinds: &[&str]) -> CachedCluster {
        let required_kinds = kinds.iter().map(|kind| Gvk::new("tools.example", "v1", *kind)).collect();
        CachedCluster {
            cluster: Arc::clone(&self.cluster) as Arc<dyn Cluster>,
            discovery: Arc::clone(&self.discovery),
            required_kinds,
        }
    }

    /// Returns the number of discovery requests. Also returns true if the `Gadget` kind exists.
    async fn count_discovery(&self, kinds: &[&str]) -> (usize, bool) {
        let before = self.cluster.calls.load(Ordering::SeqCst);
        let found = Cluster::discover(&self.cached_cluster(kinds)).await.unwrap();
        let is_there = found.get(&Gvk::new("tools.example", "v1", "Gadget").group_kind()).is_some();
        (self.cluster.calls.load(Ordering::SeqCst) - before, is_there)
    }

    async fn write(&self, object: serde_json::Value) {
        let object = Object::try_from(object).unwrap();
        let request = ApplyRequest::new(object, WriteMode::Apply { force: true });
        self.cluster.sim.apply(request).await.unwrap();
    }

    async fn install(&self) {
        self.write(gadget_definition()).await;
        while self.cluster.sim.discover().await.unwrap().namespaced(&gadget_kind()).is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn count_namespace_requests(&self, name: &str) -> (usize, Option<Object>) {
        let before = self.cluster.calls.load(Ordering::SeqCst);
        let found = Cluster::get(&self.cached_cluster(&[]), &namespace_kind(), "", name).await.unwrap();
        (self.cluster.calls.load(Ordering::SeqCst) - before, found)
    }
}

fn gadget_kind() -> GroupKind {
    GroupKind::new("tools.example", "Gadget")
}

/// Waits until the watches have started or failed.
async fn await_watches() {
    tokio::time::sleep(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn discovery_is_requested_once_and_again_after_a_definition_changes() {
    let mut stage = Fixture::new(false);
    await_watches().await;
    assert_eq!(stage.count_discovery(&[]).await, (1, false));
    tokio::time::sleep(WATCHED_AGE_MAX / 2).await;
    assert_eq!(stage.count_discovery(&[]).await, (0, false));
    // The missing kind may have been added in the meantime.
    assert_eq!(stage.count_discovery(&["Gadget"]).await, (1, false));
    assert_eq!(stage.count_discovery(&["Gadget"]).await, (0, false), "the discovery data was read just now");
    tokio::time::sleep(SHARED_AGE_MAX).await;
    assert_eq!(stage.count_discovery(&["Gadget"]).await, (1, false));
    stage.install().await;
    assert_eq!(stage.changes.recv().await, Some(ClusterChange::Group("tools.example".to_owned())));
    await_watches().await;
    assert_eq!(stage.count_discovery(&[]).await, (1, true));
    // A server may take some time to update its discovery data, so the data is cached only briefly after a
    // change.
    await_watches().await;
    assert_eq!(stage.count_discovery(&[]).await, (1, true));
    tokio::time::sleep(SETTLING_TIME).await;
    assert_eq!(stage.count_discovery(&["Gadget"]).await, (1, true));
    tokio::time::sleep(WATCHED_AGE_MAX / 2).await;
    assert_eq!(stage.count_discovery(&["Gadget"]).await, (0, true));
    tokio::time::sleep(WATCHED_AGE_MAX).await;
    assert_eq!(stage.count_discovery(&["Gadget"]).await, (1, true), "the discovery data is read again");
}

#[tokio::test(start_paused = true)]
async fn discovery_is_requested_again_soon_where_watches_are_forbidden() {
    let stage = Fixture::new(true);
    await_watches().await;
    assert_eq!(stage.count_discovery(&[]).await, (1, false));
    tokio::time::sleep(UNWATCHED_AGE_MAX / 2).await;
    assert_eq!(stage.count_discovery(&[]).await, (0, false));
    stage.install().await;
    tokio::time::sleep(UNWATCHED_AGE_MAX).await;
    assert_eq!(stage.count_discovery(&[]).await, (1, true));
    // Without a watch, namespaces are queried each time.
    for _ in 0..3 {
        assert_eq!(stage.count_namespace_requests("web").await, (1, None));
    }
}

#[tokio::test(start_paused = true)]
async fn a_namespace_is_known_by_its_watch_and_its_deletion_is_reported() {
    let mut stage = Fixture::new(false);
    await_watches().await;
    assert_eq!(stage.count_namespace_requests("web").await, (0, None));
    let web = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}});
    stage.write(web.clone()).await;
    assert_eq!(stage.changes.recv().await, Some(ClusterChange::Namespace("web".to_owned())));
    let (calls, found) = stage.count_namespace_requests("web").await;
    let live = stage.cluster.sim.get(&namespace_kind(), "", "web").await.unwrap().unwrap();
    let found = found.unwrap();
    assert_eq!((calls, found.uid(), found.is_deleting()), (0, live.uid(), false));
    // A change to an unrelated label doesn't affect any Application. The deletion of the namespace does.
    let mut labelled = web;
    labelled["metadata"]["labels"] = json!({"a": "b"});
    stage.write(labelled).await;
    let held = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "held", "namespace": "web", "finalizers": ["example.com/held"]}});
    stage.write(held).await;
    let delete = DeleteRequest {
        gvk: namespace_kind(),
        namespace: String::new(),
        name: "web".to_owned(),
        uid: String::new(),
        resource_version: String::new(),
        propagation: Propagation::Background,
        dry_run: false,
        operation: None,
    };
    stage.cluster.sim.delete(delete).await.unwrap();
    assert_eq!(stage.changes.recv().await, Some(ClusterChange::Namespace("web".to_owned())));
    let (calls, found) = stage.count_namespace_requests("web").await;
    assert_eq!((calls, found.unwrap().is_deleting()), (0, true));
}

#[tokio::test(start_paused = true)]
async fn charts_get_new_kinds_as_they_are_installed() {
    let stage = Fixture::new(false);
    await_watches().await;
    let has = async |kind: &str| {
        let known = stage.discovery.capabilities(stage.cluster.as_ref()).await.unwrap();
        known.api_versions.binary_search(&kind.to_owned()).is_ok()
    };
    assert!(has("v1").await && has("v1/ConfigMap").await && has("apps/v1/Deployment").await);
    assert!(!has("tools.example/v1/Gadget").await);
    stage.install().await;
    await_watches().await;
    assert!(has("tools.example/v1/Gadget").await && has("tools.example/v1").await);
}

/// Callers don't wait again for a cluster that has just failed to respond.
#[tokio::test(start_paused = true)]
async fn an_unresponsive_cluster_is_not_contacted_again_immediately() {
    let stage = Fixture::new(true);
    let error = || ClusterError::new(ErrorKind::Timeout, "no answer within 36 s");
    let slow = async {
        tokio::time::sleep(Duration::from_secs(36)).await;
        Err::<(), _>(error())
    };
    assert_eq!(stage.discovery.send_request(slow).await, Err(error()));
    let started = Instant::now();
    let none = BTreeSet::new();
    assert_eq!(stage.discovery.discovery(stage.cluster.as_ref(), &none).await.unwrap_err(), error());
    assert_eq!(stage.discovery.capabilities(stage.cluster.as_ref()).await.unwrap_err(), error());
    assert_eq!(started.elapsed(), Duration::ZERO);
    tokio::time::sleep(UNREACHABLE_RETRY_DELAY).await;
    stage.discovery.discovery(stage.cluster.as_ref(), &none).await.unwrap();
    stage.discovery.capabilities(stage.cluster.as_ref()).await.unwrap();
    // One account's permissions don't affect other accounts.
    let forbidden = async { Err::<(), _>(ClusterError::new(ErrorKind::Forbidden, "not for you")) };
    stage.discovery.send_request(forbidden).await.unwrap_err();
    stage.discovery.send_request(async { Ok(()) }).await.unwrap();
}

/// Without the kinds, a chart would render fewer objects, and the sync would delete the missing objects.
#[test]
fn an_unresponsive_group_keeps_its_kinds() {
    let served = |group: &str, kinds: &[&str]| Discovery {
        kinds: kinds
            .iter()
            .map(|kind| {
                let info = KindInfo { versions: vec!["v1".to_owned()], namespaced: true };
                (GroupKind::new(group, *kind), info)
            })
            .collect(),
        unavailable_versions: BTreeSet::new(),
    };
    let none = Capabilities::default();
    let before = merge_capabilities(&served("a.example", &["One", "Two"]), String::new(), &none);
    assert_eq!(before.api_versions, ["a.example/v1", "a.example/v1/One", "a.example/v1/Two"]);
    let silent = BTreeSet::from([("a.example".to_owned(), "v1".to_owned())]);
    let other = Discovery { unavailable_versions: silent, ..served("b.example", &["Three"]) };
    let now = merge_capabilities(&other, "v1.36.1".to_owned(), &before);
    let both = ["a.example/v1", "a.example/v1/One", "a.example/v1/Two", "b.example/v1", "b.example/v1/Three"];
    assert_eq!(
        (now.kube_version.as_str(), now.api_versions.iter().map(String::as_str).collect()),
        ("v1.36.1", both.to_vec())
    );
    let gone = merge_capabilities(&served("b.example", &["Three"]), String::new(), &now);
    assert_eq!(gone.api_versions, ["b.example/v1", "b.example/v1/Three"]);
    let silent = BTreeSet::from([("c.example".to_owned(), "v1".to_owned())]);
    let unknown = merge_capabilities(
        &Discovery { unavailable_versions: silent, ..Discovery::default() },
        String::new(),
        &gone,
    );
    assert_eq!(unknown.api_versions, ["c.example/v1"], "the kinds were never recorded");
}
