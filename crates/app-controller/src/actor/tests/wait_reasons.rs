//! An Application deploys a commit only after its dependencies have deployed the same commit, even if the
//! commit wasn't known when the sync was requested.

use tidegate_application::AppKey;
use tidegate_application::dependencies::DEPENDS_ON;
use tidegate_application::machine::Input;
use tidegate_application::refresh::RefreshLevel;
use tidegate_model::argo::{Application, Automated, SyncPolicy, SyncStatusCode};

use crate::messages::{AppMessage, SupervisorMessage};
use crate::testing::{TestEnvironment, application, manifests};

fn revision(app: &Application) -> String {
    app.status.sync.as_ref().map(|sync| sync.revision.clone()).unwrap_or_default()
}

/// Syncs both Applications to their first commits. `web` depends on `database`.
async fn sync_both() -> TestEnvironment {
    let [database, web] = ["database", "web"].map(|name| manifests(name, "1", "20ms"));
    let environment = TestEnvironment::new(&[("database", &database), ("web", &web)]).await;
    let mut depends = application("web");
    depends.metadata.annotations.insert(DEPENDS_ON.to_owned(), "database".to_owned());
    environment.write(&depends);
    environment.wait_until("web", |now, _| (now.metadata == depends.metadata).then_some(())).await;
    for name in ["database", "web"] {
        environment.sync(name).await;
        let is_done = |now: &Application| {
            let is_synced =
                now.status.sync.as_ref().is_some_and(|sync| sync.status == SyncStatusCode::Synced);
            now.operation.is_none() && is_synced && !now.status.history.is_empty()
        };
        environment.wait_until(name, |now, _| is_done(now).then_some(())).await;
    }
    environment
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_requested_sync_of_an_unknown_commit_waits_for_its_dependencies() {
    let mut environment = sync_both().await;
    environment.commit("database", &manifests("database", "2", "20ms"));
    let commit = environment.commit("web", &manifests("web", "2", "20ms"));
    let before = environment.operations_that_created("Job").len();
    environment.sync("web").await;
    let waiting = |now: &Application| {
        let message = now.status.operation_state.as_ref().map(|state| state.message.clone())?;
        message.starts_with("waiting for database: it is OutOfSync").then_some(())
    };
    // `database` has also observed the commit, although only a sync of `web` was requested.
    environment.wait_until("web", |now, _| waiting(now)).await;
    assert_eq!(environment.operations_that_created("Job").len(), before, "no operation has started");
    environment.sync("database").await;
    let deployed = |now: &Application| {
        let last = now.status.history.last().map(|last| last.revision.clone());
        (now.operation.is_none() && last.as_deref() == Some(commit.as_str())).then_some(())
    };
    environment.wait_until("web", |now, _| deployed(now)).await;
    let order: Vec<String> =
        environment.operations().await.split_off(2).into_iter().map(|one| one.application).collect();
    assert_eq!(order, ["database", "web"]);
    environment.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_preview_of_a_sync_does_not_withhold_a_commit_from_other_applications() {
    let mut environment = sync_both().await;
    let commit = environment.commit("web", &manifests("web", "2", "20ms"));
    environment.service().diff("web", Vec::new()).await.unwrap();
    environment.wait_until("database", |now, _| (revision(now) == commit).then_some(())).await;
    environment.shutdown().await;
}

/// Simulates a push that changes only the waiting Application's files.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dependencies_are_observed_although_the_commit_does_not_affect_them() {
    let mut environment = sync_both().await;
    let mut automated = application("web");
    automated.metadata.annotations.insert(DEPENDS_ON.to_owned(), "database".to_owned());
    automated.spec.sync_policy =
        Some(SyncPolicy { automated: Some(Automated::default()), ..SyncPolicy::default() });
    environment.write(&automated);
    environment.wait_until("web", |now, _| (now.spec == automated.spec).then_some(())).await;
    let commit = environment.commit("web", &manifests("web", "2", "20ms"));
    environment.shared().manifests.observe(None).await;
    environment.send(SupervisorMessage::Forward(
        AppKey::parse("web"),
        AppMessage::Input(Input::Compare(RefreshLevel::Latest)),
    ));
    let deployed = |now: &Application| {
        let last = now.status.history.last().map(|last| last.revision.clone());
        (now.operation.is_none() && last.as_deref() == Some(commit.as_str())).then_some(())
    };
    environment.wait_until("web", |now, _| deployed(now)).await;
    environment.shutdown().await;
}
