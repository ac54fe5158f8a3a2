//! Tasks per second on a cluster without latency, with the log on disk.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_lifecycle::operation::OperationEvent;
use tidegate_model::OperationPhase;
use tidegate_oplog::{LogStats, Store};

use crate::Line;
use crate::fixtures::{
    alternating_definitions, alternating_resource, config_map, engine_builder, format_millis, median,
    open_log, parse_targets, runtime, sync_request,
};

const RUNS: usize = 5;

/// Figures of one run.
pub struct RunTimes {
    pub total: Duration,
    /// CPU time of the whole process, including the cluster.
    cpu: Duration,
    /// Time until the last plan was complete.
    planned: Duration,
    /// Time from the start of the first wave, after reading the cluster, planning and the dry run.
    waves: Duration,
}

/// Returns this process's CPU time.
pub fn process_cpu_time() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let of_thread = |folder: std::path::PathBuf| {
        // The thread may exit before its file is read.
        let text = std::fs::read_to_string(folder.join("schedstat")).unwrap_or_default();
        text.split_whitespace().next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0)
    };
    Duration::from_nanos(tasks.map(|task| of_thread(task.unwrap().path())).sum())
}

/// Runs one operation for each manifest text, with a log on disk.
fn measure_on_disk(manifests: &[String]) -> (RunTimes, LogStats) {
    let folder = tempfile::tempdir().unwrap();
    let log = open_log(folder.path());
    let times = measure_run(&log, manifests);
    (times, log.stats())
}

/// Runs one operation for each manifest text.
pub fn measure_run(log: &Arc<impl Store>, manifests: &[String]) -> RunTimes {
    let runtime = runtime();
    let (total, cpu, planned, waves) = runtime.block_on(async {
        let engine = engine_builder(log).start().await.unwrap();
        let syncs: Vec<_> = manifests
            .iter()
            .enumerate()
            .map(|(o, yaml)| (sync_request(&format!("app{o}")), parse_targets(yaml)))
            .collect();
        let (begin, began_at, cpu) = (Instant::now(), SystemClock.now(), process_cpu_time());
        let all = syncs.into_iter().map(async |(request, targets)| {
            let id = engine.submit(request, targets).await.unwrap();
            engine.wait(id).await.unwrap()
        });
        let views = join_all(all).await;
        let (whole, cpu) = (begin.elapsed(), self::process_cpu_time() - cpu);
        for view in &views {
            assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
        }
        let events =
            join_all(views.iter().map(async |view| engine.stored_events(view.id).await.unwrap())).await;
        let planned = events.iter().flatten().filter_map(|event| match event {
            OperationEvent::Planned { at, .. } => Some(*at),
            _ => None,
        });
        let planned = planned.max().unwrap().since(began_at);
        let opened = views.iter().filter_map(|view| view.waves[0].opened_at).max().unwrap();
        let ended = views.iter().filter_map(|view| view.finished_at).max().unwrap();
        engine.shutdown().await;
        (whole, cpu, planned, ended.since(opened))
    });
    RunTimes { total, cpu, planned, waves }
}

fn measure_median(what: &str, manifests: &[String], tasks: usize) -> [Line; 2] {
    let (runs, logs): (Vec<RunTimes>, Vec<LogStats>) = (0..RUNS).map(|_| measure_on_disk(manifests)).unzip();
    let rate = |time: Duration| format!("{:.0} tasks/s", tasks as f64 / time.as_secs_f64());
    let log = logs[0];
    let median_of = |time: fn(&RunTimes) -> Duration| median(runs.iter().map(time).collect());
    let cpu = median_of(|run| run.cpu).as_micros() as usize / tasks;
    let detail = format!(
        "{} ({cpu} µs of CPU time per task; planned after {}; {} events, {} flushes)",
        rate(median_of(|run| run.total)),
        format_millis(median_of(|run| run.planned)),
        log.events,
        log.flushes
    );
    [
        Line::new(format!("{what}: whole operation, with planning and dry run"), detail, "≥ 20,000 tasks/s"),
        Line::new(
            format!("{what}: waves only, without planning and dry run"),
            rate(median_of(|run| run.waves)),
            "≥ 20,000 tasks/s",
        ),
    ]
}

/// Returns the manifests of each operation.
pub fn config_maps(operations: usize, waves: usize, width: usize) -> Vec<String> {
    let manifests = |o: usize| (0..waves * width).map(move |i| config_map(&format!("o{o}-{i}"), i % waves));
    (0..operations).map(|o| manifests(o).collect()).collect()
}

fn measure_config_maps(what: &str, operations: usize, waves: usize, width: usize) -> [Line; 2] {
    measure_median(what, &config_maps(operations, waves, width), operations * waves * width)
}

/// Measures kind groups. They run sequentially, so the time must grow linearly with their number.
fn measure_kind_groups(groups: usize) -> [Line; 2] {
    let manifests: String =
        (0..groups).map(|i| alternating_resource(&format!("turn-{i:05}"), 1, i)).collect::<String>()
            + &alternating_definitions(0);
    let [mut whole, mut waves] =
        measure_median(&format!("1 wave of {groups} kind groups of one object each"), &[manifests], groups);
    (whole.target, waves.target) = ("", "");
    [whole, waves]
}

pub fn measure() -> Vec<Line> {
    [
        measure_config_maps("1 operation, 10 waves of 1,000", 1, 10, 1000),
        measure_config_maps("1 operation, 100 waves of 100", 1, 100, 100),
        measure_config_maps("1 operation, 1 wave of 10,000", 1, 1, 10_000),
        measure_config_maps("100 operations at once, 10 waves of 10 each", 100, 10, 10),
        measure_kind_groups(2500),
        measure_kind_groups(10_000),
    ]
    .into_iter()
    .flatten()
    .collect()
}
