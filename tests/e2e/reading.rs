//! Looking at operations without the right to write, and while the process at work does not answer.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};

use crate::bench::{Bench, Ran, Running};
use crate::manifests::{CONFIG, STUCK};

const NOBODY: u32 = 65_534;

/// Everything that only looks.
const LOOKS: [&[&str]; 6] = [
    &["ops", "list"],
    &["ops", "show", "a"],
    &["ops", "log", "a"],
    &["explain", "a"],
    &["sim", "audit"],
    &["sim", "objects"],
];

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// The files of a folder, and what is in them.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
            found.insert(path, Vec::new());
        } else {
            found.insert(path.clone(), fs::read(&path).unwrap_or_default());
        }
    }
    found
}

/// Lets everybody read the state directory, but not the key, and nobody write to it.
fn open_to_all(bench: &Bench) {
    mode(bench.path(), 0o755);
    for path in files(&bench.state()).into_keys() {
        match path.file_name().unwrap().to_str().unwrap() {
            "key" => {}
            _ if path.is_dir() => mode(&path, 0o555),
            _ => mode(&path, 0o444),
        }
    }
    mode(&bench.state(), 0o555);
}

fn close_again(bench: &Bench) {
    mode(&bench.state(), 0o755);
    files(&bench.state()).into_keys().filter(|path| path.is_dir()).for_each(|path| mode(&path, 0o755));
}

/// Runs the command as somebody else; who is not root can only be themselves.
fn as_colleague(bench: &Bench, args: &[&str]) -> Ran {
    let program = bench.path().join("program");
    if !program.exists() {
        tidegate_testkit::program::copy(Path::new(env!("CARGO_BIN_EXE_tidegate")), &program);
    }
    let usual = bench.command(args);
    let mut command = std::process::Command::new(&program);
    command.args(args).current_dir("/").stdin(std::process::Stdio::null());
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    for (name, value) in usual.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        command.uid(NOBODY).gid(NOBODY);
    }
    Running::start(command).finish()
}

#[test]
fn a_colleague_who_may_only_read_can_look() {
    let bench = Bench::new();
    bench.write("config.yaml", CONFIG);
    bench.run(&["sync", "config.yaml", "--app", "a", "--sim"]).expect_code(0);
    let own: Vec<Ran> = LOOKS.map(|args| bench.run(args).expect_code(0)).into();
    open_to_all(&bench);
    let before = files(&bench.state());
    for (args, own) in LOOKS.iter().zip(own) {
        let ran = as_colleague(&bench, args).expect_code(0);
        // How long ago is not the same a moment later.
        let lines = |text: &str| text.lines().count();
        assert_eq!(lines(&ran.out), lines(&own.out), "{args:?}: {}", ran.out);
        assert!(lines(&ran.out) > 0 && !ran.err.contains("damaged"), "{args:?}: {}", ran.err);
    }
    let ran = as_colleague(&bench, &["ops", "log", "a"]).expect_code(0);
    assert!(ran.out.contains("accepted for a by tester"), "{}", ran.out);
    assert_eq!(files(&bench.state()), before, "nothing is written");
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        let ran = as_colleague(&bench, &["ops", "terminate", "a"]);
        assert!(ran.code() != 0 && ran.err.contains("no permission"), "{}", ran.err);
    }
    close_again(&bench);
}

/// Not the same as an empty state directory.
#[test]
fn who_may_not_even_read_is_told_so() {
    let bench = Bench::new();
    bench.write("config.yaml", CONFIG);
    bench.run(&["sync", "config.yaml", "--app", "a", "--sim"]).expect_code(0);
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        mode(bench.path(), 0o755);
    } else {
        mode(&bench.state(), 0o000);
    }
    for args in LOOKS {
        let ran = as_colleague(&bench, args).expect_code(1);
        assert!(ran.err.contains("ermission denied") || ran.err.contains("no permission"), "{}", ran.err);
        assert!(ran.err.contains("state") && ran.out.is_empty(), "{args:?}: {}", ran.err);
    }
    mode(&bench.state(), 0o700);
}

#[test]
fn a_process_that_does_not_answer_is_looked_at_all_the_same() {
    let bench = Bench::new();
    bench.write("stuck.yaml", STUCK);
    let mut sync = bench.start(&["sync", "stuck.yaml", "--app", "a", "--sim"]);
    sync.await_line("waiting for Deployment default/server");
    fs::remove_file(bench.state().join("control.sock")).unwrap();
    for args in LOOKS {
        let ran = bench.run(args).expect_code(0);
        assert!(ran.out.lines().count() > 0, "{args:?}: {}", ran.err);
    }
    let explained = bench.run(&["explain", "a"]).expect_code(0);
    assert!(explained.out.contains("Deployment default/server"), "{}", explained.out);
    assert!(explained.err.contains(&format!("pid {}", sync.pid)), "{}", explained.err);
    bench.run(&["ops", "pause", "a"]).expect_code(4);
    sync.signal("TERM");
    sync.finish().expect_code(3);
    let list = bench.run(&["ops", "list"]).expect_code(0);
    assert!(!list.err.contains("damaged") && !list.err.contains("warning"), "{}", list.err);
}

/// It has the lock and the socket, and answers nobody.
#[test]
fn a_stopped_process_is_read_beside_and_not_written_beside() {
    let bench = Bench::new();
    bench.write("stuck.yaml", STUCK);
    bench.write("config.yaml", CONFIG);
    let mut sync = bench.start(&["sync", "stuck.yaml", "--app", "a", "--sim"]);
    sync.await_line("waiting for Deployment default/server");
    sync.signal("STOP");
    for args in LOOKS {
        let ran = bench.run(args).expect_code(0);
        assert!(ran.out.lines().count() > 0, "{args:?}: {}", ran.err);
    }
    let explained = bench.run(&["explain", "a"]).expect_code(0);
    assert!(explained.out.contains("Deployment default/server"), "{}", explained.out);
    assert!(explained.err.contains("It does not answer here"), "{}", explained.err);
    for args in
        [&["sync", "config.yaml", "--app", "b", "--sim"][..], &["ops", "pause", "a"], &["resume", "a"]]
    {
        let ran = bench.run(args).expect_code(4);
        assert!(ran.err.contains(&format!("pid {}", sync.pid)), "{args:?}: {}", ran.err);
    }
    sync.signal("CONT");
    sync.signal("TERM");
    sync.finish().expect_code(3);
    let shown = bench.json(&["ops", "show", "a", "-o", "json"]);
    assert!(shown["pausedBy"].is_null(), "what was refused does not come true later: {shown}");
}
