//! Applications that are deleted during a sync. The cluster's audit log shows which objects were created and
//! deleted.

use tidegate_cluster::sim::Verb;
use tidegate_executor::Summary;
use tidegate_model::OperationPhase;
use tidegate_model::argo::Application;

use crate::testing::{TEST_TIMEOUT, TestEnvironment, application, manifests};

/// Waits until a sync has a running hook.
async fn start_running_hook(environment: &TestEnvironment) -> Summary {
    environment.sync("web").await;
    // The operation creates the hook's Job suspended, and then starts it with a patch.
    let is_started =
        || environment.sim.audit().iter().any(|entry| entry.verb == Verb::Patch && entry.kind == "Job");
    let started = async {
        while !is_started() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, started).await.unwrap();
    environment.operations().await.remove(0)
}

async fn await_end(environment: &TestEnvironment, started: &Summary) -> String {
    let over = tokio::time::timeout(TEST_TIMEOUT, environment.engine.wait(started.operation))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(over.phase, OperationPhase::Failed);
    over.message
}

fn deletion_count(environment: &TestEnvironment) -> usize {
    environment.sim.audit().iter().filter(|entry| entry.verb == Verb::Delete).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sync_ends_with_its_hook_and_a_later_application_is_not_affected() {
    let mut environment = TestEnvironment::new(&[("web", &manifests("web", "1", "3s"))]).await;
    let started = start_running_hook(&environment).await;
    environment.remove("web");
    let mut again = application("web");
    again.metadata.uid = "another".to_owned();
    environment.write(&again);
    let is_new =
        |app: &Application| (app.metadata.uid == "another").then(|| app.status.operation_state.clone());
    assert_eq!(environment.wait_until("web", |app, _| is_new(app)).await, None);
    assert_eq!(await_end(&environment, &started).await, "Operation terminated");
    assert_eq!(
        (environment.operations_that_created("ConfigMap"), deletion_count(&environment)),
        (Vec::new(), 0),
        "its hook ran to its end"
    );
    environment.sync("web").await;
    let own = |app: &Application| {
        let last = app.status.operation_state.as_ref()?;
        (last.phase == OperationPhase::Succeeded).then_some(app.status.conditions.len())
    };
    assert_eq!(
        environment.wait_until("web", |app, _| own(app)).await,
        0,
        "nothing is reported for a lost status"
    );
    let created = environment.operations_that_created("ConfigMap");
    assert!(created.len() == 1 && created != [started.operation], "{created:?}");
    environment.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_while_the_service_is_stopped_is_detected_at_the_next_start() {
    let mut environment = TestEnvironment::new(&[("web", &manifests("web", "1", "3s")), ("other", "")]).await;
    let started = start_running_hook(&environment).await;
    environment.shutdown().await;
    environment.delete_while_stopped("web");
    environment.restart().await;
    assert_eq!(await_end(&environment, &started).await, "Operation terminated");
    assert_eq!(
        (environment.operations_that_created("ConfigMap"), deletion_count(&environment)),
        (Vec::new(), 0)
    );
    environment.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ending_sync_ends_after_a_restart_and_is_not_adopted_by_a_successor() {
    let mut environment = TestEnvironment::new(&[("web", &manifests("web", "1", "3s"))]).await;
    let started = start_running_hook(&environment).await;
    environment.remove("web");
    let held = async {
        while environment.engine.inspect(started.operation).await.unwrap().0.paused_by.is_none() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, held).await.unwrap();
    environment.shutdown().await;
    let mut again = application("web");
    again.metadata.uid = "another".to_owned();
    environment.set_persisted(&again);
    environment.restart().await;
    let state = |app: &Application| Some(app.status.operation_state.clone());
    assert_eq!(environment.wait_until("web", |app, _| state(app)).await, None);
    assert_eq!(await_end(&environment, &started).await, "Operation terminated");
    assert_eq!(
        (environment.operations_that_created("ConfigMap"), deletion_count(&environment)),
        (Vec::new(), 0)
    );
    environment.shutdown().await;
}
