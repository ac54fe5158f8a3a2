//! Objects that are followed, while watches end.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::stream::BoxStream;
use futures_util::{FutureExt as _, StreamExt as _};
use serde_json::json;
use tidegate_cluster::sim::{Clock, SimCluster, SimConfig};
use tidegate_cluster::{
    Call, Cluster, ClusterError, ErrorKind, Followed, Layer, Pauses, Scope, Verb, WatchStream, follow,
};
use tokio::sync::watch;
use tokio::time::Instant;

use super::{SSA, START, config_map, gvk, ms, request};

const PAUSES: Pauses = Pauses { min: Duration::from_millis(500), max: Duration::from_secs(4) };

/// A cluster that ends its watches when it is told to.
struct Ending {
    cluster: Arc<SimCluster>,
    /// What it was asked: `list`, or from which version a watch.
    asked: Mutex<Vec<String>>,
    /// Watches that are open end whenever this changes.
    end: watch::Sender<()>,
    /// Instead of a watch: this.
    refusal: Mutex<Option<ErrorKind>>,
    /// Watches end before they have told anything.
    is_empty: bool,
}

impl Layer for Ending {
    fn inner(&self) -> &dyn Cluster {
        self.cluster.as_ref()
    }

    async fn around<T: Send>(
        &self,
        call: Call,
        answer: impl Future<Output = Result<T, ClusterError>> + Send,
    ) -> Result<T, ClusterError> {
        if call.verb == Verb::List {
            self.asked.lock().unwrap().push("list".to_owned());
        }
        answer.await
    }

    async fn watch(&self, scope: &Scope, resource_version: &str) -> Result<WatchStream, ClusterError> {
        self.asked.lock().unwrap().push(resource_version.to_owned());
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

struct Follow {
    there: Arc<Ending>,
    followed: BoxStream<'static, Followed>,
}

impl Follow {
    /// Of a cluster with one object, which is listed.
    async fn new(history: usize, is_empty: bool) -> Self {
        let config = SimConfig { history, ..SimConfig::default() };
        let cluster = Arc::new(SimCluster::in_memory(config, Clock::tokio(START)));
        let there = Arc::new(Ending {
            cluster,
            asked: Mutex::default(),
            end: watch::Sender::new(()),
            refusal: Mutex::default(),
            is_empty,
        });
        let followed = follow(Arc::clone(&there) as Arc<dyn Cluster>, Scope::all(gvk("ConfigMap")), PAUSES);
        let mut this = Self { there, followed };
        this.write("there", 0).await;
        assert_eq!(this.next().await, "listed there");
        this
    }

    async fn write(&self, name: &str, value: usize) -> String {
        let object = config_map(name, json!({"value": value.to_string()}));
        let written = self.there.cluster.apply(request(&object, SSA)).await.unwrap().object;
        written.resource_version().to_owned()
    }

    async fn next(&mut self) -> String {
        match self.followed.next().await.unwrap() {
            Followed::Listed(objects) => {
                let names: Vec<&str> = objects.iter().map(tidegate_model::Object::name).collect();
                format!("listed {}", names.join(" "))
            }
            Followed::Applied(object) => format!("applied {}", object.name()),
            Followed::Deleted(object) => format!("deleted {}", object.name()),
            Followed::Failing(error) => error.to_string(),
        }
    }

    /// Nothing is told, for as long as anybody may wait.
    async fn is_silent(&mut self) {
        let told = tokio::time::timeout(ms(3_600_000), self.next()).await;
        assert!(told.is_err(), "{told:?}");
    }

    /// Lets the follower go as far as it does by itself, in no time.
    async fn settle(&mut self) {
        for _ in 0..10 {
            assert_eq!(self.next().now_or_never(), None);
            tokio::task::yield_now().await;
        }
    }

    fn end_watches(&self) {
        self.there.end.send_replace(());
    }

    fn asked(&self) -> Vec<String> {
        self.there.asked.lock().unwrap().clone()
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_watch_has_ended_nothing_is_told_anew_and_nothing_is_lost() {
    let mut follow = Follow::new(100, false).await;
    follow.settle().await;
    let begun = Instant::now();
    let first = follow.write("first", 1).await;
    assert_eq!(follow.next().await, "applied first");
    follow.end_watches();
    follow.settle().await;
    assert_eq!(follow.asked().len(), 2, "the next one comes after a pause");
    // Between the two.
    let second = follow.write("second", 1).await;
    assert_eq!(follow.next().await, "applied second");
    assert_eq!(begun.elapsed(), PAUSES.min);
    follow.end_watches();
    follow.is_silent().await;
    let asked = follow.asked();
    assert_eq!((asked[0].as_str(), &asked[2..]), ("list", &[first, second][..]));
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_from_the_last_bookmark_or_from_the_deletion() {
    let mut follow = Follow::new(100, false).await;
    follow.settle().await;
    let doomed = follow.there.cluster.get(&gvk("ConfigMap"), "default", "there").await.unwrap().unwrap();
    follow.there.cluster.delete(tidegate_cluster::DeleteRequest::of(&doomed)).await.unwrap();
    assert_eq!(follow.next().await, "deleted there");
    follow.end_watches();
    follow.settle().await;
    // What another kind does is told in a bookmark: the cluster may forget what came before.
    let object = super::manifest("Secret", "other", json!({"stringData": {"a": "b"}}));
    let other = follow.there.cluster.apply(request(&object, SSA)).await.unwrap().object;
    follow.is_silent().await;
    follow.end_watches();
    follow.is_silent().await;
    let asked = follow.asked();
    let number = |version: &str| version.parse::<u64>().unwrap();
    assert!(number(&asked[2]) > number(doomed.resource_version()), "{asked:?}");
    assert_eq!(asked[3..], [other.resource_version()], "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_too_old_is_listed_again() {
    let mut follow = Follow::new(2, false).await;
    follow.settle().await;
    follow.end_watches();
    follow.settle().await;
    for value in 0..5 {
        follow.write("often", value).await;
    }
    assert_eq!(follow.next().await, "listed often there");
    follow.is_silent().await;
    let lists = follow.asked().iter().filter(|asked| *asked == "list").count();
    assert_eq!(lists, 2);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_refused_is_told_and_listed_again() {
    let mut follow = Follow::new(100, false).await;
    follow.settle().await;
    *follow.there.refusal.lock().unwrap() = Some(ErrorKind::Forbidden);
    follow.end_watches();
    assert!(follow.next().await.contains("refused"));
    assert_eq!(follow.next().await, "listed there");
    // And that it is gone is no trouble.
    *follow.there.refusal.lock().unwrap() = Some(ErrorKind::Gone);
    follow.settle().await;
    follow.end_watches();
    assert_eq!(follow.next().await, "listed there");
}

#[tokio::test(start_paused = true)]
async fn where_watches_tell_nothing_lists_do() {
    let mut follow = Follow::new(100, true).await;
    follow.write("first", 1).await;
    let begun = Instant::now();
    assert_eq!(follow.next().await, "listed first there");
    assert_eq!(begun.elapsed(), PAUSES.min);
}
