//! All metrics, as they are now.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use tidegate_executor::{Clock as _, Counted, Engine, SystemClock};
use tidegate_model::OperationPhase;
use tidegate_model::argo::Application;
use tidegate_service::applications::Serving;
use tidegate_service::applications::store::AppKey;
use tidegate_service::lines::{ApplicationLine, SyncPolicyLine};
use tidegate_service::sets::SetServing;

use super::clusters::{Servers, of_clusters};
use super::names::{
    APP_CONDITION, APP_INFO, APP_RECONCILE, APP_SYNC_SECONDS, APP_SYNC_TOTAL, BLOCKED, DEADLINES, ENGINE_UP,
    FLUSH, HTTP, OPEN, OPERATION, PHASE, QUEUE, RETRIES, STREAMS, TASKS, WAVE,
};
use super::repositories::of_repositories;
use super::sets::of_sets;
use super::text::Text;
use super::{Metrics, open};

/// All metrics. Of applications and ApplicationSets only where they are served already.
pub(crate) fn page(
    metrics: &Metrics,
    engine: Option<&Engine>,
    (serving, sets): (Option<&Serving>, Option<&SetServing>),
    streams: u64,
) -> String {
    let mut text = Text::default();
    if let Some(serving) = serving {
        let clusters = serving.clusters();
        of_applications(&mut text, metrics, serving, &Servers::of(&clusters));
        of_clusters(&mut text, &clusters);
        of_repositories(&mut text, serving);
    }
    if let Some(sets) = sets {
        of_sets(&mut text, sets);
    }
    of_operations(&mut text, metrics);
    if let Some(engine) = engine {
        text.metric(ENGINE_UP).count(&[], u64::from(engine.failure().is_none()));
        text.metric(FLUSH).durations(&[], &engine.log_flushes());
        text.metric(QUEUE).count(&[], engine.log_queue());
    }
    text.metric(STREAMS).count(&[], streams);
    let mut requests = text.metric(HTTP);
    for ((route, status), count) in open(&metrics.requests).iter() {
        requests.count(&[("route", route), ("status", &status.to_string())], *count);
    }
    text.finish()
}

fn of_applications(text: &mut Text, metrics: &Metrics, serving: &Serving, servers: &Servers) {
    let all = serving.all();
    let mut info = text.metric(APP_INFO);
    for (key, application) in &all {
        let line = ApplicationLine::from(application.as_ref());
        info.count(
            &[
                ("namespace", &key.namespace),
                ("name", &key.name),
                ("project", &line.project),
                ("autosync_enabled", if line.policy == SyncPolicyLine::Manual { "false" } else { "true" }),
                ("repo", line.sources.first().map(|source| source.repo_url.as_str()).unwrap_or_default()),
                ("dest_server", servers.address(&line.destination.cluster)),
                ("dest_namespace", &line.destination.namespace),
                ("sync_status", &line.sync.to_string()),
                ("health_status", &format!("{:?}", line.health)),
                ("operation", operation(application, &line)),
            ],
            1,
        );
    }
    let mut conditions = text.metric(APP_CONDITION);
    for (AppKey { namespace, name }, application) in &all {
        for (condition, count) in ApplicationLine::from(application.as_ref()).conditions {
            let labels = [
                ("namespace", namespace.as_str()),
                ("name", name.as_str()),
                ("condition", condition.as_str()),
            ];
            conditions.count(&labels, u64::from(count));
        }
    }
    let mut reconciles = text.metric(APP_RECONCILE);
    for ((namespace, server), counted) in by_address(serving.reconciles(), servers) {
        reconciles.durations(&[("namespace", &namespace), ("dest_server", &server)], &counted);
    }
    let syncs = open(&metrics.syncs);
    let mut total = text.metric(APP_SYNC_TOTAL);
    for (AppKey { namespace, name }, of) in syncs.all() {
        for ((phase, dry_run), count) in &of.ended {
            let labels = [
                ("namespace", namespace.as_str()),
                ("name", name.as_str()),
                ("project", of.project.as_str()),
                ("dest_server", servers.address(&of.cluster)),
                ("phase", phase.as_str()),
                ("dry_run", if *dry_run { "true" } else { "false" }),
            ];
            total.count(&labels, *count);
        }
    }
    let mut seconds = text.metric(APP_SYNC_SECONDS);
    for (AppKey { namespace, name }, of) in syncs.all().filter(|(_, of)| !of.ended.is_empty()) {
        let labels = [
            ("namespace", namespace.as_str()),
            ("name", name.as_str()),
            ("project", of.project.as_str()),
            ("dest_server", servers.address(&of.cluster)),
        ];
        seconds.count(&labels, of.seconds);
    }
}

/// Counts by namespace and cluster, as applications say it, by the addresses instead: several words may mean one cluster.
fn by_address(
    all: Vec<((String, String), Counted)>,
    servers: &Servers,
) -> BTreeMap<(String, String), Counted> {
    let mut sums: BTreeMap<(String, String), Counted> = BTreeMap::new();
    for ((namespace, said), counted) in all {
        match sums.entry((namespace, servers.address(&said).to_owned())) {
            Entry::Vacant(place) => {
                place.insert(counted);
            }
            Entry::Occupied(mut sum) => add(sum.get_mut(), &counted),
        }
    }
    sums
}

/// Adds what was counted with the same upper ends.
fn add(sum: &mut Counted, more: &Counted) {
    for ((_, count), (_, more)) in sum.up_to.iter_mut().zip(&more.up_to) {
        *count = count.saturating_add(*more);
    }
    sum.count = sum.count.saturating_add(more.count);
    sum.seconds += more.seconds;
}

/// What is under way.
fn operation(application: &Application, line: &ApplicationLine) -> &'static str {
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

fn of_operations(text: &mut Text, metrics: &Metrics) {
    let tally = open(&metrics.tally);
    text.metric(OPEN).count(&[], tally.open());
    let mut blocked = text.metric(BLOCKED);
    for (reason, time) in tally.blocked(SystemClock.now()) {
        blocked.add(&[("reason", reason)], time.as_secs_f64());
    }
    let mut waves = text.metric(WAVE);
    for ((phase, wave), took) in &tally.waves {
        waves.durations(&[("phase", &phase.to_string()), ("wave", wave)], &took.counted());
    }
    let mut phases = text.metric(PHASE);
    for (phase, took) in &tally.phases {
        phases.durations(&[("phase", &phase.to_string())], &took.counted());
    }
    let mut operations = text.metric(OPERATION);
    for (phase, took) in &tally.operations {
        operations.durations(&[("phase", phase)], &took.counted());
    }
    let mut tasks = text.metric(TASKS);
    for (phase, count) in &tally.tasks {
        tasks.count(&[("phase", phase)], *count);
    }
    let mut deadlines = text.metric(DEADLINES);
    for (of, count) in &tally.deadlines {
        deadlines.count(&[("of", of)], *count);
    }
    text.metric(RETRIES).count(&[], tally.retries);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_one_cluster_is_counted_together() {
        let counted = |up_to: [u64; 2], count, seconds| Counted {
            up_to: vec![(0.25, up_to[0]), (1.0, up_to[1])],
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
        assert_eq!(by_address(all, &Servers::of(&[])), expected);
    }
}
