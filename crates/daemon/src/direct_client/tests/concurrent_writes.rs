//! Concurrent writes to the same resource by other clients.

use std::sync::atomic::AtomicUsize;

use super::*;

/// Cluster in which another client writes just before each write by the client under test.
struct RivalCluster {
    inner: Arc<dyn Cluster>,
    trigger: Verb,
    remaining_writes: AtomicUsize,
    change: fn(&mut Value),
}

impl Layer for RivalCluster {
    fn inner(&self) -> &dyn Cluster {
        self.inner.as_ref()
    }

    async fn intercept<T: Send>(&self, call: Call, answer: impl PendingCall<T>) -> Result<T, ClusterError> {
        if call.verb == self.trigger
            && self
                .remaining_writes
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                .is_ok()
        {
            update_application(&self.inner, self.change).await;
        }
        answer.await
    }
}

/// Returns the cluster itself, and a client that competes with another client.
async fn cluster_with_rival(
    trigger: Verb,
    times: usize,
    change: fn(&mut Value),
) -> (Arc<dyn Cluster>, DirectClient) {
    let inner = cluster().await;
    apply(inner.as_ref(), application("argocd", "web")).await;
    let rival: Arc<dyn Cluster> = Arc::new(RivalCluster {
        inner: Arc::clone(&inner),
        trigger,
        remaining_writes: AtomicUsize::new(times),
        change,
    });
    (inner, open_client(&rival, &["argocd"]))
}

fn add_label(app: &mut Value) {
    let times = app["status"]["times"].as_u64().unwrap_or_default();
    app["status"]["times"] = json!(times + 1);
}

#[tokio::test(start_paused = true)]
async fn concurrent_writes_of_others_are_preserved() {
    let taken = |app: &mut Value| app["operation"] = json!({"sync": {}, "initiatedBy": {"username": "ben"}});
    for (times, what, expected) in [
        (3, add_label as fn(&mut Value), Ok(())),
        (1000, add_label, Err("in 8 attempts because other clients kept changing it")),
        (1, taken, Err("an operation has already been requested")),
    ] {
        let (inner, direct) = cluster_with_rival(Verb::Put, times, what).await;
        let known = direct.find_one("web").await.unwrap();
        let answer = direct.sync(&known, parse_operation(json!({"sync": {"prune": true}}))).await;
        let app = live_application(&inner).await;
        match expected {
            Ok(()) => {
                answer.unwrap();
                assert_eq!(
                    (&app["status"]["times"], &app["operation"]["sync"]["prune"]),
                    (&json!(3), &json!(true))
                );
            }
            Err(text) => {
                let reason = refusal_message(answer);
                assert!(reason.contains(text), "{reason}");
                assert!(app["operation"]["sync"].get("prune").is_none(), "{app}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_application_is_deleted_with_the_requested_policy_or_not_at_all() {
    const FOREGROUND: &str = "resources-finalizer.argocd.argoproj.io";
    // The other client wants the Application's objects to be deleted, but has only set the finalizer so far.
    let cascades = |app: &mut Value| app["metadata"]["finalizers"] = json!([FOREGROUND]);
    for times in [1, 3] {
        let (inner, direct) = cluster_with_rival(Verb::Delete, times, cascades).await;
        let known = direct.find_one("web").await.unwrap();
        direct.delete(&known, Cascade::Orphan.into(), "").await.unwrap();
        let left = inner.get(&managed_kind::<ApplicationKind>(), "argocd", "web").await.unwrap();
        assert_eq!(left, None, "nothing is left to delete its objects for");
    }
    // The other client removes the finalizer. Without another attempt, the objects would be orphaned
    // silently.
    let orphans = |app: &mut Value| {
        app["metadata"].as_object_mut().unwrap().remove("finalizers");
    };
    let (inner, direct) = cluster_with_rival(Verb::Delete, 1, orphans).await;
    let known = direct.find_one("web").await.unwrap();
    direct.delete(&known, Cascade::Foreground.into(), "").await.unwrap();
    let app = live_application(&inner).await;
    assert!(app["metadata"]["deletionTimestamp"].is_string(), "{app}");
    assert_eq!(app["metadata"]["finalizers"], json!([FOREGROUND]));
    // Any write by another client invalidates the version that was read. The number of attempts is limited.
    let (inner, direct) = cluster_with_rival(Verb::Delete, 1000, add_label).await;
    let known = direct.find_one("web").await.unwrap();
    let reason = refusal_message(direct.delete(&known, Cascade::Orphan.into(), "").await);
    assert!(reason.contains("failed to delete application") && reason.contains("in 8 attempts"), "{reason}");
    assert!(live_application(&inner).await["metadata"].get("deletionTimestamp").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_hard_refresh_is_never_replaced_by_a_normal_one() {
    const REFRESH: &str = "argocd.argoproj.io/refresh";
    for (there, hard, expected) in [
        (None, false, "normal"),
        (None, true, "hard"),
        (Some("normal"), false, "normal"),
        (Some("normal"), true, "hard"),
        (Some("hard"), false, "hard"),
        (Some("hard"), true, "hard"),
        (Some("anything"), false, "normal"),
    ] {
        let cluster = cluster().await;
        let mut app = application("argocd", "web");
        if let Some(there) = there {
            app["metadata"]["annotations"] = json!({REFRESH: there});
        }
        apply(cluster.as_ref(), app).await;
        let direct = open_client(&cluster, &["argocd"]);
        let (known, before) = (direct.find_one("web").await.unwrap(), live_application(&cluster).await);
        direct.refresh(&known, hard).await.unwrap();
        let now = live_application(&cluster).await;
        assert_eq!(now["metadata"]["annotations"][REFRESH], expected, "{there:?} {hard}");
        assert_eq!(
            now == before,
            there == Some(expected),
            "{there:?} {hard}: nothing is written for nothing"
        );
    }
}
