//! The figures of a service in BENCHMARKS.md: `tidegate serve` measured from outside. Each time is the time
//! between two states of its API. The kernel reports CPU time and memory, and the cluster counts requests and
//! writes.
//!
//! `cargo bench --bench service -- rollout storm` runs only the measurements `rollout` and `storm`. A number
//! after `=` sets the number of Applications (`kube=200`). `TIDEGATE_BENCH_PROGRAM` is the path of a
//! different build of the program.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a benchmark may panic")]
#![allow(clippy::indexing_slicing, clippy::cast_precision_loss, reason = "a benchmark may panic")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

mod appsets;
#[expect(dead_code, reason = "the tests use more of it than the benchmarks")]
#[path = "../../../../tests/e2e-web/browser.rs"]
mod browser;
mod fleet;
#[path = "../../../../tests/e2e-web/http.rs"]
mod http;
mod kube;
mod page;
mod service;
mod sim;

use std::time::Duration;

/// A row of the table: measurement, figure, and target.
pub struct Line {
    measurement: String,
    figure: String,
    target: &'static str,
}

impl Line {
    /// Creates a row.
    pub fn new(what: impl Into<String>, figure: impl Into<String>, target: &'static str) -> Self {
        Self { measurement: what.into(), figure: figure.into(), target }
    }
}

/// Measurement with its default number of Applications.
type Measurement = (&'static str, usize, fn(usize) -> Vec<Line>);

const MEASUREMENTS: [Measurement; 6] = [
    ("rollout", 1000, appsets::measure_rollout),
    ("unchanged", 1000, appsets::measure_refresh),
    ("storm", 10_000, sim::measure_storm),
    ("restart", 1000, sim::measure_restart),
    ("kube", 1000, kube::measure),
    ("page", 10_000, page::measure_page),
];

/// Formats a duration for human readers.
pub fn format_seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// Formats a duration per item.
pub fn format_per_item(time: Duration, number: usize) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1000.0 / number as f64)
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|one| !one.starts_with('-')).collect();
    println!("| measurement | result | target |\n| --- | --- | --- |");
    for (name, usual, measure) in MEASUREMENTS {
        let number = |word: &String| match word.split_once('=') {
            Some((one, number)) => (one == name).then(|| number.parse().expect("a number after =")),
            None => (word == name).then_some(usual),
        };
        let number = if wanted.is_empty() { Some(usual) } else { wanted.iter().find_map(number) };
        for Line { measurement, figure, target } in number.map(measure).into_iter().flatten() {
            println!("| {measurement} | {figure} | {target} |");
        }
    }
}
