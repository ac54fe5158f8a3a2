//! The state directory: where it is, who may read it, and what is said when it is damaged.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::bench::{Bench, Running};
use crate::manifests::{CONFIG, STUCK};

fn is_log(folder: &Path) -> bool {
    folder.join("log").is_dir()
}

#[test]
fn the_argument_wins_over_the_environment_and_that_over_custom() {
    let bench = Bench::new();
    bench.write("config.yaml", CONFIG);
    let (home, xdg) = (bench.path().join("home"), bench.path().join("xdg"));
    let args = ["sync", "config.yaml", "--app", "a", "--sim"];
    let mut command = bench.command(&[&args[..], &["--state-dir", "given"]].concat());
    command.env("HOME", &home);
    Running::start(command).finish().expect_code(0);
    assert!(is_log(&bench.path().join("given")) && !bench.state().exists());
    bench.run(&args).expect_code(0);
    assert!(is_log(&bench.state()));
    let mut command = bench.command(&args);
    command.env_remove("TIDEGATE_STATE_DIR").env("HOME", &home).env("XDG_STATE_HOME", &xdg);
    Running::start(command).finish().expect_code(0);
    assert!(is_log(&xdg.join("tidegate")));
    // An empty variable is one that is not set.
    let mut command = bench.command(&args);
    let other = bench.path().join("other");
    command.env("TIDEGATE_STATE_DIR", "").env("HOME", &home).env("XDG_STATE_HOME", &other);
    Running::start(command).finish().expect_code(0);
    assert!(is_log(&other.join("tidegate")));
    let mut command = bench.command(&args);
    command.env_remove("TIDEGATE_STATE_DIR").env("HOME", &home);
    Running::start(command).finish().expect_code(0);
    assert!(is_log(&home.join(".local/state/tidegate")));
    let mut command = bench.command(&args);
    command.env_remove("TIDEGATE_STATE_DIR").env_remove("HOME");
    let ran = Running::start(command).finish().expect_code(2);
    assert!(ran.err.contains("--state-dir"), "{}", ran.err);
}

#[test]
fn only_the_owner_may_look_into_it() {
    let bench = Bench::new();
    bench.write("stuck.yaml", STUCK);
    let mut sync = bench.start(&["sync", "stuck.yaml", "--app", "a", "--sim"]);
    sync.await_line("waiting for Deployment default/server");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&bench.state()), 0o700);
    assert_eq!(mode(&bench.state().join("control.sock")), 0o600);
    sync.signal("TERM");
    sync.finish().expect_code(3);
}

#[test]
fn looking_makes_no_state_directory() {
    let bench = Bench::new();
    let commands: [&[&str]; 5] = [
        &["ops", "list"],
        &["resume", "--all", "--sim"],
        &["sim", "audit"],
        &["sim", "objects"],
        &["sim", "reset"],
    ];
    for args in commands {
        bench.run(args).expect_code(0);
    }
    assert_eq!(bench.run(&["sim", "audit", "-o", "json"]).expect_code(0).out, "[]\n");
    assert_eq!(bench.run(&["ops", "list", "-o", "json"]).expect_code(0).out, "[]\n");
    assert!(!bench.state().exists());
}

#[test]
fn a_damaged_operation_is_set_aside_and_the_rest_works() {
    let bench = Bench::new();
    bench.write("stuck.yaml", STUCK);
    bench.write("config.yaml", CONFIG);
    bench.run(&["sync", "stuck.yaml", "--app", "stuck", "--sim", "--timeout", "200ms"]).expect_code(3);
    bench.run(&["sync", "config.yaml", "--app", "good", "--sim"]).expect_code(0);
    damage(&bench.state());
    let ran = bench.run(&["ops", "list"]).expect_code(0);
    assert!(ran.err.contains("warning: the operation log was damaged"), "{}", ran.err);
    bench.run(&["sync", "config.yaml", "--app", "new", "--sim"]).expect_code(0);
}

/// Changes a byte in each of the first records.
fn damage(state: &Path) {
    let path = state.join("log/db");
    let mut bytes = fs::read(&path).unwrap();
    let records: Vec<usize> =
        (0..bytes.len()).filter(|at| bytes[*at..].starts_with(b"TGLR")).take(5).collect();
    assert!(!records.is_empty());
    for at in records {
        bytes[at + 30] ^= 0xff;
    }
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_file_in_the_way_is_named() {
    let bench = Bench::new();
    bench.write("config.yaml", CONFIG);
    bench.write("state", "a file");
    let ran = bench.run(&["sync", "config.yaml", "--app", "a", "--sim"]).expect_code(1);
    assert!(ran.err.contains("state"), "{}", ran.err);
}

#[test]
fn the_simulated_cluster_is_shown_and_thrown_away() {
    let bench = Bench::new();
    bench.write("config.yaml", CONFIG);
    bench.run(&["sync", "config.yaml", "--app", "a", "--sim"]).expect_code(0);
    assert!(bench.run(&["sim", "objects"]).expect_code(0).out.contains("config"));
    assert!(bench.run(&["sim", "audit"]).expect_code(0).out.contains("ConfigMap default/config"));
    let entry = &bench.writes()[0];
    let mut keys: Vec<&String> = entry.as_object().unwrap().keys().collect();
    keys.sort();
    let audit = ["code", "dryRun", "group", "kind", "name", "namespace", "operationId", "sequence", "verb"];
    assert_eq!(keys, audit);
    bench.run(&["sim", "reset"]).expect_code(0);
    assert_eq!(bench.writes().len(), 0);
    bench.write("stuck.yaml", STUCK);
    bench.run(&["sync", "stuck.yaml", "--app", "b", "--sim", "--timeout", "100ms"]).expect_code(3);
    let ran = bench.run(&["sim", "reset"]).expect_code(4);
    assert!(ran.err.contains("tidegate ops terminate"), "{}", ran.err);
}
