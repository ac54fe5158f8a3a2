//! The operation log in PostgreSQL, compared with the log on disk in the same run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tidegate_executor::codecs;
use tidegate_model::{LogRecord, StreamId, StreamKind, StreamRecords, Timestamp};
use tidegate_oplog::{
    AppendOf, Codecs, LeadAttempt, LogKey, OperationLog, PostgresLog, PostgresOptions, PostgresTarget,
    Summary,
};
use uuid::Uuid;

use crate::Line;
use crate::fixtures::{format_millis, median, open_log, open_log_with};
use crate::postgres_server::PostgresServer;
use crate::throughput::{config_maps, measure_run};

const RUNS: usize = 5;
/// Number of measured appends.
const APPENDS: u64 = 2_000;
/// Size of an appended event, similar to the average event of an operation.
const EVENT_BYTES: usize = 200;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct BenchRecord(String);

impl LogRecord for BenchRecord {
    type Earlier = Self;
}

impl StreamRecords for BenchRecord {
    const KIND: StreamKind = StreamKind::OPERATION;
    type Snapshot = Self;
    type Details = Self;
}

/// Opens a new log in a database, as its leader.
fn open_postgres(server: &PostgresServer, codecs: Codecs) -> Arc<PostgresLog> {
    let target = PostgresTarget::parse(&server.new_log_url(), None, |_| Err("no TLS on a socket".to_owned()));
    let log = PostgresLog::join(PostgresOptions {
        target: target.unwrap(),
        replica: "bench".to_owned(),
        address: None,
        key: LogKey::new(&[7; 32]),
        codecs,
        observer: None,
        shares: false,
    });
    let log = log.unwrap();
    assert_eq!(log.try_lead().unwrap(), LeadAttempt::Leading);
    Arc::new(log)
}

/// Compares the time of whole operations. The logs alternate in order, so that other load affects both.
fn compare_throughput(server: &PostgresServer, what: &str, shape: (usize, usize, usize)) -> Line {
    let (operations, waves, width) = shape;
    let manifests = config_maps(operations, waves, width);
    let tasks = operations * waves * width;
    let (on_disk, shared): (Vec<Duration>, Vec<Duration>) = (0..RUNS)
        .map(|run| {
            let folder = tempfile::tempdir().unwrap();
            let on_disk = || measure_run(&open_log(folder.path()), &manifests).total;
            let shared = || measure_run(&open_postgres(server, codecs()), &manifests).total;
            if run % 2 == 0 {
                let on_disk = on_disk();
                (on_disk, shared())
            } else {
                let shared = shared();
                (on_disk(), shared)
            }
        })
        .unzip();
    let rate = |times| tasks as f64 / median(times).as_secs_f64();
    let (on_disk, shared) = (rate(on_disk), rate(shared));
    let figure =
        format!("{shared:.0} tasks/s, {:.0} % of {on_disk:.0} tasks/s on disk", 100.0 * shared / on_disk);
    Line::new(format!("{what}, log in PostgreSQL: whole operation"), figure, "≥ 70 %")
}

/// Returns the times of appends of one event each, in ascending order.
fn measure_appends(log: &impl OperationLog) -> Vec<Duration> {
    let stream = StreamId(Uuid::now_v7());
    let text = BenchRecord("x".repeat(EVENT_BYTES));
    let append = |sequence| {
        let summary = Summary {
            application: Some("bench".to_owned()),
            set: None,
            started_at: Timestamp::from_millis(0),
            finished_at: None,
            details: BenchRecord("running".to_owned()),
        };
        let group = vec![AppendOf::new(stream, sequence, vec![text.clone()], summary).encode().unwrap()];
        let started = Instant::now();
        log.append(group).unwrap();
        started.elapsed()
    };
    let mut times: Vec<Duration> = (1..=APPENDS).map(append).collect();
    times.sort_unstable();
    times
}

fn append_line(what: &str, times: &[Duration], target: &'static str) -> Line {
    let percentile = |percent: usize| format_millis(times[times.len() * percent / 100]);
    Line::new(what, format!("p50 {}, p99 {}", percentile(50), percentile(99)), target)
}

pub fn measure() -> Vec<Line> {
    let Some(server) = PostgresServer::start_durable() else {
        return vec![Line::new("log in PostgreSQL", "not measured, because PostgreSQL is not installed", "")];
    };
    let codecs = Codecs::for_kind::<BenchRecord>();
    let folder = tempfile::tempdir().unwrap();
    let on_disk = measure_appends(open_log_with(folder.path(), codecs.clone()).as_ref());
    let shared = measure_appends(open_postgres(&server, codecs).as_ref());
    vec![
        append_line("append of one event to the log on disk", &on_disk, ""),
        append_line(
            "append of one event to the log in PostgreSQL on the same machine",
            &shared,
            "p50 ≤ 3 ms",
        ),
        compare_throughput(&server, "1 operation, 10 waves of 1,000", (1, 10, 1000)),
        compare_throughput(&server, "1 operation, 100 waves of 100", (1, 100, 100)),
        compare_throughput(&server, "1 operation, 1 wave of 10,000", (1, 1, 10_000)),
        compare_throughput(&server, "100 operations at once, 10 waves of 10 each", (100, 10, 10)),
    ]
}
