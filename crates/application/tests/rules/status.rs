//! What the status says after a comparison, and when the next one is due.

use std::time::Duration;

use serde_json::json;
use tidegate_application::comparison::{Outcome, Resource, health, refuse, sync_status, take_in};
use tidegate_application::refresh::{self, Level, due_at, needed};
use tidegate_model::HealthStatus::{Degraded, Healthy, Missing, Progressing, Suspended, Unknown};
use tidegate_model::Phase;
use tidegate_model::argo::{ConditionType, SyncStatusCode as Code};

use crate::{application, at, compared, out_of_sync, resource};

const EVERY: Duration = Duration::from_secs(180);

fn hook(resource: Resource) -> Resource {
    let mut hook = resource;
    hook.status.hook = true;
    hook
}

#[test]
fn in_sync_or_not() {
    let synced = || resource("a", Code::Synced, Some(Healthy));
    let out = || resource("b", Code::OutOfSync, Some(Healthy));
    let unknown = || resource("c", Code::Unknown, None);
    let ignored = Resource { is_ignored: true, ..out() };
    for (resources, expected) in [
        (vec![], Code::Synced),
        (vec![synced()], Code::Synced),
        (vec![synced(), out()], Code::OutOfSync),
        (vec![synced(), ignored], Code::Synced),
        (vec![synced(), hook(out())], Code::Synced),
        (vec![out(), unknown()], Code::Unknown),
    ] {
        assert_eq!(sync_status(&resources), expected, "{resources:?}");
    }
}

#[test]
fn as_well_as_its_worst_resource() {
    let of = |health| resource("a", Code::Synced, health);
    for (resources, expected) in [
        (vec![], Healthy),
        (vec![of(Some(Healthy)), of(Some(Suspended))], Suspended),
        (vec![of(Some(Suspended)), of(Some(Progressing))], Progressing),
        (vec![of(Some(Degraded)), of(Some(Progressing))], Degraded),
        (vec![of(Some(Unknown)), of(Some(Degraded))], Unknown),
        (vec![of(Some(Healthy)), of(None)], Healthy),
        (vec![of(None), of(None)], Missing),
        (vec![of(Some(Healthy)), hook(of(Some(Degraded)))], Healthy),
        (vec![of(Some(Healthy)), Resource { is_healthy_anyway: true, ..of(Some(Degraded)) }], Healthy),
    ] {
        assert_eq!(health(&resources), expected, "{resources:?}");
    }
    let mut without_rule = of(Some(Healthy));
    without_rule.status.health = None;
    assert_eq!(health(&[without_rule]), Healthy, "it is there, and has no health");
}

/// Whoever asks, and waits until the request is gone, sees what was there when he asked.
#[test]
fn a_comparison_answers_the_request_that_it_began_with() {
    for (began_with, now, is_answered) in [
        (Some("normal"), Some("normal"), true),
        (Some("hard"), Some("hard"), true),
        (None, Some("normal"), false),
        (None, Some("hard"), false),
        (Some("normal"), Some("hard"), false),
        (Some("normal"), None, true),
        (None, None, true),
    ] {
        let mut app = application(json!({}));
        if let Some(asked) = now {
            app.metadata.annotations.insert(refresh::REFRESH_ANNOTATION.into(), asked.into());
        }
        take_in(&mut app, compared("c1", vec![]), Level::Latest, at(0));
        refresh::answered(&mut app, began_with);
        let asked = app.annotation(refresh::REFRESH_ANNOTATION);
        assert_eq!(asked.is_none(), is_answered, "begun with {began_with:?}, asked now: {now:?}");
        let next = needed(&app, None, at(1), Duration::ZERO);
        assert_eq!(next.is_some(), !is_answered, "begun with {began_with:?}, asked now: {now:?}");
    }
}

#[test]
fn a_comparison_is_taken_into_the_status() {
    let mut app = application(json!({}));
    let mut web = resource("web", Code::OutOfSync, Some(Progressing));
    web.images = vec!["b:1".into(), "a:1".into(), "b:1".into()];
    take_in(
        &mut app,
        compared("c1", vec![web, resource("api", Code::Synced, Some(Healthy))]),
        Level::Latest,
        at(0),
    );
    let status = &app.status;
    let sync = status.sync.as_ref().unwrap();
    assert_eq!((sync.status, sync.revision.as_str()), (Code::OutOfSync, "c1"));
    assert_eq!(sync.compared_to, Some(refresh::compared_to(&app)));
    assert_eq!(status.resources.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["api", "web"]);
    assert_eq!(status.summary.images, ["a:1", "b:1"]);
    assert_eq!(status.reconciled_at, Some(at(0).into()));
    // Only the cluster was looked at: nothing was compared with the newest revision.
    let again = || compared("c1", vec![resource("web", Code::Synced, Some(Progressing))]);
    take_in(&mut app, again(), Level::Recent, at(5));
    assert_eq!(app.status.reconciled_at, Some(at(0).into()));
    assert_eq!(
        app.status.health.as_ref().unwrap().last_transition_time,
        Some(at(0).into()),
        "it is as it was"
    );
    take_in(&mut app, compared("c1", vec![]), Level::Latest, at(9));
    assert_eq!(app.status.health.as_ref().unwrap().last_transition_time, Some(at(9).into()));
}

#[test]
fn a_failed_comparison_says_why_and_since_when() {
    let mut app = application(json!({}));
    out_of_sync(&mut app, "c1", at(0));
    let failed = |kind| Outcome::failed(kind, "no such path".into());
    for now in [1, 2] {
        take_in(&mut app, failed(ConditionType::ComparisonError), Level::Latest, at(now));
        let condition = &app.status.conditions[0];
        assert_eq!(app.status.conditions.len(), 1);
        assert_eq!(
            (&condition.kind, condition.message.as_str()),
            (&ConditionType::ComparisonError, "no such path")
        );
        assert_eq!(condition.last_transition_time, Some(at(1).into()), "the same is not said anew");
    }
    assert_eq!(app.status.sync.as_ref().unwrap().status, Code::Unknown);
    assert_eq!(app.status.health.as_ref().unwrap().status, Healthy, "nothing is known to the contrary");
    take_in(&mut app, failed(ConditionType::InvalidSpecError), Level::Latest, at(3));
    assert_eq!(app.status.health.as_ref().unwrap().status, Unknown);
    out_of_sync(&mut app, "c1", at(4));
    assert_eq!(app.status.conditions, []);
}

/// As Argo CD does it: what is wanted is not known, so nothing is in sync or not; how it does is.
#[test]
fn health_is_judged_when_the_manifests_cannot_be_read() {
    let mut app = application(json!({}));
    out_of_sync(&mut app, "c1", at(0));
    let seen = vec![resource("web", Code::Unknown, Some(Degraded)), resource("other", Code::Unknown, None)];
    let (kind, message) = (ConditionType::ComparisonError, "no such branch".to_owned());
    take_in(&mut app, Outcome::Failed { revisions: Vec::new(), kind, message, seen }, Level::Latest, at(7));
    let status = &app.status;
    assert_eq!(status.health.as_ref().unwrap().status, Degraded);
    assert_eq!(status.reconciled_at, Some(at(7).into()));
    assert!(status.resources.iter().all(|one| one.status == Some(Code::Unknown)));
    assert_eq!(status.resources.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["other", "web"]);
    assert_eq!(status.conditions.len(), 1);
}

#[test]
fn what_cannot_be_read_leaves_what_is_known() {
    let mut app = application(json!({}));
    refuse(&mut app, "line 3".into(), at(0));
    let word = |app: &tidegate_model::argo::Application| {
        let status = &app.status;
        (
            status.sync.as_ref().unwrap().status,
            status.health.as_ref().unwrap().status,
            status.conditions.len(),
        )
    };
    assert_eq!(word(&app), (Code::Unknown, Unknown, 1));
    out_of_sync(&mut app, "c1", at(1));
    let before = app.status.clone();
    refuse(&mut app, "line 3".into(), at(2));
    assert_eq!(word(&app), (Code::OutOfSync, Healthy, 1));
    assert_eq!((&app.status.resources, &app.status.sync), (&before.resources, &before.sync));
    out_of_sync(&mut app, "c1", at(3));
    assert_eq!(app.status.conditions, []);
}

#[test]
fn when_a_comparison_is_due() {
    let mut fresh = application(json!({}));
    assert_eq!(needed(&fresh, None, at(0), EVERY), Some(Level::Forced), "it was never compared");
    out_of_sync(&mut fresh, "c1", at(0));
    let due = |change: fn(&mut tidegate_model::argo::Application), asked, now| {
        let mut app = fresh.clone();
        change(&mut app);
        needed(&app, asked, at(now), EVERY)
    };
    let annotate = |app: &mut tidegate_model::argo::Application, value: &str| {
        app.metadata.annotations.insert("argocd.argoproj.io/refresh".into(), value.into());
    };
    assert_eq!(due(|_| {}, None, 179), None);
    assert_eq!(due(|_| {}, Some(Level::Recent), 179), Some(Level::Recent));
    assert_eq!(due(|_| {}, Some(Level::Recent), 180), Some(Level::Latest), "it is old");
    assert_eq!(due(|app| app.spec.source.as_mut().unwrap().path = "x".into(), None, 1), Some(Level::Forced));
    assert_eq!(due(|app| app.spec.destination.namespace = "x".into(), None, 1), Some(Level::Latest));
    assert_eq!(due(|app| app.spec.ignore_differences.push(Default::default()), None, 1), Some(Level::Latest));
    let mut asked = fresh.clone();
    annotate(&mut asked, "normal");
    assert_eq!(needed(&asked, None, at(1), EVERY), Some(Level::Forced));
    annotate(&mut asked, "hard");
    assert_eq!(needed(&asked, Some(Level::Recent), at(1), EVERY), Some(Level::Hard));
    out_of_sync(&mut asked, "c1", at(1));
    refresh::answered(&mut asked, Some("hard"));
    assert_eq!(needed(&asked, None, at(1), EVERY), None, "it was done");
    assert_eq!(needed(&fresh, None, at(9_999), Duration::ZERO), None, "nothing ever is old");
    // It is looked at when it is old; what is old already is not waited for.
    assert_eq!(due_at(&fresh, at(0), EVERY), Some(at(181)));
    assert_eq!(due_at(&fresh, at(180), EVERY), Some(at(181)));
    assert_eq!(due_at(&fresh, at(181), EVERY), None);
    assert_eq!(due_at(&fresh, at(0), Duration::ZERO), None);
    assert_eq!(due_at(&application(json!({})), at(0), EVERY), None);
    for (value, expected) in [("true", true), ("1", true), ("false", false), ("soon", false)] {
        let mut app = fresh.clone();
        app.metadata.annotations.insert(refresh::SKIP_ANNOTATION.into(), value.into());
        assert_eq!(refresh::is_skipped(&app), expected, "{value}");
        assert_eq!(refresh::left_alone(&app).is_some_and(|why| why.contains("skip-reconcile")), expected);
        // Beside an Argo CD, that one alone is kept off what is labelled as ours.
        for (label, skipped) in [("true", false), ("false", expected)] {
            app.metadata.labels.insert(refresh::MANAGED_LABEL.into(), label.into());
            assert_eq!(refresh::is_skipped(&app), skipped, "{value}, labelled {label}");
        }
    }
}

/// Argo CD adds and takes away all four of them; what others have put there is theirs.
#[test]
fn hooks_of_the_deletion_among_the_manifests_are_asked_for_by_finalizers() {
    const PRE: &str = "pre-delete-finalizer.argocd.argoproj.io";
    const POST: &str = "post-delete-finalizer.argocd.argoproj.io";
    let with = |hooks: &[Phase]| {
        let mut outcome = compared("c1", vec![]);
        if let Outcome::Compared { deletion_hooks, .. } = &mut outcome {
            *deletion_hooks = hooks.iter().copied().collect();
        }
        outcome
    };
    let mut app = application(json!({}));
    app.metadata.finalizers = vec!["example.com/guard".to_owned()];
    let cleanup = |own: &str| format!("{own}/cleanup");
    let pre = [PRE.to_owned(), cleanup(PRE)];
    let post = [POST.to_owned(), cleanup(POST)];
    for (hooks, expected) in [
        (&[Phase::PreDelete][..], pre.to_vec()),
        (&[Phase::PreDelete, Phase::PostDelete], [pre.clone(), post.clone()].concat()),
        (&[Phase::PostDelete], post.to_vec()),
        (&[], vec![]),
    ] {
        take_in(&mut app, with(hooks), Level::Latest, at(1));
        let expected = [vec!["example.com/guard".to_owned()], expected].concat();
        assert_eq!(app.metadata.finalizers, expected, "{hooks:?}");
    }
    // Where it cannot be told what is wanted, what was asked for stays.
    take_in(&mut app, with(&[Phase::PreDelete]), Level::Latest, at(2));
    let before = app.metadata.finalizers.clone();
    take_in(
        &mut app,
        Outcome::failed(ConditionType::ComparisonError, "gone".to_owned()),
        Level::Latest,
        at(3),
    );
    assert_eq!(app.metadata.finalizers, before);
    // Nobody may add one to what is being deleted, and none is needed any more.
    app.metadata.deletion_timestamp = Some(at(4).into());
    take_in(&mut app, with(&[Phase::PostDelete]), Level::Latest, at(5));
    assert_eq!(app.metadata.finalizers, before);
}
