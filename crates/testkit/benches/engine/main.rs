//! The figures of BENCHMARKS.md: `cargo bench` prints them as a Markdown table.
//!
//! A plain program and no statistics harness: the longest measurements take seconds, and some are not about time. Each
//! runs in a process of its own, so that none sees the memory or the caches of another. `cargo bench -- memory` runs
//! only those whose name contains the word.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a benchmark: it reads the clock, and a broken assumption must stop it at once"
)]

mod flushes;
mod generating;
mod idle;
mod planning;
mod readiness;
mod recovery;
mod setup;
mod throughput;
mod volume;

use std::process::Command;

/// The allocator of the command, whose memory is measured.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// One line of the table: what, how much, and what we aim at.
pub struct Line {
    /// What was measured.
    pub what: String,
    /// What came of it.
    pub figure: String,
    /// What it should be; empty where we have no aim.
    pub aim: &'static str,
}

impl Line {
    /// A line.
    pub fn new(what: impl Into<String>, figure: impl Into<String>, aim: &'static str) -> Self {
        Self { what: what.into(), figure: figure.into(), aim }
    }
}

type Measurement = (&'static str, fn() -> Vec<Line>);

const MEASUREMENTS: [Measurement; 8] = [
    ("planning", planning::measure),
    ("generating", generating::measure),
    ("throughput", throughput::measure),
    ("readiness", readiness::measure),
    ("flushes", flushes::measure),
    ("idle", idle::measure),
    ("recovery", recovery::measure),
    ("volume", volume::measure),
];

/// Set for the process of one measurement.
const ONLY: &str = "TIDEGATE_BENCH_ONLY";

fn main() {
    if let Ok(name) = std::env::var(ONLY) {
        let (_, measure) = MEASUREMENTS.iter().find(|(known, _)| *known == name).expect("a known name");
        for Line { what, figure, aim } in measure() {
            println!("| {what} | {figure} | {aim} |");
        }
        return;
    }
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    println!("| what | measured | aim |\n| --- | --- | --- |");
    for (name, _) in MEASUREMENTS {
        if wanted.is_empty() || wanted.iter().any(|word| name.contains(word.as_str())) {
            let status = Command::new(std::env::current_exe().unwrap()).env(ONLY, name).status().unwrap();
            assert!(status.success(), "{name}: {status}");
        }
    }
}
