//! Disk syncs of the command. They are counted by system calls, because their duration depends on the
//! machine.

use std::fs;
use std::process::Command;

use crate::bench::{Bench, example};

/// Maximum number of disk syncs of the first sync of the shop example, including the creation of the state
/// directory.
const SHOP_SYNCS_MAX: usize = 60;

/// Runs a command under strace with these options, and returns the trace.
pub fn run_traced(bench: &Bench, args: &[&str], options: &[&str]) -> String {
    let trace = bench.path().join("trace");
    let inner = bench.command(args);
    let mut command = Command::new("strace");
    command.arg("-f").args(options).arg("-o").arg(&trace);
    command.arg(inner.get_program()).args(inner.get_args()).current_dir(bench.path());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let traced = command.output().expect("strace is installed");
    assert!(traced.status.success(), "{traced:?}");
    fs::read_to_string(trace).unwrap()
}

#[test]
fn the_shop_example_syncs_the_disk_sixty_times_at_most() {
    let bench = Bench::new();
    let trace = run_traced(
        &bench,
        &["sync", &example("shop"), "--app", "shop", "--sim"],
        &["-y", "-e", "trace=fsync,fdatasync,msync"],
    );
    // strace prints a call in two parts if it is interleaved with calls of other threads.
    let syncs: Vec<&str> = trace.lines().filter(|line| line.contains("sync(")).collect();
    assert!(syncs.len() <= SHOP_SYNCS_MAX, "{} disk syncs:\n{}", syncs.len(), syncs.join("\n"));
    // If the log were never synced, the count wouldn't prove anything.
    assert!(syncs.iter().filter(|line| line.contains("/log/db")).count() > 10, "{trace}");
}
