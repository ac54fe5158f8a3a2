//! The figures for real clusters in BENCHMARKS.md: `just bench-kube` prints them as Markdown tables.
//!
//! Compares Tidegate with alternatives on a local control plane with the same manifests: kubectl, and a bare
//! loop of requests as a lower bound for any program. Each repetition runs all contenders, starting with a
//! different one, so that changes in the machine's speed affect them all equally. Programs are timed from
//! start to exit. `just bench-kube 3` makes three repetitions instead of five. `just bench-kube "one wave"
//! memory` runs only measurements with any of these words in their names.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a benchmark may panic")]
#![allow(clippy::indexing_slicing, clippy::cast_precision_loss, reason = "a benchmark may panic")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

mod cluster;
mod input;
mod lower_bound;
mod programs;
mod report;

use std::time::Duration;

use cluster::Environment;
use input::Manifests;
use programs::{Program, Tidegate};
use report::{Results, Target};

/// Number of config maps in time measurements.
const OBJECTS: usize = 1_000;
/// Number of config maps in the memory measurement.
const MEMORY_OBJECTS: usize = 5_000;
const REPETITIONS: usize = 5;

/// Contender and measurement. Each name is a table row.
const ONE_WAVE: &str = "tidegate, one wave";
const TEN_WAVES: &str = "tidegate, ten waves";
const NO_DRY_RUN: &str = "tidegate --no-dry-run, one wave";
const SERVER_SIDE: &str = "kubectl apply --server-side";
const CLIENT_SIDE: &str = "kubectl apply";
const BARE: &str = "bare loop, 16 in flight";
const BARE_DRY_RUN: &str = "bare loop, after a dry run of all objects";

fn main() {
    let text: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let (numbers, text): (Vec<String>, Vec<String>) =
        text.into_iter().partition(|word| word.parse::<usize>().is_ok());
    let repetitions = numbers.iter().find_map(|number| number.parse().ok()).unwrap_or(REPETITIONS);
    let wanted = |name: &str| text.is_empty() || text.iter().any(|word| name.contains(word.as_str()));
    let environment = Environment::start();
    let one = Manifests::write(&environment.folder().join("one"), OBJECTS, 1);
    let ten = Manifests::write(&environment.folder().join("ten"), OBJECTS, 10);
    let mut results = Results::default();
    for repetition in 0..repetitions {
        let mut order = contender_runs(&one, &ten);
        let all = order.len();
        order.rotate_left(repetition % all);
        for (name, run) in order.into_iter().filter(|(name, _)| wanted(name)) {
            eprintln!("repetition {} of {repetitions}: {name}", repetition + 1);
            run(&environment, name, &mut results);
        }
    }
    results.print(&environment, &TARGETS);
    if wanted("memory") {
        measure_memory(&environment);
    }
}

type Run<'a> = Box<dyn Fn(&Environment, &'static str, &mut Results) + 'a>;

fn contender_runs<'a>(one: &'a Manifests, ten: &'a Manifests) -> Vec<(&'static str, Run<'a>)> {
    vec![
        (
            ONE_WAVE,
            Box::new(|environment, name, results| measure_tidegate(environment, name, results, one, &[])),
        ),
        (
            TEN_WAVES,
            Box::new(|environment, name, results| measure_tidegate(environment, name, results, ten, &[])),
        ),
        (
            NO_DRY_RUN,
            Box::new(|environment, name, results| {
                measure_tidegate(environment, name, results, one, &["--no-dry-run"])
            }),
        ),
        (
            SERVER_SIDE,
            Box::new(|environment, name, results| {
                measure_kubectl(environment, name, results, one, &["--server-side"])
            }),
        ),
        (
            CLIENT_SIDE,
            Box::new(|environment, name, results| measure_kubectl(environment, name, results, one, &[])),
        ),
        (
            BARE,
            Box::new(|environment, name, results| {
                measure_lower_bound(environment, name, results, one, false)
            }),
        ),
        (
            BARE_DRY_RUN,
            Box::new(|environment, name, results| measure_lower_bound(environment, name, results, one, true)),
        ),
    ]
}

const FIRST: &str = "first";
const AGAIN: &str = "again";
const OUT_OF_SYNC: &str = "again, only out-of-sync objects";

/// Targets for the first figure, relative to the second.
const TARGETS: [Target; 7] = [
    Target { row: (ONE_WAVE, FIRST), baseline: (SERVER_SIDE, FIRST), max_ratio: 0.5 },
    Target { row: (NO_DRY_RUN, FIRST), baseline: (SERVER_SIDE, FIRST), max_ratio: 0.3 },
    Target { row: (NO_DRY_RUN, FIRST), baseline: (BARE, FIRST), max_ratio: 1.3 },
    Target { row: (ONE_WAVE, FIRST), baseline: (BARE_DRY_RUN, FIRST), max_ratio: 1.3 },
    Target { row: (TEN_WAVES, FIRST), baseline: (ONE_WAVE, FIRST), max_ratio: 1.2 },
    Target { row: (ONE_WAVE, OUT_OF_SYNC), baseline: (SERVER_SIDE, AGAIN), max_ratio: 0.2 },
    Target { row: (ONE_WAVE, OUT_OF_SYNC), baseline: (CLIENT_SIDE, AGAIN), max_ratio: 0.2 },
];

fn measure_tidegate(
    environment: &Environment,
    name: &'static str,
    results: &mut Results,
    manifests: &Manifests,
    options: &[&str],
) {
    let namespace = environment.namespace();
    let program = Tidegate::new(environment, &namespace);
    for (which, more) in
        [(FIRST, &[][..]), (AGAIN, &[][..]), (OUT_OF_SYNC, &["--sync-option", "ApplyOutOfSyncOnly=true"][..])]
    {
        let options: Vec<&str> = options.iter().chain(more).copied().collect();
        record_run(environment, (name, which), results, manifests.count, || {
            program.sync(manifests, &options).run()
        });
    }
    environment.check_and_clear(&namespace, manifests.count);
}

fn measure_kubectl(
    environment: &Environment,
    name: &'static str,
    results: &mut Results,
    manifests: &Manifests,
    options: &[&str],
) {
    let namespace = environment.namespace();
    for which in [FIRST, AGAIN] {
        let program = Program::kubectl(environment, &namespace, manifests, options);
        record_run(environment, (name, which), results, manifests.count, || program.run());
    }
    environment.check_and_clear(&namespace, manifests.count);
}

fn measure_lower_bound(
    environment: &Environment,
    name: &'static str,
    results: &mut Results,
    manifests: &Manifests,
    dry_run: bool,
) {
    let namespace = environment.namespace();
    for which in [FIRST, AGAIN] {
        record_run(environment, (name, which), results, manifests.count, || {
            lower_bound::apply_all(&environment.kubeconfig(), &namespace, manifests, dry_run)
        });
    }
    environment.check_and_clear(&namespace, manifests.count);
}

fn record_run(
    environment: &Environment,
    what: (&'static str, &'static str),
    results: &mut Results,
    objects: usize,
    run: impl FnOnce() -> Duration,
) {
    let mark = environment.audit_mark();
    let took = run();
    let requests = environment.count_requests(mark);
    results.add(what, took, requests, objects);
}

/// Measures the peak memory of a sync of many objects in separate runs, because polling takes time.
fn measure_memory(environment: &Environment) {
    let many = Manifests::write(&environment.folder().join("many"), MEMORY_OBJECTS, 1);
    println!(
        "\n| {MEMORY_OBJECTS} ConfigMaps, one wave | peak resident memory | target |\n| --- | --- | --- |"
    );
    let namespace = environment.namespace();
    let program = Tidegate::new(environment, &namespace);
    for which in ["first sync", "second sync"] {
        let peak = program.sync(&many, &[]).peak_mib();
        println!("| tidegate, {which} | {peak:.1} MiB | ≤ 100 MiB |");
    }
    environment.check_and_clear(&namespace, many.count);
    let namespace = environment.namespace();
    let peak = Program::kubectl(environment, &namespace, &many, &["--server-side"]).peak_mib();
    println!("| {SERVER_SIDE} | {peak:.1} MiB | |");
    environment.check_and_clear(&namespace, many.count);
}
