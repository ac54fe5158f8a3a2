//! Requested operations, and requests during another operation.

use tidegate_application::operation::ID_INFO;
use tidegate_application::supersede::successor_of;
use tidegate_model::OperationPhase;
use tidegate_model::argo::OperationState;

use super::*;

const POLICY_CASES: [Option<&str>; 3] = [None, Some("queue"), Some("supersede")];

/// Sets the policy as with `--policy`.
fn with_policy(mut operation: OperationRequest, policy: Option<&str>) -> OperationRequest {
    policy.into_iter().for_each(|policy| operation.set_info(POLICY_INFO, policy));
    operation
}

#[tokio::test(start_paused = true)]
async fn an_operation_is_requested_only_if_there_is_no_other_one() {
    let cluster = cluster().await;
    apply(cluster.as_ref(), application("argocd", "web")).await;
    let direct = open_client(&cluster, &["argocd"]);
    let known = direct.find_one("web").await.unwrap();
    // The resource changes after it was read, so the write needs another attempt.
    update_application(&cluster, |app| app["spec"]["colour"] = json!("green")).await;
    direct.sync(&known, parse_operation(json!({"sync": {"prune": true}}))).await.unwrap();
    let first = live_application(&cluster).await;
    assert_eq!(first["operation"], json!({"initiatedBy": {"username": "ann"}, "sync": {"prune": true}}));
    assert_eq!(first["spec"]["colour"], "green");
    // Only the resource contains the request. It isn't accepted, even if the status refers to another
    // operation or to a termination.
    let operation_state = |phase: &str, operation: &Value| json!({"operation": operation, "phase": phase, "startedAt": "2026-01-01T00:00:00Z"});
    let before =
        json!({"sync": {}, "info": [{"name": ID_INFO, "value": "00000000-0000-7000-8000-000000000001"}]});
    let mut ended = operation_state("Succeeded", &first["operation"]);
    ended["finishedAt"] = json!("2026-01-01T00:00:09Z");
    for state in [
        Value::Null,
        ended,
        operation_state("Running", &before),
        operation_state("Terminating", &first["operation"]),
    ] {
        update_application(&cluster, |app| app["status"] = json!({"operationState": state})).await;
        let before = live_application(&cluster).await;
        for policy in POLICY_CASES {
            let reason = refusal_message(
                direct.sync(&known, with_policy(parse_operation(json!({"sync": {}})), policy)).await,
            );
            assert!(reason.contains("no service has started it yet"), "{policy:?}: {reason}");
            assert!(reason.contains("`tidegate app wait web --operation`"), "{policy:?}: {reason}");
            assert_eq!(live_application(&cluster).await, before, "{policy:?}");
        }
    }
    // The service has accepted the operation, because the operation has an ID or the status refers to it. A
    // request during this operation must contain a policy for the operation.
    let mut named = first["operation"].clone();
    named["info"] = before["info"].clone();
    for (operation, state) in [
        (&named, Value::Null),
        (&named, operation_state("Running", &named)),
        (&first["operation"], operation_state("Running", &first["operation"])),
    ] {
        for policy in POLICY_CASES {
            update_application(&cluster, |app| {
                app["operation"] = operation.clone();
                app["status"] = json!({"operationState": state});
            })
            .await;
            let answer = direct.sync(&known, with_policy(parse_operation(json!({"sync": {}})), policy)).await;
            let now = live_application(&cluster).await["operation"].clone();
            let Some(policy) = policy else {
                let reason = refusal_message(answer);
                assert!(
                    reason.contains("another operation is already in progress for application web"),
                    "{reason}"
                );
                assert_eq!(now, *operation);
                continue;
            };
            answer.unwrap();
            assert_eq!(now["info"], json!([{"name": POLICY_INFO, "value": policy}]));
            assert_eq!(successor_of(&parse_operation(now)), None, "that is said by its service alone");
            // The queued operation isn't replaced by the next request, either.
            let reason = refusal_message(
                direct.sync(&known, with_policy(parse_operation(json!({"sync": {}})), Some(policy))).await,
            );
            assert!(reason.contains("no service has started it yet"), "{reason}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_termination_is_requested_by_the_phase() {
    let cluster = cluster().await;
    apply(cluster.as_ref(), application("argocd", "web")).await;
    let direct = open_client(&cluster, &["argocd"]);
    let known = direct.find_one("web").await.unwrap();
    // The service hasn't reported the operation yet.
    direct.sync(&known, parse_operation(json!({"sync": {}}))).await.unwrap();
    direct.terminate(&known).await.unwrap();
    let app = live_application(&cluster).await;
    let state = &app["status"]["operationState"];
    assert_eq!((&state["phase"], &state["operation"]), (&json!("Terminating"), &app["operation"]));
    assert!(serde_json::from_value::<Application>(app.clone()).is_ok(), "{app}");
    direct.terminate(&known).await.unwrap();
    assert_eq!(live_application(&cluster).await, app, "it is reported once");
    // The operation is running. A termination changes only its phase.
    let operation_state = json!({"operation": app["operation"], "phase": "Running", "startedAt": "2026-01-01T00:00:00Z",
        "message": "at work", "else": [1]});
    update_application(&cluster, |app| app["status"]["operationState"] = operation_state.clone()).await;
    direct.terminate(&known).await.unwrap();
    let mut ending = operation_state.clone();
    ending["phase"] = json!("Terminating");
    assert_eq!(live_application(&cluster).await["status"]["operationState"], ending);
    // The status of the previous operation doesn't affect the termination of this operation.
    let mut before = operation_state;
    before["phase"] = json!("Succeeded");
    before["finishedAt"] = json!("2026-01-01T00:00:09Z");
    update_application(&cluster, |app| app["status"]["operationState"] = before).await;
    direct.terminate(&known).await.unwrap();
    let state = live_application(&cluster).await["status"]["operationState"].clone();
    assert_eq!((&state["phase"], state.get("finishedAt")), (&json!("Terminating"), None));
}

#[test]
fn an_operation_is_accepted_once_it_has_an_id_or_a_condition() {
    let mut application = Application::default();
    assert!(is_operation_accepted(&application), "there is none");
    let operation = parse_operation(json!({"sync": {}}));
    let state: OperationState = serde_json::from_value(
        json!({"operation": {"sync": {}}, "phase": "Running", "startedAt": "2026-01-01T00:00:00Z"}),
    )
    .unwrap();
    let mut named = operation.clone();
    named.set_info(ID_INFO, "00000000-0000-7000-8000-000000000001");
    let ended = OperationState { finished_at: Some(state.started_at), ..state.clone() };
    let ending = OperationState { phase: OperationPhase::Terminating, ..state.clone() };
    let another = OperationState { operation: named.clone(), ..state.clone() };
    for (operation, state, expected) in [
        (&operation, None, false),
        (&operation, Some(&state), true),
        (&operation, Some(&ended), false),
        (&operation, Some(&ending), false),
        (&operation, Some(&another), false),
        (&named, None, true),
        (&named, Some(&ended), true),
        (&named, Some(&another), true),
    ] {
        application.operation = Some(operation.clone());
        application.status.operation_state = state.cloned();
        assert_eq!(is_operation_accepted(&application), expected, "{operation:?} {state:?}");
    }
}

/// A service may take up to a second to write that an operation has finished.
#[tokio::test(start_paused = true)]
async fn an_operation_can_be_requested_right_after_the_end_of_another_one() {
    let cluster = cluster().await;
    apply(cluster.as_ref(), application("argocd", "web")).await;
    let direct = open_client(&cluster, &["argocd"]);
    let known = direct.find_one("web").await.unwrap();
    let running =
        json!({"sync": {}, "info": [{"name": ID_INFO, "value": "0193b6a7-5f80-7000-8000-000000000001"}]});
    let begin = |app: &mut Value| app["operation"] = running.clone();
    update_application(&cluster, begin).await;
    let end = async {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        update_application(&cluster, |app| drop(app.as_object_mut().unwrap().remove("operation"))).await;
    };
    let (answer, ()) = tokio::join!(direct.sync(&known, parse_operation(json!({"sync": {}}))), end);
    answer.unwrap();
    assert_eq!(live_application(&cluster).await["operation"]["initiatedBy"]["username"], "ann");
    // If the other operation is still running, the request is rejected.
    update_application(&cluster, begin).await;
    let reason = refusal_message(direct.sync(&known, parse_operation(json!({"sync": {}}))).await);
    assert!(reason.contains("already in progress"), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn a_repeated_deletion_request_retries_a_failed_deletion() {
    const REFRESH: &str = "/metadata/annotations/argocd.argoproj.io~1refresh";
    let cluster = cluster().await;
    let mut web = application("argocd", "web");
    web["metadata"]["finalizers"] = json!(["resources-finalizer.argocd.argoproj.io"]);
    apply(cluster.as_ref(), web).await;
    let direct = open_client(&cluster, &["argocd"]);
    let known = direct.find_one("web").await.unwrap();
    direct.delete(&known, Cascade::Foreground.into(), "").await.unwrap();
    let deleting = direct.find_one("web").await.unwrap();
    direct.delete(&deleting, Cascade::Foreground.into(), "").await.unwrap();
    assert_eq!(live_application(&cluster).await.pointer(REFRESH), None, "it is running");
    let failed = json!([{"type": "DeletionError", "message": "deletion failed"}]);
    update_application(&cluster, |app| app["status"]["conditions"] = failed).await;
    direct.delete(&deleting, Cascade::Foreground.into(), "").await.unwrap();
    assert_eq!(live_application(&cluster).await.pointer(REFRESH), Some(&json!("normal")));
}
