//! Each exit code, with a command that returns it.

use crate::bench::{Bench, example};
use crate::manifests::{CONFIG, STUCK};

#[test]
fn zero_for_success() {
    let bench = Bench::new();
    bench.write("config.yaml", CONFIG);
    bench.run(&["sync", "config.yaml", "--app", "a", "--sim"]).expect_code(0);
}

#[test]
fn one_for_failure() {
    let bench = Bench::new();
    bench.run(&["sync", &example("failing"), "--app", "failing", "--sim"]).expect_code(1);
    // A missed deadline counts as a failure.
    bench.write("stuck.yaml", STUCK);
    let args = ["sync", "stuck.yaml", "--app", "stuck", "--sim", "--deadline", "300ms"];
    let ran = bench.run(&args).expect_code(1);
    assert!(ran.out.contains("Failed"), "{}", ran.out);
}

#[test]
fn two_for_bad_input() {
    let bench = Bench::new();
    bench.write("bad.yaml", "kind: [");
    bench.run(&["sync", "bad.yaml", "--app", "a", "--sim"]).expect_code(2);
    bench.run(&["ops", "show", "0199"]).expect_code(2);
    bench.run(&["explain", "nobody"]).expect_code(2);
    bench.run(&["resume", "nobody", "--sim"]).expect_code(2);
}

#[test]
fn three_for_not_finished() {
    let bench = Bench::new();
    bench.write("stuck.yaml", STUCK);
    // The operation starts regardless of the timeout, which only prevents a start while waiting for another
    // operation.
    let ran = bench.run(&["sync", "stuck.yaml", "--app", "a", "--sim", "--timeout", "1ms"]).expect_code(3);
    let id = bench.newest();
    assert!(ran.err.contains("timed out after 1 ms"), "{}", ran.err);
    assert!(ran.err.contains(&format!("`tidegate resume {id}`")), "{}", ran.err);
    let ran = bench.run(&["resume", &id, "--sim", "--timeout", "100ms"]).expect_code(3);
    assert!(ran.err.contains("tidegate resume"), "{}", ran.err);
    // The JSON output contains the current state.
    let ran = bench.run(&["resume", &id, "--timeout", "100ms", "-o", "json"]).expect_code(3);
    let operation: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(operation["phase"], "Running");
}

#[test]
fn four_for_refused() {
    let bench = Bench::new();
    bench.write("stuck.yaml", STUCK);
    bench.write("config.yaml", CONFIG);
    let mut first = bench.start(&["sync", "stuck.yaml", "--app", "a", "--sim"]);
    first.wait_for_line("waiting for Deployment default/server");
    // The state directory is in use, even if by another application.
    let ran = bench.run(&["sync", "config.yaml", "--app", "b", "--sim"]).expect_code(4);
    assert!(ran.err.contains(&format!("pid {}", first.pid)), "{}", ran.err);
    bench.run(&["resume", "--all", "--sim"]).expect_code(4);
    first.signal("KILL");
    first.finish();
    // The application already has an unfinished operation.
    let ran = bench.run(&["sync", "config.yaml", "--app", "a", "--sim"]).expect_code(4);
    assert!(ran.err.contains("tidegate resume"), "{}", ran.err);
    // A finished operation cannot be controlled.
    bench.run(&["ops", "terminate", "a"]).expect_code(0);
    for verb in ["terminate", "pause", "unpause", "confirm"] {
        let ran = bench.run(&["ops", verb, "a"]).expect_code(4);
        assert!(ran.err.contains("has ended"), "{verb}: {}", ran.err);
    }
    bench.run(&["resume", "a", "--sim"]).expect_code(4);
}

/// A process that starts the next operation must first finish or end the open operations of the state
/// directory.
#[test]
fn an_open_operation_yields_to_waiting_or_superseding_requests() {
    let bench = Bench::new();
    bench.write("stuck.yaml", STUCK);
    bench.write("config.yaml", CONFIG);
    bench.run(&["sync", "stuck.yaml", "--app", "a", "--sim", "--timeout", "300ms"]).expect_code(3);
    let open = bench.newest();
    let waits = ["sync", "config.yaml", "--app", "a", "--sim", "--queue", "--timeout", "300ms"];
    let ran = bench.run(&waits).expect_code(4);
    assert!(
        ran.err.contains(&format!("operation {open} of a is unfinished and will be finished first")),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("this operation was not started"), "{}", ran.err);
    assert_eq!(bench.newest(), open);
    let ran = bench.run(&["sync", "config.yaml", "--app", "a", "--sim", "--supersede"]).expect_code(0);
    assert!(ran.err.contains("will be ended first"), "{}", ran.err);
    let next = bench.newest();
    assert_ne!(next, open);
    let log = bench.run(&["ops", "log", &open]).expect_code(0);
    assert!(log.out.contains(&format!("superseded by operation {next}")), "{}", log.out);
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let bench = Bench::new();
    bench.write("config.yaml", CONFIG);
    // The shell provides a reader that exits immediately.
    let line = format!(
        "{{ '{}' sync config.yaml --app a --sim; echo \"exit $?\" >&2; }} | true",
        env!("CARGO_BIN_EXE_tidegate")
    );
    let mut shell = std::process::Command::new("sh");
    let output = shell
        .args(["-c", &line])
        .current_dir(bench.path())
        .env("TIDEGATE_STATE_DIR", bench.state())
        .output()
        .unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.contains("exit 0") && !err.contains("error"), "{err}");
}
