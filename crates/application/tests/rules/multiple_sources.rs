//! Applications with several sources.

use serde_json::json;
use tidegate_application::automated_sync::{self, AutomatedStep};
use tidegate_application::comparison::apply_comparison as compare;
use tidegate_application::history::{self, LoggedOperation};
use tidegate_application::operation::{self, EngineProgress, ID_INFO, rollback_operation, set_revisions};
use tidegate_application::refresh::{RefreshLevel, due_refresh};
use tidegate_application::sync_windows::SyncWindows;
use tidegate_model::argo::{Application, SyncStatusCode as Code};
use tidegate_model::{Destination, HealthStatus::Healthy, OperationPhase};

use crate::{application, at, compared_several, resource};

const ONE: &str = "0123456789abcdef0123456789abcdef01234567";
const TWO: &str = "fedcba9876543210fedcba9876543210fedcba98";
const ID: &str = "019a1b2c-0000-7000-8000-000000000001";

/// Returns an application with two sources: a chart with its values, and a folder.
fn multi_source_application() -> Application {
    let mut app = application(json!({"automated": {}}));
    app.spec.source = None;
    let sources = json!([
        {"repoURL": "https://me:s3cret@charts.example.com", "chart": "web", "targetRevision": "1.*"},
        {"repoURL": "./repo", "ref": "values"},
        {"repoURL": "./repo", "path": "extra"},
    ]);
    app.spec.sources = serde_json::from_value(sources).unwrap();
    app
}

fn set_out_of_sync(app: &mut Application, revisions: &[&str], now: i64) {
    let web = resource("web", Code::OutOfSync, Some(Healthy));
    compare(app, compared_several(revisions, vec![web]), RefreshLevel::Latest, at(now));
}

fn finished_progress(phase: OperationPhase, at_second: i64) -> EngineProgress {
    let (started_at, finished_at) = (at(1), Some(at(at_second)));
    EngineProgress {
        phase,
        message: "it broke".into(),
        started_at,
        finished_at,
        retry_count: 0,
        resources: vec![],
    }
}

/// The list fields are used, with one entry per source. The single-source fields stay empty.
#[test]
fn every_source_has_its_revision_everywhere() {
    let mut app = multi_source_application();
    set_out_of_sync(&mut app, &["1.2.3", ONE, ONE], 0);
    let sync = app.status.sync.clone().unwrap();
    assert_eq!((sync.revision.as_str(), sync.revisions), ("", vec!["1.2.3".into(), ONE.into(), ONE.into()]));
    assert_eq!((app.status.source_type.as_str(), app.status.source_types.len()), ("", 3));
    assert_eq!(sync.compared_to.unwrap().sources.len(), 3);
    assert_eq!(due_refresh(&app, None, at(0), std::time::Duration::ZERO), None);
    let AutomatedStep::Start(begun) =
        automated_sync::apply_comparison(&mut app, &SyncWindows::default(), at(0))
    else {
        panic!("the operation has not started")
    };
    let asked = begun.sync.clone().unwrap();
    assert_eq!((asked.revision.as_str(), asked.revisions.len(), asked.sources.len()), ("", 3, 3));
    assert_eq!(asked.source, None);
    app.operation = Some(*begun);
    operation::apply_progress(&mut app, finished_progress(OperationPhase::Succeeded, 9));
    let entry = app.status.history[0].clone();
    assert_eq!((entry.revisions, entry.sources.len(), entry.source), (asked.revisions, 3, None));
    let result = app.status.operation_state.clone().unwrap().sync_result.unwrap();
    assert_eq!((result.revision.as_str(), result.revisions.len(), result.sources.len()), ("", 3, 3));
    assert!(!serde_json::to_string(&app.status).unwrap().contains("s3cret"));
    // If any of the revisions or sources changes, it is a different attempt.
    let mut failed = app.clone();
    failed.status.operation_state.as_mut().unwrap().phase = OperationPhase::Failed;
    set_out_of_sync(&mut failed, &["1.2.3", ONE, ONE], 10);
    let decision = automated_sync::decide(&failed, at(10));
    let told = format!("Failed last sync attempt to [1.2.3 {ONE} {ONE}]: it broke");
    assert_eq!((decision.next, decision.error), (AutomatedStep::Nothing, Some(told)));
    set_out_of_sync(&mut failed, &["1.2.3", TWO, ONE], 11);
    assert!(matches!(automated_sync::decide(&failed, at(11)).next, AutomatedStep::Start(_)));
    failed.spec.sources[2].path = "other".into();
    set_out_of_sync(&mut failed, &["1.2.3", ONE, ONE], 12);
    assert!(matches!(automated_sync::decide(&failed, at(12)).next, AutomatedStep::Start(_)));
}

#[test]
fn a_list_with_one_source_stays_a_list() {
    let mut app = multi_source_application();
    app.spec.sources.truncate(1);
    set_out_of_sync(&mut app, &["1.2.3"], 0);
    let sync = app.status.sync.clone().unwrap();
    assert_eq!((sync.revision.as_str(), sync.revisions), ("", vec!["1.2.3".to_owned()]));
}

#[test]
fn what_an_operation_deploys() {
    let mut app = multi_source_application();
    let revisions = |app: &Application, sync: serde_json::Value| {
        let asked = serde_json::from_value(json!({"sync": sync})).unwrap();
        let sources = operation::operation_sources(app, &asked).map_err(|error| error.to_string())?;
        operation::operation_revisions(&asked, &sources).map_err(|error| error.to_string())
    };
    assert_eq!(revisions(&app, json!({})).unwrap(), ["1.*", "", ""]);
    assert_eq!(revisions(&app, json!({"revisions": ["1.0.0", "", "main"]})).unwrap(), ["1.0.0", "", "main"]);
    for wrong in [json!({"revision": "main"}), json!({"revisions": ["main", "main"]})] {
        let error = revisions(&app, wrong).unwrap_err();
        assert!(error.contains("for 3 sources") && error.contains("operation.sync.revisions"), "{error}");
    }
    let own = json!({"sources": [{"repoURL": "./repo", "path": "a", "targetRevision": "old"}]});
    assert_eq!(revisions(&app, own).unwrap(), ["old"], "the operation may contain its own sources");
    app.operation = Some(serde_json::from_value(json!({"sync": {}})).unwrap());
    set_revisions(&mut app, &["1.2.3".into(), ONE.into(), TWO.into()]);
    assert_eq!(app.operation.unwrap().sync.unwrap().revisions, ["1.2.3", ONE, TWO]);
}

#[test]
fn a_rollback_restores_all_revisions() {
    let mut app = multi_source_application();
    for (revision, now) in [(ONE, 0), (TWO, 20)] {
        set_out_of_sync(&mut app, &["1.2.3", revision, revision], now);
        let AutomatedStep::Start(begun) =
            automated_sync::apply_comparison(&mut app, &SyncWindows::default(), at(now))
        else {
            panic!("the operation has not started")
        };
        app.operation = Some(*begun);
        operation::apply_progress(&mut app, finished_progress(OperationPhase::Succeeded, now + 9));
    }
    app.spec.sync_policy = None;
    let sync = rollback_operation(&app, None, false).unwrap().sync.unwrap();
    assert_eq!(
        (sync.revisions, sync.sources),
        (app.status.history[0].revisions.clone(), app.status.history[0].sources.clone())
    );
}

/// The log stores several sources and revisions in the fields for a single one.
#[test]
fn a_lost_status_is_rebuilt_from_the_log() {
    let mut known = multi_source_application();
    set_out_of_sync(&mut known, &["1.2.3", ONE, TWO], 0);
    let AutomatedStep::Start(begun) =
        automated_sync::apply_comparison(&mut known, &SyncWindows::default(), at(0))
    else {
        panic!("the operation has not started")
    };
    let mut asked = *begun;
    asked.set_info(ID_INFO, ID);
    let revisions = asked.sync.clone().unwrap().revisions;
    let request =
        operation::sync_request(&known, &asked, Destination::Simulated, "shop".to_owned(), &revisions)
            .unwrap();
    assert_eq!(request.sources.len(), 3);
    assert!(!format!("{request:?}").contains("s3cret"));
    known.operation = Some(asked);
    let progress = finished_progress(OperationPhase::Succeeded, 9);
    operation::apply_progress(&mut known, progress.clone());
    let recorded = LoggedOperation { operation: ID.parse().unwrap(), request: Some(request), progress };
    let mut lost = multi_source_application();
    assert_eq!(history::apply_history(&mut lost, vec![recorded.clone()]), 1);
    assert_eq!(lost.status.history, known.status.history);
    // This also works if the application's sources have changed in the meantime.
    let mut other = multi_source_application();
    other.spec.sources.remove(1);
    assert_eq!(history::apply_history(&mut other, vec![recorded]), 1);
    let entry = &other.status.history[0];
    assert_eq!((entry.revisions.len(), entry.sources[0].chart.as_str()), (3, "web"));
    assert_eq!((entry.sources[2].path.as_str(), entry.sources[1].repo_url.as_str()), ("extra", "./repo"));
}
