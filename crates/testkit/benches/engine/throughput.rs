//! Tasks per second on a cluster without latency, with the log on disk.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_lifecycle::operation::Fact;
use tidegate_model::OperationPhase;
use tidegate_oplog::LogStats;

use crate::Line;
use crate::setup::{
    config, definitions, engine, median, millis, open, request, runtime, taking_turns, targets,
};

const RUNS: usize = 5;

/// What one run came to.
struct Run {
    whole: Duration,
    /// Processor time of the whole process, cluster included.
    cpu: Duration,
    /// Until the last plan was fixed.
    planned: Duration,
    /// From the opening of the first wave: the dry-run pass, planning and reading the cluster are behind it.
    waves: Duration,
    log: LogStats,
}

/// Processor time of this process so far.
pub fn cpu() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let of_thread = |folder: std::path::PathBuf| {
        // A thread may end meanwhile.
        let text = std::fs::read_to_string(folder.join("schedstat")).unwrap_or_default();
        text.split_whitespace().next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0)
    };
    Duration::from_nanos(tasks.map(|task| of_thread(task.unwrap().path())).sum())
}

/// Each text holds the manifests of one operation.
fn run(manifests: &[String]) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let log = open(folder.path());
    let runtime = runtime();
    let (whole, cpu, planned, waves) = runtime.block_on(async {
        let engine = engine(&log).start().await.unwrap();
        let syncs: Vec<_> = manifests
            .iter()
            .enumerate()
            .map(|(o, yaml)| (request(&format!("app{o}")), targets(yaml)))
            .collect();
        let (begin, began_at, cpu) = (Instant::now(), SystemClock.now(), cpu());
        let all = syncs.into_iter().map(async |(request, targets)| {
            let id = engine.submit(request, targets).await.unwrap();
            engine.wait(id).await.unwrap()
        });
        let views = join_all(all).await;
        let (whole, cpu) = (begin.elapsed(), self::cpu() - cpu);
        for view in &views {
            assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
        }
        let facts = join_all(views.iter().map(async |view| engine.facts(view.id).await.unwrap())).await;
        let planned = facts.iter().flatten().filter_map(|fact| match fact {
            Fact::Planned { at, .. } => Some(*at),
            _ => None,
        });
        let planned = planned.max().unwrap().since(began_at);
        let opened = views.iter().filter_map(|view| view.waves[0].opened_at).max().unwrap();
        let ended = views.iter().filter_map(|view| view.finished_at).max().unwrap();
        engine.shutdown().await;
        (whole, cpu, planned, ended.since(opened))
    });
    Run { whole, cpu, planned, waves, log: log.stats() }
}

fn measure_one(what: &str, manifests: &[String], tasks: usize) -> [Line; 2] {
    let runs: Vec<Run> = (0..RUNS).map(|_| run(manifests)).collect();
    let rate = |time: Duration| format!("{:.0} tasks/s", tasks as f64 / time.as_secs_f64());
    let log = runs[0].log;
    let median_of = |time: fn(&Run) -> Duration| median(runs.iter().map(time).collect());
    let cpu = median_of(|run| run.cpu).as_micros() as usize / tasks;
    let detail = format!(
        "{} ({cpu} µs of processor time per task; planned after {}; {} facts, {} flushes)",
        rate(median_of(|run| run.whole)),
        millis(median_of(|run| run.planned)),
        log.facts,
        log.flushes
    );
    [
        Line::new(format!("{what}: from submit to end, dry-run pass included"), detail, "≥ 20,000 tasks/s"),
        Line::new(
            format!("{what}: its waves alone, without planning and dry run"),
            rate(median_of(|run| run.waves)),
            "≥ 20,000 tasks/s",
        ),
    ]
}

fn config_maps(what: &str, operations: usize, waves: usize, width: usize) -> [Line; 2] {
    let manifests = (0..operations)
        .map(|o| (0..waves * width).map(|i| config(&format!("o{o}-{i}"), i % waves)).collect());
    measure_one(what, &manifests.collect::<Vec<String>>(), operations * waves * width)
}

/// Kind groups run one after the other, so these tasks do. Twice as many should take twice as long.
fn kind_groups(groups: usize) -> [Line; 2] {
    let manifests: String =
        (0..groups).map(|i| taking_turns(&format!("turn-{i:05}"), 1, i)).collect::<String>()
            + &definitions(0);
    let [mut whole, mut waves] =
        measure_one(&format!("1 wave of {groups} kind groups of one object each"), &[manifests], groups);
    (whole.aim, waves.aim) = ("", "");
    [whole, waves]
}

pub fn measure() -> Vec<Line> {
    [
        config_maps("1 operation, 10 waves of 1,000", 1, 10, 1000),
        config_maps("1 operation, 100 waves of 100", 1, 100, 100),
        config_maps("1 operation, 1 wave of 10,000", 1, 1, 10_000),
        config_maps("100 operations at once, 10 waves of 10 each", 100, 10, 10),
        kind_groups(2500),
        kind_groups(10_000),
    ]
    .into_iter()
    .flatten()
    .collect()
}
