//! Other clients overwrite the persisted state.

use std::time::Duration;

use tidegate_application::AppKey;
use tidegate_application::machine::{CONFLICT_OVERWRITES, OVERWRITTEN_CONDITION};
use tidegate_application::refresh::RefreshLevel;
use tidegate_model::argo::Application;
use tidegate_model::{OperationPhase, Requester};
use tidegate_stores::applications::{ExternalTermination, StoreEvent};

use crate::messages::SupervisorMessage;
use crate::testing::{TEST_TIMEOUT, TestEnvironment, application, manifests};

fn send_overwrite(environment: &TestEnvironment, termination: Option<ExternalTermination>) {
    let key = AppKey::parse("web");
    environment.send(SupervisorMessage::Store(StoreEvent::Overwritten { key, termination }));
}

fn overwrite_message(app: &Application) -> Option<String> {
    let found = app.status.conditions.iter().find(|one| one.kind.to_string() == OVERWRITTEN_CONDITION);
    found.map(|one| one.message.clone())
}

/// Overwritten state is restored even if Tidegate has no new state to write. Repeated overwrites set a
/// condition.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overwritten_state_is_restored_and_repeated_overwrites_are_reported() {
    let mut environment = TestEnvironment::new(&[("web", &manifests("web", "1", "1ms"))]).await;
    environment.compare("web", RefreshLevel::Latest).await;
    environment.compare("web", RefreshLevel::Latest).await;
    for _ in 0..CONFLICT_OVERWRITES {
        assert_eq!(environment.wait_until("web", |now, _| Some(overwrite_message(now))).await, None);
        let before = environment.writes();
        send_overwrite(&environment, None);
        let written = async {
            while environment.writes() == before {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(TEST_TIMEOUT, written).await.unwrap();
    }
    let text = environment.wait_until("web", |now, _| overwrite_message(now)).await;
    assert!(text.contains("keeps overwriting the application's status"), "{text}");
    environment.shutdown().await;
}

/// A phase that was set for a different operation doesn't end the current operation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_named_operation_ends() {
    let mut environment = TestEnvironment::new(&[("web", &manifests("web", "1", "2h"))]).await;
    environment.sync("web").await;
    let id = |app: &Application| app.operation.as_ref().and_then(tidegate_application::operation::engine_id);
    let started = |app: &Application| {
        app.status.operation_state.as_ref().filter(|state| state.phase == OperationPhase::Running)?;
        id(app)
    };
    let operation = environment.wait_until("web", |now, _| started(now)).await;
    let other = environment.next_id().await;
    send_overwrite(&environment, Some(ExternalTermination { operation: Some(other) }));
    environment.compare("web", RefreshLevel::Latest).await;
    assert_eq!(environment.wait_until("web", |now, _| Some(id(now))).await, Some(operation));
    send_overwrite(&environment, Some(ExternalTermination { operation: Some(operation) }));
    let ended = |app: &Application| {
        let state = app.status.operation_state.as_ref()?;
        app.operation.is_none().then(|| (state.phase, state.message.clone()))
    };
    let (phase, message) = environment.wait_until("web", |now, _| ended(now)).await;
    assert_eq!(phase, OperationPhase::Failed, "{message}");
    assert!(message.contains("terminated"), "{message}");
    environment.shutdown().await;
}

/// If the store doesn't respond, an operation can still be terminated, and the change is published. The state
/// is written once the store responds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_can_be_ended_while_a_write_hangs() {
    let mut environment = TestEnvironment::new(&[("web", &manifests("web", "1", "2h"))]).await;
    environment.sync("web").await;
    let phase = |app: &Application| app.status.operation_state.as_ref().map(|state| state.phase);
    let is = |app: &Application, wanted| (phase(app) == Some(wanted)).then_some(());
    environment.wait_until("web", |now, _| is(now, OperationPhase::Running)).await;
    environment.until_persisted("web", |persisted| is(&persisted, OperationPhase::Running)).await;

    let (held, before) = (environment.block_writes().await, environment.started_writes());
    let mut labelled = application("web");
    labelled.metadata.labels.insert("tier".to_owned(), "front".to_owned());
    environment.write(&labelled);
    let hangs = async {
        while environment.started_writes() == before {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, hangs).await.unwrap();

    let serving = environment.service();
    let ending = serving.terminate("web", None, Requester { name: "somebody", reason: "" });
    tokio::time::timeout(TEST_TIMEOUT, ending).await.unwrap().unwrap();
    environment.wait_until("web", |now, _| is(now, OperationPhase::Failed)).await;
    assert_eq!(phase(&environment.persisted("web")), Some(OperationPhase::Running));
    drop(held);
    environment.until_persisted("web", |persisted| is(&persisted, OperationPhase::Failed)).await;
    environment.shutdown().await;
}
