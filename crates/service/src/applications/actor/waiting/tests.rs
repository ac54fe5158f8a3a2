//! An application gets no commit before those it depends on have it, also one that nobody knew when it was asked for.

use tidegate_application::dependencies::DEPENDS_ON;
use tidegate_application::refresh::Level;
use tidegate_model::argo::{Application, Automated, SyncPolicy, SyncStatusCode};

use crate::applications::messages::SupervisorMessage;
use crate::applications::store::AppKey;
use crate::applications::testing::{Served, application, manifests};

fn revision(app: &Application) -> String {
    app.status.sync.as_ref().map(|sync| sync.revision.clone()).unwrap_or_default()
}

/// Both are synced at the first commits; `web` depends on `database`.
async fn synced() -> Served {
    let [database, web] = ["database", "web"].map(|name| manifests(name, "1", "20ms"));
    let served = Served::new(&[("database", &database), ("web", &web)]).await;
    let mut depends = application("web");
    depends.metadata.annotations.insert(DEPENDS_ON.to_owned(), "database".to_owned());
    served.write(&depends);
    served.until("web", |now, _| (now.metadata == depends.metadata).then_some(())).await;
    for name in ["database", "web"] {
        served.sync(name).await;
        let is_done = |now: &Application| {
            let is_synced =
                now.status.sync.as_ref().is_some_and(|sync| sync.status == SyncStatusCode::Synced);
            now.operation.is_none() && is_synced && !now.status.history.is_empty()
        };
        served.until(name, |now, _| is_done(now).then_some(())).await;
    }
    served
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sync_by_hand_of_a_commit_that_nobody_knew_waits_for_those_it_depends_on() {
    let mut served = synced().await;
    served.commit("database", &manifests("database", "2", "20ms"));
    let commit = served.commit("web", &manifests("web", "2", "20ms"));
    let before = served.made("Job").len();
    served.sync("web").await;
    let waiting = |now: &Application| {
        let message = now.status.operation_state.as_ref().map(|state| state.message.clone())?;
        message.starts_with("waiting for database: it is OutOfSync").then_some(())
    };
    // By then the other one knows of the commit as well.
    served.until("web", |now, _| waiting(now)).await;
    assert_eq!(served.made("Job").len(), before, "nothing has begun");
    served.sync("database").await;
    let deployed = |now: &Application| {
        let last = now.status.history.last().map(|last| last.revision.clone());
        (now.operation.is_none() && last.as_deref() == Some(commit.as_str())).then_some(())
    };
    served.until("web", |now, _| deployed(now)).await;
    let order: Vec<String> =
        served.operations().await.split_off(2).into_iter().map(|one| one.application).collect();
    assert_eq!(order, ["database", "web"]);
    served.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_asks_what_a_sync_would_change_does_not_keep_a_commit_from_others() {
    let mut served = synced().await;
    let commit = served.commit("web", &manifests("web", "2", "20ms"));
    served.serving().diff("web", Vec::new()).await.unwrap();
    served.until("database", |now, _| (revision(now) == commit).then_some(())).await;
    served.end().await;
}

/// As after a push that names only files of the one that waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_it_waits_for_are_looked_at_though_the_commit_is_none_of_theirs() {
    let mut served = synced().await;
    let mut automated = application("web");
    automated.metadata.annotations.insert(DEPENDS_ON.to_owned(), "database".to_owned());
    automated.spec.sync_policy =
        Some(SyncPolicy { automated: Some(Automated::default()), ..SyncPolicy::default() });
    served.write(&automated);
    served.until("web", |now, _| (now.spec == automated.spec).then_some(())).await;
    let commit = served.commit("web", &manifests("web", "2", "20ms"));
    served.shared().manifests.look(None).await;
    served.send(SupervisorMessage::Compare { key: AppKey::named("web"), level: Level::Latest });
    let deployed = |now: &Application| {
        let last = now.status.history.last().map(|last| last.revision.clone());
        (now.operation.is_none() && last.as_deref() == Some(commit.as_str())).then_some(())
    };
    served.until("web", |now, _| deployed(now)).await;
    served.end().await;
}
