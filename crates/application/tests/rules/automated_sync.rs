//! Operations that start automatically.

use serde_json::{Value, json};
use tidegate_application::automated_sync::{
    AutomatedDecision, AutomatedStep, IdleReason, PRUNE_DISABLED, decide, update_waiting_operation,
};
use tidegate_application::comparison::apply_comparison as compare;
use tidegate_application::operation::{EngineProgress, ID_INFO, apply_progress, set_waiting};
use tidegate_application::refresh::RefreshLevel;
use tidegate_model::argo::{Application, OperationRequest, SyncStatusCode as Code};
use tidegate_model::{HealthStatus::Healthy, OperationPhase};

use crate::{application, at, compared, out_of_sync, resource};

fn started_operation(app: &Application, now: i64) -> Option<OperationRequest> {
    match decide(app, at(now)).next {
        AutomatedStep::Start(operation) => Some(*operation),
        _ => None,
    }
}

/// Returns an application that is out of sync. Its last operation was at the same revision and ended at 10 s.
fn out_of_sync_after(policy: Value, phase: OperationPhase) -> Application {
    let mut app = application(policy);
    out_of_sync(&mut app, "c1", at(0));
    app.operation = started_operation(&app, 0);
    let message = "it broke".to_owned();
    let (started_at, finished_at) = (at(1), Some(at(10)));
    apply_progress(
        &mut app,
        EngineProgress { phase, message, started_at, finished_at, retry_count: 0, resources: Vec::new() },
    );
    out_of_sync(&mut app, "c1", at(11));
    app
}

#[test]
fn automated_sync_requires_the_policy() {
    for (policy, expected) in [
        (json!({}), false),
        (json!({"automated": {}}), true),
        (json!({"automated": {"enabled": true}}), true),
        (json!({"automated": {"enabled": false, "selfHeal": true}}), false),
    ] {
        let mut app = application(policy.clone());
        assert_eq!(started_operation(&app, 0), None, "there was no comparison");
        out_of_sync(&mut app, "c1", at(0));
        assert_eq!(started_operation(&app, 0).is_some(), expected, "{policy}");
        compare(
            &mut app,
            compared("c1", vec![resource("a", Code::Synced, Some(Healthy))]),
            RefreshLevel::Latest,
            at(1),
        );
        assert_eq!(started_operation(&app, 1), None, "it is in sync");
    }
}

#[test]
fn started_operations() {
    let mut app = application(json!({
        "automated": {"prune": true}, "syncOptions": ["CreateNamespace=true"], "retry": {"limit": 2},
    }));
    out_of_sync(&mut app, "c1", at(0));
    let operation = started_operation(&app, 0).unwrap();
    let sync = operation.sync.as_ref().unwrap();
    assert_eq!((sync.revision.as_str(), sync.prune, sync.resources.len()), ("c1", true, 0));
    assert_eq!(
        (sync.source.as_ref(), sync.sync_options.as_slice()),
        (app.spec.source.as_ref(), &["CreateNamespace=true".into()][..])
    );
    assert_eq!((operation.initiated_by.automated, operation.retry.unwrap().limit), (true, 2));
    app.spec.sync_policy.as_mut().unwrap().retry = None;
    assert_eq!(started_operation(&app, 0).unwrap().retry.unwrap().limit, 5, "by default");
    app.operation = Some(OperationRequest::default());
    assert_eq!(started_operation(&app, 0), None, "a sync is running");
    app.operation = None;
    app.metadata.deletion_timestamp = Some(at(0).into());
    assert_eq!(started_operation(&app, 0), None, "the application is being deleted");
}

#[test]
fn a_revision_is_not_synced_twice() {
    let failed = out_of_sync_after(json!({"automated": {"selfHeal": true}}), OperationPhase::Failed);
    let decision = decide(&failed, at(11));
    assert_eq!(decision.next, AutomatedStep::Nothing);
    assert_eq!(decision.error.as_deref(), Some("Failed last sync attempt to [c1]: it broke"));
    // An operation at another revision, or with another source at the same revision, is a different attempt.
    let mut moved = failed.clone();
    out_of_sync(&mut moved, "c2", at(12));
    assert!(started_operation(&moved, 12).is_some());
    let mut changed = failed;
    changed.spec.source.as_mut().unwrap().target_revision = "main".into();
    assert!(started_operation(&changed, 12).is_some());
    let succeeded = out_of_sync_after(json!({"automated": {}}), OperationPhase::Succeeded);
    let idle = Some(IdleReason::SelfHealOff);
    let nothing = AutomatedDecision { next: AutomatedStep::Nothing, error: None, idle };
    assert_eq!(decide(&succeeded, at(11)), nothing, "there is no error");
}

/// A dry run doesn't write, a selective sync covers only some resources, and a request that was rejected
/// before its commit was known had no effect. None of these operations counts as the last attempt, so an
/// earlier attempt does. Argo CD counts dry runs and selective syncs, so it ignores hooks that failed or
/// never ran.
#[test]
fn dry_runs_and_selective_syncs_are_not_attempts() {
    let aside = |app: &mut Application, sync: Value| {
        let has_begun = sync["revision"].is_string();
        let asked = json!({"sync": sync, "initiatedBy": {"username": "ann"}});
        app.operation = Some(serde_json::from_value(asked).unwrap());
        set_waiting(app, "for something".to_owned(), at(12));
        set_waiting(app, "for something else".to_owned(), at(13));
        let message = "successfully synced".to_owned();
        let (started_at, finished_at) = (at(14), Some(at(15)));
        // An operation without a commit was rejected before it started.
        let phase = if has_begun { OperationPhase::Succeeded } else { OperationPhase::Error };
        apply_progress(
            app,
            EngineProgress { phase, message, started_at, finished_at, retry_count: 0, resources: Vec::new() },
        );
        out_of_sync(app, "c1", at(16));
    };
    let heals = json!({"automated": {"selfHeal": true}});
    for sync in [
        json!({"revision": "c1", "dryRun": true}),
        json!({"revision": "c1", "resources": [{"kind": "Deployment", "name": "web"}]}),
        json!({}),
    ] {
        // The earlier attempt failed, and dry runs don't change that.
        let mut failed = out_of_sync_after(heals.clone(), OperationPhase::Failed);
        for _ in 0..2 {
            aside(&mut failed, sync.clone());
            let decision = decide(&failed, at(16));
            assert_eq!(
                decision.error.as_deref(),
                Some("Failed last sync attempt to [c1]: it broke"),
                "{sync}"
            );
            assert_eq!(decision.next, AutomatedStep::Nothing, "{sync}");
        }
        // An operation at another revision is a different attempt.
        out_of_sync(&mut failed, "c2", at(17));
        assert_eq!(started_operation(&failed, 17).unwrap().sync.unwrap().resources, []);
        // After a complete sync, self-heal applies.
        let mut synced = out_of_sync_after(heals.clone(), OperationPhase::Succeeded);
        aside(&mut synced, sync.clone());
        assert_eq!(started_operation(&synced, 16).unwrap().sync.unwrap().resources.len(), 1, "{sync}");
        // An application that was never synced completely is synced once.
        for policy in [json!({"automated": {}}), heals.clone()] {
            let mut never = application(policy.clone());
            out_of_sync(&mut never, "c1", at(11));
            aside(&mut never, sync.clone());
            let operation = started_operation(&never, 16).unwrap();
            assert_eq!(operation.sync.unwrap().resources, [], "{policy} {sync}");
        }
    }
}

/// The first attempt starts immediately. Further attempts follow after 2, 6, 18 … seconds, up to 300.
#[test]
fn self_heal_corrects_the_cluster() {
    let mut app = out_of_sync_after(json!({"automated": {"selfHeal": true}}), OperationPhase::Succeeded);
    let operation = started_operation(&app, 11).unwrap();
    let sync = operation.sync.as_ref().unwrap();
    assert_eq!(
        sync.resources.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(),
        ["web"],
        "only the objects that differ"
    );
    assert_eq!(sync.auto_heal_attempts_count, 1);
    for (count, wait) in [(1, 2), (2, 6), (3, 18), (4, 54), (5, 162), (6, 300), (60, 300)] {
        let last = app.status.operation_state.as_mut().unwrap();
        last.operation.sync.as_mut().unwrap().auto_heal_attempts_count = count;
        let early = decide(&app, at(10 + wait - 1));
        assert_eq!(early.next, AutomatedStep::Wait(at(10 + wait)), "after {count}");
        let sync = started_operation(&app, 10 + wait).unwrap().sync.unwrap();
        assert_eq!(sync.auto_heal_attempts_count, count + 1);
    }
}

#[test]
fn a_sync_that_would_only_prune() {
    let extra = |name| {
        let mut extra = resource(name, Code::OutOfSync, Some(Healthy));
        extra.status.requires_pruning = true;
        extra
    };
    let kept = || resource("kept", Code::Synced, Some(Healthy));
    for (policy, resources, expected, error) in [
        (json!({}), vec![kept(), extra("a")], false, None),
        (json!({"prune": true}), vec![kept(), extra("a")], true, None),
        (json!({"prune": true}), vec![extra("a")], false, Some("auto-sync will wipe out all resources")),
        (json!({"prune": true, "allowEmpty": true}), vec![extra("a")], true, None),
    ] {
        let mut app = application(json!({"automated": policy}));
        compare(&mut app, compared("c1", resources), RefreshLevel::Latest, at(0));
        assert_eq!(started_operation(&app, 0).is_some(), expected, "{policy}");
        let found = decide(&app, at(0)).error;
        assert_eq!(found.is_some(), error.is_some(), "{policy}: {found:?}");
        assert!(found.unwrap_or_default().contains(error.unwrap_or_default()));
    }
}

#[test]
fn objects_with_prune_false_are_not_pruned() {
    let kept = |name: &str| {
        let mut kept = resource(name, Code::OutOfSync, Some(Healthy));
        kept.status.requires_pruning = true;
        kept.status.rest.insert(PRUNE_DISABLED.to_owned(), true.into());
        kept
    };
    let policy = json!({"automated": {"prune": true, "selfHeal": true}});
    let mut app = out_of_sync_after(policy, OperationPhase::Succeeded);
    let same = || resource("b", Code::Synced, Some(Healthy));
    compare(&mut app, compared("c1", vec![kept("a"), same()]), RefreshLevel::Latest, at(100));
    assert_eq!(started_operation(&app, 100), None, "a sync cannot change that");
    compare(&mut app, compared("c2", vec![kept("a"), same()]), RefreshLevel::Latest, at(110));
    assert_eq!(started_operation(&app, 110), None, "not even a sync to a newer commit");
    let other = resource("c", Code::OutOfSync, Some(Healthy));
    compare(&mut app, compared("c1", vec![kept("a"), same(), other]), RefreshLevel::Latest, at(120));
    let healed = started_operation(&app, 120).unwrap().sync.unwrap().resources;
    assert_eq!(healed.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["c"]);
}

#[test]
fn a_waiting_operation_is_updated_to_a_newer_comparison() {
    let waiting = || {
        let mut app = application(json!({"automated": {}}));
        out_of_sync(&mut app, "c1", at(0));
        app.operation = started_operation(&app, 0);
        set_waiting(&mut app, "waiting for database: it is Degraded".to_owned(), at(1));
        app
    };
    let revision = |app: &Application| {
        app.operation.as_ref().and_then(|asked| asked.sync.as_ref()).map(|sync| sync.revision.clone())
    };
    let mut app = waiting();
    update_waiting_operation(&mut app, at(2));
    assert_eq!(revision(&app).as_deref(), Some("c1"), "there is no newer revision");
    out_of_sync(&mut app, "c2", at(3));
    update_waiting_operation(&mut app, at(3));
    assert_eq!(revision(&app).as_deref(), Some("c2"));
    // Operations that have started, and operations that a user requested, continue.
    type Change = fn(&mut OperationRequest);
    let keeps: [Change; 2] = [
        |asked| asked.set_info(ID_INFO, "019a0000-0000-7000-8000-000000000001"),
        |asked| asked.initiated_by.automated = false,
    ];
    for change in keeps {
        let mut app = waiting();
        change(app.operation.as_mut().unwrap());
        out_of_sync(&mut app, "c2", at(3));
        update_waiting_operation(&mut app, at(3));
        assert_eq!(revision(&app).as_deref(), Some("c1"));
    }
    // The newer revision doesn't require an operation, and the older revision isn't deployed later.
    let mut app = waiting();
    compare(
        &mut app,
        compared("c2", vec![resource("a", Code::Synced, Some(Healthy))]),
        RefreshLevel::Latest,
        at(3),
    );
    update_waiting_operation(&mut app, at(3));
    let state = app.status.operation_state.as_ref().unwrap();
    assert_eq!((&app.operation, state.phase), (&None, OperationPhase::Failed));
    assert!(state.message.contains("newest revision does not need one"), "{}", state.message);
    // The removed operation doesn't block the next one.
    out_of_sync(&mut app, "c3", at(4));
    assert_eq!(
        started_operation(&app, 4).and_then(|asked| asked.sync).map(|sync| sync.revision).as_deref(),
        Some("c3")
    );
}
