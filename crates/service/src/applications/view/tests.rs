use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate_cluster::{
    ApplyRequest, Call, DeleteRequest, ErrorKind, Propagation, Verb, WriteMode, sim::SimCluster,
};
use tidegate_model::{GroupKind, KindInfo};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::*;
use crate::simulated;

/// Counts what is asked, but for lists and watches, which may be forbidden, and for the version, which is asked with what is served.
struct Asked {
    sim: SimCluster,
    calls: AtomicUsize,
    forbids: bool,
}

impl Layer for Asked {
    fn inner(&self) -> &dyn Cluster {
        &self.sim
    }

    async fn around<T: Send>(
        &self,
        call: Call,
        answer: impl Future<Output = Result<T, ClusterError>> + Send,
    ) -> Result<T, ClusterError> {
        match call.verb {
            Verb::List if self.forbids => Err(ClusterError::new(ErrorKind::Forbidden, "not for you")),
            Verb::List | Verb::Watch => answer.await,
            Verb::Discover if call.name == "version" => answer.await,
            _ => {
                self.calls.fetch_add(1, Ordering::SeqCst);
                answer.await
            }
        }
    }
}

struct Stage {
    asked: Arc<Asked>,
    view: Arc<View>,
    told: UnboundedReceiver<News>,
}

impl Stage {
    fn new(forbids: bool) -> Self {
        let asked = Arc::new(Asked { sim: simulated::empty(), calls: AtomicUsize::new(0), forbids });
        let (tell, told) = unbounded_channel();
        let cluster = Arc::clone(&asked) as Arc<dyn Cluster>;
        let view = Arc::new(View::new(&cluster, move |news| drop(tell.send(news))));
        Self { asked, view, told }
    }

    fn seen(&self, wanted: &[&str]) -> Viewed {
        let wanted = wanted.iter().map(|kind| Gvk::new("tools.example", "v1", *kind)).collect();
        Viewed { cluster: Arc::clone(&self.asked) as Arc<dyn Cluster>, view: Arc::clone(&self.view), wanted }
    }

    /// How many calls it takes to know what is served, and whether a kind is.
    async fn discovers(&self, wanted: &[&str]) -> (usize, bool) {
        let before = self.asked.calls.load(Ordering::SeqCst);
        let found = Cluster::discover(&self.seen(wanted)).await.unwrap();
        let is_there = found.get(&Gvk::new("tools.example", "v1", "Gadget").group_kind()).is_some();
        (self.asked.calls.load(Ordering::SeqCst) - before, is_there)
    }

    async fn write(&self, object: serde_json::Value) {
        let object = Object::try_from(object).unwrap();
        let request = ApplyRequest::new(object, WriteMode::Apply { force: true });
        self.asked.sim.apply(request).await.unwrap();
    }

    async fn install(&self) {
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "gadgets.tools.example"},
            "spec": {
                "group": "tools.example", "scope": "Namespaced",
                "names": {"kind": "Gadget", "plural": "gadgets", "singular": "gadget", "listKind": "GadgetList"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                    {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
            },
        });
        self.write(definition).await;
        while self.asked.sim.discover().await.unwrap().namespaced(&gadgets()).is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn looks(&self, name: &str) -> (usize, Option<Object>) {
        let before = self.asked.calls.load(Ordering::SeqCst);
        let found = Cluster::get(&self.seen(&[]), &namespaces(), "", name).await.unwrap();
        (self.asked.calls.load(Ordering::SeqCst) - before, found)
    }
}

fn gadgets() -> GroupKind {
    GroupKind::new("tools.example", "Gadget")
}

/// Long enough for watches to begin, or to be tried.
async fn a_while() {
    tokio::time::sleep(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_served_is_asked_once_and_again_when_a_definition_has_changed() {
    let mut stage = Stage::new(false);
    a_while().await;
    assert_eq!(stage.discovers(&[]).await, (1, false));
    tokio::time::sleep(WATCHED_FOR / 2).await;
    assert_eq!(stage.discovers(&[]).await, (0, false));
    // Somebody wants a kind that is not among it: it may have come.
    assert_eq!(stage.discovers(&["Gadget"]).await, (1, false));
    assert_eq!(stage.discovers(&["Gadget"]).await, (0, false), "it was asked just now");
    tokio::time::sleep(AT_ONCE).await;
    assert_eq!(stage.discovers(&["Gadget"]).await, (1, false));
    stage.install().await;
    assert_eq!(stage.told.recv().await, Some(News::Group("tools.example".to_owned())));
    a_while().await;
    assert_eq!(stage.discovers(&[]).await, (1, true));
    // A server may take its time: for a while it is not believed for long.
    a_while().await;
    assert_eq!(stage.discovers(&[]).await, (1, true));
    tokio::time::sleep(SETTLES).await;
    assert_eq!(stage.discovers(&["Gadget"]).await, (1, true));
    tokio::time::sleep(WATCHED_FOR / 2).await;
    assert_eq!(stage.discovers(&["Gadget"]).await, (0, true));
    tokio::time::sleep(WATCHED_FOR).await;
    assert_eq!(stage.discovers(&["Gadget"]).await, (1, true), "it is asked again after all");
}

#[tokio::test(start_paused = true)]
async fn where_nothing_may_be_watched_it_is_asked_again_soon() {
    let stage = Stage::new(true);
    a_while().await;
    assert_eq!(stage.discovers(&[]).await, (1, false));
    tokio::time::sleep(UNWATCHED_FOR / 2).await;
    assert_eq!(stage.discovers(&[]).await, (0, false));
    stage.install().await;
    tokio::time::sleep(UNWATCHED_FOR).await;
    assert_eq!(stage.discovers(&[]).await, (1, true));
    // Namespaces are asked for each time.
    for _ in 0..3 {
        assert_eq!(stage.looks("web").await, (1, None));
    }
}

#[tokio::test(start_paused = true)]
async fn a_namespace_is_known_by_its_watch_and_told_when_it_goes() {
    let mut stage = Stage::new(false);
    a_while().await;
    assert_eq!(stage.looks("web").await, (0, None));
    let web = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}});
    stage.write(web.clone()).await;
    assert_eq!(stage.told.recv().await, Some(News::Namespace("web".to_owned())));
    let (calls, found) = stage.looks("web").await;
    let live = stage.asked.sim.get(&namespaces(), "", "web").await.unwrap().unwrap();
    let found = found.unwrap();
    assert_eq!((calls, found.uid(), found.is_deleting()), (0, live.uid(), false));
    // Another label is nobody's business; that it goes is.
    let mut labelled = web;
    labelled["metadata"]["labels"] = json!({"a": "b"});
    stage.write(labelled).await;
    let held = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "held", "namespace": "web", "finalizers": ["example.com/held"]}});
    stage.write(held).await;
    let delete = DeleteRequest {
        gvk: namespaces(),
        namespace: String::new(),
        name: "web".to_owned(),
        uid: String::new(),
        resource_version: String::new(),
        propagation: Propagation::Background,
        dry_run: false,
        operation: None,
    };
    stage.asked.sim.delete(delete).await.unwrap();
    assert_eq!(stage.told.recv().await, Some(News::Namespace("web".to_owned())));
    let (calls, found) = stage.looks("web").await;
    assert_eq!((calls, found.unwrap().is_deleting()), (0, true));
}

#[tokio::test(start_paused = true)]
async fn charts_are_told_of_kinds_as_they_come() {
    let stage = Stage::new(false);
    a_while().await;
    let has = async |kind: &str| {
        let known = stage.view.capabilities(stage.asked.as_ref()).await.unwrap();
        known.api_versions.binary_search(&kind.to_owned()).is_ok()
    };
    assert!(has("v1").await && has("v1/ConfigMap").await && has("apps/v1/Deployment").await);
    assert!(!has("tools.example/v1/Gadget").await);
    stage.install().await;
    a_while().await;
    assert!(has("tools.example/v1/Gadget").await && has("tools.example/v1").await);
}

/// Nobody waits once more for what has just not answered.
#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_silent_is_not_asked_again_at_once() {
    let stage = Stage::new(true);
    let error = || ClusterError::new(ErrorKind::Timeout, "no answer within 36 s");
    let slow = async {
        tokio::time::sleep(Duration::from_secs(36)).await;
        Err::<(), _>(error())
    };
    assert_eq!(stage.view.ask(slow).await, Err(error()));
    let begun = Instant::now();
    let none = BTreeSet::new();
    assert_eq!(stage.view.discovery(stage.asked.as_ref(), &none).await.unwrap_err(), error());
    assert_eq!(stage.view.capabilities(stage.asked.as_ref()).await.unwrap_err(), error());
    assert_eq!(begun.elapsed(), Duration::ZERO);
    tokio::time::sleep(SILENT_FOR).await;
    stage.view.discovery(stage.asked.as_ref(), &none).await.unwrap();
    stage.view.capabilities(stage.asked.as_ref()).await.unwrap();
    // What one account may not do says nothing of others.
    let forbidden = async { Err::<(), _>(ClusterError::new(ErrorKind::Forbidden, "not for you")) };
    stage.view.ask(forbidden).await.unwrap_err();
    stage.view.ask(async { Ok(()) }).await.unwrap();
}

/// A chart makes less where a kind is not served, and what it made before would be deleted.
#[test]
fn a_group_that_is_silent_is_served_as_before() {
    let served = |group: &str, kinds: &[&str]| Discovery {
        kinds: kinds
            .iter()
            .map(|kind| {
                let info = KindInfo { versions: vec!["v1".to_owned()], namespaced: true };
                (GroupKind::new(group, *kind), info)
            })
            .collect(),
        silent: BTreeSet::new(),
    };
    let none = Capabilities::default();
    let before = capabilities(&served("a.example", &["One", "Two"]), String::new(), &none);
    assert_eq!(before.api_versions, ["a.example/v1", "a.example/v1/One", "a.example/v1/Two"]);
    let silent = BTreeSet::from([("a.example".to_owned(), "v1".to_owned())]);
    let other = Discovery { silent, ..served("b.example", &["Three"]) };
    let now = capabilities(&other, "v1.36.1".to_owned(), &before);
    let both = ["a.example/v1", "a.example/v1/One", "a.example/v1/Two", "b.example/v1", "b.example/v1/Three"];
    assert_eq!(
        (now.kube_version.as_str(), now.api_versions.iter().map(String::as_str).collect()),
        ("v1.36.1", both.to_vec())
    );
    let gone = capabilities(&served("b.example", &["Three"]), String::new(), &now);
    assert_eq!(gone.api_versions, ["b.example/v1", "b.example/v1/Three"]);
    let silent = BTreeSet::from([("c.example".to_owned(), "v1".to_owned())]);
    let unknown = capabilities(&Discovery { silent, ..Discovery::default() }, String::new(), &gone);
    assert_eq!(unknown.api_versions, ["c.example/v1"], "nobody has ever known by which kinds");
}
