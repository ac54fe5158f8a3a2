//! Output of `--help` and `--version`, and usage errors.

use crate::bench::{Bench, redact};

/// Log in a database that doesn't exist.
const DATABASE: &str = "postgres://tidegate@127.0.0.1:1/tidegate";

#[test]
fn every_command_has_help() {
    let bench = Bench::new();
    let commands: [&[&str]; 35] = [
        &[],
        &["plan"],
        &["diff"],
        &["sync"],
        &["delete"],
        &["resume"],
        &["explain"],
        &["ops"],
        &["ops", "list"],
        &["ops", "show"],
        &["ops", "log"],
        &["ops", "events"],
        &["ops", "output"],
        &["ops", "export"],
        &["ops", "terminate"],
        &["ops", "pause"],
        &["ops", "confirm"],
        &["ops", "approve"],
        &["ops", "skip"],
        &["ops", "retry-task"],
        &["serve"],
        &["app"],
        &["app", "sync"],
        &["app", "wait"],
        &["app", "delete"],
        &["appset"],
        &["appset", "plan"],
        &["appset", "skip"],
        &["appset", "delete"],
        &["example"],
        &["health"],
        &["sim"],
        &["sim", "audit"],
        &["completions"],
        &["man"],
    ];
    for command in commands {
        let ran = bench.run(&[command, &["--help"]].concat()).expect_code(0);
        assert_eq!(ran.err, "");
        let name = if command.is_empty() { "tidegate".to_owned() } else { command.join("_") };
        insta::assert_snapshot!(format!("help_{name}"), redact(&ran.out, &bench));
    }
}

#[test]
fn the_version_is_the_package_version() {
    let ran = Bench::new().run(&["--version"]).expect_code(0);
    assert_eq!(ran.out, format!("tidegate {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn invalid_arguments_are_explained() {
    let bench = Bench::new();
    let cases: [(&[&str], &str); 25] = [
        (&["frobnicate"], "unrecognized subcommand"),
        (&["sync", ".", "--sim"], "--app <NAME>"),
        (&["plan"], "<PATH>"),
        (&["plan", ".", "--sim", "--offline"], "cannot be used with"),
        (&["plan", ".", "--offline", "--kubeconfig", "f"], "cannot be used with"),
        (&["sync", ".", "--app", "a", "--sim", "--context", "b"], "cannot be used with"),
        (&["sync", ".", "--app", "a b", "--sim"], "without whitespace"),
        (&["sync", ".", "--app", "a", "-n", "Not_A_Name", "--sim"], "lowercase letters"),
        (&["sync", ".", "--app", "a", "--sim", "--timeout", "soon"], "invalid duration"),
        (&["sync", ".", "--app", "a", "--sim", "--resource", "Deployment"], "GROUP:KIND:NAMESPACE/NAME"),
        (
            &["sync", ".", "--app", "a", "--sim", "--sync-option", "PruneLast"],
            "use NAME=VALUE, such as PruneLast=true",
        ),
        (&["sync", ".", "--app", "a", "--sim", "--dry-run", "--no-dry-run"], "cannot be used with"),
        (&["sync", ".", "--app", "a", "--sim", "--namespace-label", "team"], "KEY=VALUE"),
        (&["sync", ".", "--app", "a", "--as-group", "ops"], "--as <USER>"),
        (&["resume", "--all", "--sim", "--context", "b"], "cannot be used with"),
        (&["resume", "abc", "--all"], "cannot be used with"),
        (&["app", "list", "--app-namespace", "a"], "--kube"),
        (&["app", "list", "--context", "b"], "--kube"),
        (&["app", "diff", "a", "--as", "b"], "--kube"),
        (&["app", "list", "--kube", "--server", "https://example.com"], "cannot be used with"),
        (&["serve", "--advertise", "http://node-1", "--listen", "0"], "--log <URL>"),
        (&["serve", "--log", DATABASE, "--advertise", "http://node-1"], "--listen <ADDRESS>"),
        (&["serve", "--log", DATABASE, "--advertise", "node-1", "--listen", "0"], "use http://HOST:PORT"),
        (&["serve", "--log", DATABASE, "--advertise", "http://node-1", "--listen", "0"], "--tokens FILE"),
        (&["serve", "--log", DATABASE, "--peer-name", "a b"], "use a host name"),
    ];
    for (args, message) in cases {
        let ran = bench.run(args).expect_code(2);
        assert!(ran.err.contains(message), "{args:?}: {}", ran.err);
        assert_eq!(ran.out, "", "{args:?}");
        assert!(!bench.state().exists(), "{args:?}");
    }
}

#[test]
fn help_that_cannot_be_written_is_an_error() {
    let bench = Bench::new();
    for args in [&["--help"][..], &["--version"], &["sync", "--help"]] {
        let mut command = bench.command(args);
        command.stdout(std::fs::File::create("/dev/full").unwrap());
        let ran = command.output().unwrap();
        let text = String::from_utf8(ran.stderr).unwrap();
        assert_eq!(ran.status.code(), Some(1), "{args:?}: {text}");
        assert!(text.contains("cannot write the result"), "{text}");
    }
}
