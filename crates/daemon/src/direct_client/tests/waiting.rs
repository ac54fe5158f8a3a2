//! Waiting for Applications while they change and while watches fail.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use tidegate_application::refresh::REFRESH_ANNOTATION;

use super::*;

/// Received notices.
#[derive(Default)]
struct ReceivedNotices(Mutex<Vec<String>>);

impl Notices for ReceivedNotices {
    fn warn(&self, message: &str) {
        self.0.lock().unwrap().push(message.to_owned());
    }

    fn note(&self, message: &str) {
        self.warn(message);
    }
}

/// Cluster in which watches and their initial lists fail temporarily.
struct FailingCluster {
    inner: Arc<dyn Cluster>,
    is_failing: AtomicBool,
    error_kind: ErrorKind,
}

impl Layer for FailingCluster {
    fn inner(&self) -> &dyn Cluster {
        self.inner.as_ref()
    }

    async fn intercept<T: Send>(&self, call: Call, answer: impl PendingCall<T>) -> Result<T, ClusterError> {
        if [Verb::List, Verb::Watch].contains(&call.verb) && self.is_failing.load(Ordering::Relaxed) {
            return Err(ClusterError::new(self.error_kind, "it is so"));
        }
        answer.await
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_survives_an_outage_and_a_missing_permission_to_watch() {
    for (error_kind, expected) in [(ErrorKind::Unavailable, 1), (ErrorKind::Forbidden, 0)] {
        let inner = cluster().await;
        apply(inner.as_ref(), application("argocd", "web")).await;
        let failing = Arc::new(FailingCluster {
            inner: Arc::clone(&inner),
            is_failing: AtomicBool::new(true),
            error_kind,
        });
        let direct = open_client(&(Arc::clone(&failing) as Arc<dyn Cluster>), &["argocd"]);
        let (notices, names) = (ReceivedNotices::default(), ["web".to_owned()]);
        let mut watching = direct.watch(&names, &notices);
        assert_eq!(watching.refresh().await.unwrap().len(), 1);
        watching.wait_for_change().await.unwrap();
        update_application(&inner, |app| app["metadata"]["labels"] = json!({"is": "seen"})).await;
        let is_seen = |found: &[Application]| found.iter().any(|one| one.metadata.labels.contains_key("is"));
        // During a temporary failure, changed Applications aren't read. If watching is forbidden, all
        // Applications are read at regular intervals.
        for _ in 0..4 {
            watching.wait_for_change().await.unwrap();
        }
        assert_eq!(is_seen(&watching.refresh().await.unwrap()), error_kind == ErrorKind::Forbidden);
        failing.is_failing.store(false, Ordering::Relaxed);
        while !is_seen(&watching.refresh().await.unwrap()) {
            watching.wait_for_change().await.unwrap();
        }
        assert_eq!(notices.0.lock().unwrap().len(), expected, "{error_kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_reports_changes() {
    let cluster = cluster().await;
    for (namespace, name) in [("argocd", "web"), ("argocd", "blog"), ("team", "web")] {
        apply(cluster.as_ref(), application(namespace, name)).await;
    }
    let direct = open_client(&cluster, &["argocd"]);
    let names = ["web".to_owned()];
    let notices = ReceivedNotices::default();
    let mut watching = direct.watch(&names, &notices);
    let found = watching.refresh().await.unwrap();
    assert_eq!(found.len(), 1);
    let known = direct.find_one("web").await.unwrap();
    direct.refresh(&known, true).await.unwrap();
    let refreshed =
        |found: &[Application]| found.iter().any(|one| one.annotation(REFRESH_ANNOTATION) == Some("hard"));
    while !refreshed(&watching.refresh().await.unwrap()) {
        watching.wait_for_change().await.unwrap();
    }
    direct.delete(&direct.find_one("web").await.unwrap(), Cascade::Orphan.into(), "").await.unwrap();
    while !watching.refresh().await.unwrap().is_empty() {
        watching.wait_for_change().await.unwrap();
    }
    // The name of an Application outside the selected namespaces matches if it contains the namespace.
    let names = ["team/web".to_owned(), "blog".to_owned()];
    assert_eq!(direct.watch(&names, &notices).refresh().await.unwrap().len(), 2);
    assert_eq!(direct.watch(&[], &notices).refresh().await.unwrap().len(), 1);
}
