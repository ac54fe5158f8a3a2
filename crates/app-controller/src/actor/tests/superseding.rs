//! Newer requests while an operation is running. The cluster's audit log shows which objects were created and
//! deleted.

use serde_json::json;
use tidegate_application::refresh::RefreshLevel;
use tidegate_application::supersede::{
    OPERATION_REFUSED_CONDITION, POLICY_INFO, SUPERSEDES_INFO, accept_request,
    new_revision_condition_message as waits,
};
use tidegate_model::argo::{Application, OperationRequest};
use tidegate_model::{ClaimConflictPolicy, ClaimHolder, OperationPhase, SafePoint};
use tokio::sync::oneshot;

use crate::messages::{AppMessage, SupervisorMessage};
use crate::testing::{TEST_TIMEOUT, TestEnvironment, application, key};

/// Returns a PreSync Job with the duration `migrates`, a Deployment that becomes ready after `ready`, and a
/// Job that follows the Deployment.
fn manifests(migrates: &str, ready: &str) -> String {
    let job = |name: &str, hook: &str, takes: &str| {
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "annotations": {
            "argocd.argoproj.io/hook": hook, "sim.tidegate.dev/ready-after": takes,
        }}, "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}}}})
    };
    let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "annotations": {
        "sim.tidegate.dev/ready-after": ready,
    }}, "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": {
        "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "a", "image": "a"}]},
    }}});
    let (before, behind) = (job("migrate", "PreSync", migrates), job("check", "PostSync", "1ms"));
    format!("---\n{before}\n---\n{web}\n---\n{behind}\n")
}

/// Starts an environment with the automatically synced Application `web`, whose first operation is waiting
/// for a hook or for a Deployment that never becomes ready.
async fn start_waiting_operation(first: &str, annotation: Option<&str>) -> TestEnvironment {
    let environment = TestEnvironment::new(&[("web", first)]).await;
    let mut app = application("web");
    let spec = json!({"automated": {"prune": true}, "retry": {"limit": 0}});
    app.spec.sync_policy = serde_json::from_value(spec).unwrap();
    let policy = annotation.map(|policy| ("tidegate.dev/on-new-revision".to_owned(), policy.to_owned()));
    app.metadata.annotations.extend(policy);
    environment.write(&app);
    environment
        .wait_until("web", |now, _| (now.metadata == app.metadata && now.spec == app.spec).then_some(()))
        .await;
    environment
        .wait_until("web", |now, _| operation_message(now).contains("waiting for").then_some(()))
        .await;
    environment
}

fn operation_message(app: &Application) -> String {
    app.status.operation_state.as_ref().map(|state| state.message.clone()).unwrap_or_default()
}

async fn await_operations(environment: &TestEnvironment, operations: usize) -> Vec<(OperationPhase, String)> {
    let mut changes = environment.shared().application_cache.subscribe();
    let waiting = async {
        loop {
            let all = environment.operations().await;
            if all.len() == operations && all.iter().all(|one| one.finished_at.is_some()) {
                return all.into_iter().map(|one| (one.phase, one.message)).collect();
            }
            let _ = changes.recv().await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, waiting).await.unwrap()
}

fn deleted_jobs(environment: &TestEnvironment) -> usize {
    environment
        .sim
        .audit()
        .iter()
        .filter(|entry| entry.kind == "Job" && entry.verb == tidegate_cluster::sim::Verb::Delete)
        .count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_commit_replaces_a_waiting_operation() {
    let mut environment = start_waiting_operation(&manifests("1ms", "1h"), None).await;
    environment
        .wait_until("web", |now, _| operation_message(now).contains("Deployment/web").then_some(()))
        .await;
    let commit = environment.commit("web", &manifests("1ms", "1ms"));
    environment.compare("web", RefreshLevel::Forced).await;
    let ended = await_operations(&environment, 2).await;
    assert_eq!(
        ended[0],
        (
            OperationPhase::Failed,
            format!("Operation terminated, superseded by another sync (revision {commit})")
        )
    );
    assert_eq!(ended[1].0, OperationPhase::Succeeded);
    let first = environment.operations().await[0].operation;
    let is_restored = |now: &Application| {
        let state = now.status.operation_state.as_ref()?;
        (now.operation.is_none() && state.finished_at.is_some()).then(|| state.clone())
    };
    let restored = environment.wait_until("web", |now, _| is_restored(now)).await;
    assert_eq!(restored.operation.info_value(SUPERSEDES_INFO), Some(first.to_string().as_str()));
    environment.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_commit_with_equal_manifests_does_not_end_the_operation() {
    let mut environment = start_waiting_operation(&manifests("1ms", "1h"), None).await;
    environment
        .wait_until("web", |now, _| operation_message(now).contains("Deployment/web").then_some(()))
        .await;
    let at = |now: &Application| now.status.sync.as_ref().map(|sync| sync.revision.clone());
    let elsewhere = environment.commit("elsewhere", "");
    environment.compare("web", RefreshLevel::Forced).await;
    environment
        .wait_until("web", |now, _| {
            (at(now).as_ref() == Some(&elsewhere)).then(|| assert_eq!(waits(now), None))
        })
        .await;
    let changed = environment.commit("web", &manifests("1ms", "1ms"));
    environment.compare("web", RefreshLevel::Forced).await;
    let ended = await_operations(&environment, 2).await;
    assert!(ended[0].1.ends_with(&format!("superseded by another sync (revision {changed})")), "{ended:?}");
    assert_eq!(ended[1].0, OperationPhase::Succeeded);
    environment.shutdown().await;
}

/// Returns the last compared revision.
fn compared_revision(now: &Application) -> Option<&str> {
    now.status.sync.as_ref().map(|sync| sync.revision.as_str())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_does_not_end_an_operation_whose_manifests_are_unchanged() {
    let mut environment = start_waiting_operation(&manifests("1ms", "1h"), None).await;
    environment
        .wait_until("web", |now, _| operation_message(now).contains("Deployment/web").then_some(()))
        .await;
    let first = environment.operations().await[0].operation;
    let elsewhere = environment.commit("elsewhere", "");
    environment.compare("web", RefreshLevel::Forced).await;
    environment
        .until_persisted("web", |persisted| (compared_revision(&persisted) == Some(&elsewhere)).then_some(()))
        .await;
    for _ in 0..2 {
        environment.restart().await;
        environment.wait_until("web", |_, deployed| deployed.is_compared.then_some(())).await;
        environment.compare("web", RefreshLevel::Forced).await;
        environment
            .wait_until("web", |now, _| operation_message(now).contains("Deployment/web").then_some(()))
            .await;
    }
    let all = environment.operations().await;
    assert_eq!(all.len(), 1, "{all:#?}");
    assert!(all[0].finished_at.is_none(), "{all:#?}");
    assert_eq!(environment.operations_that_created("Job"), [first], "its hook ran once");
    // A change to the manifests still supersedes the operation.
    let changed = environment.commit("web", &manifests("1ms", "1ms"));
    environment.compare("web", RefreshLevel::Forced).await;
    let ended = await_operations(&environment, 2).await;
    assert!(ended[0].1.ends_with(&format!("superseded by another sync (revision {changed})")), "{ended:?}");
    environment.shutdown().await;
}

/// The files differ, but the objects don't. Different inputs don't prove that the manifests differ.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_moves_or_comments_manifests_does_not_end_the_operation() {
    let text = manifests("1ms", "1h");
    let mut environment = start_waiting_operation(&text, None).await;
    environment
        .wait_until("web", |now, _| operation_message(now).contains("Deployment/web").then_some(()))
        .await;
    let commented = format!("# the shop\n{text}");
    let same = environment.commit_files("web", &[("all.yaml", ""), ("shop.yaml", &commented)]);
    for restarts in [false, true] {
        if restarts {
            environment.restart().await;
        }
        environment.compare("web", RefreshLevel::Forced).await;
        environment.wait_until("web", |now, _| (compared_revision(now) == Some(&same)).then_some(())).await;
        environment.compare("web", RefreshLevel::Forced).await;
        let all = environment.operations().await;
        assert!(all.len() == 1 && all[0].finished_at.is_none(), "{all:#?}");
    }
    assert_eq!(environment.operations_that_created("Job").len(), 1, "its hook ran once");
    environment.shutdown().await;
}

/// Returns `Some(())` if a condition contains the given text.
fn find_condition(now: &Application, words: &str) -> Option<()> {
    now.status.conditions.iter().any(|one| one.message.contains(words)).then_some(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_hook_finishes_before_the_operation_is_replaced() {
    let mut environment = start_waiting_operation(&manifests("2s", "1h"), None).await;
    environment
        .wait_until("web", |now, _| operation_message(now).contains("Job/migrate").then_some(()))
        .await;
    environment.commit("web", &manifests("1ms", "1ms"));
    environment.compare("web", RefreshLevel::Forced).await;
    environment.wait_until("web", |now, _| find_condition(now, "hook Job web/migrate is running")).await;
    assert_eq!((environment.operations().await.len(), deleted_jobs(&environment)), (1, 0));
    let ended = await_operations(&environment, 2).await;
    assert_eq!((ended[0].0, ended[1].0), (OperationPhase::Failed, OperationPhase::Succeeded));
    assert_eq!(
        environment.operations_that_created("Job").len(),
        3,
        "the hook that was running, and both Jobs of the second operation"
    );
    environment.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_finish_policy_waits_for_the_end_of_the_operation() {
    let mut environment = start_waiting_operation(&manifests("1ms", "2s"), Some("finish")).await;
    environment.commit("web", &manifests("1ms", "1ms"));
    environment.compare("web", RefreshLevel::Forced).await;
    environment.wait_until("web", |now, _| find_condition(now, "on-new-revision is finish")).await;
    let ended = await_operations(&environment, 2).await;
    assert!(ended.iter().all(|(phase, _)| *phase == OperationPhase::Succeeded), "{ended:#?}");
    environment.shutdown().await;
}

/// Returns a request for a sync with the given policy.
fn sync_request(policy: &str) -> OperationRequest {
    let info = json!([{"name": POLICY_INFO, "value": policy}]);
    let request = json!({"sync": {}, "initiatedBy": {"username": "ann"}, "info": info});
    serde_json::from_value(request).unwrap()
}

/// Requests a sync with the given policy.
async fn request_sync(environment: &TestEnvironment, policy: &str) -> Result<(), String> {
    let request = Box::new(sync_request(policy));
    let (reply, answer) = oneshot::channel();
    environment.send(SupervisorMessage::Forward(
        key("web"),
        AppMessage::Sync { request, plan: None, reply: reply.into() },
    ));
    tokio::time::timeout(TEST_TIMEOUT, answer).await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_requested_sync_waits_or_replaces_the_operation_also_after_a_kill() {
    for (policy, first) in [("queue", OperationPhase::Succeeded), ("supersede", OperationPhase::Failed)] {
        let mut environment =
            TestEnvironment::new(&[("web", &manifests("2s", if policy == "queue" { "1ms" } else { "1h" }))])
                .await;
        environment.sync("web").await;
        environment
            .wait_until("web", |now, _| operation_message(now).contains("Job/migrate").then_some(()))
            .await;
        let refused = request_sync(&environment, "refuse").await.unwrap_err();
        assert!(refused.contains("another operation is already in progress"), "{refused}");
        environment.commit("web", &manifests("1ms", "1ms"));
        assert_eq!(request_sync(&environment, policy).await, Ok(()));
        if policy == "queue" {
            let second = request_sync(&environment, policy).await.unwrap_err();
            assert!(second.contains("another sync of ann") && second.contains("already waiting"), "{second}");
        }
        environment.restart().await;
        let ended = await_operations(&environment, 2).await;
        assert_eq!((ended[0].0, ended[1].0), (first, OperationPhase::Succeeded), "{policy}: {ended:#?}");
        environment.shutdown().await;
    }
}

/// The first operation was superseded while the service wasn't running.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_between_the_end_of_one_operation_and_the_next_loses_neither() {
    for is_requested in [false, true] {
        let mut environment = start_waiting_operation(&manifests("1ms", "1h"), None).await;
        environment
            .wait_until("web", |now, _| operation_message(now).contains("Deployment/web").then_some(()))
            .await;
        environment.stop_managing().await;
        let commit = environment.commit("web", &manifests("1ms", "1ms"));
        let mut persisted = environment.persisted("web");
        if is_requested {
            let now = tidegate_model::Timestamp::from_millis(0);
            accept_request(
                &mut persisted,
                sync_request("supersede"),
                ClaimConflictPolicy::Supersede,
                false,
                now,
            )
            .unwrap();
            environment.set_persisted(&persisted);
        }
        let first = environment.operations().await[0].operation;
        let by = ClaimHolder { revision: commit.clone(), ..ClaimHolder::default() };
        environment.engine.supersede(first, by, SafePoint::Waiting).await.unwrap();
        assert_eq!(environment.engine.wait(first).await.unwrap().phase, OperationPhase::Failed);
        environment.restart().await;
        let ended = await_operations(&environment, 2).await;
        assert_eq!((ended[0].0, ended[1].0), (OperationPhase::Failed, OperationPhase::Succeeded));
        let state = environment.wait_until("web", |now, _| last_operation_state(now)).await;
        let sync = state.operation.sync.as_ref().unwrap();
        assert_eq!(sync.revision, commit);
        assert_eq!(state.operation.initiated_by.username, if is_requested { "ann" } else { "" });
        assert_eq!(state.operation.info_value(SUPERSEDES_INFO), Some(first.to_string().as_str()));
        // No operation starts twice.
        environment.restart().await;
        environment.compare("web", RefreshLevel::Forced).await;
        assert_eq!(
            (await_operations(&environment, 2).await.len(), environment.operations_that_created("Job").len()),
            (2, 3)
        );
        environment.shutdown().await;
    }
}

fn last_operation_state(now: &Application) -> Option<tidegate_model::argo::OperationState> {
    let state = now.status.operation_state.as_ref()?;
    let has_succeeded = now.operation.is_none() && state.phase == OperationPhase::Succeeded;
    has_succeeded.then(|| state.clone())
}

fn refusal_message(now: &Application) -> Option<String> {
    let found = now.status.conditions.iter().find(|one| one.kind.to_string() == OPERATION_REFUSED_CONDITION);
    found.map(|one| one.message.clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_written_operation_is_accepted_or_reported_as_refused() {
    let mut environment = TestEnvironment::new(&[("web", &manifests("3s", "1ms"))]).await;
    environment.sync("web").await;
    environment
        .wait_until("web", |now, _| operation_message(now).contains("Job/migrate").then_some(()))
        .await;
    let first = environment.operations().await[0].operation;
    let mut theirs = environment.persisted("web");
    theirs.operation = Some(sync_request("refuse"));
    environment.write(&theirs);
    let reason = environment.wait_until("web", |now, _| refusal_message(now)).await;
    assert!(reason.contains("already in progress") && reason.contains(POLICY_INFO), "{reason}");
    // A patch doesn't change fields that it doesn't contain: here, the running operation's requester and ID.
    let mut patched = theirs.clone();
    patched.operation = environment.persisted("web").operation;
    let operation = patched.operation.as_mut().unwrap();
    operation.initiated_by.automated = true;
    operation.set_info(POLICY_INFO, "queue");
    environment.write(&patched);
    environment.wait_until("web", |now, _| refusal_message(now).is_none().then_some(())).await;
    let ended = await_operations(&environment, 2).await;
    assert!(ended.iter().all(|(phase, _)| *phase == OperationPhase::Succeeded), "{ended:#?}");
    let state = environment.wait_until("web", |now, _| {
        last_operation_state(now)
            .filter(|state| tidegate_application::operation::engine_id(&state.operation) != Some(first))
    });
    assert!(!state.await.operation.initiated_by.automated);
    environment.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_written_while_the_service_is_stopped_runs_after_the_current() {
    for knows_status in [true, false] {
        let mut environment = TestEnvironment::new(&[("web", &manifests("3s", "1ms"))]).await;
        environment.sync("web").await;
        environment
            .wait_until("web", |now, _| operation_message(now).contains("Job/migrate").then_some(()))
            .await;
        environment.shutdown().await;
        let mut persisted = environment.persisted("web");
        persisted.operation = Some(sync_request("queue"));
        if !knows_status {
            persisted.status = Default::default();
        }
        environment.set_persisted(&persisted);
        environment.restart().await;
        let ended = await_operations(&environment, 2).await;
        assert!(ended.iter().all(|(phase, _)| *phase == OperationPhase::Succeeded), "{ended:#?}");
        assert_eq!(
            environment.operations_that_created("Job").len(),
            4,
            "each operation ran its two hooks once"
        );
        environment.shutdown().await;
    }
}
