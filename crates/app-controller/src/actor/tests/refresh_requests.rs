//! Comparison requests are answered once the result has been published.

use serde_json::json;
use tidegate_application::refresh::SKIP_RECONCILE_ANNOTATION;
use tidegate_model::argo::Application;

use crate::testing::{TestEnvironment, application, key, manifests};

fn revision(app: &Application) -> String {
    app.status.sync.as_ref().map(|sync| sync.revision.clone()).unwrap_or_default()
}

/// A comparison that started before a commit doesn't answer a request that was made after the commit, no
/// matter which state the Application is in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refresh_shows_what_was_committed_before_it() {
    let mut environment = TestEnvironment::new(&[("web", &manifests("web", "0", "1ms"))]).await;
    for value in 1..=20 {
        let commit = environment.commit("web", &manifests("web", &value.to_string(), "1ms"));
        environment.service().refresh("web", value % 2 == 0).await.unwrap();
        let shown = environment.service().application(&key("web")).unwrap();
        assert_eq!(revision(&shown), commit, "after {value}");
    }
    environment.shutdown().await;
}

/// A request for an Application that isn't compared is answered immediately with the reason.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refresh_of_a_skipped_application_returns_the_reason() {
    let mut environment = TestEnvironment::new(&[("web", &manifests("web", "1", "1ms"))]).await;
    let mut left_alone = application("web");
    left_alone.metadata.annotations.insert(SKIP_RECONCILE_ANNOTATION.to_owned(), "true".to_owned());
    environment.write(&left_alone);
    let is_skipped = |app: &Application| app.annotation(SKIP_RECONCILE_ANNOTATION).is_some();
    environment.wait_until("web", |now, _| is_skipped(now).then_some(())).await;
    let refused = environment.service().refresh("web", false).await.unwrap_err().to_string();
    assert!(refused.contains(SKIP_RECONCILE_ANNOTATION), "{refused}");
    environment.write(&application("web"));
    environment.wait_until("web", |now, _| (!is_skipped(now)).then_some(())).await;
    environment.service().refresh("web", false).await.unwrap();
    environment.shutdown().await;
}

/// An Application that is being deleted isn't compared. Instead, its deletion is retried.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refresh_of_an_application_in_deletion_does_not_wait() {
    let mut environment = TestEnvironment::new(&[("web", &manifests("web", "1", "1ms"))]).await;
    let mut leaves = application("web");
    leaves.metadata.deletion_timestamp = Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
    leaves.metadata.finalizers = vec!["example.com/somebody-else".to_owned()];
    environment.write(&leaves);
    environment.wait_until("web", |now, _| now.is_deleting().then_some(())).await;
    environment.service().refresh("web", false).await.unwrap();
    environment.shutdown().await;
}
