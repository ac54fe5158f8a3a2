//! Internal errors, and messages to all Applications.

use tidegate_application::machine::Input;
use tidegate_application::refresh::RefreshLevel;
use tidegate_model::OperationPhase;
use tidegate_model::argo::{Application, ConditionType, OperationRequest, SyncOperation};
use tokio::sync::oneshot;

use crate::messages::{AppMessage, SupervisorMessage};
use crate::testing::{PANIC_ANNOTATION, TEST_TIMEOUT, TestEnvironment, application, key, manifests};

fn fault_message(app: &Application) -> Option<String> {
    let found = app.status.conditions.iter().find(|one| one.kind == ConditionType::UnknownError);
    found.map(|one| one.message.clone())
}

fn is_synced(app: &Application) -> Option<()> {
    let last = app.status.operation_state.as_ref()?;
    (last.phase == OperationPhase::Succeeded).then_some(())
}

/// An Application that fails repeatedly isn't reconciled until it changes. Other Applications aren't
/// affected.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fault_affects_only_its_application_and_ends_when_that_changes() {
    let texts = ["web", "bad"].map(|name| manifests(name, "1", "1ms"));
    let mut environment = TestEnvironment::new(&[("web", &texts[0]), ("bad", &texts[1])]).await;
    environment.compare("bad", RefreshLevel::Latest).await;
    let mut poisoned = application("bad");
    poisoned.metadata.annotations.insert(PANIC_ANNOTATION.to_owned(), "true".to_owned());
    environment.write(&poisoned);
    let text = environment.wait_until("bad", |app, _| fault_message(app)).await;
    let times = crate::actor_pool::RESTARTS_MAX + 1;
    let expected = format!(
        "the actor that manages the application failed {times} times with an internal error; the application will not be managed until it changes"
    );
    assert!(text.starts_with(&expected), "{text}");
    let (reply, answer) = oneshot::channel();
    let request = Box::new(OperationRequest { sync: Some(SyncOperation::default()), ..Default::default() });
    environment.send(SupervisorMessage::Forward(
        key("bad"),
        AppMessage::Sync { request, plan: None, reply: reply.into() },
    ));
    let refused = tokio::time::timeout(TEST_TIMEOUT, answer).await.unwrap().unwrap().unwrap_err();
    assert!(refused.contains("not managed because of an internal error"), "{refused}");
    environment.sync("web").await;
    environment.wait_until("web", |app, _| is_synced(app)).await;
    environment.write(&application("bad"));
    environment.wait_until("bad", |app, _| fault_message(app).is_none().then_some(())).await;
    environment.sync("bad").await;
    environment.wait_until("bad", |app, _| is_synced(app)).await;
    environment.shutdown().await;
}

/// All Applications that use a changed repository are notified, even if the Application that observed the
/// repository can't be compared.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_applications_of_a_changed_repository_are_notified() {
    let mut environment = TestEnvironment::new(&[
        ("web", &manifests("web", "1", "1ms")),
        ("odd", &manifests("odd", "1", "1ms")),
    ])
    .await;
    let mut odd = application("odd");
    odd.spec.source.as_mut().unwrap().target_revision = "no-such-branch".to_owned();
    environment.write(&odd);
    let is_wrong = |now: &Application| {
        now.status.conditions.iter().any(|one| one.message.contains("no-such-branch")).then_some(())
    };
    environment.wait_until("odd", |now, _| is_wrong(now)).await;
    let revision = |now: &Application| now.status.sync.as_ref().map(|sync| sync.revision.clone());
    let first = environment.wait_until("web", |now, _| revision(now)).await;
    let second = environment.commit("web", &manifests("web", "2", "1ms"));
    assert_ne!(first, second);
    environment.send(SupervisorMessage::Forward(
        key("odd"),
        AppMessage::Input(Input::Compare(RefreshLevel::Forced)),
    ));
    environment.wait_until("web", |now, _| revision(now).filter(|now| *now == second)).await;
    environment.shutdown().await;
}
