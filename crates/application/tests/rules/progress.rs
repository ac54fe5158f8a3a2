//! Engine requests for operations, and the results of operations.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_application::automated_sync::{self, AutomatedStep};
use tidegate_application::operation::{
    EngineProgress, ID_INFO, apply_progress, comparison_request, engine_id, operation_sources,
    set_terminating, sync_request,
};
use tidegate_application::sync_windows::SyncWindows;
use tidegate_application::{credentials, instance_name};
use tidegate_model::argo::{Application, OperationRequest};
use tidegate_model::{Destination, OperationPhase, SyncRequest};

use crate::{application, at};

fn operation(value: Value) -> OperationRequest {
    serde_json::from_value(value).unwrap()
}

fn engine_request(app: &Application, value: Value) -> Result<SyncRequest, String> {
    sync_request(app, &operation(value), Destination::Simulated, "shop".to_owned(), &["c1".to_owned()])
        .map_err(|error| error.to_string())
}

#[test]
fn engine_requests() {
    let app = application(json!({"managedNamespaceMetadata": {"labels": {"team": "shop"}}}));
    let request = engine_request(
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
    let waits: Vec<u64> = (0..5).map(|n| request.retry.backoff.delay(n).as_secs()).collect();
    assert_eq!((request.retry.limit, waits.as_slice()), (3, &[2, 6, 18, 54, 60][..]));
    assert_eq!(request.selection.len(), 1);
    let plain = engine_request(&app, json!({"sync": {}})).unwrap();
    assert!(!plain.options.skip_hooks && plain.retry.limit == 0 && plain.claim.is_none());
    assert_eq!(plain.retry.backoff.delay(0), Duration::from_secs(5));
}

/// An application's annotation specifies a manager for all of its objects. The annotation also applies in
/// comparisons.
#[test]
fn the_application_names_a_manager_whose_fields_are_taken_over() {
    let mut app = application(json!({"syncOptions": ["PruneLast=true"]}));
    let flags = |app: &Application| {
        let asked =
            engine_request(app, json!({"sync": {"syncOptions": ["PruneLast=true"]}})).unwrap().options.flags;
        let place = (Destination::Simulated, "shop".to_owned());
        assert_eq!(asked, comparison_request(app, place.0, place.1).options.flags);
        asked
    };
    assert_eq!(flags(&app), ["PruneLast=true"]);
    for (named, expected) in
        [("helm", &["PruneLast=true", "ClientSideApplyMigrationManager=helm"][..]), ("", &["PruneLast=true"])]
    {
        let name = "argocd.argoproj.io/client-side-apply-migration-manager";
        app.metadata.annotations.insert(name.to_owned(), named.to_owned());
        assert_eq!(flags(&app), expected);
    }
}

#[test]
fn impossible_operations_are_rejected() {
    let app = application(json!({}));
    for (value, expected) in [
        (json!({}), "no operation specified"),
        (json!({"sync": {"manifests": ["{}"]}}), "local manifests"),
        (json!({"sync": {}, "retry": {"backoff": {"duration": "soon"}}}), "soon"),
        (json!({"sync": {}, "retry": {"backoff": {"factor": 0}}}), "factor 0"),
        (json!({"sync": {}, "retry": {"backoff": {"factor": -2}}}), "factor -2"),
    ] {
        let error = engine_request(&app, value.clone()).unwrap_err();
        assert!(error.contains(expected), "{value}: {error}");
    }
}

/// The application's credentials are used to open its repository, but are neither stored nor displayed.
#[test]
fn credentials_are_used_and_never_stored() {
    let mut app = application(json!({"automated": {}}));
    app.spec.source.as_mut().unwrap().repo_url = "https://me:s3cret@example.com/a.git".into();
    crate::out_of_sync(&mut app, "c1", at(0));
    let AutomatedStep::Start(begun) =
        automated_sync::apply_comparison(&mut app, &SyncWindows::default(), at(0))
    else {
        panic!("the operation has not started")
    };
    app.operation = Some(*begun);
    let asked = app.operation.clone().unwrap();
    assert_eq!(
        operation_sources(&app, &asked).unwrap().as_slice(),
        app.sources(),
        "the address with credentials opens the repository"
    );
    let request = sync_request(&app, &asked, Destination::Simulated, "shop".into(), &["c1".into()]).unwrap();
    assert!(!format!("{request:?}").contains("s3cret"));
    apply_progress(&mut app, finished_progress(OperationPhase::Succeeded, Some(1)));
    let status = serde_json::to_string(&app.status).unwrap();
    assert!(status.contains("******@example.com") && !status.contains("s3cret"), "{status}");
    assert!(
        !serde_json::to_string(&credentials::application_without_credentials(&app))
            .unwrap()
            .contains("s3cret")
    );
    // The operation counts as an attempt at this commit, so no other attempt starts.
    crate::out_of_sync(&mut app, "c1", at(2));
    assert_eq!(
        automated_sync::apply_comparison(&mut app, &SyncWindows::default(), at(2)),
        AutomatedStep::Nothing
    );
    assert_eq!(tidegate_application::refresh::due_refresh(&app, None, at(3), Duration::ZERO), None);
}

fn finished_progress(phase: OperationPhase, finished: Option<i64>) -> EngineProgress {
    let (started_at, finished_at) = (at(1), finished.map(at));
    EngineProgress {
        phase,
        message: "said".into(),
        started_at,
        finished_at,
        retry_count: 1,
        resources: Vec::new(),
    }
}

#[test]
fn the_status_follows_the_operation() {
    let mut app = application(json!({}));
    let mut asked = operation(json!({"sync": {"revision": "c1"}, "initiatedBy": {"username": "ann"}}));
    asked.set_info(ID_INFO, "019a1b2c-0000-7000-8000-000000000001");
    app.operation = Some(asked.clone());
    assert_eq!(engine_id(&asked).unwrap().to_string(), "019a1b2c-0000-7000-8000-000000000001");
    apply_progress(&mut app, finished_progress(OperationPhase::Running, None));
    let state = app.status.operation_state.clone().unwrap();
    assert_eq!(
        (state.phase, state.message.as_str(), state.finished_at),
        (OperationPhase::Running, "said", None)
    );
    assert_eq!(app.operation.as_ref(), Some(&asked), "it is running");
    apply_progress(&mut app, finished_progress(OperationPhase::Succeeded, Some(9)));
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
fn only_full_syncs_enter_the_limited_history() {
    let mut app = application(json!({}));
    let run = |app: &mut Application, sync: Value, phase| {
        app.operation = Some(operation(json!({"sync": sync})));
        apply_progress(app, finished_progress(phase, Some(9)));
    };
    run(&mut app, json!({"dryRun": true}), OperationPhase::Succeeded);
    run(&mut app, json!({"resources": [{"kind": "A", "name": "a"}]}), OperationPhase::Succeeded);
    run(&mut app, json!({}), OperationPhase::Failed);
    assert_eq!(app.status.history, []);
    for _ in 0..12 {
        run(&mut app, json!({}), OperationPhase::Succeeded);
    }
    let ids = |app: &Application| app.status.history.iter().map(|one| one.id).collect::<Vec<_>>();
    assert_eq!(ids(&app), (2..12).collect::<Vec<_>>(), "ten by default");
    app.spec.revision_history_limit = Some(2);
    run(&mut app, json!({}), OperationPhase::Succeeded);
    assert_eq!(ids(&app), [11, 12]);
    app.spec.revision_history_limit = Some(-1);
    run(&mut app, json!({}), OperationPhase::Succeeded);
    assert_eq!(ids(&app), Vec::<i64>::new());
}

#[test]
fn requester_names() {
    for (namespace, expected) in [("", "web"), ("argocd", "web"), ("team-a", "team-a_web")] {
        let mut app = application(json!({}));
        app.metadata.namespace = namespace.into();
        assert_eq!(instance_name(&app), expected);
    }
}

fn progress(phase: OperationPhase, finished_at: Option<i64>) -> EngineProgress {
    EngineProgress {
        phase,
        message: "it continues".to_owned(),
        started_at: at(1),
        finished_at: finished_at.map(at),
        retry_count: 0,
        resources: Vec::new(),
    }
}

fn phase(app: &Application) -> OperationPhase {
    app.status.operation_state.as_ref().unwrap().phase
}

#[test]
fn a_terminating_operation_stays_terminating() {
    let with_id = |id: &str| operation(json!({"sync": {}, "info": [{"name": ID_INFO, "value": id}]}));
    let mut app = application(json!({}));
    app.operation = Some(with_id("0193b6a7-5f80-7000-8000-000000000001"));
    set_terminating(&mut app);
    assert_eq!(app.status.operation_state, None, "the operation has no progress yet");
    apply_progress(&mut app, progress(OperationPhase::Running, None));
    set_terminating(&mut app);
    assert_eq!(phase(&app), OperationPhase::Terminating);
    // An outdated report arrives late.
    apply_progress(&mut app, progress(OperationPhase::Running, None));
    assert_eq!(phase(&app), OperationPhase::Terminating);
    let other = app.clone();
    apply_progress(&mut app, progress(OperationPhase::Failed, Some(5)));
    assert_eq!(phase(&app), OperationPhase::Failed);
    // The progress of another operation isn't affected.
    let mut other = other;
    other.operation = Some(with_id("0193b6a7-5f80-7000-8000-000000000002"));
    apply_progress(&mut other, progress(OperationPhase::Running, None));
    assert_eq!(phase(&other), OperationPhase::Running);
}

#[test]
fn a_comparison_in_the_second_of_the_end_counts_as_older() {
    for (compared, expected) in [(3, 3), (5, 4), (6, 4)] {
        let mut app = application(json!({}));
        crate::out_of_sync(&mut app, "c1", at(compared));
        app.operation = Some(operation(json!({"sync": {}})));
        apply_progress(&mut app, progress(OperationPhase::Succeeded, Some(5)));
        assert_eq!(app.status.reconciled_at, Some(at(expected).into()), "{compared}");
    }
}
