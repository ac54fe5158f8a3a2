//! Status after a comparison, and the time of the next comparison.

use std::time::Duration;

use serde_json::json;
use tidegate_application::comparison::{
    ComparedResource, ComparisonOutcome, application_health, apply_comparison, record_invalid_spec,
    sync_status,
};
use tidegate_application::refresh::{self, RefreshLevel, due_at, due_refresh};
use tidegate_model::HealthStatus::{Degraded, Healthy, Missing, Progressing, Suspended, Unknown};
use tidegate_model::Phase;
use tidegate_model::argo::{ConditionType, SyncStatusCode as Code};

use crate::{application, at, compared, out_of_sync, resource};

const EVERY: Duration = Duration::from_secs(180);

fn hook(resource: ComparedResource) -> ComparedResource {
    let mut hook = resource;
    hook.status.hook = true;
    hook
}

#[test]
fn in_sync_or_not() {
    let synced = || resource("a", Code::Synced, Some(Healthy));
    let out = || resource("b", Code::OutOfSync, Some(Healthy));
    let unknown = || resource("c", Code::Unknown, None);
    let ignored = ComparedResource { is_ignored: true, ..out() };
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
fn an_application_has_the_worst_health_of_its_resources() {
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
        (
            vec![of(Some(Healthy)), ComparedResource { is_health_ignored: true, ..of(Some(Degraded)) }],
            Healthy,
        ),
    ] {
        assert_eq!(application_health(&resources), expected, "{resources:?}");
    }
    let mut without_rule = of(Some(Healthy));
    without_rule.status.health = None;
    assert_eq!(application_health(&[without_rule]), Healthy, "it exists and has no health");
}

#[test]
fn a_degraded_application_names_its_first_degraded_resource() {
    let with = |name: &str, health, message: &str| {
        let mut resource = resource(name, Code::Synced, Some(health));
        resource.status.kind = "Deployment".into();
        resource.status.namespace = "shop".into();
        resource.status.health.as_mut().unwrap().message = message.into();
        resource
    };
    let mut app = application(json!({}));
    let mut message = |resources: Vec<ComparedResource>, second: i64| {
        apply_comparison(&mut app, compared("c1", resources), RefreshLevel::Latest, at(second));
        let health = app.status.health.as_ref().unwrap();
        (health.message.clone(), health.last_transition_time)
    };
    let web = || with("web", Degraded, "0 of 2 replicas are ready");
    let ok = || with("ok", Healthy, "");
    let since = Some(at(0).into());
    assert_eq!(
        message(vec![ok(), web()], 0),
        ("Deployment shop/web: 0 of 2 replicas are ready".into(), since)
    );
    let api = with("api", Degraded, "");
    // The message changes, but the transition time of the health doesn't.
    let two = ("Deployment shop/api is Degraded (and 1 more)".into(), since);
    assert_eq!(message(vec![web(), api], 1), two);
    assert_eq!(message(vec![ok(), hook(web())], 2), (String::new(), Some(at(2).into())));
    assert_eq!(message(vec![with("ok", Progressing, "1 of 2")], 3).0, "");
}

/// A requester who waits until the annotation is removed sees a state that isn't older than the request.
#[test]
fn a_comparison_completes_the_refresh_that_it_began_with() {
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
        apply_comparison(&mut app, compared("c1", vec![]), RefreshLevel::Latest, at(0));
        refresh::complete_refresh(&mut app, began_with);
        let asked = app.annotation(refresh::REFRESH_ANNOTATION);
        assert_eq!(asked.is_none(), is_answered, "begun with {began_with:?}, asked now: {now:?}");
        let next = due_refresh(&app, None, at(1), Duration::ZERO);
        assert_eq!(next.is_some(), !is_answered, "begun with {began_with:?}, asked now: {now:?}");
    }
}

#[test]
fn a_comparison_updates_the_status() {
    let mut app = application(json!({}));
    let mut web = resource("web", Code::OutOfSync, Some(Progressing));
    web.images = vec!["b:1".into(), "a:1".into(), "b:1".into()];
    apply_comparison(
        &mut app,
        compared("c1", vec![web, resource("api", Code::Synced, Some(Healthy))]),
        RefreshLevel::Latest,
        at(0),
    );
    let status = &app.status;
    let sync = status.sync.as_ref().unwrap();
    assert_eq!((sync.status, sync.revision.as_str()), (Code::OutOfSync, "c1"));
    assert_eq!(sync.compared_to, Some(refresh::compared_to(&app)));
    assert_eq!(status.resources.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["api", "web"]);
    assert_eq!(status.summary.images, ["a:1", "b:1"]);
    assert_eq!(status.reconciled_at, Some(at(0).into()));
    // Only the cluster was read. The newest revision was not compared.
    let again = || compared("c1", vec![resource("web", Code::Synced, Some(Progressing))]);
    apply_comparison(&mut app, again(), RefreshLevel::Recent, at(5));
    assert_eq!(app.status.reconciled_at, Some(at(0).into()));
    assert_eq!(
        app.status.health.as_ref().unwrap().last_transition_time,
        Some(at(0).into()),
        "it is unchanged"
    );
    apply_comparison(&mut app, compared("c1", vec![]), RefreshLevel::Latest, at(9));
    assert_eq!(app.status.health.as_ref().unwrap().last_transition_time, Some(at(9).into()));
}

#[test]
fn a_failed_comparison_sets_a_condition_with_its_time() {
    let mut app = application(json!({}));
    out_of_sync(&mut app, "c1", at(0));
    let failed = |kind| ComparisonOutcome::without_cluster_state(kind, "no such path".into());
    for now in [1, 2] {
        apply_comparison(&mut app, failed(ConditionType::ComparisonError), RefreshLevel::Latest, at(now));
        let condition = &app.status.conditions[0];
        assert_eq!(app.status.conditions.len(), 1);
        assert_eq!(
            (&condition.kind, condition.message.as_str()),
            (&ConditionType::ComparisonError, "no such path")
        );
        assert_eq!(
            condition.last_transition_time,
            Some(at(1).into()),
            "an unchanged condition is not written again"
        );
    }
    assert_eq!(app.status.sync.as_ref().unwrap().status, Code::Unknown);
    assert_eq!(app.status.health.as_ref().unwrap().status, Healthy, "there is no contrary information");
    apply_comparison(&mut app, failed(ConditionType::InvalidSpecError), RefreshLevel::Latest, at(3));
    assert_eq!(app.status.health.as_ref().unwrap().status, Unknown);
    out_of_sync(&mut app, "c1", at(4));
    assert_eq!(app.status.conditions, []);
}

/// As in Argo CD, without manifests the sync status is unknown, but the health is still known.
#[test]
fn health_is_assessed_when_the_manifests_cannot_be_read() {
    let mut app = application(json!({}));
    out_of_sync(&mut app, "c1", at(0));
    let seen = vec![resource("web", Code::Unknown, Some(Degraded)), resource("other", Code::Unknown, None)];
    let (kind, message) = (ConditionType::ComparisonError, "no such branch".to_owned());
    apply_comparison(
        &mut app,
        ComparisonOutcome::Failed { revisions: Vec::new(), kind, message, live_resources: seen },
        RefreshLevel::Latest,
        at(7),
    );
    let status = &app.status;
    assert_eq!(status.health.as_ref().unwrap().status, Degraded);
    assert_eq!(status.reconciled_at, Some(at(7).into()));
    assert!(status.resources.iter().all(|one| one.status == Some(Code::Unknown)));
    assert_eq!(status.resources.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["other", "web"]);
    assert_eq!(status.conditions.len(), 1);
}

#[test]
fn an_unreadable_cluster_preserves_the_known_state() {
    let mut app = application(json!({}));
    record_invalid_spec(&mut app, "line 3".into(), at(0));
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
    record_invalid_spec(&mut app, "line 3".into(), at(2));
    assert_eq!(word(&app), (Code::OutOfSync, Healthy, 1));
    assert_eq!((&app.status.resources, &app.status.sync), (&before.resources, &before.sync));
    out_of_sync(&mut app, "c1", at(3));
    assert_eq!(app.status.conditions, []);
}

#[test]
fn when_a_comparison_is_due() {
    let mut fresh = application(json!({}));
    assert_eq!(due_refresh(&fresh, None, at(0), EVERY), Some(RefreshLevel::Forced), "it was never compared");
    out_of_sync(&mut fresh, "c1", at(0));
    let due = |change: fn(&mut tidegate_model::argo::Application), asked, now| {
        let mut app = fresh.clone();
        change(&mut app);
        due_refresh(&app, asked, at(now), EVERY)
    };
    let annotate = |app: &mut tidegate_model::argo::Application, value: &str| {
        app.metadata.annotations.insert("argocd.argoproj.io/refresh".into(), value.into());
    };
    assert_eq!(due(|_| {}, None, 179), None);
    assert_eq!(due(|_| {}, Some(RefreshLevel::Recent), 179), Some(RefreshLevel::Recent));
    assert_eq!(
        due(|_| {}, Some(RefreshLevel::Recent), 180),
        Some(RefreshLevel::Latest),
        "the comparison has expired"
    );
    assert_eq!(
        due(|app| app.spec.source.as_mut().unwrap().path = "x".into(), None, 1),
        Some(RefreshLevel::Forced)
    );
    assert_eq!(due(|app| app.spec.destination.namespace = "x".into(), None, 1), Some(RefreshLevel::Latest));
    assert_eq!(
        due(|app| app.spec.ignore_differences.push(Default::default()), None, 1),
        Some(RefreshLevel::Latest)
    );
    let mut asked = fresh.clone();
    annotate(&mut asked, "normal");
    assert_eq!(due_refresh(&asked, None, at(1), EVERY), Some(RefreshLevel::Forced));
    annotate(&mut asked, "hard");
    assert_eq!(due_refresh(&asked, Some(RefreshLevel::Recent), at(1), EVERY), Some(RefreshLevel::Hard));
    out_of_sync(&mut asked, "c1", at(1));
    refresh::complete_refresh(&mut asked, Some("hard"));
    assert_eq!(due_refresh(&asked, None, at(1), EVERY), None, "the request was processed");
    assert_eq!(due_refresh(&fresh, None, at(9_999), Duration::ZERO), None, "the comparison never expires");
    // The next comparison is due when the last one becomes outdated. If it is already outdated, no time is
    // returned.
    assert_eq!(due_at(&fresh, at(0), EVERY), Some(at(181)));
    assert_eq!(due_at(&fresh, at(180), EVERY), Some(at(181)));
    assert_eq!(due_at(&fresh, at(181), EVERY), None);
    assert_eq!(due_at(&fresh, at(0), Duration::ZERO), None);
    assert_eq!(due_at(&application(json!({})), at(0), EVERY), None);
    for (value, expected) in [("true", true), ("1", true), ("false", false), ("soon", false)] {
        let mut app = fresh.clone();
        app.metadata.annotations.insert(refresh::SKIP_RECONCILE_ANNOTATION.into(), value.into());
        assert_eq!(refresh::is_skipped(&app), expected, "{value}");
        assert_eq!(
            refresh::skip_reason(&app).is_some_and(|reason| reason.contains("skip-reconcile")),
            expected
        );
        // Alongside Argo CD, the annotation on a labeled application has an effect only in Argo CD.
        for (label, skipped) in [("true", false), ("false", expected)] {
            app.metadata.labels.insert(refresh::MANAGED_LABEL.into(), label.into());
            assert_eq!(refresh::is_skipped(&app), skipped, "{value}, labelled {label}");
        }
    }
}

/// All four finalizers are added and removed as in Argo CD. Other controllers' finalizers are kept.
#[test]
fn deletion_hooks_get_finalizers() {
    const PRE: &str = "pre-delete-finalizer.argocd.argoproj.io";
    const POST: &str = "post-delete-finalizer.argocd.argoproj.io";
    let with = |hooks: &[Phase]| {
        let mut outcome = compared("c1", vec![]);
        if let ComparisonOutcome::Compared { deletion_hooks, .. } = &mut outcome {
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
        apply_comparison(&mut app, with(hooks), RefreshLevel::Latest, at(1));
        let expected = [vec!["example.com/guard".to_owned()], expected].concat();
        assert_eq!(app.metadata.finalizers, expected, "{hooks:?}");
    }
    // If the manifests are unknown, the finalizers are kept.
    apply_comparison(&mut app, with(&[Phase::PreDelete]), RefreshLevel::Latest, at(2));
    let before = app.metadata.finalizers.clone();
    apply_comparison(
        &mut app,
        ComparisonOutcome::without_cluster_state(ConditionType::ComparisonError, "gone".to_owned()),
        RefreshLevel::Latest,
        at(3),
    );
    assert_eq!(app.metadata.finalizers, before);
    // Finalizers can't be added during a deletion, and aren't needed then.
    app.metadata.deletion_timestamp = Some(at(4).into());
    apply_comparison(&mut app, with(&[Phase::PostDelete]), RefreshLevel::Latest, at(5));
    assert_eq!(app.metadata.finalizers, before);
}
