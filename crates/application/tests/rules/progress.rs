//! What an operation asks of the engine, and what is left of it.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_application::automation::{self, Next};
use tidegate_application::operation::{ID_REMARK, Progress, id, request, sources, take_in};
use tidegate_application::windows::Windows;
use tidegate_application::{credentials, instance_name};
use tidegate_model::argo::{Application, OperationRequest};
use tidegate_model::{Destination, OperationPhase, SyncRequest};

use crate::{application, at};

fn operation(value: Value) -> OperationRequest {
    serde_json::from_value(value).unwrap()
}

fn asked(app: &Application, value: Value) -> Result<SyncRequest, String> {
    let place = (Destination::Simulated, "shop".to_owned());
    request(app, &operation(value), place, &["c1".to_owned()]).map_err(|error| error.to_string())
}

#[test]
fn what_is_asked_of_the_engine() {
    let app = application(json!({"managedNamespaceMetadata": {"labels": {"team": "shop"}}}));
    let request = asked(
        &app,
        json!({
            "initiatedBy": {"username": "ann"},
            "retry": {"limit": 3, "backoff": {"duration": "2s", "factor": 3, "maxDuration": "60"}},
            "sync": {
                "prune": true, "dryRun": true, "syncOptions": ["PruneLast=true"],
                "resources": [{"group": "apps", "kind": "Deployment", "name": "web"}],
                "syncStrategy": {"apply": {"force": true}},
            },
        }),
    )
    .unwrap();
    assert_eq!((request.application.as_str(), request.namespace.as_str()), ("web", "shop"));
    assert_eq!((request.revision.as_str(), request.initiated_by.as_str()), ("c1", "ann"));
    let options = &request.options;
    assert!(
        options.prune
            && options.dry_run
            && options.force
            && options.skip_hooks
            && options.has("PruneLast=true")
    );
    assert_eq!(options.namespace_labels, [("team".to_owned(), "shop".to_owned())]);
    let waits: Vec<u64> = (0..5).map(|n| request.retry.backoff.wait(n).as_secs()).collect();
    assert_eq!((request.retry.limit, waits.as_slice()), (3, &[2, 6, 18, 54, 60][..]));
    assert_eq!(request.selection.len(), 1);
    let plain = asked(&app, json!({"sync": {}})).unwrap();
    assert!(!plain.options.skip_hooks && plain.retry.limit == 0 && plain.claim.is_none());
    assert_eq!(plain.retry.backoff.wait(0), Duration::from_secs(5));
}

#[test]
fn what_cannot_be_done_is_refused() {
    let app = application(json!({}));
    for (value, expected) in [
        (json!({}), "no operation specified"),
        (json!({"sync": {"manifests": ["{}"]}}), "local manifests"),
        (json!({"sync": {}, "retry": {"backoff": {"duration": "soon"}}}), "soon"),
        (json!({"sync": {}, "retry": {"backoff": {"factor": 0}}}), "factor 0"),
        (json!({"sync": {}, "retry": {"backoff": {"factor": -2}}}), "factor -2"),
    ] {
        let error = asked(&app, value.clone()).unwrap_err();
        assert!(error.contains(expected), "{value}: {error}");
    }
}

/// The credentials of the application open its repository; nothing that is kept or shown has them.
#[test]
fn credentials_are_used_and_never_kept() {
    let mut app = application(json!({"automated": {}}));
    app.spec.source.as_mut().unwrap().repo_url = "https://me:s3cret@example.com/a.git".into();
    crate::out_of_sync(&mut app, "c1", at(0));
    let Next::Begin(begun) = automation::take_in(&mut app, &Windows::default(), at(0)) else {
        panic!("not begun")
    };
    app.operation = Some(*begun);
    let asked = app.operation.clone().unwrap();
    assert_eq!(sources(&app, &asked).unwrap().all(), app.sources(), "the whole address opens it");
    let request = request(&app, &asked, (Destination::Simulated, "shop".into()), &["c1".into()]).unwrap();
    assert!(!format!("{request:?}").contains("s3cret"));
    take_in(&mut app, ended(OperationPhase::Succeeded, Some(1)));
    let status = serde_json::to_string(&app.status).unwrap();
    assert!(status.contains("******@example.com") && !status.contains("s3cret"), "{status}");
    assert!(!serde_json::to_string(&credentials::shown(&app)).unwrap().contains("s3cret"));
    // It is an attempt at this commit, and no other is begun.
    crate::out_of_sync(&mut app, "c1", at(2));
    assert_eq!(automation::take_in(&mut app, &Windows::default(), at(2)), Next::Nothing);
    assert_eq!(tidegate_application::refresh::needed(&app, None, at(3), Duration::ZERO), None);
}

fn ended(phase: OperationPhase, finished: Option<i64>) -> Progress {
    let (started_at, finished_at) = (at(1), finished.map(at));
    Progress { phase, message: "said".into(), started_at, finished_at, retry_count: 1, resources: Vec::new() }
}

#[test]
fn the_status_follows_the_operation() {
    let mut app = application(json!({}));
    let mut asked = operation(json!({"sync": {"revision": "c1"}, "initiatedBy": {"username": "ann"}}));
    asked.set_remark(ID_REMARK, "019a1b2c-0000-7000-8000-000000000001");
    app.operation = Some(asked.clone());
    assert_eq!(id(&asked).unwrap().to_string(), "019a1b2c-0000-7000-8000-000000000001");
    take_in(&mut app, ended(OperationPhase::Running, None));
    let state = app.status.operation_state.clone().unwrap();
    assert_eq!(
        (state.phase, state.message.as_str(), state.finished_at),
        (OperationPhase::Running, "said", None)
    );
    assert_eq!(app.operation.as_ref(), Some(&asked), "it is under way");
    take_in(&mut app, ended(OperationPhase::Succeeded, Some(9)));
    assert_eq!(app.operation, None);
    let state = app.status.operation_state.clone().unwrap();
    assert_eq!((state.phase, state.retry_count), (OperationPhase::Succeeded, 1));
    assert_eq!(state.sync_result.unwrap().source, app.spec.source);
    let history = &app.status.history[0];
    assert_eq!((history.id, history.revision.as_str()), (0, "c1"));
    assert_eq!((history.deploy_started_at, history.deployed_at), (Some(at(1).into()), at(9).into()));
    assert_eq!(history.initiated_by.username, "ann");
}

#[test]
fn only_whole_syncs_are_remembered_and_not_for_ever() {
    let mut app = application(json!({}));
    let run = |app: &mut Application, sync: Value, phase| {
        app.operation = Some(operation(json!({"sync": sync})));
        take_in(app, ended(phase, Some(9)));
    };
    run(&mut app, json!({"dryRun": true}), OperationPhase::Succeeded);
    run(&mut app, json!({"resources": [{"kind": "A", "name": "a"}]}), OperationPhase::Succeeded);
    run(&mut app, json!({}), OperationPhase::Failed);
    assert_eq!(app.status.history, []);
    for _ in 0..12 {
        run(&mut app, json!({}), OperationPhase::Succeeded);
    }
    let ids = |app: &Application| app.status.history.iter().map(|one| one.id).collect::<Vec<_>>();
    assert_eq!(ids(&app), (2..12).collect::<Vec<_>>(), "ten, if not said");
    app.spec.revision_history_limit = Some(2);
    run(&mut app, json!({}), OperationPhase::Succeeded);
    assert_eq!(ids(&app), [11, 12]);
    app.spec.revision_history_limit = Some(-1);
    run(&mut app, json!({}), OperationPhase::Succeeded);
    assert_eq!(ids(&app), Vec::<i64>::new());
}

#[test]
fn names() {
    for (namespace, expected) in [("", "web"), ("argocd", "web"), ("team-a", "team-a_web")] {
        let mut app = application(json!({}));
        app.metadata.namespace = namespace.into();
        assert_eq!(instance_name(&app), expected);
    }
}
