//! What becomes of an operation that is asked for, and of those that are asked for besides.

use tidegate_application::operation::ID_REMARK;
use tidegate_application::superseding::next;
use tidegate_model::OperationPhase;
use tidegate_model::argo::OperationState;

use super::*;

const POLICIES: [Option<&str>; 3] = [None, Some("queue"), Some("supersede")];

/// As `--policy` says it.
fn with_policy(mut operation: OperationRequest, policy: Option<&str>) -> OperationRequest {
    policy.into_iter().for_each(|policy| operation.set_remark(POLICY_REMARK, policy));
    operation
}

#[tokio::test(start_paused = true)]
async fn an_operation_is_asked_for_where_there_is_none_and_never_written_over_another() {
    let cluster = cluster().await;
    apply(cluster.as_ref(), application("argocd", "web")).await;
    let direct = direct(&cluster, &["argocd"]);
    let known = direct.one("web").await.unwrap();
    // What is known may be old by now.
    change(&cluster, |app| app["spec"]["colour"] = json!("green")).await;
    direct.sync(&known, asked(json!({"sync": {"prune": true}}))).await.unwrap();
    let first = live(&cluster).await;
    assert_eq!(first["operation"], json!({"initiatedBy": {"username": "ann"}, "sync": {"prune": true}}));
    assert_eq!(first["spec"]["colour"], "green");
    // Nobody knows of it yet but the resource, whatever the status says of others, or that it is to end.
    let told = |phase: &str, operation: &Value| json!({"operation": operation, "phase": phase, "startedAt": "2026-01-01T00:00:00Z"});
    let before =
        json!({"sync": {}, "info": [{"name": ID_REMARK, "value": "00000000-0000-7000-8000-000000000001"}]});
    let mut ended = told("Succeeded", &first["operation"]);
    ended["finishedAt"] = json!("2026-01-01T00:00:09Z");
    for state in [Value::Null, ended, told("Running", &before), told("Terminating", &first["operation"])] {
        change(&cluster, |app| app["status"] = json!({"operationState": state})).await;
        let before = live(&cluster).await;
        for policy in POLICIES {
            let why = refusal(direct.sync(&known, with_policy(asked(json!({"sync": {}})), policy)).await);
            assert!(why.contains("no service has taken it up yet"), "{policy:?}: {why}");
            assert!(why.contains("`tidegate app wait web --operation`"), "{policy:?}: {why}");
            assert_eq!(live(&cluster).await, before, "{policy:?}");
        }
    }
    // Its service has, by an id or by what it tells of it. Who is to follow it says so, as whoever writes a resource says it.
    let mut named = first["operation"].clone();
    named["info"] = before["info"].clone();
    for (operation, state) in [
        (&named, Value::Null),
        (&named, told("Running", &named)),
        (&first["operation"], told("Running", &first["operation"])),
    ] {
        for policy in POLICIES {
            change(&cluster, |app| {
                app["operation"] = operation.clone();
                app["status"] = json!({"operationState": state});
            })
            .await;
            let answer = direct.sync(&known, with_policy(asked(json!({"sync": {}})), policy)).await;
            let now = live(&cluster).await["operation"].clone();
            let Some(policy) = policy else {
                let why = refusal(answer);
                assert!(
                    why.contains("another operation is already in progress for application web"),
                    "{why}"
                );
                assert_eq!(now, *operation);
                continue;
            };
            answer.unwrap();
            assert_eq!(now["info"], json!([{"name": POLICY_REMARK, "value": policy}]));
            assert_eq!(next(&asked(now)), None, "that is said by its service alone");
            // Neither is that one lost by the next.
            let why =
                refusal(direct.sync(&known, with_policy(asked(json!({"sync": {}})), Some(policy))).await);
            assert!(why.contains("no service has taken it up yet"), "{why}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_phase_says_that_an_operation_is_to_end() {
    let cluster = cluster().await;
    apply(cluster.as_ref(), application("argocd", "web")).await;
    let direct = direct(&cluster, &["argocd"]);
    let known = direct.one("web").await.unwrap();
    // Of one that its service has not told of.
    direct.sync(&known, asked(json!({"sync": {}}))).await.unwrap();
    direct.terminate(&known).await.unwrap();
    let app = live(&cluster).await;
    let state = &app["status"]["operationState"];
    assert_eq!((&state["phase"], &state["operation"]), (&json!("Terminating"), &app["operation"]));
    assert!(serde_json::from_value::<Application>(app.clone()).is_ok(), "{app}");
    direct.terminate(&known).await.unwrap();
    assert_eq!(live(&cluster).await, app, "it is said once");
    // Of one that is under way, whatever else is known of it.
    let told = json!({"operation": app["operation"], "phase": "Running", "startedAt": "2026-01-01T00:00:00Z",
        "message": "at work", "else": [1]});
    change(&cluster, |app| app["status"]["operationState"] = told.clone()).await;
    direct.terminate(&known).await.unwrap();
    let mut ending = told.clone();
    ending["phase"] = json!("Terminating");
    assert_eq!(live(&cluster).await["status"]["operationState"], ending);
    // What is said of the one before is not about this one.
    let mut before = told;
    before["phase"] = json!("Succeeded");
    before["finishedAt"] = json!("2026-01-01T00:00:09Z");
    change(&cluster, |app| app["status"]["operationState"] = before).await;
    direct.terminate(&known).await.unwrap();
    let state = live(&cluster).await["status"]["operationState"].clone();
    assert_eq!((&state["phase"], state.get("finishedAt")), (&json!("Terminating"), None));
}

#[test]
fn an_operation_is_taken_up_when_it_has_an_id_or_is_told_of() {
    let mut application = Application::default();
    assert!(is_taken_up(&application), "there is none");
    let operation = asked(json!({"sync": {}}));
    let state: OperationState = serde_json::from_value(
        json!({"operation": {"sync": {}}, "phase": "Running", "startedAt": "2026-01-01T00:00:00Z"}),
    )
    .unwrap();
    let mut named = operation.clone();
    named.set_remark(ID_REMARK, "00000000-0000-7000-8000-000000000001");
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
        assert_eq!(is_taken_up(&application), expected, "{operation:?} {state:?}");
    }
}
