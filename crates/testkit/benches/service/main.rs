//! The figures of a service in BENCHMARKS.md: `tidegate serve` as it is run, looked at from outside. Time passes between two
//! states that its API shows; processor time and memory are the kernel's; requests and writes are the cluster's own count.
//!
//! `cargo bench --bench service -- rollout storm` runs only these; a number after `=` says how many Applications
//! (`kube=200`). `TIDEGATE_BENCH_PROGRAM` names another build of the program.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    clippy::disallowed_methods,
    reason = "a benchmark: it reads the clock, and a broken assumption must stop it at once"
)]

#[expect(dead_code, reason = "tests press and read more than is measured")]
#[path = "../../../../tests/e2e-web/browser.rs"]
mod browser;
mod fleet;
mod kube;
mod page;
mod serving;
mod sets;
mod sim;
#[path = "../../../../tests/e2e-web/wire.rs"]
mod wire;

use std::time::Duration;

/// One line of the table: what, how much, and what we aim at.
pub struct Line {
    what: String,
    figure: String,
    aim: &'static str,
}

impl Line {
    /// A line.
    pub fn new(what: impl Into<String>, figure: impl Into<String>, aim: &'static str) -> Self {
        Self { what: what.into(), figure: figure.into(), aim }
    }
}

/// What is measured with how many Applications, if not said otherwise.
type Measurement = (&'static str, usize, fn(usize) -> Vec<Line>);

const MEASUREMENTS: [Measurement; 6] = [
    ("rollout", 1000, sets::rollout),
    ("unchanged", 1000, sets::unchanged),
    ("storm", 10_000, sim::storm),
    ("restart", 1000, sim::restart),
    ("kube", 1000, kube::measure),
    ("page", 10_000, page::page),
];

/// As people read it.
pub fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// So much of something each.
pub fn each(time: Duration, number: usize) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1000.0 / number as f64)
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|one| !one.starts_with('-')).collect();
    println!("| what | measured | aim |\n| --- | --- | --- |");
    for (name, usual, measure) in MEASUREMENTS {
        let number = |word: &String| match word.split_once('=') {
            Some((one, number)) => (one == name).then(|| number.parse().expect("a number after =")),
            None => (word == name).then_some(usual),
        };
        let number = if wanted.is_empty() { Some(usual) } else { wanted.iter().find_map(number) };
        for Line { what, figure, aim } in number.map(measure).into_iter().flatten() {
            println!("| {what} | {figure} | {aim} |");
        }
    }
}
