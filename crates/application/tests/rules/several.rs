//! Applications with several sources.

use serde_json::json;
use tidegate_application::automation::{self, Next};
use tidegate_application::comparison::take_in as compare;
use tidegate_application::operation::{self, ID_REMARK, Progress, rollback, set_revisions};
use tidegate_application::recorded::{self, Recorded};
use tidegate_application::refresh::{Level, needed};
use tidegate_application::windows::Windows;
use tidegate_model::argo::{Application, SyncStatusCode as Code};
use tidegate_model::{Destination, HealthStatus::Healthy, OperationPhase};

use crate::{application, at, compared_several, resource};

const ONE: &str = "0123456789abcdef0123456789abcdef01234567";
const TWO: &str = "fedcba9876543210fedcba9876543210fedcba98";
const ID: &str = "019a1b2c-0000-7000-8000-000000000001";

/// A chart with its values, and a folder.
fn several() -> Application {
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

fn differs(app: &mut Application, revisions: &[&str], now: i64) {
    let web = resource("web", Code::OutOfSync, Some(Healthy));
    compare(app, compared_several(revisions, vec![web]), Level::Latest, at(now));
}

fn ended(phase: OperationPhase, at_second: i64) -> Progress {
    let (started_at, finished_at) = (at(1), Some(at(at_second)));
    Progress { phase, message: "it broke".into(), started_at, finished_at, retry_count: 0, resources: vec![] }
}

/// The fields for several are those that are used, each with an entry for every source, and the others are empty.
#[test]
fn each_source_has_its_revision_everywhere() {
    let mut app = several();
    differs(&mut app, &["1.2.3", ONE, ONE], 0);
    let sync = app.status.sync.clone().unwrap();
    assert_eq!((sync.revision.as_str(), sync.revisions), ("", vec!["1.2.3".into(), ONE.into(), ONE.into()]));
    assert_eq!((app.status.source_type.as_str(), app.status.source_types.len()), ("", 3));
    assert_eq!(sync.compared_to.unwrap().sources.len(), 3);
    assert_eq!(needed(&app, None, at(0), std::time::Duration::ZERO), None);
    let Next::Begin(begun) = automation::take_in(&mut app, &Windows::default(), at(0)) else {
        panic!("not begun")
    };
    let asked = begun.sync.clone().unwrap();
    assert_eq!((asked.revision.as_str(), asked.revisions.len(), asked.sources.len()), ("", 3, 3));
    assert_eq!(asked.source, None);
    app.operation = Some(*begun);
    operation::take_in(&mut app, ended(OperationPhase::Succeeded, 9));
    let entry = app.status.history[0].clone();
    assert_eq!((entry.revisions, entry.sources.len(), entry.source), (asked.revisions, 3, None));
    let result = app.status.operation_state.clone().unwrap().sync_result.unwrap();
    assert_eq!((result.revision.as_str(), result.revisions.len(), result.sources.len()), ("", 3, 3));
    assert!(!serde_json::to_string(&app.status).unwrap().contains("s3cret"));
    // Any of them makes it another attempt.
    let mut failed = app.clone();
    failed.status.operation_state.as_mut().unwrap().phase = OperationPhase::Failed;
    differs(&mut failed, &["1.2.3", ONE, ONE], 10);
    let decision = automation::decide(&failed, at(10));
    let told = format!("Failed last sync attempt to [1.2.3 {ONE} {ONE}]: it broke");
    assert_eq!((decision.next, decision.error), (Next::Nothing, Some(told)));
    differs(&mut failed, &["1.2.3", TWO, ONE], 11);
    assert!(matches!(automation::decide(&failed, at(11)).next, Next::Begin(_)));
    failed.spec.sources[2].path = "other".into();
    differs(&mut failed, &["1.2.3", ONE, ONE], 12);
    assert!(matches!(automation::decide(&failed, at(12)).next, Next::Begin(_)));
}

#[test]
fn a_list_of_one_is_a_list() {
    let mut app = several();
    app.spec.sources.truncate(1);
    differs(&mut app, &["1.2.3"], 0);
    let sync = app.status.sync.clone().unwrap();
    assert_eq!((sync.revision.as_str(), sync.revisions), ("", vec!["1.2.3".to_owned()]));
}

#[test]
fn what_an_operation_deploys() {
    let mut app = several();
    let revisions = |app: &Application, sync: serde_json::Value| {
        let asked = serde_json::from_value(json!({"sync": sync})).unwrap();
        let sources = operation::sources(app, &asked).map_err(|error| error.to_string())?;
        operation::revisions(&asked, &sources).map_err(|error| error.to_string())
    };
    assert_eq!(revisions(&app, json!({})).unwrap(), ["1.*", "", ""]);
    assert_eq!(revisions(&app, json!({"revisions": ["1.0.0", "", "main"]})).unwrap(), ["1.0.0", "", "main"]);
    for wrong in [json!({"revision": "main"}), json!({"revisions": ["main", "main"]})] {
        let error = revisions(&app, wrong).unwrap_err();
        assert!(error.contains("for 3 sources") && error.contains("operation.sync.revisions"), "{error}");
    }
    let own = json!({"sources": [{"repoURL": "./repo", "path": "a", "targetRevision": "old"}]});
    assert_eq!(revisions(&app, own).unwrap(), ["old"], "it may bring its own");
    app.operation = Some(serde_json::from_value(json!({"sync": {}})).unwrap());
    set_revisions(&mut app, &["1.2.3".into(), ONE.into(), TWO.into()]);
    assert_eq!(app.operation.unwrap().sync.unwrap().revisions, ["1.2.3", ONE, TWO]);
}

#[test]
fn going_back_goes_back_to_all_of_them() {
    let mut app = several();
    for (revision, now) in [(ONE, 0), (TWO, 20)] {
        differs(&mut app, &["1.2.3", revision, revision], now);
        let Next::Begin(begun) = automation::take_in(&mut app, &Windows::default(), at(now)) else {
            panic!("not begun")
        };
        app.operation = Some(*begun);
        operation::take_in(&mut app, ended(OperationPhase::Succeeded, now + 9));
    }
    app.spec.sync_policy = None;
    let sync = rollback(&app, None, false).unwrap().sync.unwrap();
    assert_eq!(
        (sync.revisions, sync.sources),
        (app.status.history[0].revisions.clone(), app.status.history[0].sources.clone())
    );
}

/// The log has the sources and their revisions in the fields that it has for one.
#[test]
fn what_was_lost_follows_from_the_log() {
    let mut known = several();
    differs(&mut known, &["1.2.3", ONE, TWO], 0);
    let Next::Begin(begun) = automation::take_in(&mut known, &Windows::default(), at(0)) else {
        panic!("not begun")
    };
    let mut asked = *begun;
    asked.set_remark(ID_REMARK, ID);
    let revisions = asked.sync.clone().unwrap().revisions;
    let place = (Destination::Simulated, "shop".to_owned());
    let request = operation::request(&known, &asked, place, &revisions).unwrap();
    assert_eq!(request.sources.len(), 3);
    assert!(!format!("{request:?}").contains("s3cret"));
    known.operation = Some(asked);
    let progress = ended(OperationPhase::Succeeded, 9);
    operation::take_in(&mut known, progress.clone());
    let recorded = Recorded { operation: ID.parse().unwrap(), request: Some(request), progress };
    let mut lost = several();
    assert_eq!(recorded::take_in(&mut lost, vec![recorded.clone()]), 1);
    assert_eq!(lost.status.history, known.status.history);
    // Also where the application has other sources by now.
    let mut other = several();
    other.spec.sources.remove(1);
    assert_eq!(recorded::take_in(&mut other, vec![recorded]), 1);
    let entry = &other.status.history[0];
    assert_eq!((entry.revisions.len(), entry.sources[0].chart.as_str()), (3, "web"));
    assert_eq!((entry.sources[2].path.as_str(), entry.sources[1].repo_url.as_str()), ("extra", "./repo"));
}
