//! Recovery of the status from the operation log.

use serde_json::json;
use tidegate_application::history::{
    LogSummary, LoggedOperation, apply_history, is_interrupted, restore_operation, verify_operation,
};
use tidegate_application::operation::{EngineProgress, ID_INFO, engine_id, sync_request};
use tidegate_application::sync_windows::SyncWindows;
use tidegate_application::{automated_sync, deletion, operation};
use tidegate_model::argo::Application;
use tidegate_model::{Destination, OperationId, OperationPhase, Requester, SyncRequest};

use crate::{application, at, out_of_sync};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const OTHER: &str = "fedcba9876543210fedcba9876543210fedcba98";

fn operation_id(number: u128) -> OperationId {
    format!("{number:032x}").parse().unwrap()
}

fn progress(begin: i64, end: Option<i64>, phase: OperationPhase) -> EngineProgress {
    EngineProgress {
        phase,
        message: "as it went".into(),
        started_at: at(begin),
        finished_at: end.map(at),
        retry_count: 0,
        resources: Vec::new(),
    }
}

fn automated() -> Application {
    application(json!({"automated": {"prune": true, "selfHeal": true}}))
}

/// Returns the log entry of an operation that the application starts automatically, and updates `app`.
fn logged_automated(app: &mut Application, number: u128, commit: &str, begin: i64) -> LoggedOperation {
    out_of_sync(app, commit, at(begin));
    let automated_sync::AutomatedStep::Start(asked) =
        automated_sync::apply_comparison(app, &SyncWindows::default(), at(begin))
    else {
        panic!("the operation has not started")
    };
    let mut asked = *asked;
    asked.set_info(ID_INFO, operation_id(number).to_string());
    let request =
        sync_request(app, &asked, Destination::Simulated, "shop".into(), &[commit.to_owned()]).unwrap();
    app.operation = Some(asked);
    let progress = progress(begin, Some(begin + 5), OperationPhase::Succeeded);
    operation::apply_progress(app, progress.clone());
    LoggedOperation { operation: operation_id(number), request: Some(request), progress }
}

#[test]
fn a_lost_status_is_rebuilt_from_the_log() {
    let mut known = automated();
    let log = [
        logged_automated(&mut known, 1, COMMIT, 0),
        logged_automated(&mut known, 2, OTHER, 100),
        logged_automated(&mut known, 3, OTHER, 200),
    ];
    let mut lost = automated();
    assert_eq!(apply_history(&mut lost, log.to_vec()), 3);
    assert_eq!(lost.status.history, known.status.history);
    assert_eq!(lost.operation, None);
    let state = |app: &Application| app.status.operation_state.clone().unwrap();
    assert_eq!(state(&lost).sync_result, state(&known).sync_result);
    assert_eq!(engine_id(&state(&lost).operation), Some(operation_id(3)));
    assert_eq!(
        state(&lost).operation.sync.unwrap().auto_heal_attempts_count,
        1,
        "the third sync fixed the cluster"
    );
    assert!(state(&lost).operation.initiated_by.automated);
    // The synced commit isn't synced again, but self-heal applies after a delay.
    out_of_sync(&mut lost, OTHER, at(206));
    let due = automated_sync::apply_comparison(&mut lost, &SyncWindows::default(), at(206));
    assert_eq!(
        due,
        automated_sync::apply_comparison(
            &mut {
                let mut known = known.clone();
                out_of_sync(&mut known, OTHER, at(206));
                known
            },
            &SyncWindows::default(),
            at(206)
        )
    );
    // Applying the log again has no effect. An older status is completed.
    assert_eq!(apply_history(&mut lost, log.to_vec()), 0);
    let mut old = automated();
    assert_eq!(apply_history(&mut old, log[..1].to_vec()), 1);
    assert_eq!(apply_history(&mut old, log.to_vec()), 2);
    assert_eq!(old.status.history, known.status.history);
}

/// The log stores the requester and the reason in one string.
#[test]
fn requester_and_reason_are_restored_from_the_log() {
    let mut known = automated();
    let mut recorded = logged_automated(&mut known, 1, COMMIT, 0);
    for (info, text, reason) in [
        (json!([{"name": "Reason", "value": " a hotfix "}]), "ann, because: a hotfix", "a hotfix"),
        (json!([{"name": "Reason", "value": ""}]), "ann", ""),
        (json!([]), "ann", ""),
    ] {
        let asked = json!({"sync": {}, "initiatedBy": {"username": "ann"}, "info": info});
        let asked = serde_json::from_value(asked).unwrap();
        let request =
            sync_request(&known, &asked, Destination::Simulated, "shop".into(), &[COMMIT.to_owned()])
                .unwrap();
        assert_eq!(request.initiated_by, text);
        let found = Requester::from_operation(&request.initiated_by);
        assert_eq!((found.name, found.reason), ("ann", reason));
        recorded.request = Some(request);
        let mut lost = automated();
        assert_eq!(apply_history(&mut lost, vec![recorded.clone()]), 1);
        let again = lost.status.operation_state.unwrap().operation;
        assert_eq!(
            (again.initiated_by.username.as_str(), operation::request_reason(&again)),
            ("ann", reason)
        );
    }
    // For a deletion, the whole string counts as the name, regardless of its content.
    let deleted =
        "ann, by the deletion of shops (moved, because: of that), requested at 2026-11-21T09:30:00Z";
    assert_eq!(
        (Requester::from_operation(deleted).name, Requester::deletion_requester(deleted)),
        (deleted, Some("ann"))
    );
    let sync = "ann, because: moved, by the deletion of shops";
    assert_eq!((Requester::from_operation(sync).name, Requester::deletion_requester(sync)), ("ann", None));
}

#[test]
fn a_running_operation_is_continued() {
    let mut known = automated();
    let mut open = logged_automated(&mut known, 1, COMMIT, 0);
    open.progress = progress(0, None, OperationPhase::Running);
    let mut lost = automated();
    assert_eq!(apply_history(&mut lost, vec![open]), 1);
    assert_eq!(lost.operation.as_ref().and_then(engine_id), Some(operation_id(1)));
    assert_eq!(lost.operation.unwrap().sync.unwrap().revision, COMMIT);
    assert_eq!(lost.status.operation_state.unwrap().phase, OperationPhase::Running);
}

/// The log doesn't record this setting. If the rest of the policy matches, it is taken from the application.
#[test]
fn retry_refresh_follows_the_application() {
    let with = |retry: serde_json::Value| application(json!({"automated": {"prune": true}, "retry": retry}));
    let backoff = json!({"duration": "7s", "factor": 3, "maxDuration": "1m"});
    let own = json!({"limit": 4, "refresh": true, "backoff": backoff});
    for (began_with, now, refreshes) in [
        (own.clone(), own.clone(), true),
        // An operation that superseded another one gets the remaining attempts of that operation.
        (json!({"limit": 2, "refresh": true, "backoff": backoff}), own.clone(), true),
        (json!({"limit": 5, "refresh": true, "backoff": backoff}), own.clone(), false),
        (json!({"limit": -1, "refresh": true, "backoff": backoff}), own.clone(), false),
        (json!({"limit": 9, "refresh": true}), json!({"limit": -1, "refresh": true}), true),
        (json!({"limit": 4, "refresh": true}), own.clone(), false),
        (own.clone(), json!({"limit": 4, "backoff": backoff}), false),
        (own.clone(), serde_json::Value::Null, false),
    ] {
        let mut known = with(began_with.clone());
        let mut open = logged_automated(&mut known, 1, COMMIT, 0);
        open.progress = progress(0, None, OperationPhase::Running);
        let mut lost = with(now.clone());
        assert_eq!(apply_history(&mut lost, vec![open]), 1);
        let retry = lost.operation.unwrap().retry.unwrap();
        assert_eq!(retry.refresh, refreshes, "{began_with} under {now}");
        assert_eq!(Some(retry.limit), began_with["limit"].as_i64());
    }
}

#[test]
fn a_running_operation_is_restored_after_a_foreign_write() {
    let mut known = automated();
    let mut open = logged_automated(&mut known, 1, COMMIT, 0);
    open.progress = progress(0, None, OperationPhase::Running);
    let mut app = automated();
    apply_history(&mut app, vec![open]);
    let started = app.operation.clone();
    let line = |is_open| LogSummary { operation: operation_id(1), is_running: is_open };
    for (lines, is_back) in [(vec![line(true)], true), (vec![line(false)], false), (vec![], false)] {
        app.operation = Some(Default::default());
        restore_operation(&mut app, &lines);
        assert_eq!(app.operation == started, is_back, "{lines:?}");
    }
}

#[test]
fn foreign_and_older_operations_are_ignored() {
    let mut known = automated();
    let first = logged_automated(&mut known, 1, COMMIT, 0);
    let of_files = SyncRequest { sources: vec!["web".into()], ..first.request.clone().unwrap() };
    let mut lost = automated();
    let by_hand = LoggedOperation { request: Some(of_files), ..first.clone() };
    assert_eq!(
        apply_history(&mut lost, vec![by_hand]),
        0,
        "another process has synced files under the application's name"
    );
    // After this operation, a request was rejected before the engine received it.
    known.operation = Some(Default::default());
    operation::apply_progress(&mut known, EngineProgress::rejected("no such branch".into(), at(50)));
    assert_eq!(apply_history(&mut known, vec![first.clone()]), 0);
    // A summary can represent any operation, so nothing starts automatically.
    let line = LoggedOperation { request: None, ..first };
    assert_eq!(apply_history(&mut lost, vec![line]), 1);
    let mut patient = application(json!({"automated": {}}));
    patient.status = lost.status;
    out_of_sync(&mut patient, COMMIT, at(60));
    assert_eq!(
        automated_sync::apply_comparison(&mut patient, &SyncWindows::default(), at(60)),
        automated_sync::AutomatedStep::Nothing
    );
}

/// Returns the log entry of the application's deletion, and updates `app`.
fn logged_deletion(app: &mut Application, number: u128, begin: i64, end: OperationPhase) -> LoggedOperation {
    app.metadata.finalizers = vec![deletion::RESOURCES_FINALIZER.into()];
    app.metadata.deletion_timestamp = Some(at(begin).into());
    let deletion::NextDeletionStep::Start(asked) = deletion::decide_deletion(app, true, at(begin)) else {
        panic!("the operation has not started")
    };
    let mut asked = *asked;
    asked.set_info(ID_INFO, operation_id(number).to_string());
    let request = deletion::deletion_request(app, &asked, Destination::Simulated, "shop".into()).unwrap();
    app.operation = Some(asked);
    let progress = progress(begin, Some(begin + 5), end);
    operation::apply_progress(app, progress.clone());
    LoggedOperation { operation: operation_id(number), request: Some(request), progress }
}

/// The deletion and its next step are restored from the log. A different application with the same name
/// doesn't inherit anything.
#[test]
fn a_deletion_is_restored_from_the_log() {
    use OperationPhase::{Failed, Succeeded};
    for (ended, next) in [
        (Succeeded, deletion::NextDeletionStep::Release),
        (Failed, deletion::NextDeletionStep::Wait(at(285))),
    ] {
        let mut known = automated();
        let log = [logged_automated(&mut known, 1, COMMIT, 0), logged_deletion(&mut known, 2, 100, ended)];
        assert_eq!(known.status.history.len(), 1, "a deletion is not a sync");
        let mut lost = automated();
        lost.metadata = known.metadata.clone();
        assert_eq!(apply_history(&mut lost, log.to_vec()), 2);
        assert_eq!(lost.status.history, known.status.history);
        assert_eq!(deletion::decide_deletion(&mut lost, false, at(110)), next);
        let mut anew = automated();
        assert_eq!(apply_history(&mut anew, log.to_vec()), 0);
        out_of_sync(&mut anew, COMMIT, at(200));
        let started = automated_sync::apply_comparison(&mut anew, &SyncWindows::default(), at(200));
        assert!(
            matches!(started, automated_sync::AutomatedStep::Start(_)),
            "the same commit is synced: {started:?}"
        );
        // A canceled deletion doesn't count as a sync attempt.
        let mut kept = known.clone();
        kept.metadata.deletion_timestamp = None;
        out_of_sync(&mut kept, COMMIT, at(200));
        assert!(matches!(
            automated_sync::apply_comparison(&mut kept, &SyncWindows::default(), at(200)),
            automated_sync::AutomatedStep::Start(_)
        ));
    }
}

/// Anyone with access to the resource can write any ID, and a backup can restore an old one.
#[test]
fn an_id_counts_only_where_the_log_has_it_for_this_application() {
    let line = |number, is_open| LogSummary { operation: operation_id(number), is_running: is_open };
    let asks = |number: u128| {
        let mut app = automated();
        let mut asked = tidegate_model::argo::OperationRequest::default();
        asked.sync.get_or_insert_default().prune = true;
        asked.set_info(ID_INFO, operation_id(number).to_string());
        asked.set_info("reason", "a release");
        app.operation = Some(asked);
        app
    };
    for (lines, is_kept, why) in [
        (&[][..], false, "the log has no such operation of this application"),
        (&[line(1, false), line(2, true)], true, "the operation is running"),
        (
            &[line(2, true), line(3, false)],
            true,
            "the operation is still running, but a later operation has ended",
        ),
        (
            &[line(1, false), line(2, false)],
            true,
            "the operation has ended, but the status is not updated yet",
        ),
        (&[line(2, false), line(3, false)], false, "the operation ended before a later operation"),
    ] {
        let mut app = asks(2);
        verify_operation(&mut app, lines, at(300));
        let asked = app.operation.unwrap();
        assert_eq!(engine_id(&asked).is_some(), is_kept, "{why}");
        assert_eq!(asked.info_value("reason"), Some("a release"), "other info items are kept");
    }
    // The status already contains the end of the operation, so the request isn't repeated.
    let mut app = asks(2);
    operation::apply_progress(&mut app, progress(0, Some(5), OperationPhase::Succeeded));
    app.operation = asks(2).operation;
    verify_operation(&mut app, &[line(2, false)], at(300));
    assert_eq!(app.operation.as_ref().and_then(engine_id), None);
}

/// A service that takes over knows only the resource.
#[test]
fn an_operation_of_another_service_is_continued_if_the_status_has_it_running() {
    let line = |number| LogSummary { operation: operation_id(number), is_running: false };
    let at_work = |told: u128, end: Option<i64>| {
        let mut app = automated();
        out_of_sync(&mut app, COMMIT, at(0));
        let automated_sync::AutomatedStep::Start(asked) =
            automated_sync::apply_comparison(&mut app, &SyncWindows::default(), at(0))
        else {
            panic!("the operation has not started")
        };
        let with_id = |number: u128| {
            let mut asked = asked.as_ref().clone();
            asked.set_info(ID_INFO, operation_id(number).to_string());
            Some(asked)
        };
        app.operation = with_id(told);
        let phase = end.map_or(OperationPhase::Running, |_| OperationPhase::Succeeded);
        operation::apply_progress(&mut app, progress(100, end, phase));
        app.operation = with_id(2);
        app
    };
    for (app, lines, now, is, reason) in [
        (at_work(2, None), &[][..], 300, true, "the other service is gone"),
        (at_work(2, None), &[line(1)], 300, true, "the local log has only older operations"),
        (at_work(2, None), &[line(3)], 300, false, "the local log has a newer operation"),
        (at_work(2, Some(200)), &[], 300, false, "the status contains the operation's end"),
        (at_work(1, None), &[], 300, false, "the status describes another operation"),
        (at_work(2, None), &[], -7200, false, "the operation starts in the future"),
        (automated(), &[], 300, false, "no operation is requested"),
    ] {
        assert_eq!(is_interrupted(&app, lines, at(now)), is, "{reason}");
    }
    let mut deleted = at_work(2, None);
    deleted.metadata.deletion_timestamp = Some(at(0).into());
    assert!(!is_interrupted(&deleted, &[], at(300)));
}

#[test]
fn a_deletion_written_by_others_is_ignored() {
    for is_deleting in [false, true] {
        let mut app = automated();
        app.metadata.finalizers = vec![deletion::RESOURCES_FINALIZER.into()];
        app.metadata.deletion_timestamp = Some(at(0).into());
        let deletion::NextDeletionStep::Start(asked) = deletion::decide_deletion(&mut app, false, at(0))
        else {
            panic!("the operation has not started")
        };
        let mut disowned = asked.as_ref().clone();
        operation::remove_controller_infos(&mut disowned);
        assert_eq!(
            (operation::deletion_cascade(&asked).is_some(), operation::deletion_cascade(&disowned)),
            (true, None)
        );
        if !is_deleting {
            app.metadata.deletion_timestamp = None;
        }
        let mut asked = *asked;
        asked.set_info(ID_INFO, operation_id(7).to_string());
        app.operation = Some(asked);
        verify_operation(&mut app, &[], at(300));
        assert_eq!(deletion::unfounded_deletion_message(&app).is_some(), !is_deleting);
        assert_eq!(app.operation.as_ref().and_then(engine_id), None);
        assert_eq!(
            app.operation.is_none(),
            is_deleting,
            "the deletion starts with the current specification"
        );
        let next = deletion::decide_deletion(&mut app, false, at(0));
        assert_eq!(matches!(next, deletion::NextDeletionStep::Start(_)), is_deleting, "{next:?}");
    }
}

/// A request that was rejected before it started isn't in the log, but the status that describes it covers
/// all earlier operations. This also holds within one second, and for an operation with an ID.
#[test]
fn the_status_of_a_rejected_request_is_preserved() {
    let mut app = automated();
    let log = vec![logged_automated(&mut app, 1, COMMIT, 0), logged_automated(&mut app, 2, OTHER, 100)];
    for (number, id) in [None, Some(3), None].into_iter().enumerate() {
        let mut asked =
            serde_json::from_value::<tidegate_model::argo::OperationRequest>(json!({"sync": {}})).unwrap();
        id.into_iter().for_each(|id| asked.set_info(ID_INFO, operation_id(id).to_string()));
        app.operation = Some(asked);
        // In the same second in which the newest logged operation started.
        operation::apply_progress(
            &mut app,
            EngineProgress::rejected("there is no such revision".to_owned(), at(100)),
        );
        let told = app.clone();
        assert_eq!(apply_history(&mut app, log.clone()), 0, "{number}");
        assert_eq!(app, told, "{number}");
    }
    // Only operations that started later are applied from the log.
    let mut more = log;
    more.push(logged_automated(&mut app.clone(), 4, COMMIT, 300));
    let before = app.status.history.len();
    assert_eq!(apply_history(&mut app, more), 1);
    assert_eq!(app.status.history.len(), before + 1);
}
