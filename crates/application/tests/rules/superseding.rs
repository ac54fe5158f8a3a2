//! Something newer is wanted while an operation is under way.

use serde_json::{Value, json};
use tidegate_application::automation;
use tidegate_application::comparison::take_in as compare;
use tidegate_application::operation::{self, ID_REMARK, Progress, take_in};
use tidegate_application::refresh::Level;
use tidegate_application::superseding::{
    Busy, Decision, Given, POLICY_REMARK, SUPERSEDES_REMARK, awaits_retry, decide, is_request, next,
    of_writer, receive, refresh_retry, take_policy, was_superseded,
};
use tidegate_model::argo::{Application, OperationRequest, SyncStatusCode as Code};
use tidegate_model::{HealthStatus::Healthy, IfTaken, OperationPhase, SafePoint};

use crate::{application, at, compared, out_of_sync, resource};

const ID: &str = "01990000-0000-7000-8000-000000000001";
const SUPERSEDED: &str = "Operation terminated, superseded by another sync (revision c2)";

fn automated() -> Value {
    json!({"automated": {"prune": true}})
}

/// An application whose operation deploys `c1`, begun without being asked, and that was compared with `c2` since.
fn at_work(policy: Value) -> Application {
    let mut app = application(policy);
    out_of_sync(&mut app, "c1", at(0));
    app.operation = match automation::decide(&app, at(0)).next {
        automation::Next::Begin(begun) => Some(*begun),
        _ => Some(asked("c1")),
    };
    app.operation.as_mut().unwrap().set_remark(ID_REMARK, ID);
    moved(&mut app, "waiting for healthy state of apps/Deployment/web", 0);
    out_of_sync(&mut app, "c2", at(5));
    app
}

fn asked(revision: &str) -> OperationRequest {
    let operation = json!({"sync": {"revision": revision}, "initiatedBy": {"username": "ann"}});
    serde_json::from_value(operation).unwrap()
}

fn moved(app: &mut Application, message: &str, retry_count: u32) {
    let (phase, message) = (OperationPhase::Running, message.to_owned());
    let progress =
        Progress { phase, message, started_at: at(1), finished_at: None, retry_count, resources: Vec::new() };
    take_in(app, progress);
}

fn ended(app: &mut Application, phase: OperationPhase, message: &str) {
    let progress = Progress {
        phase,
        message: message.to_owned(),
        started_at: at(1),
        finished_at: Some(at(10)),
        retry_count: 0,
        resources: Vec::new(),
    };
    take_in(app, progress);
}

/// `supersede` with what takes its place, `finish` with why it waits, or nothing.
fn decided(app: &Application, is_held: bool) -> String {
    given(app, Given { is_held, ..Given::default() })
}

fn given(app: &Application, given: Given) -> String {
    match decide(app, given, at(6)) {
        Decision::GoOn => String::new(),
        Decision::Finish(why) => format!("finish: {why}"),
        Decision::Supersede { by, when, .. } => format!("supersede {when:?}: {by}"),
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
    let finish = "finish: revision c2 waits until the operation at work is over: ";
    let newer = "supersede Waiting: another sync (revision c2)".to_owned();
    let none = String::new();
    let table: [Row<'_>; 14] = [
        ("nobody says otherwise", &((|_| {}) as Change), false, newer.clone()),
        ("said", &on("supersede"), false, newer.clone()),
        ("said with spaces", &on(" supersede "), false, newer.clone()),
        ("finish", &on("finish"), false, format!("{finish}tidegate.dev/on-new-revision says finish")),
        (
            "misspelt",
            &on("Supersede"),
            false,
            format!(
                "{finish}the annotation tidegate.dev/on-new-revision says \"Supersede\", which is neither finish nor supersede; it counts as finish"
            ),
        ),
        (
            "a person's, whatever is said",
            &((|app| {
                app.operation.as_mut().unwrap().initiated_by = asked("c1").initiated_by;
                app.metadata.annotations.insert("tidegate.dev/on-new-revision".into(), "supersede".into());
            }) as Change),
            false,
            format!("{finish}somebody asked for that"),
        ),
        (
            "windows",
            &((|_| {}) as Change),
            true,
            format!("{finish}sync windows keep it from being synced by itself"),
        ),
        (
            "no automation any more",
            &((|app| app.spec.sync_policy.as_mut().unwrap().automated = None) as Change),
            false,
            none.clone(),
        ),
        ("the same revision", &((|app| out_of_sync(app, "c1", at(5))) as Change), false, none.clone()),
        (
            "nothing to do at the newer one",
            &((|app| {
                let synced = resource("web", Code::Synced, Some(Healthy));
                compare(app, compared("c2", vec![synced]), Level::Latest, at(5));
            }) as Change),
            false,
            newer.clone(),
        ),
        (
            "the newer one would delete everything",
            &((|app| {
                let mut web = resource("web", Code::OutOfSync, Some(Healthy));
                web.status.requires_pruning = true;
                compare(app, compared("c2", vec![web]), Level::Latest, at(5));
            }) as Change),
            false,
            format!("{finish}Skipping sync attempt to [c2]: auto-sync will wipe out all resources"),
        ),
        (
            "it cannot be compared",
            &((|app| app.status.sync.as_mut().unwrap().status = Code::Unknown) as Change),
            false,
            none.clone(),
        ),
        (
            "not begun yet",
            &((|app| operation::disown(app.operation.as_mut().unwrap())) as Change),
            false,
            none.clone(),
        ),
        (
            "it is being deleted",
            &((|app| app.metadata.deletion_timestamp = Some(at(5).into())) as Change),
            false,
            none,
        ),
    ];
    for (name, change, is_held, expected) in table {
        let mut app = at_work(automated());
        change(&mut app);
        assert_eq!(decided(&app, is_held), expected, "{name}");
    }
    let mut idle = at_work(automated());
    idle.operation = None;
    assert_eq!(decided(&idle, false), "");
}

#[test]
fn a_newer_revision_with_the_same_manifests_is_nothing_newer() {
    let same = Given { is_same: true, ..Given::default() };
    let mut app = at_work(automated());
    assert_eq!(given(&app, same), "");
    // What somebody asks for is another matter.
    receive(&mut app, asked("c9"), (IfTaken::Supersede, false), at(6)).unwrap();
    assert_eq!(given(&app, same), "supersede Waiting: another sync of ann (revision c9)");
}

#[test]
fn rollouts_and_deletions_are_none_of_it() {
    for remark in ["tidegate.dev/rollout-of", "tidegate.dev/deletion"] {
        let mut app = at_work(automated());
        app.operation.as_mut().unwrap().set_remark(remark, "foreground");
        assert_eq!(decided(&app, false), "", "{remark}");
    }
}

#[test]
fn what_was_superseded_says_nothing_of_its_revision() {
    for (message, again) in [
        (SUPERSEDED, true),
        ("Operation terminated, superseded by another sync of ann", true),
        ("Operation terminated, superseded by operation 01 of bob on ci-2 (revision c2)", false),
        ("Operation terminated", false),
        ("it broke", false),
    ] {
        let mut app = at_work(automated());
        ended(&mut app, OperationPhase::Failed, message);
        assert_eq!(app.operation, None);
        assert_eq!(was_superseded(app.status.operation_state.as_ref().unwrap()), again, "{message}");
        // Its branch is moved back.
        out_of_sync(&mut app, "c1", at(11));
        let begun = match automation::decide(&app, at(11)).next {
            automation::Next::Begin(begun) => Some(*begun),
            _ => None,
        };
        assert_eq!(begun.is_some(), again, "{message}");
        assert_eq!(
            begun.and_then(|begun| begun.remark(SUPERSEDES_REMARK).map(str::to_owned)),
            again.then(|| ID.to_owned())
        );
    }
}

#[test]
fn what_was_superseded_goes_on_at_the_newest_revision_also_where_no_object_differs() {
    let synced = || resource("web", Code::Synced, Some(Healthy));
    for (message, resources, again) in [
        (SUPERSEDED, vec![synced()], true),
        ("it broke", vec![synced()], false),
        // What has no objects but hooks is not synced by itself.
        (SUPERSEDED, Vec::new(), false),
    ] {
        let mut app = at_work(automated());
        ended(&mut app, OperationPhase::Failed, message);
        compare(&mut app, compared("c2", resources), Level::Latest, at(11));
        let automation::Next::Begin(begun) = automation::decide(&app, at(11)).next else {
            assert!(!again, "{message}");
            continue;
        };
        assert!(again, "{message}");
        let sync = begun.sync.as_ref().unwrap();
        assert_eq!((sync.revision.as_str(), sync.resources.len()), ("c2", 0), "all of it, with its hooks");
        assert_eq!(begun.remark(SUPERSEDES_REMARK), Some(ID));
        // Once is enough.
        app.operation = Some(*begun);
        ended(&mut app, OperationPhase::Succeeded, "successfully synced (all tasks run)");
        assert_eq!(automation::decide(&app, at(12)).next, automation::Next::Nothing);
    }
}

#[test]
fn the_policy_of_a_request_is_read_and_taken_out() {
    for (said, expected) in [
        (None, Ok(IfTaken::Refuse)),
        (Some("refuse"), Ok(IfTaken::Refuse)),
        (Some("queue"), Ok(IfTaken::Queue)),
        (Some("supersede"), Ok(IfTaken::Supersede)),
        (Some("Queue"), Err(Busy::Policy("Queue".to_owned()))),
    ] {
        let mut request = asked("c9");
        said.into_iter().for_each(|said| request.set_remark(POLICY_REMARK, said));
        assert_eq!(take_policy(&mut request), expected);
        assert_eq!(request.remark(POLICY_REMARK).is_some(), expected.is_err());
    }
}

#[test]
fn a_second_request() {
    let give = |app: &mut Application, revision: &str, policy, may_replace| {
        receive(app, asked(revision), (policy, may_replace), at(6))
    };
    // Nothing is under way.
    for policy in [IfTaken::Refuse, IfTaken::Queue, IfTaken::Supersede] {
        let mut app = at_work(json!({}));
        app.operation = None;
        assert_eq!(give(&mut app, "c9", policy, true), Ok(()));
        assert_eq!(app.operation, Some(asked("c9")));
    }
    let mut app = at_work(json!({}));
    let before = app.operation.clone();
    assert_eq!(give(&mut app, "c9", IfTaken::Refuse, true), Err(Busy::InProgress("web".to_owned())));
    assert_eq!(app.operation, before);

    assert_eq!(give(&mut app, "c9", IfTaken::Queue, true), Ok(()));
    assert_eq!(
        decided(&app, false),
        "finish: another sync of ann (revision c9) waits until the operation at work is over"
    );
    let refused = give(&mut app, "c8", IfTaken::Queue, true).unwrap_err().to_string();
    assert!(
        refused.starts_with("another sync of ann (revision c9) waits for the operation in progress"),
        "{refused}"
    );
    // Whoever supersedes takes the place of what waits as well.
    assert_eq!(give(&mut app, "c7", IfTaken::Supersede, true), Ok(()));
    assert_eq!(
        decided(&app, true),
        "supersede Waiting: another sync of ann (revision c7)",
        "windows are asked before"
    );
    ended(&mut app, OperationPhase::Failed, SUPERSEDED);
    let begun = app.operation.clone().unwrap();
    assert_eq!(
        (begun.sync.as_ref().unwrap().revision.as_str(), begun.remark(SUPERSEDES_REMARK)),
        ("c7", Some(ID))
    );
    assert_eq!(operation::id(&begun), None);
    let over = app.status.operation_state.as_ref().unwrap();
    assert_eq!(
        (next(&over.operation), operation::id(&over.operation).map(|id| id.to_string())),
        (None, Some(ID.to_owned()))
    );
}

#[test]
fn what_waits_is_begun_however_the_operation_ends_but_not_in_an_application_that_goes() {
    for (phase, is_deleting) in
        [(OperationPhase::Succeeded, false), (OperationPhase::Error, false), (OperationPhase::Failed, true)]
    {
        let mut app = at_work(json!({}));
        receive(&mut app, asked("c9"), (IfTaken::Queue, true), at(6)).unwrap();
        app.metadata.deletion_timestamp = is_deleting.then(|| at(7).into());
        ended(&mut app, phase, "over");
        let begun = app.operation.as_ref();
        assert_eq!(begun.cloned(), (!is_deleting).then(|| asked("c9")), "{phase} {is_deleting}");
    }
}

#[test]
fn what_waits_is_kept_when_the_operation_is_decided_anew() {
    let mut app = at_work(automated());
    let current = app.operation.as_mut().unwrap();
    operation::disown(current);
    receive(&mut app, asked("c9"), (IfTaken::Queue, true), at(6)).unwrap();
    // What the log does not know has not begun, and what waits for it waits still.
    operation::disown(app.operation.as_mut().unwrap());
    automation::renew(&mut app, at(7));
    let renewed = app.operation.as_ref().unwrap();
    assert_eq!(renewed.sync.as_ref().unwrap().revision, "c2");
    assert_eq!(next(renewed).unwrap().operation, asked("c9"));
}

#[test]
fn what_has_not_begun_is_replaced_and_said_to_be() {
    let mut app = at_work(json!({}));
    operation::disown(app.operation.as_mut().unwrap());
    // It may get its id any moment.
    let mut preparing = app.clone();
    receive(&mut preparing, asked("c9"), (IfTaken::Supersede, false), at(6)).unwrap();
    assert_eq!(next(preparing.operation.as_ref().unwrap()).unwrap().when, Some(SafePoint::Waiting));
    receive(&mut app, asked("c9"), (IfTaken::Supersede, true), at(6)).unwrap();
    assert_eq!(app.operation, Some(asked("c9")));
    let over = app.status.operation_state.as_ref().unwrap();
    assert_eq!(
        (over.phase, over.message.as_str()),
        (
            OperationPhase::Failed,
            "Operation terminated, superseded by another sync of ann (revision c9) before it began"
        )
    );
    let mut deleting = at_work(json!({}));
    deleting.operation.as_mut().unwrap().set_remark("tidegate.dev/deletion", "foreground");
    let refused = receive(&mut deleting, asked("c9"), (IfTaken::Supersede, true), at(6));
    assert_eq!(refused, Err(Busy::Deletes("web".to_owned())));
}

#[test]
fn another_attempt_takes_the_newest_revision() {
    let refreshing_by = |limit: i64, policy: Value| {
        let mut app = at_work(policy);
        let current = app.operation.as_mut().unwrap();
        current.retry = serde_json::from_value(json!({"limit": limit, "refresh": true})).unwrap();
        app
    };
    let refreshing = |limit: i64| refreshing_by(limit, json!({}));
    for (limit, retried, left) in [(5, 0, 4), (5, 2, 2), (1, 0, 0), (1, 1, 0), (-1, 7, -1)] {
        let mut app = refreshing(limit);
        moved(&mut app, "it broke. Retrying attempt #1 at 12:00AM.", retried);
        assert!(awaits_retry(&app.status.operation_state.as_ref().unwrap().message));
        refresh_retry(&mut app);
        let once = app.operation.clone();
        refresh_retry(&mut app);
        assert_eq!(app.operation, once);
        assert_eq!(decided(&app, true), "supersede Failed: another sync of ann (revision c2)");
        ended(&mut app, OperationPhase::Failed, SUPERSEDED);
        let begun = app.operation.unwrap();
        let retry = begun.retry.as_ref().unwrap();
        assert_eq!(
            (begun.sync.as_ref().unwrap().revision.as_str(), retry.limit, retry.refresh),
            ("c2", left, true)
        );
        assert_eq!((operation::id(&begun), begun.initiated_by.username.as_str()), (None, "ann"));
    }
    // One that nobody asked for begins in no window that keeps it from that.
    let mut app = refreshing_by(5, json!({"automated": {}}));
    app.operation.as_mut().unwrap().initiated_by =
        serde_json::from_value(json!({"automated": true})).unwrap();
    refresh_retry(&mut app);
    let held = decided(&app, true);
    assert!(held.starts_with("finish: revision c2 waits") && held.contains("sync windows"), "{held}");
    assert!(decided(&app, false).starts_with("supersede "), "{}", decided(&app, false));
    // Nobody wants another attempt of what has ended by itself.
    for phase in [OperationPhase::Succeeded, OperationPhase::Failed] {
        let mut app = refreshing(5);
        refresh_retry(&mut app);
        ended(&mut app, phase, "over");
        assert_eq!(app.operation, None, "{phase}");
    }
    // Its branch is moved back, or somebody asks for something else.
    let mut app = refreshing(5);
    refresh_retry(&mut app);
    out_of_sync(&mut app, "c1", at(6));
    refresh_retry(&mut app);
    assert_eq!((decided(&app, false), next(app.operation.as_ref().unwrap())), (String::new(), None));
    receive(&mut app, asked("c9"), (IfTaken::Queue, true), at(6)).unwrap();
    out_of_sync(&mut app, "c2", at(7));
    refresh_retry(&mut app);
    assert!(decided(&app, false).starts_with("finish: another sync of ann (revision c9)"));
}

#[test]
fn an_attempt_stays_with_the_sources_it_began_with() {
    let mut app = at_work(json!({}));
    let current = app.operation.as_mut().unwrap();
    current.retry = serde_json::from_value(json!({"limit": 5, "refresh": true})).unwrap();
    current.sync.as_mut().unwrap().source =
        serde_json::from_value(json!({"repoURL": "./other", "path": "web"})).unwrap();
    refresh_retry(&mut app);
    assert_eq!(next(app.operation.as_ref().unwrap()), None);
    let mut plain = at_work(json!({}));
    refresh_retry(&mut plain);
    assert_eq!(next(plain.operation.as_ref().unwrap()), None, "its policy says nothing of it");
}

/// A patch of the resource keeps what it does not name: all that was said of the operation under way may be in it.
#[test]
fn what_somebody_writes_beside_an_operation_is_theirs_alone() {
    let mut app = at_work(automated());
    receive(&mut app, asked("c9"), (IfTaken::Queue, true), at(6)).unwrap();
    let current = app.operation.clone().unwrap();
    assert!(!is_request(&current));
    let theirs = of_writer(current);
    assert!(is_request(&theirs) && !theirs.initiated_by.automated);
    receive(&mut app, theirs, (IfTaken::Supersede, true), at(7)).unwrap();
    let waits = next(app.operation.as_ref().unwrap()).unwrap().operation;
    assert_eq!((waits.sync.as_ref().unwrap().revision.as_str(), next(&waits)), ("c1", None));
}
