//! Changes of the machine's clock during operations. They are simulated by a library that is loaded before
//! the system's library.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::bench::{Bench, CommandOutput, Running};
use crate::manifests::{CONFIG, STUCK};

const HOUR: i64 = 3600;

/// Adds the seconds in the file whose path is in `CLOCK_SKEW` to the time of day. Doesn't change elapsed
/// time.
const LIBRARY: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int clock_gettime(clockid_t id, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(id, at);
    const char *path = getenv("CLOCK_SKEW");
    FILE *file = id == CLOCK_REALTIME && path ? fopen(path, "r") : NULL;
    if (file) {
        long skew = 0;
        if (fscanf(file, "%ld", &skew) == 1) at->tv_sec += skew;
        fclose(file);
    }
    return result;
}
"#;

/// A test environment on a machine with an adjustable clock.
struct SkewedClock {
    bench: Bench,
    skew: PathBuf,
}

impl SkewedClock {
    fn new() -> Self {
        let mut bench = Bench::new();
        let (source, library) = (bench.write("clock.c", LIBRARY), bench.path().join("clock.so"));
        let skew = bench.write("skew", "0");
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let built = Command::new(compiler)
            .args(["-shared", "-fPIC", "-o"])
            .args([&library, &source])
            .arg("-ldl")
            .stdin(Stdio::null())
            .status();
        assert!(built.unwrap().success());
        bench.set_variable("LD_PRELOAD", library);
        bench.set_variable("CLOCK_SKEW", &skew);
        bench.write("config.yaml", CONFIG);
        bench.write("stuck.yaml", STUCK);
        Self { bench, skew }
    }

    /// Sets the machine's clock atomically.
    fn set_clock(&self, seconds: i64) {
        let new = self.skew.with_extension("new");
        fs::write(&new, seconds.to_string()).unwrap();
        fs::rename(new, &self.skew).unwrap();
    }

    fn run(&self, args: &[&str]) -> CommandOutput {
        self.bench.run(args)
    }

    fn start(&self) -> Running {
        let args = ["sync", "stuck.yaml", "--app", "a", "--sim"];
        let mut sync = self.bench.start(&args);
        sync.wait_for_line("waiting for Deployment default/server");
        sync
    }

    /// Returns the seconds until the deadline of the wave, which is ten minutes and hasn't passed yet.
    fn seconds_left(&self) -> u64 {
        let explained = self.bench.json(&["explain", "a", "-o", "json"]);
        assert!(explained["secondsSinceDeadline"].is_null(), "{explained}");
        explained["secondsUntilDeadline"].as_u64().unwrap()
    }
}

#[test]
fn a_clock_step_during_a_process_changes_no_deadline() {
    let skewed = SkewedClock::new();
    let sync = skewed.start();
    for seconds in [HOUR, -HOUR] {
        skewed.set_clock(seconds);
        let left = skewed.seconds_left();
        assert!((300..=600).contains(&left), "{left} s are left after a step by {seconds} s");
    }
    sync.signal("TERM");
    sync.finish().expect_code(3);
}

#[test]
fn a_clock_step_between_processes_is_reported_and_changes_no_deadline() {
    let skewed = SkewedClock::new();
    let sync = skewed.start();
    sync.signal("KILL");
    sync.finish();
    for (seconds, text) in [(HOUR, "ahead of"), (-HOUR, "behind")] {
        skewed.set_clock(seconds);
        let left = skewed.seconds_left();
        assert!((300..=600).contains(&left), "{left} s are left after a step by {seconds} s");
        let ran = skewed.run(&["resume", "a", "--sim", "--timeout", "300ms"]).expect_code(3);
        assert!(ran.err.contains("this machine's clock is ") && ran.err.contains(text), "{}", ran.err);
    }
    // The earlier clock no longer has any effect.
    skewed.set_clock(HOUR);
    skewed.run(&["ops", "terminate", "a"]).expect_code(0);
    let ran = skewed.run(&["ops", "list"]).expect_code(0);
    assert!(!ran.err.contains("machine's clock"), "{}", ran.err);
}

/// An operation must not become the newest one because the clock was wrong when it got its ID or start time.
#[test]
fn the_open_operation_is_listed_first_and_the_others_in_log_order() {
    let skewed = SkewedClock::new();
    skewed.set_clock(48 * HOUR);
    skewed.run(&["sync", "config.yaml", "--app", "a", "--sim"]).expect_code(0);
    skewed.set_clock(0);
    let ids = || {
        let listed = skewed.bench.json(&["ops", "list", "-o", "json"]);
        let ids = listed.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned());
        ids.collect::<Vec<String>>()
    };
    let shown = || skewed.bench.json(&["ops", "show", "a", "-o", "json"])["id"].as_str().unwrap().to_owned();
    let early = ids();
    let sync = skewed.start();
    assert_eq!(shown(), ids()[1], "while its process runs");
    sync.signal("KILL");
    sync.finish();
    assert_eq!((ids()[0].clone(), ids().len()), (early[0].clone(), 2), "in the order of the log");
    assert_eq!(shown(), ids()[1]);
    let explained = skewed.run(&["explain", "a"]).expect_code(0);
    assert!(explained.out.contains("Deployment default/server"), "{}", explained.out);
    skewed.run(&["ops", "terminate", "a"]).expect_code(0);
    assert_eq!(shown(), ids()[1], "the newest finished one");
    skewed.run(&["sync", "config.yaml", "--app", "a", "--sim", "--history", "1"]).expect_code(0);
    assert_eq!(shown(), ids()[2]);
    skewed.run(&["ops", "log", &ids()[2]]).expect_code(0);
    let first = skewed.run(&["ops", "log", &ids()[0]]).expect_code(1);
    assert!(first.err.contains("were compacted"), "{}", first.err);
}
