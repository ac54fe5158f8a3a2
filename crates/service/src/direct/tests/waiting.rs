//! Waiting for applications, while they change and while the cluster does not tell of them.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use tidegate_application::refresh::REFRESH_ANNOTATION;

use super::*;

/// What whoever waits was told.
#[derive(Default)]
struct Told(Mutex<Vec<String>>);

impl Notices for Told {
    fn warn(&self, message: &str) {
        self.0.lock().unwrap().push(message.to_owned());
    }

    fn note(&self, message: &str) {
        self.warn(message);
    }
}

/// A cluster whose watches, and the lists before them, fail for a while.
struct Failing {
    inner: Arc<dyn Cluster>,
    fails: AtomicBool,
    kind: ErrorKind,
}

impl Layer for Failing {
    fn inner(&self) -> &dyn Cluster {
        self.inner.as_ref()
    }

    async fn around<T: Send>(
        &self,
        call: Call,
        answer: impl Future<Output = Result<T, ClusterError>> + Send,
    ) -> Result<T, ClusterError> {
        if [Verb::List, Verb::Watch].contains(&call.verb) && self.fails.load(Ordering::Relaxed) {
            return Err(ClusterError::new(self.kind, "it is so"));
        }
        answer.await
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_outlives_an_outage_and_a_missing_right_to_watch() {
    for (kind, expected) in [(ErrorKind::Unavailable, 1), (ErrorKind::Forbidden, 0)] {
        let inner = cluster().await;
        apply(inner.as_ref(), application("argocd", "web")).await;
        let failing = Arc::new(Failing { inner: Arc::clone(&inner), fails: AtomicBool::new(true), kind });
        let direct = direct(&(Arc::clone(&failing) as Arc<dyn Cluster>), &["argocd"]);
        let (told, names) = (Told::default(), ["web".to_owned()]);
        let mut watching = direct.watch(&names, &told);
        assert_eq!(watching.look().await.unwrap().len(), 1);
        watching.changed().await.unwrap();
        change(&inner, |app| app["metadata"]["labels"] = json!({"is": "seen"})).await;
        let is_seen = |found: &[Application]| found.iter().any(|one| one.metadata.labels.contains_key("is"));
        // While it fails, nothing is read that a watch would have told of; without the right to watch, all is read.
        for _ in 0..4 {
            watching.changed().await.unwrap();
        }
        assert_eq!(is_seen(&watching.look().await.unwrap()), kind == ErrorKind::Forbidden);
        failing.fails.store(false, Ordering::Relaxed);
        while !is_seen(&watching.look().await.unwrap()) {
            watching.changed().await.unwrap();
        }
        assert_eq!(told.0.lock().unwrap().len(), expected, "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_is_told_of_changes() {
    let cluster = cluster().await;
    for (namespace, name) in [("argocd", "web"), ("argocd", "blog"), ("team", "web")] {
        apply(cluster.as_ref(), application(namespace, name)).await;
    }
    let direct = direct(&cluster, &["argocd"]);
    let names = ["web".to_owned()];
    let told = Told::default();
    let mut watching = direct.watch(&names, &told);
    let found = watching.look().await.unwrap();
    assert_eq!(found.len(), 1);
    let known = direct.one("web").await.unwrap();
    direct.refresh(&known, true).await.unwrap();
    let refreshed =
        |found: &[Application]| found.iter().any(|one| one.annotation(REFRESH_ANNOTATION) == Some("hard"));
    while !refreshed(&watching.look().await.unwrap()) {
        watching.changed().await.unwrap();
    }
    direct.delete(&direct.one("web").await.unwrap(), Cascade::Orphan, "").await.unwrap();
    while !watching.look().await.unwrap().is_empty() {
        watching.changed().await.unwrap();
    }
    // One of another namespace comes where it is named.
    let names = ["team/web".to_owned(), "blog".to_owned()];
    assert_eq!(direct.watch(&names, &told).look().await.unwrap().len(), 2);
    assert_eq!(direct.watch(&[], &told).look().await.unwrap().len(), 1);
}
