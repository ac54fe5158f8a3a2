//! Sync windows: conditions and effects, one row each.

use serde_json::{Value, json};
use tidegate_application::automated_sync::{self, AutomatedStep};
use tidegate_application::sync_windows::SyncWindows;
use tidegate_model::argo::{AppProject, ConditionType};
use tidegate_model::{DeployTarget, TimeZoneRules, Timestamp};

use crate::{application, at, out_of_sync};

fn windows(all: &Value) -> SyncWindows {
    let value = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": {"name": "shop"},
        "spec": {"syncWindows": all},
    });
    let project: AppProject = serde_json::from_value(value).unwrap();
    let target = DeployTarget {
        servers: vec!["https://kubernetes.default.svc".to_owned()],
        name: "in-cluster".to_owned(),
        project: String::new(),
        namespace: "web-1".to_owned(),
    };
    let zone = |name: &str| match name {
        "Europe/Berlin" => TimeZoneRules::from_posix_rule("CET-1CEST,M3.5.0,M10.5.0/3"),
        other => Err(format!("time zone {other:?} is not known")),
    };
    SyncWindows::for_application(&project, "web", &target, zone)
}

/// Returns 09:30 UTC on a Saturday.
fn now() -> Timestamp {
    at(0)
}

fn window(kind: &str, schedule: &str, more: Value) -> Value {
    let mut all = json!({"kind": kind, "schedule": schedule, "duration": "1h"});
    all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    all
}

#[test]
fn windows_that_apply_to_an_application() {
    let about = |more: Value| windows(&json!([window("deny", "0 * * * *", more)])).stored_form.len();
    for (more, expected) in [
        (json!({"applications": ["web"]}), 1),
        (json!({"applications": ["w*"]}), 1),
        (json!({"applications": ["*"]}), 1),
        (json!({"applications": ["shop", "web"]}), 1),
        (json!({"applications": ["shop"]}), 0),
        (json!({"namespaces": ["web-?"]}), 1),
        (json!({"namespaces": ["web"]}), 0),
        (json!({"clusters": ["in-cluster"]}), 1),
        (json!({"clusters": ["https://kubernetes.*"]}), 1),
        (json!({"clusters": ["other"]}), 0),
        // A single match is sufficient, unless all selectors must match.
        (json!({"applications": ["shop"], "namespaces": ["web-1"]}), 1),
        (json!({"applications": ["shop"], "namespaces": ["web-1"], "andOperator": true}), 0),
        (json!({"applications": ["web"], "namespaces": ["web-1"], "andOperator": true}), 1),
        (json!({"applications": ["web"], "clusters": ["other"], "andOperator": true}), 0),
        (json!({}), 0),
    ] {
        assert_eq!(about(more.clone()), expected, "{more}");
    }
}

#[test]
fn decisions_of_windows() {
    let all = json!({"applications": ["*"]});
    let with = |more: Value| {
        let mut both = all.clone();
        both.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        both
    };
    let hour = now().to_string()[11..13].parse::<u32>().unwrap();
    let (this, next) = (format!("0 {hour} * * *"), format!("0 {} * * *", (hour + 1) % 24));
    for (given, manual, expected) in [
        (json!([]), false, ""),
        (json!([window("deny", &this, all.clone())]), false, "syncs are denied by sync window deny:"),
        (json!([window("deny", &next, all.clone())]), false, ""),
        (json!([window("allow", &this, all.clone())]), false, ""),
        (
            json!([window("allow", &next, all.clone())]),
            false,
            "syncs are not allowed outside of sync window allow:",
        ),
        // One open allow window is sufficient, but a deny window takes precedence.
        (json!([window("allow", &this, all.clone()), window("allow", &next, all.clone())]), false, ""),
        (json!([window("allow", &this, all.clone()), window("deny", &this, all.clone())]), true, "denied by"),
        (json!([window("deny", &this, with(json!({"manualSync": true})))]), true, ""),
        (json!([window("deny", &this, with(json!({"manualSync": true})))]), false, "denied by"),
        (json!([window("allow", &next, with(json!({"manualSync": true})))]), true, ""),
        (
            json!([
                window("deny", &this, with(json!({"manualSync": true}))),
                window("deny", &this, all.clone())
            ]),
            true,
            "denied by",
        ),
        // An invalid window blocks everything if it applies to the application.
        (
            json!([window("never", &this, all.clone())]),
            true,
            "window 1: invalid kind \"never\": use allow or deny",
        ),
        (json!([window("allow", "* * *", all.clone())]), true, "has 3 fields"),
        (
            json!([window("allow", &this, with(json!({"timeZone": "Atlantis"})))]),
            true,
            "time zone \"Atlantis\"",
        ),
        (
            json!([window("allow", &this, with(json!({"duration": "long"})))]),
            true,
            "window 1: duration: invalid duration \"long\"",
        ),
        (
            json!([window("allow", &this, json!({"applications": ["["]}))]),
            true,
            "window 1: applications: invalid pattern \"[\": a [ has no matching ]",
        ),
        (json!([window("never", &this, json!({"applications": ["shop"]}))]), true, ""),
    ] {
        let held = windows(&given).find_hold(manual, now());
        let said = held.map(|held| held.reason).unwrap_or_default();
        let is_said = if expected.is_empty() { said.is_empty() } else { said.contains(expected) };
        assert!(is_said, "{given} {manual}: {said:?}");
    }
}

#[test]
fn a_blocked_automated_sync_reports_the_time_of_the_next_check() {
    let berlin = now().to_string()[11..13].parse::<u32>().unwrap() + 1;
    let closed = windows(&json!([window(
        "deny",
        &format!("0 {berlin} * * *"),
        json!({
            "applications": ["web"], "timeZone": "Europe/Berlin",
        })
    )]));
    let mut app = application(json!({"automated": {}}));
    out_of_sync(&mut app, "0123456789012345678901234567890123456789", now());
    let held = closed.find_hold(false, now()).unwrap();
    let end = &held.reason[held.reason.find(" until ").unwrap() + 7..];
    assert!(end.ends_with(":00:00Z") && held.reason.contains("of project shop"), "{}", held.reason);
    let next = automated_sync::apply_comparison(&mut app, &closed, now());
    assert_eq!(next, AutomatedStep::Wait(held.next_check));
    assert!(held.next_check > now() && held.next_check <= at(600), "the windows are checked again");
    let told = ConditionType::Other("SyncWindowWarning".to_owned());
    let condition = app.status.conditions.iter().find(|one| one.kind == told).unwrap();
    assert_eq!(condition.message, format!("the sync is waiting: {}", held.reason));
    // After the window has ended, the operation starts and the condition is removed.
    let AutomatedStep::Start(_) = automated_sync::apply_comparison(&mut app, &closed, at(3600)) else {
        panic!("the operation has not started")
    };
    assert!(app.status.conditions.iter().all(|one| one.kind != told));
    // An application that has nothing to do doesn't wait.
    let mut idle = application(json!({}));
    out_of_sync(&mut idle, "0123456789012345678901234567890123456789", now());
    assert_eq!(automated_sync::apply_comparison(&mut idle, &closed, now()), AutomatedStep::Nothing);
    assert_eq!(idle.status.conditions, []);
}
