//! Metrics for ApplicationSets and their progressive syncs.

use tidegate_application::AppKey;
use tidegate_appset_controller::AppSetService;
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_views::appset_summary::AppSetSummary;

use super::definitions::{APPSET_INFO, APPSET_OWNED, APPSET_RECONCILE, ROLLOUT_MEMBERS, STEP_WAITING};
use super::text_format::{Labels, MetricsText};

/// Writes the state of each ApplicationSet.
pub(super) fn write_appset_metrics(text: &mut MetricsText, service: &AppSetService) {
    let lines: Vec<AppSetSummary> = service.all().iter().map(|(_, set)| service.summarize(set)).collect();
    let named = |line: &'_ AppSetSummary,
                 more: Labels<'_>,
                 count: u64,
                 metric: &mut super::text_format::SampleWriter<'_>| {
        let own = [("namespace", line.namespace.as_str()), ("name", line.name.as_str())];
        metric.add_count(&[&own, more].concat(), count);
    };
    let mut info = text.start_metric(APPSET_INFO);
    for line in &lines {
        named(line, &[("resource_update_status", &line.resource_update_status)], 1, &mut info);
    }
    let mut owned = text.start_metric(APPSET_OWNED);
    for line in &lines {
        named(line, &[], line.applications, &mut owned);
    }
    let mut members = text.start_metric(ROLLOUT_MEMBERS);
    for line in &lines {
        for (status, count) in line.rollout.iter().flat_map(|rollout| &rollout.members) {
            named(line, &[("status", status)], u64::from(*count), &mut members);
        }
    }
    let (courses, now) = (service.metrics(), SystemClock.now());
    let mut waits = text.start_metric(STEP_WAITING);
    for (AppKey { namespace, name }, progress) in &courses {
        let Some(waiting) = progress.current_wait else { continue };
        let (step, reason) = (waiting.step.to_string(), waiting.reason.to_string());
        let labels = [
            ("namespace", namespace.as_str()),
            ("name", name.as_str()),
            ("step", step.as_str()),
            ("reason", reason.as_str()),
        ];
        waits.add(&labels, now.since(waiting.since).as_secs_f64());
    }
    let mut reconciliations = text.start_metric(APPSET_RECONCILE);
    for (AppKey { namespace, name }, progress) in &courses {
        reconciliations.add_histogram(&[("namespace", namespace), ("name", name)], &progress.pass_durations);
    }
}
