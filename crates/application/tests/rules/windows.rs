//! When an application may be synced: which windows are about it, and what they say, one row for each.

use serde_json::{Value, json};
use tidegate_application::automation::{self, Next};
use tidegate_application::windows::Windows;
use tidegate_model::argo::{AppProject, ConditionType};
use tidegate_model::{DeployTarget, Timestamp, Zone};

use crate::{application, at, out_of_sync};

fn windows(all: &Value) -> Windows {
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
        "Europe/Berlin" => Zone::of_rule("CET-1CEST,M3.5.0,M10.5.0/3"),
        other => Err(format!("time zone {other:?} is not known")),
    };
    Windows::of(&project, "web", &target, zone)
}

/// Half past nine in the morning of a Saturday, in UTC.
fn now() -> Timestamp {
    at(0)
}

fn window(kind: &str, schedule: &str, more: Value) -> Value {
    let mut all = json!({"kind": kind, "schedule": schedule, "duration": "1h"});
    all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    all
}

#[test]
fn which_windows_are_about_an_application() {
    let about = |more: Value| windows(&json!([window("deny", "0 * * * *", more)])).given.len();
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
        // One is enough, or all that are said are needed.
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
fn what_the_windows_say() {
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
        // One that allows is enough, and one that denies is more.
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
        // What makes no sense keeps everything back, if it is about the application.
        (
            json!([window("never", &this, all.clone())]),
            true,
            "window 1: kind \"never\" must be allow or deny",
        ),
        (json!([window("allow", "* * *", all.clone())]), true, "has 3 fields"),
        (
            json!([window("allow", &this, with(json!({"timeZone": "Atlantis"})))]),
            true,
            "time zone \"Atlantis\"",
        ),
        (json!([window("allow", &this, with(json!({"duration": "long"})))]), true, "window 1: duration"),
        (
            json!([window("allow", &this, json!({"applications": ["["]}))]),
            true,
            "window 1: applications: pattern",
        ),
        (json!([window("never", &this, json!({"applications": ["shop"]}))]), true, ""),
    ] {
        let held = windows(&given).held(manual, now());
        let said = held.map(|held| held.reason).unwrap_or_default();
        let is_said = if expected.is_empty() { said.is_empty() } else { said.contains(expected) };
        assert!(is_said, "{given} {manual}: {said:?}");
    }
}

#[test]
fn an_automated_sync_waits_and_says_until_when() {
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
    let held = closed.held(false, now()).unwrap();
    let end = &held.reason[held.reason.find(" until ").unwrap() + 7..];
    assert!(end.ends_with(":00:00Z") && held.reason.contains("of project shop"), "{}", held.reason);
    let next = automation::take_in(&mut app, &closed, now());
    assert_eq!(next, Next::Wait(held.until));
    assert!(held.until > now() && held.until <= at(600), "it is looked at again");
    let told = ConditionType::Other("SyncWindowWarning".to_owned());
    let condition = app.status.conditions.iter().find(|one| one.kind == told).unwrap();
    assert_eq!(condition.message, format!("it waits to be synced: {}", held.reason));
    // When the window has passed it is begun, and nothing is said any more.
    let Next::Begin(_) = automation::take_in(&mut app, &closed, at(3600)) else { panic!("not begun") };
    assert!(app.status.conditions.iter().all(|one| one.kind != told));
    // One that has nothing to do does not wait.
    let mut idle = application(json!({}));
    out_of_sync(&mut idle, "0123456789012345678901234567890123456789", now());
    assert_eq!(automation::take_in(&mut idle, &closed, now()), Next::Nothing);
    assert_eq!(idle.status.conditions, []);
}
