//! Reading operations without write permission, and while their process doesn't respond.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};

use crate::bench::{Bench, CommandOutput, Running};
use crate::manifests::{CONFIG, STUCK};

const NOBODY: u32 = 65_534;

/// All read-only commands.
const READ_ONLY_COMMANDS: [&[&str]; 6] = [
    &["ops", "list"],
    &["ops", "show", "a"],
    &["ops", "log", "a"],
    &["explain", "a"],
    &["sim", "audit"],
    &["sim", "objects"],
];

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Returns the content of each file in a folder.
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

/// Makes the state directory readable for everyone, except for the key, and writable for no one.
fn make_readable_for_all(bench: &Bench) {
    set_mode(bench.path(), 0o755);
    for path in files(&bench.state()).into_keys() {
        match path.file_name().unwrap().to_str().unwrap() {
            "key" => {}
            _ if path.is_dir() => set_mode(&path, 0o555),
            _ => set_mode(&path, 0o444),
        }
    }
    set_mode(&bench.state(), 0o555);
}

fn make_private(bench: &Bench) {
    set_mode(&bench.state(), 0o755);
    files(&bench.state()).into_keys().filter(|path| path.is_dir()).for_each(|path| set_mode(&path, 0o755));
}

/// Runs the command as another user if the tests run as root, otherwise as the same user.
fn run_as_colleague(bench: &Bench, args: &[&str]) -> CommandOutput {
    let program = bench.path().join("program");
    if !program.exists() {
        tidegate_testkit::program::copy_program(Path::new(env!("CARGO_BIN_EXE_tidegate")), &program);
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
fn a_colleague_with_read_access_can_run_read_only_commands() {
    let bench = Bench::new();
    bench.write("config.yaml", CONFIG);
    bench.run(&["sync", "config.yaml", "--app", "a", "--sim"]).expect_code(0);
    let own: Vec<CommandOutput> = READ_ONLY_COMMANDS.map(|args| bench.run(args).expect_code(0)).into();
    make_readable_for_all(&bench);
    let before = files(&bench.state());
    for (args, own) in READ_ONLY_COMMANDS.iter().zip(own) {
        let ran = run_as_colleague(&bench, args).expect_code(0);
        // Relative times change within a moment.
        let lines = |text: &str| text.lines().count();
        assert_eq!(lines(&ran.out), lines(&own.out), "{args:?}: {}", ran.out);
        assert!(lines(&ran.out) > 0 && !ran.err.contains("damaged"), "{args:?}: {}", ran.err);
    }
    let ran = run_as_colleague(&bench, &["ops", "log", "a"]).expect_code(0);
    assert!(ran.out.contains("accepted: sync of a by tester"), "{}", ran.out);
    assert_eq!(files(&bench.state()), before, "nothing is written");
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        let ran = run_as_colleague(&bench, &["ops", "terminate", "a"]);
        assert!(ran.code() != 0 && ran.err.contains("no permission"), "{}", ran.err);
        // Only the owner can remove the access of other users.
        let advice = |path: &Path| format!("run `chmod go-rwx {}` as its owner\n", path.display());
        assert!(ran.err.contains(&advice(&bench.state())), "{}", ran.err);
        let witness = bench.state().join("witness");
        set_mode(&witness, 0o666);
        let ran = run_as_colleague(&bench, &["ops", "list"]).expect_code(4);
        assert!(ran.err.contains(&advice(&witness)), "{}", ran.err);
    }
    make_private(&bench);
}

/// The error must differ from the error for an empty state directory.
#[test]
fn missing_read_access_is_reported() {
    let bench = Bench::new();
    bench.write("config.yaml", CONFIG);
    bench.run(&["sync", "config.yaml", "--app", "a", "--sim"]).expect_code(0);
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        set_mode(bench.path(), 0o755);
    } else {
        set_mode(&bench.state(), 0o000);
    }
    for args in READ_ONLY_COMMANDS {
        let ran = run_as_colleague(&bench, args).expect_code(1);
        assert!(ran.err.contains("ermission denied") || ran.err.contains("no permission"), "{}", ran.err);
        assert!(ran.err.contains("state") && ran.out.is_empty(), "{args:?}: {}", ran.err);
    }
    set_mode(&bench.state(), 0o700);
}

#[test]
fn operations_of_an_unresponsive_process_can_be_read() {
    let bench = Bench::new();
    bench.write("stuck.yaml", STUCK);
    let mut sync = bench.start(&["sync", "stuck.yaml", "--app", "a", "--sim"]);
    sync.wait_for_line("waiting for Deployment default/server");
    fs::remove_file(bench.state().join("control.sock")).unwrap();
    for args in READ_ONLY_COMMANDS {
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

/// The process holds the lock and the socket, but doesn't respond.
#[test]
fn a_stopped_process_permits_reads_but_no_writes() {
    let bench = Bench::new();
    bench.write("stuck.yaml", STUCK);
    bench.write("config.yaml", CONFIG);
    let mut sync = bench.start(&["sync", "stuck.yaml", "--app", "a", "--sim"]);
    sync.wait_for_line("waiting for Deployment default/server");
    sync.signal("STOP");
    for args in READ_ONLY_COMMANDS {
        let ran = bench.run(args).expect_code(0);
        assert!(ran.out.lines().count() > 0, "{args:?}: {}", ran.err);
    }
    let explained = bench.run(&["explain", "a"]).expect_code(0);
    assert!(explained.out.contains("Deployment default/server"), "{}", explained.out);
    assert!(explained.err.contains("That process is not responding"), "{}", explained.err);
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
    assert!(shown["pausedBy"].is_null(), "a rejected request has no later effect: {shown}");
}
