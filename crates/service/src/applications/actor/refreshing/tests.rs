//! Whoever asks for a comparison is answered when it is shown.

use serde_json::json;
use tidegate_application::refresh::SKIP_ANNOTATION;
use tidegate_model::argo::Application;

use crate::applications::testing::{Served, application, key, manifests};

fn revision(app: &Application) -> String {
    app.status.sync.as_ref().map(|sync| sync.revision.clone()).unwrap_or_default()
}

/// Whatever it does at the time: one comparison that began before does not answer for the commit that came after.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_committed_before_is_shown_then() {
    let mut served = Served::new(&[("web", &manifests("web", "0", "1ms"))]).await;
    for value in 1..=20 {
        let commit = served.commit("web", &manifests("web", &value.to_string(), "1ms"));
        served.serving().refresh("web", value % 2 == 0).await.unwrap();
        let shown = served.serving().application(&key("web")).unwrap();
        assert_eq!(revision(&shown), commit, "after {value}");
    }
    served.end().await;
}

/// One that is not compared says why, and nobody waits for that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_left_alone_says_so() {
    let mut served = Served::new(&[("web", &manifests("web", "1", "1ms"))]).await;
    let mut left_alone = application("web");
    left_alone.metadata.annotations.insert(SKIP_ANNOTATION.to_owned(), "true".to_owned());
    served.write(&left_alone);
    let is_skipped = |app: &Application| app.annotation(SKIP_ANNOTATION).is_some();
    served.until("web", |now, _| is_skipped(now).then_some(())).await;
    let refused = served.serving().refresh("web", false).await.unwrap_err().to_string();
    assert!(refused.contains(SKIP_ANNOTATION), "{refused}");
    served.write(&application("web"));
    served.until("web", |now, _| (!is_skipped(now)).then_some(())).await;
    served.serving().refresh("web", false).await.unwrap();
    served.end().await;
}

/// One that is being deleted is compared no more; it is tried again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_being_deleted_is_not_waited_for() {
    let mut served = Served::new(&[("web", &manifests("web", "1", "1ms"))]).await;
    let mut leaves = application("web");
    leaves.metadata.deletion_timestamp = Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
    leaves.metadata.finalizers = vec!["example.com/somebody-else".to_owned()];
    served.write(&leaves);
    served.until("web", |now, _| now.is_deleting().then_some(())).await;
    served.serving().refresh("web", false).await.unwrap();
    served.end().await;
}
