//! Faults inside this program, and what all applications are told.

use tidegate_application::refresh::Level;
use tidegate_model::OperationPhase;
use tidegate_model::argo::{Application, ConditionType, OperationRequest, SyncOperation};
use tokio::sync::oneshot;

use crate::applications::messages::SupervisorMessage;
use crate::applications::testing::{LIMIT, POISON, Served, application, key, manifests};

fn fault(app: &Application) -> Option<String> {
    let found = app.status.conditions.iter().find(|one| one.kind == ConditionType::UnknownError);
    found.map(|one| one.message.clone())
}

fn is_synced(app: &Application) -> Option<()> {
    let last = app.status.operation_state.as_ref()?;
    (last.phase == OperationPhase::Succeeded).then_some(())
}

/// Only the one that meets a fault again and again is left alone, and that until it changes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fault_stays_with_its_own_application_and_ends_when_that_changes() {
    let texts = ["web", "bad"].map(|name| manifests(name, "1", "1ms"));
    let mut served = Served::new(&[("web", &texts[0]), ("bad", &texts[1])]).await;
    served.compare("bad", Level::Latest).await;
    let mut poisoned = application("bad");
    poisoned.metadata.annotations.insert(POISON.to_owned(), "true".to_owned());
    served.write(&poisoned);
    let words = served.until("bad", |app, _| fault(app)).await;
    let times = super::FAILURES_MAX + 1;
    let expected = format!("it met a fault {times} times and is left alone until it changes");
    assert!(words.starts_with(&expected), "{words}");
    let (reply, answer) = oneshot::channel();
    let asked = Box::new(OperationRequest { sync: Some(SyncOperation::default()), ..Default::default() });
    served.send(SupervisorMessage::Sync { key: key("bad"), asked, plan: None, reply: reply.into() });
    let refused = tokio::time::timeout(LIMIT, answer).await.unwrap().unwrap().unwrap_err();
    assert!(refused.contains("left alone after a fault"), "{refused}");
    served.sync("web").await;
    served.until("web", |app, _| is_synced(app)).await;
    served.write(&application("bad"));
    served.until("bad", |app, _| fault(app).is_none().then_some(())).await;
    served.sync("bad").await;
    served.until("bad", |app, _| is_synced(app)).await;
    served.end().await;
}

/// Who looks at a repository and finds that it has moved may have no use for that: all the others are told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_moved_is_told_although_whoever_found_it_cannot_be_compared() {
    let mut served =
        Served::new(&[("web", &manifests("web", "1", "1ms")), ("odd", &manifests("odd", "1", "1ms"))]).await;
    let mut odd = application("odd");
    odd.spec.source.as_mut().unwrap().target_revision = "no-such-branch".to_owned();
    served.write(&odd);
    let is_wrong = |now: &Application| {
        now.status.conditions.iter().any(|one| one.message.contains("no-such-branch")).then_some(())
    };
    served.until("odd", |now, _| is_wrong(now)).await;
    let revision = |now: &Application| now.status.sync.as_ref().map(|sync| sync.revision.clone());
    let first = served.until("web", |now, _| revision(now)).await;
    let second = served.commit("web", &manifests("web", "2", "1ms"));
    assert_ne!(first, second);
    served.send(SupervisorMessage::Compare { key: key("odd"), level: Level::Forced });
    served.until("web", |now, _| revision(now).filter(|now| *now == second)).await;
    served.end().await;
}
