//! ApplicationSets, and their progressive syncs.

use tidegate_executor::{Clock as _, SystemClock};
use tidegate_service::applications::store::AppKey;
use tidegate_service::sets::{SetLine, SetServing};

use super::names::{MEMBERS, SET_INFO, SET_OWNED, SET_RECONCILE, STEP_WAITING};
use super::text::{Labels, Text};

/// How each stands.
pub(super) fn of_sets(text: &mut Text, serving: &SetServing) {
    let lines: Vec<SetLine> = serving.all().iter().map(|(_, set)| serving.line(set)).collect();
    let named = |line: &'_ SetLine, more: Labels<'_>, count: u64, metric: &mut super::text::Samples<'_>| {
        let own = [("namespace", line.namespace.as_str()), ("name", line.name.as_str())];
        metric.count(&[&own, more].concat(), count);
    };
    let mut info = text.metric(SET_INFO);
    for line in &lines {
        named(line, &[("resource_update_status", &line.resource_update_status)], 1, &mut info);
    }
    let mut owned = text.metric(SET_OWNED);
    for line in &lines {
        named(line, &[], line.applications, &mut owned);
    }
    let mut members = text.metric(MEMBERS);
    for line in &lines {
        for (status, count) in line.rollout.iter().flat_map(|rollout| &rollout.members) {
            named(line, &[("status", status)], u64::from(*count), &mut members);
        }
    }
    let (courses, now) = (serving.courses(), SystemClock.now());
    let mut waits = text.metric(STEP_WAITING);
    for (AppKey { namespace, name }, course) in &courses {
        let Some(waiting) = course.waiting else { continue };
        let (step, reason) = (waiting.step.to_string(), waiting.reason.to_string());
        let labels = [
            ("namespace", namespace.as_str()),
            ("name", name.as_str()),
            ("step", step.as_str()),
            ("reason", reason.as_str()),
        ];
        waits.add(&labels, now.since(waiting.since).as_secs_f64());
    }
    let mut looks = text.metric(SET_RECONCILE);
    for (AppKey { namespace, name }, course) in &courses {
        looks.durations(&[("namespace", namespace), ("name", name)], &course.looks);
    }
}
