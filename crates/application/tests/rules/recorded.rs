//! What follows from the operation log where the status does not know it.

use serde_json::json;
use tidegate_application::operation::{ID_REMARK, Progress, id, request};
use tidegate_application::recorded::{Line, Recorded, put_back, take_in, verify};
use tidegate_application::windows::Windows;
use tidegate_application::{automation, deletion, operation};
use tidegate_model::argo::Application;
use tidegate_model::{Destination, OperationId, OperationPhase, SyncRequest, Wisher};

use crate::{application, at, out_of_sync};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const OTHER: &str = "fedcba9876543210fedcba9876543210fedcba98";

fn operation_id(number: u128) -> OperationId {
    format!("{number:032x}").parse().unwrap()
}

fn progress(begin: i64, end: Option<i64>, phase: OperationPhase) -> Progress {
    Progress {
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

/// What the log has of the operation that the application begins by itself, and the application after it.
fn begun(app: &mut Application, number: u128, commit: &str, begin: i64) -> Recorded {
    out_of_sync(app, commit, at(begin));
    let automation::Next::Begin(asked) = automation::take_in(app, &Windows::default(), at(begin)) else {
        panic!("not begun")
    };
    let mut asked = *asked;
    asked.set_remark(ID_REMARK, operation_id(number).to_string());
    let request =
        request(app, &asked, (Destination::Simulated, "shop".into()), &[commit.to_owned()]).unwrap();
    app.operation = Some(asked);
    let progress = progress(begin, Some(begin + 5), OperationPhase::Succeeded);
    operation::take_in(app, progress.clone());
    Recorded { operation: operation_id(number), request: Some(request), progress }
}

#[test]
fn a_status_that_was_lost_follows_from_the_log() {
    let mut known = automated();
    let log =
        [begun(&mut known, 1, COMMIT, 0), begun(&mut known, 2, OTHER, 100), begun(&mut known, 3, OTHER, 200)];
    let mut lost = automated();
    assert_eq!(take_in(&mut lost, log.to_vec()), 3);
    assert_eq!(lost.status.history, known.status.history);
    assert_eq!(lost.operation, None);
    let state = |app: &Application| app.status.operation_state.clone().unwrap();
    assert_eq!(state(&lost).sync_result, state(&known).sync_result);
    assert_eq!(id(&state(&lost).operation), Some(operation_id(3)));
    assert_eq!(
        state(&lost).operation.sync.unwrap().auto_heal_attempts_count,
        1,
        "the third put the cluster right"
    );
    assert!(state(&lost).operation.initiated_by.automated);
    // The commit that was synced is not synced again: it is put right, after a while.
    out_of_sync(&mut lost, OTHER, at(206));
    let due = automation::take_in(&mut lost, &Windows::default(), at(206));
    assert_eq!(
        due,
        automation::take_in(
            &mut {
                let mut known = known.clone();
                out_of_sync(&mut known, OTHER, at(206));
                known
            },
            &Windows::default(),
            at(206)
        )
    );
    // Nothing is taken in twice, and an older status gets what it lacks.
    assert_eq!(take_in(&mut lost, log.to_vec()), 0);
    let mut old = automated();
    assert_eq!(take_in(&mut old, log[..1].to_vec()), 1);
    assert_eq!(take_in(&mut old, log.to_vec()), 2);
    assert_eq!(old.status.history, known.status.history);
}

/// The log has one text for both.
#[test]
fn who_has_asked_for_a_sync_and_why_follows_from_the_log() {
    let mut known = automated();
    let mut recorded = begun(&mut known, 1, COMMIT, 0);
    for (info, text, reason) in [
        (json!([{"name": "Reason", "value": " a hotfix "}]), "ann, because: a hotfix", "a hotfix"),
        (json!([{"name": "Reason", "value": ""}]), "ann", ""),
        (json!([]), "ann", ""),
    ] {
        let asked = json!({"sync": {}, "initiatedBy": {"username": "ann"}, "info": info});
        let place = (Destination::Simulated, "shop".into());
        let asked = serde_json::from_value(asked).unwrap();
        let request = request(&known, &asked, place, &[COMMIT.to_owned()]).unwrap();
        assert_eq!(request.initiated_by, text);
        let found = Wisher::of_operation(&request.initiated_by);
        assert_eq!((found.by, found.reason), ("ann", reason));
        recorded.request = Some(request);
        let mut lost = automated();
        assert_eq!(take_in(&mut lost, vec![recorded.clone()]), 1);
        let again = lost.status.operation_state.unwrap().operation;
        assert_eq!((again.initiated_by.username.as_str(), operation::reason(&again)), ("ann", reason));
    }
    // Of a deletion it is said as it always was, whatever the words are.
    let deleted =
        "ann, by the deletion of shops (moved, because: of that), asked for at 2026-11-21T09:30:00Z";
    assert_eq!((Wisher::of_operation(deleted).by, Wisher::deleting(deleted)), (deleted, Some("ann")));
    let sync = "ann, because: moved, by the deletion of shops";
    assert_eq!((Wisher::of_operation(sync).by, Wisher::deleting(sync)), ("ann", None));
}

#[test]
fn an_open_operation_is_gone_on_with() {
    let mut known = automated();
    let mut open = begun(&mut known, 1, COMMIT, 0);
    open.progress = progress(0, None, OperationPhase::Running);
    let mut lost = automated();
    assert_eq!(take_in(&mut lost, vec![open]), 1);
    assert_eq!(lost.operation.as_ref().and_then(id), Some(operation_id(1)));
    assert_eq!(lost.operation.unwrap().sync.unwrap().revision, COMMIT);
    assert_eq!(lost.status.operation_state.unwrap().phase, OperationPhase::Running);
}

/// The log does not have it: it is what the application says, where the rest may be.
#[test]
fn whether_another_attempt_takes_the_newest_revision_is_as_the_application_says() {
    let with = |retry: serde_json::Value| application(json!({"automated": {"prune": true}, "retry": retry}));
    let backoff = json!({"duration": "7s", "factor": 3, "maxDuration": "1m"});
    let own = json!({"limit": 4, "refresh": true, "backoff": backoff});
    for (began_with, now, refreshes) in [
        (own.clone(), own.clone(), true),
        // One that took the place of another has the attempts that were left.
        (json!({"limit": 2, "refresh": true, "backoff": backoff}), own.clone(), true),
        (json!({"limit": 5, "refresh": true, "backoff": backoff}), own.clone(), false),
        (json!({"limit": -1, "refresh": true, "backoff": backoff}), own.clone(), false),
        (json!({"limit": 9, "refresh": true}), json!({"limit": -1, "refresh": true}), true),
        (json!({"limit": 4, "refresh": true}), own.clone(), false),
        (own.clone(), json!({"limit": 4, "backoff": backoff}), false),
        (own.clone(), serde_json::Value::Null, false),
    ] {
        let mut known = with(began_with.clone());
        let mut open = begun(&mut known, 1, COMMIT, 0);
        open.progress = progress(0, None, OperationPhase::Running);
        let mut lost = with(now.clone());
        assert_eq!(take_in(&mut lost, vec![open]), 1);
        let retry = lost.operation.unwrap().retry.unwrap();
        assert_eq!(retry.refresh, refreshes, "{began_with} under {now}");
        assert_eq!(Some(retry.limit), began_with["limit"].as_i64());
    }
}

#[test]
fn what_is_under_way_is_put_back_where_somebody_has_written_another_one() {
    let mut known = automated();
    let mut open = begun(&mut known, 1, COMMIT, 0);
    open.progress = progress(0, None, OperationPhase::Running);
    let mut app = automated();
    take_in(&mut app, vec![open]);
    let begun = app.operation.clone();
    let line = |is_open| Line { operation: operation_id(1), is_open };
    for (lines, is_back) in [(vec![line(true)], true), (vec![line(false)], false), (vec![], false)] {
        app.operation = Some(Default::default());
        put_back(&mut app, &lines);
        assert_eq!(app.operation == begun, is_back, "{lines:?}");
    }
}

#[test]
fn what_is_not_its_own_or_not_newer_is_left() {
    let mut known = automated();
    let first = begun(&mut known, 1, COMMIT, 0);
    let of_files = SyncRequest { sources: vec!["web".into()], ..first.request.clone().unwrap() };
    let mut lost = automated();
    let by_hand = Recorded { request: Some(of_files), ..first.clone() };
    assert_eq!(take_in(&mut lost, vec![by_hand]), 0, "somebody has synced files under its name");
    // One that was refused after it, before the engine heard of it.
    known.operation = Some(Default::default());
    operation::take_in(&mut known, Progress::refused("no such branch".into(), at(50)));
    assert_eq!(take_in(&mut known, vec![first.clone()]), 0);
    // One of which only a line is left may have been anything: nothing is begun without being asked.
    let line = Recorded { request: None, ..first };
    assert_eq!(take_in(&mut lost, vec![line]), 1);
    let mut patient = application(json!({"automated": {}}));
    patient.status = lost.status;
    out_of_sync(&mut patient, COMMIT, at(60));
    assert_eq!(automation::take_in(&mut patient, &Windows::default(), at(60)), automation::Next::Nothing);
}

/// What the log has of its deletion, and the application after it.
fn deleted(app: &mut Application, number: u128, begin: i64, end: OperationPhase) -> Recorded {
    app.metadata.finalizers = vec![deletion::RESOURCES_FINALIZER.into()];
    app.metadata.deletion_timestamp = Some(at(begin).into());
    let deletion::Next::Begin(asked) = deletion::take_in(app, true, at(begin)) else { panic!("not begun") };
    let mut asked = *asked;
    asked.set_remark(ID_REMARK, operation_id(number).to_string());
    let request = deletion::request(app, &asked, (Destination::Simulated, "shop".into())).unwrap();
    app.operation = Some(asked);
    let progress = progress(begin, Some(begin + 5), end);
    operation::take_in(app, progress.clone());
    Recorded { operation: operation_id(number), request: Some(request), progress }
}

/// Its deletion is known again from the log, and so is what is to be done next; another one of its name has nothing of it.
#[test]
fn a_deletion_follows_from_the_log() {
    use OperationPhase::{Failed, Succeeded};
    for (ended, next) in [(Succeeded, deletion::Next::Release), (Failed, deletion::Next::Wait(at(285)))] {
        let mut known = automated();
        let log = [begun(&mut known, 1, COMMIT, 0), deleted(&mut known, 2, 100, ended)];
        assert_eq!(known.status.history.len(), 1, "a deletion is no sync");
        let mut lost = automated();
        lost.metadata = known.metadata.clone();
        assert_eq!(take_in(&mut lost, log.to_vec()), 2);
        assert_eq!(lost.status.history, known.status.history);
        assert_eq!(deletion::take_in(&mut lost, false, at(110)), next);
        let mut anew = automated();
        assert_eq!(take_in(&mut anew, log.to_vec()), 0);
        out_of_sync(&mut anew, COMMIT, at(200));
        let begun = automation::take_in(&mut anew, &Windows::default(), at(200));
        assert!(matches!(begun, automation::Next::Begin(_)), "it is synced at the same commit: {begun:?}");
        // One that is not deleted after all is no attempt to sync it.
        let mut kept = known.clone();
        kept.metadata.deletion_timestamp = None;
        out_of_sync(&mut kept, COMMIT, at(200));
        assert!(matches!(
            automation::take_in(&mut kept, &Windows::default(), at(200)),
            automation::Next::Begin(_)
        ));
    }
}

/// Whoever may write the resource may write any id into it, and a backup brings back what was there.
#[test]
fn an_id_counts_only_where_the_log_has_it_for_this_application() {
    let line = |number, is_open| Line { operation: operation_id(number), is_open };
    let asks = |number: u128| {
        let mut app = automated();
        let mut asked = tidegate_model::argo::OperationRequest::default();
        asked.sync.get_or_insert_default().prune = true;
        asked.set_remark(ID_REMARK, operation_id(number).to_string());
        asked.set_remark("reason", "a release");
        app.operation = Some(asked);
        app
    };
    for (lines, is_kept, why) in [
        (&[][..], false, "the log does not know it, or it is another application's"),
        (&[line(1, false), line(2, true)], true, "it is under way"),
        (&[line(2, true), line(3, false)], true, "it waits for a later one"),
        (&[line(1, false), line(2, false)], true, "it is over, and the status does not know that yet"),
        (&[line(2, false), line(3, false)], false, "it was over long ago"),
    ] {
        let mut app = asks(2);
        verify(&mut app, lines, at(300));
        let asked = app.operation.unwrap();
        assert_eq!(id(&asked).is_some(), is_kept, "{why}");
        assert_eq!(asked.remark("reason"), Some("a release"), "what others say stays");
    }
    // The status has its end: nobody asks for it again.
    let mut app = asks(2);
    operation::take_in(&mut app, progress(0, Some(5), OperationPhase::Succeeded));
    app.operation = asks(2).operation;
    verify(&mut app, &[line(2, false)], at(300));
    assert_eq!(app.operation.as_ref().and_then(id), None);
}

#[test]
fn a_deletion_that_others_wrote_down_is_none() {
    for is_deleting in [false, true] {
        let mut app = automated();
        app.metadata.finalizers = vec![deletion::RESOURCES_FINALIZER.into()];
        app.metadata.deletion_timestamp = Some(at(0).into());
        let deletion::Next::Begin(asked) = deletion::take_in(&mut app, false, at(0)) else {
            panic!("not begun")
        };
        let mut disowned = asked.as_ref().clone();
        operation::disown(&mut disowned);
        assert_eq!((operation::cascade(&asked).is_some(), operation::cascade(&disowned)), (true, None));
        if !is_deleting {
            app.metadata.deletion_timestamp = None;
        }
        let mut asked = *asked;
        asked.set_remark(ID_REMARK, operation_id(7).to_string());
        app.operation = Some(asked);
        verify(&mut app, &[], at(300));
        assert_eq!(deletion::is_unfounded(&app).is_some(), !is_deleting);
        assert_eq!(app.operation.as_ref().and_then(id), None);
        assert_eq!(app.operation.is_none(), is_deleting, "it begins by what the resource says now");
        let next = deletion::take_in(&mut app, false, at(0));
        assert_eq!(matches!(next, deletion::Next::Begin(_)), is_deleting, "{next:?}");
    }
}

/// What was refused before it began is not in the log, and the status that tells of it knows all that came before: also where both
/// were in one second, and where it had an id already.
#[test]
fn what_is_told_of_a_request_that_was_refused_is_kept() {
    let mut app = automated();
    let log = vec![begun(&mut app, 1, COMMIT, 0), begun(&mut app, 2, OTHER, 100)];
    for (number, id) in [None, Some(3), None].into_iter().enumerate() {
        let mut asked =
            serde_json::from_value::<tidegate_model::argo::OperationRequest>(json!({"sync": {}})).unwrap();
        id.into_iter().for_each(|id| asked.set_remark(ID_REMARK, operation_id(id).to_string()));
        app.operation = Some(asked);
        // In the second in which the newest of the log has begun.
        operation::take_in(&mut app, Progress::refused("there is no such revision".to_owned(), at(100)));
        let told = app.clone();
        assert_eq!(take_in(&mut app, log.clone()), 0, "{number}");
        assert_eq!(app, told, "{number}");
    }
    // What the log has begun since is taken in, and nothing else.
    let mut more = log;
    more.push(begun(&mut app.clone(), 4, COMMIT, 300));
    let before = app.status.history.len();
    assert_eq!(take_in(&mut app, more), 1);
    assert_eq!(app.status.history.len(), before + 1);
}
