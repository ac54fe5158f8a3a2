//! The figures about real clusters in BENCHMARKS.md: `just bench-kube` prints them as Markdown tables.
//!
//! Tidegate against what a user would run instead, on a control plane of this machine, with the same manifests: kubectl,
//! and a bare loop of requests as the least that any program has to do. Each repetition runs all of them, each time
//! beginning with another one, so that a machine that gets slower or faster meets all alike. Programs are timed as a
//! user would: from start to exit. `just bench-kube 3` makes three repetitions instead of five, and
//! `just bench-kube "one wave" memory` only those measurements whose name contains one of the words.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    reason = "a benchmark: it reads the clock, and a broken assumption must stop it at once"
)]

mod bare;
mod cluster;
mod input;
mod programs;
mod report;

use std::time::Duration;

use cluster::Site;
use input::Manifests;
use programs::{Program, Tidegate};
use report::{Aim, Results};

/// How many config maps a measurement of time is about.
const OBJECTS: usize = 1_000;
/// How many the measurement of memory is about.
const MANY: usize = 5_000;
const REPETITIONS: usize = 5;

/// Who runs, and what was timed. Each name is a row of the table.
const ONE_WAVE: &str = "tidegate, one wave";
const TEN_WAVES: &str = "tidegate, ten waves";
const NO_DRY_RUN: &str = "tidegate --no-dry-run, one wave";
const SERVER_SIDE: &str = "kubectl apply --server-side";
const CLIENT_SIDE: &str = "kubectl apply";
const BARE: &str = "bare loop, 16 in flight";
const BARE_DRY_RUN: &str = "bare loop, a dry run of all before";

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let (numbers, words): (Vec<String>, Vec<String>) =
        words.into_iter().partition(|word| word.parse::<usize>().is_ok());
    let repetitions = numbers.iter().find_map(|number| number.parse().ok()).unwrap_or(REPETITIONS);
    let wanted = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word.as_str()));
    let site = Site::start();
    let one = Manifests::write(&site.folder().join("one"), OBJECTS, 1);
    let ten = Manifests::write(&site.folder().join("ten"), OBJECTS, 10);
    let mut results = Results::default();
    for repetition in 0..repetitions {
        let mut order = contenders(&one, &ten);
        let all = order.len();
        order.rotate_left(repetition % all);
        for (name, run) in order.into_iter().filter(|(name, _)| wanted(name)) {
            eprintln!("repetition {} of {repetitions}: {name}", repetition + 1);
            run(&site, name, &mut results);
        }
    }
    results.print(&site, &AIMS);
    if wanted("memory") {
        memory(&site);
    }
}

type Run<'a> = Box<dyn Fn(&Site, &'static str, &mut Results) + 'a>;

fn contenders<'a>(one: &'a Manifests, ten: &'a Manifests) -> Vec<(&'static str, Run<'a>)> {
    vec![
        (ONE_WAVE, Box::new(|site, name, results| tidegate(site, name, results, one, &[]))),
        (TEN_WAVES, Box::new(|site, name, results| tidegate(site, name, results, ten, &[]))),
        (NO_DRY_RUN, Box::new(|site, name, results| tidegate(site, name, results, one, &["--no-dry-run"]))),
        (SERVER_SIDE, Box::new(|site, name, results| kubectl(site, name, results, one, &["--server-side"]))),
        (CLIENT_SIDE, Box::new(|site, name, results| kubectl(site, name, results, one, &[]))),
        (BARE, Box::new(|site, name, results| bare(site, name, results, one, false))),
        (BARE_DRY_RUN, Box::new(|site, name, results| bare(site, name, results, one, true))),
    ]
}

const FIRST: &str = "first";
const AGAIN: &str = "again";
const OUT_OF_SYNC: &str = "again, only what is out of sync";

/// What the first figure should be, compared with the second.
const AIMS: [Aim; 7] = [
    Aim { of: (ONE_WAVE, FIRST), to: (SERVER_SIDE, FIRST), at_most: 0.5 },
    Aim { of: (NO_DRY_RUN, FIRST), to: (SERVER_SIDE, FIRST), at_most: 0.3 },
    Aim { of: (NO_DRY_RUN, FIRST), to: (BARE, FIRST), at_most: 1.3 },
    Aim { of: (ONE_WAVE, FIRST), to: (BARE_DRY_RUN, FIRST), at_most: 1.3 },
    Aim { of: (TEN_WAVES, FIRST), to: (ONE_WAVE, FIRST), at_most: 1.2 },
    Aim { of: (ONE_WAVE, OUT_OF_SYNC), to: (SERVER_SIDE, AGAIN), at_most: 0.2 },
    Aim { of: (ONE_WAVE, OUT_OF_SYNC), to: (CLIENT_SIDE, AGAIN), at_most: 0.2 },
];

fn tidegate(site: &Site, name: &'static str, results: &mut Results, manifests: &Manifests, options: &[&str]) {
    let namespace = site.namespace();
    let program = Tidegate::new(site, &namespace);
    for (which, more) in
        [(FIRST, &[][..]), (AGAIN, &[][..]), (OUT_OF_SYNC, &["--sync-option", "ApplyOutOfSyncOnly=true"][..])]
    {
        let options: Vec<&str> = options.iter().chain(more).copied().collect();
        record(site, (name, which), results, manifests.count, || program.sync(manifests, &options).run());
    }
    site.clear(&namespace, manifests.count);
}

fn kubectl(site: &Site, name: &'static str, results: &mut Results, manifests: &Manifests, options: &[&str]) {
    let namespace = site.namespace();
    for which in [FIRST, AGAIN] {
        let program = Program::kubectl(site, &namespace, manifests, options);
        record(site, (name, which), results, manifests.count, || program.run());
    }
    site.clear(&namespace, manifests.count);
}

fn bare(site: &Site, name: &'static str, results: &mut Results, manifests: &Manifests, dry_run: bool) {
    let namespace = site.namespace();
    for which in [FIRST, AGAIN] {
        record(site, (name, which), results, manifests.count, || {
            bare::apply(&site.kubeconfig(), &namespace, manifests, dry_run)
        });
    }
    site.clear(&namespace, manifests.count);
}

fn record(
    site: &Site,
    what: (&'static str, &'static str),
    results: &mut Results,
    objects: usize,
    run: impl FnOnce() -> Duration,
) {
    let mark = site.mark();
    let took = run();
    let requests = site.requests(mark);
    results.add(what, took, requests, objects);
}

/// The most memory a sync of many objects takes. In runs of their own, because looking takes time.
fn memory(site: &Site) {
    let many = Manifests::write(&site.folder().join("many"), MANY, 1);
    println!("\n| {MANY} config maps, one wave | peak of resident memory | aim |\n| --- | --- | --- |");
    let namespace = site.namespace();
    let program = Tidegate::new(site, &namespace);
    for which in ["first sync", "second sync"] {
        let peak = program.sync(&many, &[]).peak_mib();
        println!("| tidegate, {which} | {peak:.1} MiB | ≤ 100 MiB |");
    }
    site.clear(&namespace, many.count);
    let namespace = site.namespace();
    let peak = Program::kubectl(site, &namespace, &many, &["--server-side"]).peak_mib();
    println!("| {SERVER_SIDE} | {peak:.1} MiB | |");
    site.clear(&namespace, many.count);
}
