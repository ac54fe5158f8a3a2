//! Tasks per second on a cluster without latency, with the log on disk.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tidegate_model::OperationPhase;
use tidegate_oplog::LogStats;

use crate::Line;
use crate::setup::{config, engine, median, open, request, runtime, targets};

const RUNS: usize = 5;

/// What one run came to.
struct Run {
    whole: Duration,
    /// Processor time of the whole process, cluster included.
    cpu: Duration,
    /// From the opening of the first wave: the dry-run pass, planning and reading the cluster are behind it.
    waves: Duration,
    log: LogStats,
}

/// Processor time of this process so far.
fn cpu() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let of_thread = |folder: std::path::PathBuf| {
        // A thread may end meanwhile.
        let text = std::fs::read_to_string(folder.join("schedstat")).unwrap_or_default();
        text.split_whitespace().next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0)
    };
    Duration::from_nanos(tasks.map(|task| of_thread(task.unwrap().path())).sum())
}

fn run(operations: usize, waves: usize, width: usize) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let log = open(folder.path());
    let runtime = runtime();
    let (whole, cpu, waves) = runtime.block_on(async {
        let engine = engine(&log).start().await.unwrap();
        let syncs: Vec<_> = (0..operations)
            .map(|o| {
                let yaml = (0..waves * width).map(|i| config(&format!("o{o}-{i}"), i % waves));
                (request(&format!("app{o}")), targets(&yaml.collect::<String>()))
            })
            .collect();
        let (begin, cpu) = (Instant::now(), cpu());
        let all = syncs.into_iter().map(async |(request, targets)| {
            let id = engine.submit(request, targets).await.unwrap();
            engine.wait(id).await.unwrap()
        });
        let views = join_all(all).await;
        let (whole, cpu) = (begin.elapsed(), self::cpu() - cpu);
        for view in &views {
            assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
        }
        let opened = views.iter().filter_map(|view| view.waves[0].opened_at).max().unwrap();
        let ended = views.iter().filter_map(|view| view.finished_at).max().unwrap();
        engine.shutdown().await;
        (whole, cpu, ended.since(opened))
    });
    Run { whole, cpu, waves, log: log.stats() }
}

fn measure_one(what: &str, operations: usize, waves: usize, width: usize) -> [Line; 2] {
    let runs: Vec<Run> = (0..RUNS).map(|_| run(operations, waves, width)).collect();
    let tasks = operations * waves * width;
    let rate = |time: Duration| format!("{:.0} tasks/s", tasks as f64 / time.as_secs_f64());
    let log = runs[0].log;
    let whole = median(runs.iter().map(|run| run.whole).collect());
    let only = median(runs.iter().map(|run| run.waves).collect());
    let cpu = median(runs.iter().map(|run| run.cpu).collect()).as_micros() as usize / tasks;
    let detail = format!(
        "{} ({cpu} µs of processor time per task; {} facts, {} flushes)",
        rate(whole),
        log.facts,
        log.flushes
    );
    [
        Line::new(format!("{what}: from submit to end, dry-run pass included"), detail, "≥ 20,000 tasks/s"),
        Line::new(
            format!("{what}: its waves alone, without planning and dry run"),
            rate(only),
            "≥ 20,000 tasks/s",
        ),
    ]
}

pub fn measure() -> Vec<Line> {
    [
        measure_one("1 operation, 10 waves of 1,000", 1, 10, 1000),
        measure_one("1 operation, 100 waves of 100", 1, 100, 100),
        measure_one("1 operation, 1 wave of 10,000", 1, 1, 10_000),
        measure_one("100 operations at once, 10 waves of 10 each", 100, 10, 10),
    ]
    .into_iter()
    .flatten()
    .collect()
}
