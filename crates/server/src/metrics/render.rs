//! Renders all current metrics.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use tidegate_app_controller::ApplicationService;
use tidegate_application::AppKey;
use tidegate_appset_controller::AppSetService;
use tidegate_executor::{Clock as _, Engine, HistogramSnapshot, SystemClock};
use tidegate_model::OperationPhase;
use tidegate_model::argo::Application;
use tidegate_state::summaries::{ApplicationSummary, SyncPolicySummary};

use super::appsets::write_appset_metrics;
use super::clusters::{ClusterAddresses, write_cluster_metrics};
use super::definitions::{
    APP_CONDITION, APP_INFO, APP_RECONCILE, APP_SYNC_SECONDS, APP_SYNC_TOTAL, BLOCKED_SECONDS, ENGINE_UP,
    EVENT_STREAMS, FINISHED_TASKS, FORWARDED_REQUESTS, HTTP_REQUESTS, LOG_FLUSH, LOG_QUEUE_DEPTH,
    MISSED_DEADLINES, OPEN_OPERATIONS, OPERATION_DURATION, PHASE_DURATION, PLANS, RETRIES, WAVE_DURATION,
};
use super::repositories::write_repository_metrics;
use super::text_format::MetricsText;
use super::{Metrics, lock};

/// Renders all metrics, with Applications and ApplicationSets once they are managed.
pub(crate) fn render_metrics(
    metrics: &Metrics,
    engine: Option<&Engine>,
    service: Option<&ApplicationService>,
    appsets: Option<&AppSetService>,
    streams: u64,
) -> String {
    let mut text = MetricsText::default();
    if let Some(service) = service {
        let clusters = service.clusters();
        write_application_metrics(&mut text, metrics, service, &ClusterAddresses::from_clusters(&clusters));
        write_cluster_metrics(&mut text, &clusters);
        write_repository_metrics(&mut text, service);
    }
    if let Some(appsets) = appsets {
        write_appset_metrics(&mut text, appsets);
    }
    write_operation_metrics(&mut text, metrics);
    if let Some(engine) = engine {
        text.start_metric(ENGINE_UP).add_count(&[], u64::from(engine.failure().is_none()));
        text.start_metric(LOG_FLUSH).add_histogram(&[], &engine.log_flushes());
        text.start_metric(LOG_QUEUE_DEPTH).add_count(&[], engine.log_queue());
        let plans = engine.plan_counts();
        let mut samples = text.start_metric(PLANS);
        samples.add_count(&[("source", "computed")], plans.computed);
        samples.add_count(&[("source", "comparison")], plans.reused);
    }
    text.start_metric(EVENT_STREAMS).add_count(&[], streams);
    let mut requests = text.start_metric(HTTP_REQUESTS);
    for ((route, status), count) in lock(&metrics.requests).iter() {
        requests.add_count(&[("route", route), ("status", &status.to_string())], *count);
    }
    let mut forwarded = text.start_metric(FORWARDED_REQUESTS);
    for (status, count) in lock(&metrics.forwarded_requests).iter() {
        forwarded.add_count(&[("status", &status.to_string())], *count);
    }
    text.finish()
}

fn write_application_metrics(
    text: &mut MetricsText,
    metrics: &Metrics,
    service: &ApplicationService,
    servers: &ClusterAddresses,
) {
    let all = service.all();
    let mut info = text.start_metric(APP_INFO);
    for (key, application) in &all {
        let line = ApplicationSummary::from(application.as_ref());
        info.add_count(
            &[
                ("namespace", &key.namespace),
                ("name", &key.name),
                ("project", &line.project),
                ("autosync_enabled", if line.policy == SyncPolicySummary::Manual { "false" } else { "true" }),
                ("repo", line.sources.first().map(|source| source.repo_url.as_str()).unwrap_or_default()),
                ("dest_server", servers.resolve_address(&line.destination.cluster)),
                ("dest_namespace", &line.destination.namespace),
                ("sync_status", &line.sync.to_string()),
                ("health_status", &format!("{:?}", line.health)),
                ("operation", operation_kind(application, &line)),
            ],
            1,
        );
    }
    let mut conditions = text.start_metric(APP_CONDITION);
    for (AppKey { namespace, name }, application) in &all {
        for (condition, count) in ApplicationSummary::from(application.as_ref()).conditions {
            let labels = [
                ("namespace", namespace.as_str()),
                ("name", name.as_str()),
                ("condition", condition.as_str()),
            ];
            conditions.add_count(&labels, u64::from(count));
        }
    }
    let mut reconciles = text.start_metric(APP_RECONCILE);
    for ((namespace, server), counted) in merge_by_address(service.comparison_durations(), servers) {
        reconciles.add_histogram(&[("namespace", &namespace), ("dest_server", &server)], &counted);
    }
    let syncs = lock(&metrics.sync_counts);
    let mut total = text.start_metric(APP_SYNC_TOTAL);
    for (AppKey { namespace, name }, of) in syncs.applications() {
        for ((phase, dry_run), count) in &of.outcomes {
            let labels = [
                ("namespace", namespace.as_str()),
                ("name", name.as_str()),
                ("project", of.project.as_str()),
                ("dest_server", servers.resolve_address(&of.cluster)),
                ("phase", phase.as_str()),
                ("dry_run", if *dry_run { "true" } else { "false" }),
            ];
            total.add_count(&labels, *count);
        }
    }
    let mut seconds = text.start_metric(APP_SYNC_SECONDS);
    for (AppKey { namespace, name }, of) in syncs.applications().filter(|(_, of)| !of.outcomes.is_empty()) {
        let labels = [
            ("namespace", namespace.as_str()),
            ("name", name.as_str()),
            ("project", of.project.as_str()),
            ("dest_server", servers.resolve_address(&of.cluster)),
        ];
        seconds.add_count(&labels, of.total_seconds);
    }
}

/// Adds up the counts by namespace and cluster URL, merging different names of the same cluster.
fn merge_by_address(
    all: Vec<((String, String), HistogramSnapshot)>,
    servers: &ClusterAddresses,
) -> BTreeMap<(String, String), HistogramSnapshot> {
    let mut sums: BTreeMap<(String, String), HistogramSnapshot> = BTreeMap::new();
    for ((namespace, name), counted) in all {
        match sums.entry((namespace, servers.resolve_address(&name).to_owned())) {
            Entry::Vacant(place) => {
                place.insert(counted);
            }
            Entry::Occupied(mut sum) => add_counts(sum.get_mut(), &counted),
        }
    }
    sums
}

/// Adds counts with the same bucket bounds.
fn add_counts(sum: &mut HistogramSnapshot, more: &HistogramSnapshot) {
    for ((_, count), (_, more)) in sum.buckets.iter_mut().zip(&more.buckets) {
        *count = count.saturating_add(*more);
    }
    sum.count = sum.count.saturating_add(more.count);
    sum.seconds += more.seconds;
}

/// Returns the kind of the running operation.
fn operation_kind(application: &Application, line: &ApplicationSummary) -> &'static str {
    let is_open = line
        .operation
        .as_ref()
        .is_some_and(|last| matches!(last.phase, OperationPhase::Running | OperationPhase::Terminating));
    if application.is_deleting() {
        "delete"
    } else if is_open {
        "sync"
    } else {
        ""
    }
}

fn write_operation_metrics(text: &mut MetricsText, metrics: &Metrics) {
    let tally = lock(&metrics.operations);
    text.start_metric(OPEN_OPERATIONS).add_count(&[], tally.open_count());
    let mut blocked = text.start_metric(BLOCKED_SECONDS);
    for (reason, time) in tally.blocked_time(SystemClock.now()) {
        blocked.add(&[("reason", reason)], time.as_secs_f64());
    }
    let mut waves = text.start_metric(WAVE_DURATION);
    for ((phase, wave), took) in &tally.waves {
        waves.add_histogram(&[("phase", &phase.to_string()), ("wave", wave)], &took.snapshot());
    }
    let mut phases = text.start_metric(PHASE_DURATION);
    for (phase, took) in &tally.phases {
        phases.add_histogram(&[("phase", &phase.to_string())], &took.snapshot());
    }
    let mut operations = text.start_metric(OPERATION_DURATION);
    for (phase, took) in &tally.operations {
        operations.add_histogram(&[("phase", phase)], &took.snapshot());
    }
    let mut tasks = text.start_metric(FINISHED_TASKS);
    for (phase, count) in &tally.tasks {
        tasks.add_count(&[("phase", phase)], *count);
    }
    let mut deadlines = text.start_metric(MISSED_DEADLINES);
    for (of, count) in &tally.deadlines {
        deadlines.add_count(&[("of", of)], *count);
    }
    text.start_metric(RETRIES).add_count(&[], tally.retries);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_one_cluster_are_added_up() {
        let counted = |up_to: [u64; 2], count, seconds| HistogramSnapshot {
            buckets: vec![(0.25, up_to[0]), (1.0, up_to[1])],
            count,
            seconds,
        };
        let pair = |namespace: &str, cluster: &str| (namespace.to_owned(), cluster.to_owned());
        let all = vec![
            (pair("argocd", "https://10.0.0.1"), counted([1, 2], 3, 4.5)),
            (pair("argocd", "https://10.0.0.1/"), counted([0, 5], 6, 7.25)),
            (pair("team", "https://10.0.0.1"), counted([1, 1], 1, 0.5)),
        ];
        let expected = BTreeMap::from([
            (pair("argocd", "https://10.0.0.1"), counted([1, 7], 9, 11.75)),
            (pair("team", "https://10.0.0.1"), counted([1, 1], 1, 0.5)),
        ]);
        assert_eq!(merge_by_address(all, &ClusterAddresses::from_clusters(&[])), expected);
    }
}
