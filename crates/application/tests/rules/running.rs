//! Operations that a progressive sync wants: what they ask for, when they get their place, and what they leave behind.

use serde_json::{Value, json};
use tidegate_application::operation::{self, Progress, id, request as asks};
use tidegate_application::recorded::{self, Line, Recorded, verify};
use tidegate_application::running::{
    Deploy, Next, deployed, ended, is_of_rollout, next, place, placed, request, request_back, take_back,
};
use tidegate_application::windows::Windows;
use tidegate_model::argo::{AppProject, Application, OperationRequest};
use tidegate_model::{DeployTarget, Destination, OperationId, OperationPhase, SyncRequest};

use crate::{application, at};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const OTHER: &str = "fedcba9876543210fedcba9876543210fedcba98";

fn operation_id(number: u128) -> OperationId {
    format!("{number:032x}").parse().unwrap()
}

fn wanted(app: &Application, revision: &str) -> OperationRequest {
    request(app, Deploy { set: "argocd/fleet", revisions: &[revision.to_owned()], prune: false })
}

fn progress(phase: OperationPhase, message: &str) -> Progress {
    let over = Progress::refused(message.to_owned(), at(9));
    let finished_at = over.finished_at.filter(|_| phase.is_completed());
    Progress { phase, finished_at, ..over }
}

/// Its operation with this id, to this revision, ends like this.
fn ends(app: &mut Application, number: u128, asked: OperationRequest, phase: OperationPhase) {
    place(app, operation_id(number), asked);
    operation::take_in(app, progress(phase, "as it went"));
}

#[test]
fn it_asks_for_what_the_application_says_at_the_revision_that_was_chosen() {
    let policy = json!({"syncOptions": ["ServerSideApply=true"], "retry": {"limit": 2},
        "automated": {"enabled": false, "prune": true}});
    let app = application(policy);
    let deploy = Deploy { set: "argocd/fleet", revisions: &[COMMIT.to_owned()], prune: true };
    let asked = request(&app, deploy);
    let written = serde_json::to_value(&asked).unwrap();
    assert_eq!(written["initiatedBy"], json!({"username": "applicationset-controller", "automated": true}));
    assert_eq!(written["retry"]["limit"], 2);
    let expected = json!({"revision": COMMIT, "prune": true, "syncOptions": ["ServerSideApply=true"],
        "source": {"repoURL": "./repo", "path": "web"}});
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(&written["sync"][field], value, "{field}");
    }
    assert_eq!(
        asked.remark("Reason"),
        Some("ApplicationSet RollingSync triggered a sync of this Application resource")
    );
    // Without a policy it is tried again five times, and no object is deleted.
    let plain = serde_json::to_value(wanted(&application(Value::Null), COMMIT)).unwrap();
    assert_eq!((&plain["retry"]["limit"], &plain["sync"]["prune"]), (&json!(5), &Value::Null));
}

#[test]
fn going_back_is_to_the_source_of_then() {
    let mut app = application(json!({}));
    let asked = wanted(&app, COMMIT);
    ends(&mut app, 1, asked, OperationPhase::Succeeded);
    app.spec.source.as_mut().unwrap().path = "moved".into();
    let asked = wanted(&app, OTHER);
    ends(&mut app, 2, asked, OperationPhase::Succeeded);
    let back = |revision: &str| {
        let deploy = Deploy { set: "argocd/fleet", revisions: &[revision.to_owned()], prune: false };
        let sync = request_back(&app, deploy).sync.unwrap();
        (sync.revision, sync.source.unwrap().path)
    };
    assert_eq!(back(COMMIT), (COMMIT.to_owned(), "web".to_owned()));
    assert_eq!(back(OTHER), (OTHER.to_owned(), "moved".to_owned()));
    assert_eq!(back("unknown"), ("unknown".to_owned(), "moved".to_owned()));
}

fn denied() -> Windows {
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
    Windows::of(&project, "web", &target, |name| Err(name.to_owned()))
}

#[test]
fn when_it_gets_its_place() {
    let free = application(json!({}));
    assert_eq!(next(&free, &Windows::default(), at(0)), Next::Begin);
    let mut taken = free.clone();
    taken.operation = Some(OperationRequest::default());
    assert_eq!(next(&taken, &Windows::default(), at(0)), Next::Wait);
    // Nobody asked for it by hand.
    let Next::Held(held) = next(&free, &denied(), at(0)) else { panic!("not held") };
    assert!(held.reason.contains("of project shop") && held.until > at(0), "{held:?}");
    assert_eq!(next(&taken, &denied(), at(0)), Next::Wait);
    let mut skipped = free.clone();
    skipped.metadata.annotations.insert("argocd.argoproj.io/skip-reconcile".into(), "true".into());
    let mut deleted = taken.clone();
    deleted.metadata.deletion_timestamp = Some(at(0).into());
    for (app, part) in [(&skipped, "skip-reconcile"), (&deleted, "is being deleted")] {
        let Next::Later(why) = next(app, &Windows::default(), at(0)) else { panic!("{part}") };
        assert!(why.contains(part), "{why}");
    }
}

#[test]
fn what_has_not_begun_can_be_taken_back_and_wanted_again() {
    let mut app = application(json!({}));
    let asked = wanted(&app, COMMIT);
    place(&mut app, operation_id(3), asked.clone());
    assert_eq!(placed(&app), Some(operation_id(3)));
    take_back(&mut app, operation_id(4), at(1));
    assert_eq!(placed(&app), Some(operation_id(3)), "another one is meant");
    take_back(&mut app, operation_id(3), at(1));
    assert_eq!((&app.operation, &app.status.operation_state), (&None, &None));
    // One whose wait was told is told of as ended, and not as the one that may be wanted again.
    place(&mut app, operation_id(3), asked.clone());
    operation::wait(&mut app, "waiting for another".into(), at(1));
    assert_eq!(ended(&app, operation_id(3)), None);
    take_back(&mut app, operation_id(3), at(2));
    let state = app.status.operation_state.clone().unwrap();
    assert_eq!((state.phase, app.operation.is_some()), (OperationPhase::Failed, false));
    assert_eq!((ended(&app, operation_id(3)), id(&state.operation)), (None, None));
    // What others have asked for stays.
    app.operation = Some(OperationRequest::default());
    take_back(&mut app, operation_id(3), at(3));
    assert!(app.operation.is_some());
}

#[test]
fn what_is_about_to_begin_is_told_in_the_place_of_what_was_before() {
    let said = |app: &Application| app.status.operation_state.clone().map(|state| state.message);
    let mut app = application(json!({}));
    operation::say_it_begins(&mut app, at(0));
    assert_eq!(said(&app), None, "nothing is asked for");
    let before = wanted(&app, COMMIT);
    ends(&mut app, 3, before, OperationPhase::Succeeded);
    app.operation = Some(OperationRequest::default());
    operation::say_it_begins(&mut app, at(1));
    let begins = app.status.operation_state.clone().unwrap();
    assert_eq!((begins.phase, begins.finished_at), (OperationPhase::Running, None));
    assert!(begins.message.contains("begin") && !operation::has_begun(&app));
    // Neither is what it waited for told any more, nor does it begin later for that.
    operation::wait(&mut app, "waiting for another".into(), at(2));
    operation::say_it_begins(&mut app, at(3));
    assert_eq!(app.status.operation_state, Some(begins));
    // What tells of itself is not told of.
    let mut app = application(json!({}));
    place(&mut app, operation_id(4), OperationRequest::default());
    operation::wait(&mut app, "its first wave".into(), at(4));
    let told = app.clone();
    app.operation.as_mut().unwrap().set_remark("other", "remark".to_owned());
    operation::say_it_begins(&mut app, at(5));
    assert_eq!(said(&app), said(&told));
}

#[test]
fn how_it_ended_is_told_by_the_status() {
    let mut app = application(json!({}));
    let asked = wanted(&app, COMMIT);
    ends(&mut app, 3, asked.clone(), OperationPhase::Running);
    assert_eq!(ended(&app, operation_id(3)), None);
    ends(&mut app, 3, asked, OperationPhase::Failed);
    assert_eq!(ended(&app, operation_id(3)), Some((OperationPhase::Failed, "as it went".to_owned())));
    assert_eq!(ended(&app, operation_id(4)), None);
}

/// It is wanted again by whoever wanted it, if that is so; under another id it would be begun twice.
#[test]
fn after_a_restart_it_has_its_place_only_if_it_was_begun() {
    let line = |number, is_open| Line { operation: operation_id(number), is_open };
    for (lines, is_kept) in
        [(&[][..], false), (&[line(3, true)], true), (&[line(3, false), line(4, false)], false)]
    {
        let mut app = application(json!({}));
        let asked = wanted(&app, COMMIT);
        place(&mut app, operation_id(3), asked);
        verify(&mut app, lines, at(5));
        assert_eq!(placed(&app).is_some(), is_kept, "{lines:?}");
        assert_eq!(app.operation.is_some(), is_kept, "{lines:?}");
    }
    // Nobody else says whose it is.
    let mut asked = wanted(&application(json!({})), COMMIT);
    operation::disown(&mut asked);
    assert!(!is_of_rollout(&asked));
}

#[test]
fn what_was_deployed_is_what_a_whole_sync_has_deployed() {
    let mut app = application(json!({}));
    let asked = |change: fn(&mut OperationRequest)| {
        let mut asked = wanted(&application(json!({})), COMMIT);
        change(&mut asked);
        asked
    };
    let whole = || asked(|_| {});
    let dry = || asked(|asked| asked.sync.as_mut().unwrap().dry_run = true);
    let part = || asked(|asked| asked.sync.as_mut().unwrap().resources = vec![Default::default()]);
    let log = |number, asked: &OperationRequest, phase| {
        let place = (Destination::Simulated, "web".to_owned());
        let request: SyncRequest = asks(&application(json!({})), asked, place, &[COMMIT.to_owned()]).unwrap();
        let progress = progress(phase, "as it went");
        Recorded { operation: operation_id(number), request: Some(request), progress }
    };
    let by_log =
        |all: &[Recorded]| recorded::deployed(all.iter().cloned()).map(|one| (one.operation, one.revisions));
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
        ends(&mut app, number, asked, phase);
        let expected = counts.then(|| operation_id(number));
        assert_eq!(deployed(&app).map(|one| one.operation), expected, "{number}");
    }
    assert_eq!(deployed(&app).unwrap().revisions, [COMMIT]);
    all.push(Recorded { request: None, ..log(7, &whole(), OperationPhase::Succeeded) });
    assert_eq!(by_log(&all), None, "nobody knows what the last one did");
}
