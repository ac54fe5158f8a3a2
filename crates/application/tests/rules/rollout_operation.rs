//! Operations of progressive syncs: requests, start conditions and results.

use serde_json::{Value, json};
use tidegate_application::history::{self, LogSummary, LoggedOperation, verify_operation};
use tidegate_application::operation::{self, EngineProgress, engine_id, sync_request as asks};
use tidegate_application::rollout_operation::{
    RolloutDeployment, StartDecision, assign_operation, current_rollout_operation, decide_start,
    deployment_request, is_of_rollout, last_deployment, operation_result, rollback_request,
    withdraw_operation,
};
use tidegate_application::sync_windows::SyncWindows;
use tidegate_model::argo::{AppProject, Application, OperationRequest};
use tidegate_model::{DeployTarget, Destination, OperationId, OperationPhase, SyncRequest};

use crate::{application, at};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const OTHER: &str = "fedcba9876543210fedcba9876543210fedcba98";

fn operation_id(number: u128) -> OperationId {
    format!("{number:032x}").parse().unwrap()
}

fn request_deployment(app: &Application, revision: &str) -> OperationRequest {
    deployment_request(
        app,
        RolloutDeployment { appset: "argocd/fleet", revisions: &[revision.to_owned()], prune: false },
    )
}

fn progress(phase: OperationPhase, message: &str) -> EngineProgress {
    let over = EngineProgress::rejected(message.to_owned(), at(9));
    let finished_at = over.finished_at.filter(|_| phase.is_completed());
    EngineProgress { phase, finished_at, ..over }
}

/// Ends the operation with this ID and revision in this phase.
fn finish_operation(app: &mut Application, number: u128, asked: OperationRequest, phase: OperationPhase) {
    assign_operation(app, operation_id(number), asked);
    operation::apply_progress(app, progress(phase, "as it went"));
}

#[test]
fn the_request_deploys_the_chosen_revision() {
    let policy = json!({"syncOptions": ["ServerSideApply=true"], "retry": {"limit": 2},
        "automated": {"enabled": false, "prune": true}});
    let app = application(policy);
    let deploy = RolloutDeployment { appset: "argocd/fleet", revisions: &[COMMIT.to_owned()], prune: true };
    let asked = deployment_request(&app, deploy);
    let written = serde_json::to_value(&asked).unwrap();
    assert_eq!(written["initiatedBy"], json!({"username": "applicationset-controller", "automated": true}));
    assert_eq!(written["retry"]["limit"], 2);
    let expected = json!({"revision": COMMIT, "prune": true, "syncOptions": ["ServerSideApply=true"],
        "source": {"repoURL": "./repo", "path": "web"}});
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(&written["sync"][field], value, "{field}");
    }
    assert_eq!(
        asked.info_value("Reason"),
        Some("ApplicationSet RollingSync triggered a sync of this Application resource")
    );
    // Without a policy, the operation has five retries and doesn't prune.
    let plain = serde_json::to_value(request_deployment(&application(Value::Null), COMMIT)).unwrap();
    assert_eq!((&plain["retry"]["limit"], &plain["sync"]["prune"]), (&json!(5), &Value::Null));
}

#[test]
fn a_rollback_uses_the_earlier_source() {
    let mut app = application(json!({}));
    let asked = request_deployment(&app, COMMIT);
    finish_operation(&mut app, 1, asked, OperationPhase::Succeeded);
    app.spec.source.as_mut().unwrap().path = "moved".into();
    let asked = request_deployment(&app, OTHER);
    finish_operation(&mut app, 2, asked, OperationPhase::Succeeded);
    let back = |revision: &str| {
        let deploy =
            RolloutDeployment { appset: "argocd/fleet", revisions: &[revision.to_owned()], prune: false };
        let sync = rollback_request(&app, deploy).sync.unwrap();
        (sync.revision, sync.source.unwrap().path)
    };
    assert_eq!(back(COMMIT), (COMMIT.to_owned(), "web".to_owned()));
    assert_eq!(back(OTHER), (OTHER.to_owned(), "moved".to_owned()));
    assert_eq!(back("unknown"), ("unknown".to_owned(), "moved".to_owned()));
}

fn denied() -> SyncWindows {
    let project = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": {"name": "shop"},
        "spec": {"syncWindows": [{"kind": "deny", "schedule": "* * * * *", "duration": "1h",
            "applications": ["*"], "manualSync": true}]}});
    let project: AppProject = serde_json::from_value(project).unwrap();
    let target = DeployTarget {
        servers: Vec::new(),
        name: "in-cluster".to_owned(),
        project: String::new(),
        namespace: "web".to_owned(),
    };
    SyncWindows::for_application(&project, "web", &target, |name| Err(name.to_owned()))
}

#[test]
fn start_conditions() {
    let free = application(json!({}));
    assert_eq!(decide_start(&free, &SyncWindows::default(), at(0)), StartDecision::Start);
    let mut taken = free.clone();
    taken.operation = Some(OperationRequest::default());
    assert_eq!(decide_start(&taken, &SyncWindows::default(), at(0)), StartDecision::Wait);
    // The operation doesn't count as manual.
    let StartDecision::Blocked(held) = decide_start(&free, &denied(), at(0)) else { panic!("not blocked") };
    assert!(held.reason.contains("of project shop") && held.next_check > at(0), "{held:?}");
    assert_eq!(decide_start(&taken, &denied(), at(0)), StartDecision::Wait);
    let mut skipped = free.clone();
    skipped.metadata.annotations.insert("argocd.argoproj.io/skip-reconcile".into(), "true".into());
    let mut deleted = taken.clone();
    deleted.metadata.deletion_timestamp = Some(at(0).into());
    for (app, part) in [(&skipped, "skip-reconcile"), (&deleted, "is being deleted")] {
        let StartDecision::Unavailable(reason) = decide_start(app, &SyncWindows::default(), at(0)) else {
            panic!("{part}")
        };
        assert!(reason.contains(part), "{reason}");
    }
}

#[test]
fn an_operation_can_be_withdrawn_before_it_starts() {
    let mut app = application(json!({}));
    let asked = request_deployment(&app, COMMIT);
    assign_operation(&mut app, operation_id(3), asked.clone());
    assert_eq!(current_rollout_operation(&app), Some(operation_id(3)));
    withdraw_operation(&mut app, operation_id(4), at(1));
    assert_eq!(
        current_rollout_operation(&app),
        Some(operation_id(3)),
        "the request is for another operation"
    );
    withdraw_operation(&mut app, operation_id(3), at(1));
    assert_eq!((&app.operation, &app.status.operation_state), (&None, &None));
    // An operation that was reported as waiting is now reported as ended. Its ID is removed, so the operation
    // can be requested again.
    assign_operation(&mut app, operation_id(3), asked.clone());
    operation::set_waiting(&mut app, "waiting for another".into(), at(1));
    assert_eq!(operation_result(&app, operation_id(3)), None);
    withdraw_operation(&mut app, operation_id(3), at(2));
    let state = app.status.operation_state.clone().unwrap();
    assert_eq!((state.phase, app.operation.is_some()), (OperationPhase::Failed, false));
    assert_eq!((operation_result(&app, operation_id(3)), engine_id(&state.operation)), (None, None));
    // Requests of other clients are kept.
    app.operation = Some(OperationRequest::default());
    withdraw_operation(&mut app, operation_id(3), at(3));
    assert!(app.operation.is_some());
}

#[test]
fn a_starting_operation_replaces_the_previous_status() {
    let said = |app: &Application| app.status.operation_state.clone().map(|state| state.message);
    let mut app = application(json!({}));
    operation::set_starting(&mut app, at(0));
    assert_eq!(said(&app), None, "no sync is requested");
    let before = request_deployment(&app, COMMIT);
    finish_operation(&mut app, 3, before, OperationPhase::Succeeded);
    app.operation = Some(OperationRequest::default());
    operation::set_starting(&mut app, at(1));
    let begins = app.status.operation_state.clone().unwrap();
    assert_eq!((begins.phase, begins.finished_at), (OperationPhase::Running, None));
    assert!(begins.message.contains("begin") && !operation::has_started(&app));
    // The reported wait is removed, and the operation doesn't start later.
    operation::set_waiting(&mut app, "waiting for another".into(), at(2));
    operation::set_starting(&mut app, at(3));
    assert_eq!(app.status.operation_state, Some(begins));
    // The status already describes the operation.
    let mut app = application(json!({}));
    assign_operation(&mut app, operation_id(4), OperationRequest::default());
    operation::set_waiting(&mut app, "its first wave".into(), at(4));
    let told = app.clone();
    app.operation.as_mut().unwrap().set_info("other", "remark".to_owned());
    operation::set_starting(&mut app, at(5));
    assert_eq!(said(&app), said(&told));
}

#[test]
fn the_status_has_the_result() {
    let mut app = application(json!({}));
    let asked = request_deployment(&app, COMMIT);
    finish_operation(&mut app, 3, asked.clone(), OperationPhase::Running);
    assert_eq!(operation_result(&app, operation_id(3)), None);
    finish_operation(&mut app, 3, asked, OperationPhase::Failed);
    assert_eq!(
        operation_result(&app, operation_id(3)),
        Some((OperationPhase::Failed, "as it went".to_owned()))
    );
    assert_eq!(operation_result(&app, operation_id(4)), None);
}

/// A progressive sync that still needs the operation requests the operation again. An operation that stayed
/// in the resource could start a second time under a different ID.
#[test]
fn after_a_restart_only_started_operations_remain() {
    let line = |number, is_open| LogSummary { operation: operation_id(number), is_running: is_open };
    for (lines, is_kept) in
        [(&[][..], false), (&[line(3, true)], true), (&[line(3, false), line(4, false)], false)]
    {
        let mut app = application(json!({}));
        let asked = request_deployment(&app, COMMIT);
        assign_operation(&mut app, operation_id(3), asked);
        verify_operation(&mut app, lines, at(5));
        assert_eq!(current_rollout_operation(&app).is_some(), is_kept, "{lines:?}");
        assert_eq!(app.operation.is_some(), is_kept, "{lines:?}");
    }
    // Only the controller may set the owner.
    let mut asked = request_deployment(&application(json!({})), COMMIT);
    operation::remove_controller_infos(&mut asked);
    assert!(!is_of_rollout(&asked));
}

#[test]
fn only_full_syncs_count_as_deployments() {
    let mut app = application(json!({}));
    let asked = |change: fn(&mut OperationRequest)| {
        let mut asked = request_deployment(&application(json!({})), COMMIT);
        change(&mut asked);
        asked
    };
    let whole = || asked(|_| {});
    let dry = || asked(|asked| asked.sync.as_mut().unwrap().dry_run = true);
    let part = || asked(|asked| asked.sync.as_mut().unwrap().resources = vec![Default::default()]);
    let log = |number, asked: &OperationRequest, phase| {
        let request: SyncRequest = asks(
            &application(json!({})),
            asked,
            Destination::Simulated,
            "web".to_owned(),
            &[COMMIT.to_owned()],
        )
        .unwrap();
        let progress = progress(phase, "as it went");
        LoggedOperation { operation: operation_id(number), request: Some(request), progress }
    };
    let by_log = |all: &[LoggedOperation]| {
        history::newest_deployment(all.iter().cloned()).map(|one| (one.operation, one.revisions))
    };
    let mut all = vec![log(1, &whole(), OperationPhase::Succeeded)];
    for (number, asked, phase, counts) in [
        (2, whole(), OperationPhase::Failed, false),
        (3, dry(), OperationPhase::Succeeded, false),
        (4, part(), OperationPhase::Succeeded, false),
        (5, whole(), OperationPhase::Running, false),
        (6, whole(), OperationPhase::Succeeded, true),
    ] {
        all.push(log(number, &asked, phase));
        let newest = if counts { number } else { 1 };
        assert_eq!(by_log(&all), Some((operation_id(newest), vec![COMMIT.to_owned()])), "{number}");
        finish_operation(&mut app, number, asked, phase);
        let expected = counts.then(|| operation_id(number));
        assert_eq!(last_deployment(&app).map(|one| one.operation), expected, "{number}");
    }
    assert_eq!(last_deployment(&app).unwrap().revisions, [COMMIT]);
    all.push(LoggedOperation { request: None, ..log(7, &whole(), OperationPhase::Succeeded) });
    assert_eq!(by_log(&all), None, "the result of the last operation is unknown");
}
