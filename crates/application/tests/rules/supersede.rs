//! Newer revisions and requests while an operation is running.

use serde_json::{Value, json};
use tidegate_application::automated_sync;
use tidegate_application::comparison::apply_comparison as compare;
use tidegate_application::operation::{self, EngineProgress, ID_INFO, apply_progress};
use tidegate_application::refresh::RefreshLevel;
use tidegate_application::supersede::{
    BusyError, ManifestComparison, POLICY_INFO, SUPERSEDES_INFO, SupersedeDecision, SupersedeInputs,
    accept_request, awaits_retry, decide_supersede, is_sync_request, normalize_written_request,
    set_retry_successor, successor_of, take_policy, was_superseded,
};
use tidegate_model::argo::{Application, OperationRequest, SyncStatusCode as Code};
use tidegate_model::{ClaimConflictPolicy, HealthStatus::Healthy, OperationPhase, SafePoint};

use crate::{application, at, compared, out_of_sync, resource};

const ID: &str = "01990000-0000-7000-8000-000000000001";
const SUPERSEDED: &str = "Operation terminated, superseded by another sync (revision c2)";

fn automated() -> Value {
    json!({"automated": {"prune": true}})
}

/// Returns an application with an automated operation at `c1` that has since been compared with `c2`.
fn running_application(policy: Value) -> Application {
    let mut app = application(policy);
    out_of_sync(&mut app, "c1", at(0));
    app.operation = match automated_sync::decide(&app, at(0)).next {
        automated_sync::AutomatedStep::Start(started) => Some(*started),
        _ => Some(request_for_revision("c1")),
    };
    app.operation.as_mut().unwrap().set_info(ID_INFO, ID);
    set_progress(&mut app, "waiting for healthy state of apps/Deployment/web", 0);
    out_of_sync(&mut app, "c2", at(5));
    app
}

fn request_for_revision(revision: &str) -> OperationRequest {
    let operation = json!({"sync": {"revision": revision}, "initiatedBy": {"username": "ann"}});
    serde_json::from_value(operation).unwrap()
}

fn set_progress(app: &mut Application, message: &str, retry_count: u32) {
    let (phase, message) = (OperationPhase::Running, message.to_owned());
    let progress = EngineProgress {
        phase,
        message,
        started_at: at(1),
        finished_at: None,
        retry_count,
        resources: Vec::new(),
    };
    apply_progress(app, progress);
}

fn finish_operation(app: &mut Application, phase: OperationPhase, message: &str) {
    let progress = EngineProgress {
        phase,
        message: message.to_owned(),
        started_at: at(1),
        finished_at: Some(at(10)),
        retry_count: 0,
        resources: Vec::new(),
    };
    apply_progress(app, progress);
}

/// Returns `supersede` with the successor, `finish` with the reason for waiting, or an empty string.
fn decision_text(app: &Application, is_held: bool) -> String {
    decision_text_for(
        app,
        SupersedeInputs { is_blocked: is_held, newest_manifests: ManifestComparison::Different },
    )
}

fn decision_text_for(app: &Application, given: SupersedeInputs) -> String {
    match decide_supersede(app, given, at(6)) {
        SupersedeDecision::Continue => String::new(),
        SupersedeDecision::Finish(reason) => format!("finish: {reason}"),
        SupersedeDecision::Supersede { by, when, .. } => format!("supersede {when:?}: {by}"),
    }
}

#[test]
fn a_newer_revision() {
    type Change = fn(&mut Application);
    type Row<'a> = (&'a str, &'a dyn Fn(&mut Application), bool, String);
    let on = |value: &'static str| {
        move |app: &mut Application| {
            app.metadata.annotations.insert("tidegate.dev/on-new-revision".into(), value.into());
        }
    };
    let finish = "finish: revision c2 is waiting for the running operation to end: ";
    let newer = "supersede Waiting: another sync (revision c2)".to_owned();
    let none = String::new();
    let table: [Row<'_>; 14] = [
        ("no annotation", &((|_| {}) as Change), false, newer.clone()),
        ("annotation", &on("supersede"), false, newer.clone()),
        ("annotation with spaces", &on(" supersede "), false, newer.clone()),
        ("finish", &on("finish"), false, format!("{finish}tidegate.dev/on-new-revision is finish")),
        (
            "misspelled annotation",
            &on("Supersede"),
            false,
            format!(
                "{finish}the tidegate.dev/on-new-revision annotation is \"Supersede\", but must be finish \
                 or supersede; Tidegate treats it as finish"
            ),
        ),
        (
            "an operation of a user, regardless of the annotation",
            &((|app| {
                app.operation.as_mut().unwrap().initiated_by = request_for_revision("c1").initiated_by;
                app.metadata.annotations.insert("tidegate.dev/on-new-revision".into(), "supersede".into());
            }) as Change),
            false,
            format!("{finish}the operation was requested manually"),
        ),
        (
            "windows",
            &((|_| {}) as Change),
            true,
            format!("{finish}sync windows block the automated sync of the newer revision"),
        ),
        (
            "automated sync was disabled",
            &((|app| app.spec.sync_policy.as_mut().unwrap().automated = None) as Change),
            false,
            none.clone(),
        ),
        ("the same revision", &((|app| out_of_sync(app, "c1", at(5))) as Change), false, none.clone()),
        (
            "nothing to do at the newer revision",
            &((|app| {
                let synced = resource("web", Code::Synced, Some(Healthy));
                compare(app, compared("c2", vec![synced]), RefreshLevel::Latest, at(5));
            }) as Change),
            false,
            newer.clone(),
        ),
        (
            "the newer revision would delete all objects",
            &((|app| {
                let mut web = resource("web", Code::OutOfSync, Some(Healthy));
                web.status.requires_pruning = true;
                compare(app, compared("c2", vec![web]), RefreshLevel::Latest, at(5));
            }) as Change),
            false,
            format!("{finish}Skipping sync attempt to [c2]: auto-sync will wipe out all resources"),
        ),
        (
            "the newer revision cannot be compared",
            &((|app| app.status.sync.as_mut().unwrap().status = Code::Unknown) as Change),
            false,
            none.clone(),
        ),
        (
            "not started yet",
            &((|app| operation::remove_controller_infos(app.operation.as_mut().unwrap())) as Change),
            false,
            none.clone(),
        ),
        (
            "the application is being deleted",
            &((|app| app.metadata.deletion_timestamp = Some(at(5).into())) as Change),
            false,
            none,
        ),
    ];
    for (name, change, is_held, expected) in table {
        let mut app = running_application(automated());
        change(&mut app);
        assert_eq!(decision_text(&app, is_held), expected, "{name}");
    }
    let mut idle = running_application(automated());
    idle.operation = None;
    assert_eq!(decision_text(&idle, false), "");
}

#[test]
fn a_newer_revision_with_the_same_manifests_does_not_supersede() {
    for newest in [ManifestComparison::Same, ManifestComparison::Unknown] {
        let same = SupersedeInputs { newest_manifests: newest, ..SupersedeInputs::default() };
        let mut app = running_application(automated());
        assert_eq!(decision_text_for(&app, same), "", "{newest:?}");
        // Operations that a user requested are treated differently.
        accept_request(&mut app, request_for_revision("c9"), ClaimConflictPolicy::Supersede, false, at(6))
            .unwrap();
        assert_eq!(decision_text_for(&app, same), "supersede Waiting: another sync of ann (revision c9)");
    }
}

#[test]
fn a_retry_with_the_same_manifests_does_not_supersede() {
    let retrying = || {
        let mut app = running_application(json!({}));
        app.operation.as_mut().unwrap().retry =
            serde_json::from_value(json!({"limit": 5, "refresh": true})).unwrap();
        app
    };
    let queued = |app: &Application| successor_of(app.operation.as_ref().unwrap()).is_some();
    let mut app = retrying();
    set_retry_successor(&mut app, ManifestComparison::Same);
    assert!(!queued(&app));
    set_retry_successor(&mut app, ManifestComparison::Different);
    assert!(queued(&app));
    // After a restart, the result is unknown until the next comparison.
    set_retry_successor(&mut app, ManifestComparison::Unknown);
    assert!(queued(&app));
    assert_eq!(decision_text_for(&app, SupersedeInputs::default()), "");
    set_retry_successor(&mut app, ManifestComparison::Same);
    assert!(!queued(&app));
}

#[test]
fn rollouts_and_deletions_are_not_superseded() {
    for remark in ["tidegate.dev/rollout-of", "tidegate.dev/deletion"] {
        let mut app = running_application(automated());
        app.operation.as_mut().unwrap().set_info(remark, "foreground");
        assert_eq!(decision_text(&app, false), "", "{remark}");
    }
}

#[test]
fn a_superseded_operation_is_not_an_attempt() {
    for (message, again) in [
        (SUPERSEDED, true),
        ("Operation terminated, superseded by another sync of ann", true),
        ("Operation terminated, superseded by operation 01 of bob on ci-2 (revision c2)", false),
        ("Operation terminated", false),
        ("it broke", false),
    ] {
        let mut app = running_application(automated());
        finish_operation(&mut app, OperationPhase::Failed, message);
        assert_eq!(app.operation, None);
        assert_eq!(was_superseded(app.status.operation_state.as_ref().unwrap()), again, "{message}");
        // The branch is reset to the operation's revision.
        out_of_sync(&mut app, "c1", at(11));
        let started = match automated_sync::decide(&app, at(11)).next {
            automated_sync::AutomatedStep::Start(started) => Some(*started),
            _ => None,
        };
        assert_eq!(started.is_some(), again, "{message}");
        assert_eq!(
            started.and_then(|started| started.info_value(SUPERSEDES_INFO).map(str::to_owned)),
            again.then(|| ID.to_owned())
        );
    }
}

#[test]
fn a_superseded_sync_continues_at_the_newest_revision_without_differences() {
    let synced = || resource("web", Code::Synced, Some(Healthy));
    for (message, resources, again) in [
        (SUPERSEDED, vec![synced()], true),
        ("it broke", vec![synced()], false),
        // An application that consists only of hooks isn't synced automatically.
        (SUPERSEDED, Vec::new(), false),
    ] {
        let mut app = running_application(automated());
        finish_operation(&mut app, OperationPhase::Failed, message);
        compare(&mut app, compared("c2", resources), RefreshLevel::Latest, at(11));
        let automated_sync::AutomatedStep::Start(started) = automated_sync::decide(&app, at(11)).next else {
            assert!(!again, "{message}");
            continue;
        };
        assert!(again, "{message}");
        let sync = started.sync.as_ref().unwrap();
        assert_eq!((sync.revision.as_str(), sync.resources.len()), ("c2", 0), "a full sync with its hooks");
        assert_eq!(started.info_value(SUPERSEDES_INFO), Some(ID));
        // One repetition is sufficient.
        app.operation = Some(*started);
        finish_operation(&mut app, OperationPhase::Succeeded, "successfully synced (all tasks run)");
        assert_eq!(automated_sync::decide(&app, at(12)).next, automated_sync::AutomatedStep::Nothing);
    }
}

#[test]
fn the_policy_of_a_request_is_read_and_removed() {
    for (said, expected) in [
        (None, Ok(ClaimConflictPolicy::Refuse)),
        (Some("refuse"), Ok(ClaimConflictPolicy::Refuse)),
        (Some("queue"), Ok(ClaimConflictPolicy::Queue)),
        (Some("supersede"), Ok(ClaimConflictPolicy::Supersede)),
        (Some("Queue"), Err(BusyError::InvalidPolicy("Queue".to_owned()))),
    ] {
        let mut request = request_for_revision("c9");
        said.into_iter().for_each(|said| request.set_info(POLICY_INFO, said));
        assert_eq!(take_policy(&mut request), expected);
        assert_eq!(request.info_value(POLICY_INFO).is_some(), expected.is_err());
    }
}

#[test]
fn a_second_request() {
    let give = |app: &mut Application, revision: &str, policy, may_replace| {
        accept_request(app, request_for_revision(revision), policy, may_replace, at(6))
    };
    // No operation is running.
    for policy in [ClaimConflictPolicy::Refuse, ClaimConflictPolicy::Queue, ClaimConflictPolicy::Supersede] {
        let mut app = running_application(json!({}));
        app.operation = None;
        assert_eq!(give(&mut app, "c9", policy, true), Ok(()));
        assert_eq!(app.operation, Some(request_for_revision("c9")));
    }
    let mut app = running_application(json!({}));
    let before = app.operation.clone();
    assert_eq!(
        give(&mut app, "c9", ClaimConflictPolicy::Refuse, true),
        Err(BusyError::InProgress("web".to_owned()))
    );
    assert_eq!(app.operation, before);

    assert_eq!(give(&mut app, "c9", ClaimConflictPolicy::Queue, true), Ok(()));
    assert_eq!(
        decision_text(&app, false),
        "finish: another sync of ann (revision c9) is waiting for the running operation to end"
    );
    let refused = give(&mut app, "c8", ClaimConflictPolicy::Queue, true).unwrap_err().to_string();
    assert!(
        refused.starts_with(
            "another sync of ann (revision c9) is already waiting for the operation in progress"
        ),
        "{refused}"
    );
    // Superseding also replaces the successor that is already waiting.
    assert_eq!(give(&mut app, "c7", ClaimConflictPolicy::Supersede, true), Ok(()));
    assert_eq!(
        decision_text(&app, true),
        "supersede Waiting: another sync of ann (revision c7)",
        "sync windows are checked first"
    );
    finish_operation(&mut app, OperationPhase::Failed, SUPERSEDED);
    let started = app.operation.clone().unwrap();
    assert_eq!(
        (started.sync.as_ref().unwrap().revision.as_str(), started.info_value(SUPERSEDES_INFO)),
        ("c7", Some(ID))
    );
    assert_eq!(operation::engine_id(&started), None);
    let over = app.status.operation_state.as_ref().unwrap();
    assert_eq!(
        (successor_of(&over.operation), operation::engine_id(&over.operation).map(|id| id.to_string())),
        (None, Some(ID.to_owned()))
    );
}

#[test]
fn a_successor_starts_after_any_result_unless_the_application_is_deleting() {
    for (phase, is_deleting) in
        [(OperationPhase::Succeeded, false), (OperationPhase::Error, false), (OperationPhase::Failed, true)]
    {
        let mut app = running_application(json!({}));
        accept_request(&mut app, request_for_revision("c9"), ClaimConflictPolicy::Queue, true, at(6))
            .unwrap();
        app.metadata.deletion_timestamp = is_deleting.then(|| at(7).into());
        finish_operation(&mut app, phase, "over");
        let started = app.operation.as_ref();
        assert_eq!(
            started.cloned(),
            (!is_deleting).then(|| request_for_revision("c9")),
            "{phase} {is_deleting}"
        );
    }
}

#[test]
fn a_successor_is_preserved_when_the_operation_is_updated() {
    let mut app = running_application(automated());
    let current = app.operation.as_mut().unwrap();
    operation::remove_controller_infos(current);
    accept_request(&mut app, request_for_revision("c9"), ClaimConflictPolicy::Queue, true, at(6)).unwrap();
    // An operation that isn't in the log hasn't started, but its successor is still waiting.
    operation::remove_controller_infos(app.operation.as_mut().unwrap());
    automated_sync::update_waiting_operation(&mut app, at(7));
    let renewed = app.operation.as_ref().unwrap();
    assert_eq!(renewed.sync.as_ref().unwrap().revision, "c2");
    assert_eq!(successor_of(renewed).unwrap().operation, request_for_revision("c9"));
}

#[test]
fn an_operation_is_replaced_and_reported_before_it_starts() {
    let mut app = running_application(json!({}));
    operation::remove_controller_infos(app.operation.as_mut().unwrap());
    // The operation can get its ID at any time.
    let mut preparing = app.clone();
    accept_request(&mut preparing, request_for_revision("c9"), ClaimConflictPolicy::Supersede, false, at(6))
        .unwrap();
    assert_eq!(successor_of(preparing.operation.as_ref().unwrap()).unwrap().when, Some(SafePoint::Waiting));
    accept_request(&mut app, request_for_revision("c9"), ClaimConflictPolicy::Supersede, true, at(6))
        .unwrap();
    assert_eq!(app.operation, Some(request_for_revision("c9")));
    let over = app.status.operation_state.as_ref().unwrap();
    assert_eq!(
        (over.phase, over.message.as_str()),
        (
            OperationPhase::Failed,
            "Operation terminated, superseded by another sync of ann (revision c9); nothing was written"
        )
    );
    let mut deleting = running_application(json!({}));
    deleting.operation.as_mut().unwrap().set_info("tidegate.dev/deletion", "foreground");
    let refused = accept_request(
        &mut deleting,
        request_for_revision("c9"),
        ClaimConflictPolicy::Supersede,
        true,
        at(6),
    );
    assert_eq!(refused, Err(BusyError::Deleting("web".to_owned())));
}

#[test]
fn a_retry_uses_the_newest_revision() {
    let refreshing_by = |limit: i64, policy: Value| {
        let mut app = running_application(policy);
        let current = app.operation.as_mut().unwrap();
        current.retry = serde_json::from_value(json!({"limit": limit, "refresh": true})).unwrap();
        app
    };
    let refreshing = |limit: i64| refreshing_by(limit, json!({}));
    for (limit, retried, left) in [(5, 0, 4), (5, 2, 2), (1, 0, 0), (1, 1, 0), (-1, 7, -1)] {
        let mut app = refreshing(limit);
        set_progress(&mut app, "it broke. Retrying attempt #1 at 12:00AM.", retried);
        assert!(awaits_retry(&app.status.operation_state.as_ref().unwrap().message));
        set_retry_successor(&mut app, ManifestComparison::Different);
        let once = app.operation.clone();
        set_retry_successor(&mut app, ManifestComparison::Different);
        assert_eq!(app.operation, once);
        assert_eq!(decision_text(&app, true), "supersede Failed: another sync of ann (revision c2)");
        finish_operation(&mut app, OperationPhase::Failed, SUPERSEDED);
        let started = app.operation.unwrap();
        let retry = started.retry.as_ref().unwrap();
        assert_eq!(
            (started.sync.as_ref().unwrap().revision.as_str(), retry.limit, retry.refresh),
            ("c2", left, true)
        );
        assert_eq!((operation::engine_id(&started), started.initiated_by.username.as_str()), (None, "ann"));
    }
    // An automated operation doesn't start during a window that blocks it.
    let mut app = refreshing_by(5, json!({"automated": {}}));
    app.operation.as_mut().unwrap().initiated_by =
        serde_json::from_value(json!({"automated": true})).unwrap();
    set_retry_successor(&mut app, ManifestComparison::Different);
    let held = decision_text(&app, true);
    assert!(held.starts_with("finish: revision c2 is waiting") && held.contains("sync windows"), "{held}");
    assert!(decision_text(&app, false).starts_with("supersede "), "{}", decision_text(&app, false));
    // If the operation ended on its own, no retry is needed.
    for phase in [OperationPhase::Succeeded, OperationPhase::Failed] {
        let mut app = refreshing(5);
        set_retry_successor(&mut app, ManifestComparison::Different);
        finish_operation(&mut app, phase, "over");
        assert_eq!(app.operation, None, "{phase}");
    }
    // The branch is reset, or a request arrives.
    let mut app = refreshing(5);
    set_retry_successor(&mut app, ManifestComparison::Different);
    out_of_sync(&mut app, "c1", at(6));
    set_retry_successor(&mut app, ManifestComparison::Different);
    assert_eq!(
        (decision_text(&app, false), successor_of(app.operation.as_ref().unwrap())),
        (String::new(), None)
    );
    accept_request(&mut app, request_for_revision("c9"), ClaimConflictPolicy::Queue, true, at(6)).unwrap();
    out_of_sync(&mut app, "c2", at(7));
    set_retry_successor(&mut app, ManifestComparison::Different);
    assert!(decision_text(&app, false).starts_with("finish: another sync of ann (revision c9)"));
}

#[test]
fn a_retry_keeps_its_sources() {
    let mut app = running_application(json!({}));
    let current = app.operation.as_mut().unwrap();
    current.retry = serde_json::from_value(json!({"limit": 5, "refresh": true})).unwrap();
    current.sync.as_mut().unwrap().source =
        serde_json::from_value(json!({"repoURL": "./other", "path": "web"})).unwrap();
    set_retry_successor(&mut app, ManifestComparison::Different);
    assert_eq!(successor_of(app.operation.as_ref().unwrap()), None);
    let mut plain = running_application(json!({}));
    set_retry_successor(&mut plain, ManifestComparison::Different);
    assert_eq!(
        successor_of(plain.operation.as_ref().unwrap()),
        None,
        "the operation's retry policy does not set a successor"
    );
}

/// A patch of the resource keeps all fields that it doesn't mention, so the written operation may include all
/// info items of the running one.
#[test]
fn a_foreign_write_during_an_operation_is_an_independent_request() {
    let mut app = running_application(automated());
    accept_request(&mut app, request_for_revision("c9"), ClaimConflictPolicy::Queue, true, at(6)).unwrap();
    let current = app.operation.clone().unwrap();
    assert!(!is_sync_request(&current));
    let theirs = normalize_written_request(current);
    assert!(is_sync_request(&theirs) && !theirs.initiated_by.automated);
    accept_request(&mut app, theirs, ClaimConflictPolicy::Supersede, true, at(7)).unwrap();
    let waits = successor_of(app.operation.as_ref().unwrap()).unwrap().operation;
    assert_eq!((waits.sync.as_ref().unwrap().revision.as_str(), successor_of(&waits)), ("c1", None));
}
