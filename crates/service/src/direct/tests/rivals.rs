//! Others write the same resource at the same time.

use std::sync::atomic::AtomicUsize;

use super::*;

/// A cluster in which somebody else writes right before us.
struct Rival {
    inner: Arc<dyn Cluster>,
    before: Verb,
    times: AtomicUsize,
    what: fn(&mut Value),
}

impl Layer for Rival {
    fn inner(&self) -> &dyn Cluster {
        self.inner.as_ref()
    }

    async fn around<T: Send>(
        &self,
        call: Call,
        answer: impl Future<Output = Result<T, ClusterError>> + Send,
    ) -> Result<T, ClusterError> {
        if call.verb == self.before
            && self
                .times
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                .is_ok()
        {
            change(&self.inner, self.what).await;
        }
        answer.await
    }
}

/// The cluster as it is, and as we see it.
async fn contested(before: Verb, times: usize, what: fn(&mut Value)) -> (Arc<dyn Cluster>, Direct) {
    let inner = cluster().await;
    apply(inner.as_ref(), application("argocd", "web")).await;
    let rival: Arc<dyn Cluster> =
        Arc::new(Rival { inner: Arc::clone(&inner), before, times: AtomicUsize::new(times), what });
    (inner, direct(&rival, &["argocd"]))
}

fn touched(app: &mut Value) {
    let times = app["status"]["times"].as_u64().unwrap_or_default();
    app["status"]["times"] = json!(times + 1);
}

#[tokio::test(start_paused = true)]
async fn what_others_write_meanwhile_stays() {
    let taken = |app: &mut Value| app["operation"] = json!({"sync": {}, "initiatedBy": {"username": "ben"}});
    for (times, what, expected) in [
        (3, touched as fn(&mut Value), Ok(())),
        (1000, touched, Err("was changed by others 8 times")),
        (1, taken, Err("an operation is asked for already")),
    ] {
        let (inner, direct) = contested(Verb::Put, times, what).await;
        let known = direct.one("web").await.unwrap();
        let answer = direct.sync(&known, asked(json!({"sync": {"prune": true}}))).await;
        let app = live(&inner).await;
        match expected {
            Ok(()) => {
                answer.unwrap();
                assert_eq!(
                    (&app["status"]["times"], &app["operation"]["sync"]["prune"]),
                    (&json!(3), &json!(true))
                );
            }
            Err(words) => {
                let why = refusal(answer);
                assert!(why.contains(words), "{why}");
                assert!(app["operation"]["sync"].get("prune").is_none(), "{app}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_application_goes_in_the_way_that_was_asked_for_or_stays() {
    const FOREGROUND: &str = "resources-finalizer.argocd.argoproj.io";
    // Somebody else wants its objects to go, and has got as far as to say so.
    let cascades = |app: &mut Value| app["metadata"]["finalizers"] = json!([FOREGROUND]);
    for times in [1, 3] {
        let (inner, direct) = contested(Verb::Delete, times, cascades).await;
        let known = direct.one("web").await.unwrap();
        direct.delete(&known, Cascade::Orphan, "").await.unwrap();
        let left = inner.get(&kind::<Applications>(), "argocd", "web").await.unwrap();
        assert_eq!(left, None, "nothing is left to delete its objects for");
    }
    // The other way round they would stay, without a word.
    let orphans = |app: &mut Value| {
        app["metadata"].as_object_mut().unwrap().remove("finalizers");
    };
    let (inner, direct) = contested(Verb::Delete, 1, orphans).await;
    let known = direct.one("web").await.unwrap();
    direct.delete(&known, Cascade::Foreground, "").await.unwrap();
    let app = live(&inner).await;
    assert!(app["metadata"]["deletionTimestamp"].is_string(), "{app}");
    assert_eq!(app["metadata"]["finalizers"], json!([FOREGROUND]));
    // Whatever is written, it is not what was looked at; and that does not go on for ever.
    let (inner, direct) = contested(Verb::Delete, 1000, touched).await;
    let known = direct.one("web").await.unwrap();
    let why = refusal(direct.delete(&known, Cascade::Orphan, "").await);
    assert!(why.contains("was changed by others 8 times") && why.contains("is there still"), "{why}");
    assert!(live(&inner).await["metadata"].get("deletionTimestamp").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_comparison_that_is_asked_for_is_never_made_a_lesser_one() {
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
        let direct = direct(&cluster, &["argocd"]);
        let (known, before) = (direct.one("web").await.unwrap(), live(&cluster).await);
        direct.refresh(&known, hard).await.unwrap();
        let now = live(&cluster).await;
        assert_eq!(now["metadata"]["annotations"][REFRESH], expected, "{there:?} {hard}");
        assert_eq!(
            now == before,
            there == Some(expected),
            "{there:?} {hard}: nothing is written for nothing"
        );
    }
}
