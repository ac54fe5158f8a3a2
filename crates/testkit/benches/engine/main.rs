//! The figures of BENCHMARKS.md: `cargo bench` prints them as a Markdown table.
//!
//! This is a plain program without a statistics harness, because the longest measurements take seconds, and
//! some don't measure time. Each measurement runs in its own process, so that they don't share memory or
//! caches. `cargo bench -- memory` runs only the measurements with `memory` in their names.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a benchmark may panic")]
#![allow(clippy::indexing_slicing, clippy::disallowed_methods, reason = "a benchmark reads the clock")]

#[path = "../../../oplog/tests/log/postgres_server.rs"]
#[allow(dead_code, reason = "shared with the tests")]
mod postgres_server;

mod appset_generation;
mod fixtures;
mod flushes;
mod idle;
mod planning;
mod readiness;
mod recovery;
mod shared_log;
mod throughput;
mod volume;

use std::process::Command;

/// The allocator of released binaries, since memory is measured too.
#[cfg(all(feature = "jemalloc", target_os = "linux", target_env = "gnu"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// A row of the table: measurement, figure, and target.
pub struct Line {
    /// Name of the measurement.
    pub measurement: String,
    /// Result.
    pub figure: String,
    /// Target; empty for none.
    pub target: &'static str,
}

impl Line {
    /// Creates a row.
    pub fn new(what: impl Into<String>, figure: impl Into<String>, target: &'static str) -> Self {
        Self { measurement: what.into(), figure: figure.into(), target }
    }
}

type Measurement = (&'static str, fn() -> Vec<Line>);

const MEASUREMENTS: [Measurement; 9] = [
    ("planning", planning::measure),
    ("generating", appset_generation::measure),
    ("throughput", throughput::measure),
    ("shared-log", shared_log::measure),
    ("readiness", readiness::measure),
    ("flushes", flushes::measure),
    ("idle", idle::measure),
    ("recovery", recovery::measure),
    ("volume", volume::measure),
];

/// Variable that tells a child process its only measurement.
const ONLY: &str = "TIDEGATE_BENCH_ONLY";

fn main() {
    if let Ok(name) = std::env::var(ONLY) {
        let (_, measure) = MEASUREMENTS.iter().find(|(known, _)| *known == name).expect("a known name");
        for Line { measurement, figure, target } in measure() {
            println!("| {measurement} | {figure} | {target} |");
        }
        return;
    }
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    println!("| measurement | result | target |\n| --- | --- | --- |");
    for (name, _) in MEASUREMENTS {
        if wanted.is_empty() || wanted.iter().any(|word| name.contains(word.as_str())) {
            let status = Command::new(std::env::current_exe().unwrap()).env(ONLY, name).status().unwrap();
            assert!(status.success(), "{name}: {status}");
        }
    }
}
