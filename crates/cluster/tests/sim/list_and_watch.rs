//! Continuous observation of objects when watches end.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::stream::BoxStream;
use futures_util::{FutureExt as _, StreamExt as _};
use serde_json::json;
use tidegate_cluster::sim::{Clock, SimCluster, SimConfig};
use tidegate_cluster::{
    Call, Cluster, ClusterError, ErrorKind, Layer, PendingCall, Scope, ScopeChange, Verb, WatchBackoff,
    WatchStream, list_and_watch,
};
use tokio::sync::watch;
use tokio::time::Instant;

use super::{SSA, START, config_map, gvk, ms, request};

const BACKOFF: WatchBackoff = WatchBackoff { min: Duration::from_millis(500), max: Duration::from_secs(4) };

/// A cluster that ends its watches on command.
struct WatchEndingCluster {
    cluster: Arc<SimCluster>,
    /// Received calls: `list`, or the start version of a watch.
    calls: Mutex<Vec<String>>,
    /// A change to this value ends all open watches.
    end: watch::Sender<()>,
    /// Error to return instead of a watch.
    refusal: Mutex<Option<ErrorKind>>,
    /// True if watches end before their first event.
    is_empty: bool,
}

impl Layer for WatchEndingCluster {
    fn inner(&self) -> &dyn Cluster {
        self.cluster.as_ref()
    }

    async fn intercept<T: Send>(&self, call: Call, answer: impl PendingCall<T>) -> Result<T, ClusterError> {
        if call.verb == Verb::List {
            self.calls.lock().unwrap().push("list".to_owned());
        }
        answer.await
    }

    async fn watch(&self, scope: &Scope, resource_version: &str) -> Result<WatchStream, ClusterError> {
        self.calls.lock().unwrap().push(resource_version.to_owned());
        if let Some(kind) = self.refusal.lock().unwrap().take() {
            return Err(ClusterError::new(kind, "refused"));
        }
        let changes = self.cluster.watch(scope, resource_version).await?;
        let mut end = self.end.subscribe();
        if self.is_empty {
            return Ok(futures_util::stream::empty().boxed());
        }
        Ok(changes.take_until(async move { end.changed().await }).boxed())
    }
}

struct WatcherTest {
    cluster: Arc<WatchEndingCluster>,
    changes: BoxStream<'static, ScopeChange>,
}

impl WatcherTest {
    /// Creates a cluster that contains one object, and waits until that object is listed.
    async fn new(history: usize, is_empty: bool) -> Self {
        let config = SimConfig { history, ..SimConfig::default() };
        let cluster = Arc::new(SimCluster::in_memory(config, Clock::tokio(START)));
        let there = Arc::new(WatchEndingCluster {
            cluster,
            calls: Mutex::default(),
            end: watch::Sender::new(()),
            refusal: Mutex::default(),
            is_empty,
        });
        let changes = list_and_watch(
            Arc::clone(&there) as Arc<dyn Cluster>,
            Scope::complete_objects(gvk("ConfigMap")),
            BACKOFF,
        );
        let mut this = Self { cluster: there, changes };
        this.write_object("there", 0).await;
        assert_eq!(this.next_change().await, "listed there");
        this
    }

    async fn write_object(&self, name: &str, value: usize) -> String {
        let object = config_map(name, json!({"value": value.to_string()}));
        let written = self.cluster.cluster.apply(request(&object, SSA)).await.unwrap().object;
        written.resource_version().to_owned()
    }

    async fn next_change(&mut self) -> String {
        match self.changes.next().await.unwrap() {
            ScopeChange::Listed(objects) => {
                let names: Vec<&str> = objects.iter().map(tidegate_model::Object::name).collect();
                format!("listed {}", names.join(" "))
            }
            ScopeChange::Applied(object) => format!("applied {}", object.name()),
            ScopeChange::Deleted(object) => format!("deleted {}", object.name()),
            ScopeChange::Failing(error) => error.to_string(),
        }
    }

    /// Checks that no event is delivered, however long the test waits.
    async fn is_silent(&mut self) {
        let change = tokio::time::timeout(ms(3_600_000), self.next_change()).await;
        assert!(change.is_err(), "{change:?}");
    }

    /// Runs the list-and-watch stream until it is idle, without advancing time.
    async fn settle(&mut self) {
        for _ in 0..10 {
            assert_eq!(self.next_change().now_or_never(), None);
            tokio::task::yield_now().await;
        }
    }

    fn end_watches(&self) {
        self.cluster.end.send_replace(());
    }

    fn calls(&self) -> Vec<String> {
        self.cluster.calls.lock().unwrap().clone()
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_watch_repeats_and_loses_nothing() {
    let mut follow = WatcherTest::new(100, false).await;
    follow.settle().await;
    let started = Instant::now();
    let first = follow.write_object("first", 1).await;
    assert_eq!(follow.next_change().await, "applied first");
    follow.end_watches();
    follow.settle().await;
    assert_eq!(follow.calls().len(), 2, "the next watch starts after a pause");
    // A write between two watches.
    let second = follow.write_object("second", 1).await;
    assert_eq!(follow.next_change().await, "applied second");
    assert_eq!(started.elapsed(), BACKOFF.min);
    follow.end_watches();
    follow.is_silent().await;
    let asked = follow.calls();
    assert_eq!((asked[0].as_str(), &asked[2..]), ("list", &[first, second][..]));
}

#[tokio::test(start_paused = true)]
async fn a_watch_resumes_at_the_last_bookmark_or_deletion() {
    let mut follow = WatcherTest::new(100, false).await;
    follow.settle().await;
    let doomed = follow.cluster.cluster.get(&gvk("ConfigMap"), "default", "there").await.unwrap().unwrap();
    follow.cluster.cluster.delete(tidegate_cluster::DeleteRequest::for_object(&doomed)).await.unwrap();
    assert_eq!(follow.next_change().await, "deleted there");
    follow.end_watches();
    follow.settle().await;
    // Changes to other kinds produce a bookmark, because the cluster may drop the earlier history.
    let object = super::manifest("Secret", "other", json!({"stringData": {"a": "b"}}));
    let other = follow.cluster.cluster.apply(request(&object, SSA)).await.unwrap().object;
    follow.is_silent().await;
    follow.end_watches();
    follow.is_silent().await;
    let asked = follow.calls();
    let number = |version: &str| version.parse::<u64>().unwrap();
    assert!(number(&asked[2]) > number(doomed.resource_version()), "{asked:?}");
    assert_eq!(asked[3..], [other.resource_version()], "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn an_expired_version_leads_to_a_new_list() {
    let mut follow = WatcherTest::new(2, false).await;
    follow.settle().await;
    follow.end_watches();
    follow.settle().await;
    for value in 0..5 {
        follow.write_object("often", value).await;
    }
    assert_eq!(follow.next_change().await, "listed often there");
    follow.is_silent().await;
    let lists = follow.calls().iter().filter(|asked| *asked == "list").count();
    assert_eq!(lists, 2);
}

#[tokio::test(start_paused = true)]
async fn a_refused_watch_is_reported_and_leads_to_a_new_list() {
    let mut follow = WatcherTest::new(100, false).await;
    follow.settle().await;
    *follow.cluster.refusal.lock().unwrap() = Some(ErrorKind::Forbidden);
    follow.end_watches();
    assert!(follow.next_change().await.contains("refused"));
    assert_eq!(follow.next_change().await, "listed there");
    // An expired version is not reported as a failure.
    *follow.cluster.refusal.lock().unwrap() = Some(ErrorKind::Gone);
    follow.settle().await;
    follow.end_watches();
    assert_eq!(follow.next_change().await, "listed there");
}

#[tokio::test(start_paused = true)]
async fn lists_replace_watches_that_deliver_nothing() {
    let mut follow = WatcherTest::new(100, true).await;
    follow.write_object("first", 1).await;
    let started = Instant::now();
    assert_eq!(follow.next_change().await, "listed first there");
    assert_eq!(started.elapsed(), BACKOFF.min);
}
