//! Comparisons leave enough time for sync decisions.

use serde_json::json;
use tidegate_application::machine::Input;
use tidegate_application::refresh::RefreshLevel;
use tidegate_model::argo::Application;
use tokio::sync::oneshot;

use crate::destinations::CONCURRENT_COMPARISONS_MAX;
use crate::messages::{AppMessage, SupervisorMessage};
use crate::testing::{TEST_TIMEOUT, TestEnvironment, application, key, manifests};

/// Waits until the actor has handled all earlier messages.
async fn await_handled_messages(environment: &TestEnvironment) {
    let (reply, answer) = oneshot::channel();
    environment.send(SupervisorMessage::Forward(key("web"), AppMessage::Flush { reply: reply.into() }));
    tokio::time::timeout(TEST_TIMEOUT, answer).await.unwrap().unwrap().unwrap();
}

/// The repository changes constantly, so each comparison is requested before the previous comparison has
/// finished.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_that_is_compared_continuously_is_still_synced() {
    const ROUNDS: u64 = 6;
    let mut environment = TestEnvironment::new(&[("web", &manifests("web", "1", "1ms"))]).await;
    environment.service().refresh("web", false).await.unwrap();
    let shared = environment.shared();
    let permits = shared.destinations.comparison_permits(&application("web").spec.destination);
    let all = u32::try_from(CONCURRENT_COMPARISONS_MAX).unwrap();
    // No comparison can start while the test holds these permits.
    let mut held = permits.clone().acquire_many_owned(all).await.unwrap();
    let mut automated = application("web");
    automated.spec.sync_policy = serde_json::from_value(json!({"automated": {}})).unwrap();
    environment.write(&automated);
    environment.wait_until("web", |now, _| (now.spec == automated.spec).then_some(())).await;
    let count = || shared.reconcile_metrics.durations().iter().map(|(_, counted)| counted.count).sum::<u64>();
    let before = count();
    while count() < before + ROUNDS {
        environment.send(SupervisorMessage::Forward(
            key("web"),
            AppMessage::Input(Input::Compare(RefreshLevel::Latest)),
        ));
        await_handled_messages(&environment).await;
        let next = permits.clone().acquire_many_owned(all);
        drop(held);
        held = tokio::time::timeout(TEST_TIMEOUT, next).await.unwrap().unwrap();
    }
    await_handled_messages(&environment).await;
    let shown = environment.service().application(&key("web")).unwrap();
    let is_begun = shown.operation.is_some() || shown.status.operation_state.is_some();
    assert!(is_begun, "no operation started after {ROUNDS} comparisons: {shown:#?}");
    drop(held);
    environment.shutdown().await;
}

/// The running operation created the hook's object, so no warning about an earlier operation's object is
/// expected.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_hook_is_no_object_of_an_earlier_operation() {
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "migrate", "annotations": {
        "argocd.argoproj.io/hook": "PreSync", "argocd.argoproj.io/hook-delete-policy": "HookSucceeded",
        "sim.tidegate.dev/ready-after": "1h",
    }}, "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}}}});
    let mut environment = TestEnvironment::new(&[("web", &job.to_string())]).await;
    environment.sync("web").await;
    let waits = |app: &Application| {
        let state = app.status.operation_state.as_ref()?;
        (state.message.contains("hook") && state.message.contains("migrate")).then_some(())
    };
    environment.wait_until("web", |now, _| waits(now)).await;
    for level in [RefreshLevel::Recent, RefreshLevel::Latest, RefreshLevel::Hard] {
        environment.compare("web", level).await;
        await_handled_messages(&environment).await;
        let shown = environment.service().application(&key("web")).unwrap();
        assert_eq!(shown.status.conditions, [], "{level:?}");
    }
    environment.shutdown().await;
}
