//! What is begun without being asked.

use serde_json::{Value, json};
use tidegate_application::automation::{Next, PRUNE_REFUSED, decide, renew};
use tidegate_application::comparison::take_in as compare;
use tidegate_application::operation::{ID_REMARK, Progress, take_in, wait};
use tidegate_application::refresh::Level;
use tidegate_model::argo::{Application, OperationRequest, SyncStatusCode as Code};
use tidegate_model::{HealthStatus::Healthy, OperationPhase};

use crate::{application, at, compared, out_of_sync, resource};

fn begun(app: &Application, now: i64) -> Option<OperationRequest> {
    match decide(app, at(now)).next {
        Next::Begin(operation) => Some(*operation),
        _ => None,
    }
}

/// An application out of sync, whose operation to the same revision ended like this at 10 s.
fn after(policy: Value, phase: OperationPhase) -> Application {
    let mut app = application(policy);
    out_of_sync(&mut app, "c1", at(0));
    app.operation = begun(&app, 0);
    let message = "it broke".to_owned();
    let (started_at, finished_at) = (at(1), Some(at(10)));
    take_in(
        &mut app,
        Progress { phase, message, started_at, finished_at, retry_count: 0, resources: Vec::new() },
    );
    out_of_sync(&mut app, "c1", at(11));
    app
}

#[test]
fn only_where_the_policy_says_so() {
    for (policy, expected) in [
        (json!({}), false),
        (json!({"automated": {}}), true),
        (json!({"automated": {"enabled": true}}), true),
        (json!({"automated": {"enabled": false, "selfHeal": true}}), false),
    ] {
        let mut app = application(policy.clone());
        assert_eq!(begun(&app, 0), None, "nothing was compared");
        out_of_sync(&mut app, "c1", at(0));
        assert_eq!(begun(&app, 0).is_some(), expected, "{policy}");
        compare(
            &mut app,
            compared("c1", vec![resource("a", Code::Synced, Some(Healthy))]),
            Level::Latest,
            at(1),
        );
        assert_eq!(begun(&app, 1), None, "it is in sync");
    }
}

#[test]
fn what_is_begun() {
    let mut app = application(json!({
        "automated": {"prune": true}, "syncOptions": ["CreateNamespace=true"], "retry": {"limit": 2},
    }));
    out_of_sync(&mut app, "c1", at(0));
    let operation = begun(&app, 0).unwrap();
    let sync = operation.sync.as_ref().unwrap();
    assert_eq!((sync.revision.as_str(), sync.prune, sync.resources.len()), ("c1", true, 0));
    assert_eq!(
        (sync.source.as_ref(), sync.sync_options.as_slice()),
        (app.spec.source.as_ref(), &["CreateNamespace=true".into()][..])
    );
    assert_eq!((operation.initiated_by.automated, operation.retry.unwrap().limit), (true, 2));
    app.spec.sync_policy.as_mut().unwrap().retry = None;
    assert_eq!(begun(&app, 0).unwrap().retry.unwrap().limit, 5, "if not said");
    app.operation = Some(OperationRequest::default());
    assert_eq!(begun(&app, 0), None, "one is under way");
    app.operation = None;
    app.metadata.deletion_timestamp = Some(at(0).into());
    assert_eq!(begun(&app, 0), None, "it is being deleted");
}

#[test]
fn nothing_is_tried_twice() {
    let failed = after(json!({"automated": {"selfHeal": true}}), OperationPhase::Failed);
    let decision = decide(&failed, at(11));
    assert_eq!(decision.next, Next::Nothing);
    assert_eq!(decision.error.as_deref(), Some("Failed last sync attempt to [c1]: it broke"));
    // Another revision, or another source at the same revision, is something else.
    let mut moved = failed.clone();
    out_of_sync(&mut moved, "c2", at(12));
    assert!(begun(&moved, 12).is_some());
    let mut changed = failed;
    changed.spec.source.as_mut().unwrap().target_revision = "main".into();
    assert!(begun(&changed, 12).is_some());
    let succeeded = after(json!({"automated": {}}), OperationPhase::Succeeded);
    assert_eq!(
        decide(&succeeded, at(11)),
        decide(&application(json!({})), at(11)),
        "nothing, and nothing is wrong"
    );
}

/// A dry run writes nothing, what somebody has selected is a part, and what was refused before it had a commit is nothing: none of
/// them is the attempt that counts, in the place of the one before it. Argo CD takes the first two for one, and goes on past hooks
/// that have failed or never ran.
#[test]
fn what_writes_nothing_or_a_part_is_no_attempt() {
    let aside = |app: &mut Application, sync: Value| {
        let has_begun = sync["revision"].is_string();
        let asked = json!({"sync": sync, "initiatedBy": {"username": "ann"}});
        app.operation = Some(serde_json::from_value(asked).unwrap());
        wait(app, "for something".to_owned(), at(12));
        wait(app, "for something else".to_owned(), at(13));
        let message = "successfully synced".to_owned();
        let (started_at, finished_at) = (at(14), Some(at(15)));
        // What never had a commit was refused before it began.
        let phase = if has_begun { OperationPhase::Succeeded } else { OperationPhase::Error };
        take_in(
            app,
            Progress { phase, message, started_at, finished_at, retry_count: 0, resources: Vec::new() },
        );
        out_of_sync(app, "c1", at(16));
    };
    let heals = json!({"automated": {"selfHeal": true}});
    for sync in [
        json!({"revision": "c1", "dryRun": true}),
        json!({"revision": "c1", "resources": [{"kind": "Deployment", "name": "web"}]}),
        json!({}),
    ] {
        // It has failed before, and does so still, however often somebody looks what it would do.
        let mut failed = after(heals.clone(), OperationPhase::Failed);
        for _ in 0..2 {
            aside(&mut failed, sync.clone());
            let decision = decide(&failed, at(16));
            assert_eq!(
                decision.error.as_deref(),
                Some("Failed last sync attempt to [c1]: it broke"),
                "{sync}"
            );
            assert_eq!(decision.next, Next::Nothing, "{sync}");
        }
        // Another one is a new matter.
        out_of_sync(&mut failed, "c2", at(17));
        assert_eq!(begun(&failed, 17).unwrap().sync.unwrap().resources, []);
        // What was synced as a whole is put right.
        let mut synced = after(heals.clone(), OperationPhase::Succeeded);
        aside(&mut synced, sync.clone());
        assert_eq!(begun(&synced, 16).unwrap().sync.unwrap().resources.len(), 1, "{sync}");
        // What was never synced is, with all that belongs to it.
        for policy in [json!({"automated": {}}), heals.clone()] {
            let mut never = application(policy.clone());
            out_of_sync(&mut never, "c1", at(11));
            aside(&mut never, sync.clone());
            let operation = begun(&never, 16).unwrap();
            assert_eq!(operation.sync.unwrap().resources, [], "{policy} {sync}");
        }
    }
}

/// The first time at once, then after 2, 6, 18 … seconds, at most 300.
#[test]
fn the_cluster_is_put_right() {
    let mut app = after(json!({"automated": {"selfHeal": true}}), OperationPhase::Succeeded);
    let operation = begun(&app, 11).unwrap();
    let sync = operation.sync.as_ref().unwrap();
    assert_eq!(
        sync.resources.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(),
        ["web"],
        "only what differs"
    );
    assert_eq!(sync.auto_heal_attempts_count, 1);
    for (count, wait) in [(1, 2), (2, 6), (3, 18), (4, 54), (5, 162), (6, 300), (60, 300)] {
        let last = app.status.operation_state.as_mut().unwrap();
        last.operation.sync.as_mut().unwrap().auto_heal_attempts_count = count;
        let early = decide(&app, at(10 + wait - 1));
        assert_eq!(early.next, Next::Wait(at(10 + wait)), "after {count}");
        let sync = begun(&app, 10 + wait).unwrap().sync.unwrap();
        assert_eq!(sync.auto_heal_attempts_count, count + 1);
    }
}

#[test]
fn what_would_only_prune() {
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
        compare(&mut app, compared("c1", resources), Level::Latest, at(0));
        assert_eq!(begun(&app, 0).is_some(), expected, "{policy}");
        let found = decide(&app, at(0)).error;
        assert_eq!(found.is_some(), error.is_some(), "{policy}: {found:?}");
        assert!(found.unwrap_or_default().contains(error.unwrap_or_default()));
    }
}

#[test]
fn what_asks_not_to_be_pruned_is_left_alone() {
    let kept = |name: &str| {
        let mut kept = resource(name, Code::OutOfSync, Some(Healthy));
        kept.status.requires_pruning = true;
        kept.status.rest.insert(PRUNE_REFUSED.to_owned(), true.into());
        kept
    };
    let policy = json!({"automated": {"prune": true, "selfHeal": true}});
    let mut app = after(policy, OperationPhase::Succeeded);
    let same = || resource("b", Code::Synced, Some(Healthy));
    compare(&mut app, compared("c1", vec![kept("a"), same()]), Level::Latest, at(100));
    assert_eq!(begun(&app, 100), None, "no sync changes that");
    compare(&mut app, compared("c2", vec![kept("a"), same()]), Level::Latest, at(110));
    assert_eq!(begun(&app, 110), None, "nor one to a newer commit");
    let other = resource("c", Code::OutOfSync, Some(Healthy));
    compare(&mut app, compared("c1", vec![kept("a"), same(), other]), Level::Latest, at(120));
    let healed = begun(&app, 120).unwrap().sync.unwrap().resources;
    assert_eq!(healed.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["c"]);
}

#[test]
fn one_that_still_waits_is_decided_anew_when_something_newer_was_compared() {
    let waiting = || {
        let mut app = application(json!({"automated": {}}));
        out_of_sync(&mut app, "c1", at(0));
        app.operation = begun(&app, 0);
        wait(&mut app, "waiting for database: it is Degraded".to_owned(), at(1));
        app
    };
    let revision = |app: &Application| {
        app.operation.as_ref().and_then(|asked| asked.sync.as_ref()).map(|sync| sync.revision.clone())
    };
    let mut app = waiting();
    renew(&mut app, at(2));
    assert_eq!(revision(&app).as_deref(), Some("c1"), "there is nothing newer");
    out_of_sync(&mut app, "c2", at(3));
    renew(&mut app, at(3));
    assert_eq!(revision(&app).as_deref(), Some("c2"));
    // What is begun already goes on, and so does what somebody asked for.
    type Change = fn(&mut OperationRequest);
    let keeps: [Change; 2] = [
        |asked| asked.set_remark(ID_REMARK, "019a0000-0000-7000-8000-000000000001"),
        |asked| asked.initiated_by.automated = false,
    ];
    for change in keeps {
        let mut app = waiting();
        change(app.operation.as_mut().unwrap());
        out_of_sync(&mut app, "c2", at(3));
        renew(&mut app, at(3));
        assert_eq!(revision(&app).as_deref(), Some("c1"));
    }
    // Nothing is to be done at the newer one: nor is the older one deployed later.
    let mut app = waiting();
    compare(&mut app, compared("c2", vec![resource("a", Code::Synced, Some(Healthy))]), Level::Latest, at(3));
    renew(&mut app, at(3));
    let state = app.status.operation_state.as_ref().unwrap();
    assert_eq!((&app.operation, state.phase), (&None, OperationPhase::Failed));
    assert!(state.message.contains("newer revision"), "{}", state.message);
    // And it does not stand in the way of the next.
    out_of_sync(&mut app, "c3", at(4));
    assert_eq!(begun(&app, 4).and_then(|asked| asked.sync).map(|sync| sync.revision).as_deref(), Some("c3"));
}
