//! The test program as a child process that tests kill, trace, or run with limited resources.
//!
//! The environment variable `TIDEGATE_OPLOG_CHILD` contains the child's task: a keyword and a directory. The
//! child writes its reports to standard output, one per line.

use std::env;
use std::fmt::Display;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, ErrorKind, Lines, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;

use tidegate_model::Timestamp;
use tidegate_oplog::{LogError, Retention};

use crate::kit::prelude::*;
use crate::kit::{self, Append, Event, Log, State, append_to_shop, operation};

const TASK_VARIABLE: &str = "TIDEGATE_OPLOG_CHILD";
const TEST_NAME: &str = "child::child_process";

/// Number of operations with an event in every group.
pub const OPERATIONS: u128 = 3;

/// Padding of each event in bytes, for the process that is killed. The padded events fill several of sled's
/// segments.
pub const PADDING: usize = 1_500;

/// Interval of large events: every group with a multiple of this number contains one.
pub const LARGE_INTERVAL: u64 = 7;

/// Returns event number `number` of an operation.
pub fn event(number: u64, padding: usize) -> Event {
    let size = if number.is_multiple_of(LARGE_INTERVAL) { 20_000 } else { padding };
    Event::Began {
        name: format!("{number:08}").repeat(size / 8),
        at: Timestamp::from_millis(i64::try_from(number).unwrap()),
    }
}

/// Entry point of the child process. Does nothing when run as a regular test.
#[test]
fn child_process() {
    let Ok(task) = env::var(TASK_VARIABLE) else { return };
    let (word, directory) = task.split_once(' ').unwrap();
    let directory = PathBuf::from(directory);
    // The test harness has already printed part of a line, so begin a new one.
    print_now("");
    match word {
        "append" => append_until(&directory, PADDING, u64::MAX),
        "append-and-compact" => append_and_compact(&directory),
        "append-20" => append_until(&directory, 0, 20),
        "append-on-request" => {
            let log = kit::open_log(&directory).unwrap();
            for (number, _) in (1..).zip(std::io::stdin().lines()) {
                append_groups(&log, PADDING, number);
            }
        }
        "fill" => append_until(&directory, 5_000, u64::MAX),
        "fill-and-free" => fill_and_free(&directory),
        "open" => {
            print_now(match kit::open_log(&directory) {
                Ok(log) => format!("opened, {} reports", log.damage().len()),
                Err(error) => format!("refused {error:?}"),
            });
        }
        "read" => read_without_key(&directory),
        other => panic!("{other} is not a task"),
    }
}

/// Reads a log in a read-only directory, without its key.
fn read_without_key(directory: &Path) {
    let log = match Log::open_read_only(directory, None, kit::test_codecs()) {
        Ok(log) => log,
        Err(error) => return print_now(format!("refused {error:?}")),
    };
    print_now(format!("{} summaries, {} reports", log.listing().len(), log.damage().len()));
    for number in 1..=OPERATIONS {
        match log.all_events(operation(number)) {
            Ok(events) => print_now(format!("{number}: {} facts", events.len())),
            Err(error) => print_now(format!("{number}: {error:?}")),
        }
    }
}

/// Prints a line without buffering, so that it isn't lost when the process is killed.
fn print_now(line: impl Display) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

fn event_group(number: u64, padding: usize) -> Vec<Append> {
    let snapshot = number.is_multiple_of(5).then(|| State { waves: vec![], padding: number.to_string() });
    let of = |each| Append {
        snapshot: snapshot.clone(),
        ..append_to_shop(each, number, vec![event(number, padding)])
    };
    (1..=OPERATIONS).map(of).collect()
}

/// Appends groups one after another, and prints each acknowledged group. After an error, prints the error and
/// stops.
fn append_until(directory: &Path, padding: usize, end: u64) {
    let log = kit::open_log(directory).unwrap();
    print_now(format!("reports {}", log.damage().len()));
    append_groups(&log, padding, end);
}

/// Number of events that an open operation keeps under continuous compaction.
pub const KEPT_EVENTS: u64 = 12;

/// Appends groups and compacts after each group, so that most of the time is spent on compaction.
fn append_and_compact(directory: &Path) {
    let log = kit::open_log(directory).unwrap();
    print_now(format!("reports {}", log.damage().len()));
    let first = log.load_as::<Event>(operation(1)).map_or(1, |loaded| loaded.last_sequence + 1);
    for number in first.. {
        log.append_all(event_group(number, PADDING)).unwrap();
        print_now(format!("ack {number}"));
        let keep = Retention { open_events: KEPT_EVENTS, ..Retention::default() };
        log.compact(&keep, kit::NOW).unwrap();
    }
}

fn append_groups(log: &Log, padding: usize, end: u64) {
    let first = log.load_as::<Event>(operation(1)).map_or(1, |loaded| loaded.last_sequence + 1);
    for number in first..=end {
        match log.append_all(event_group(number, padding)) {
            Ok(()) => print_now(format!("ack {number}")),
            Err(error) => {
                print_now(format!("failed {error:?}"));
                print_now(format!("then {:?}", log.append_all(event_group(number, 0)).unwrap_err()));
                return;
            }
        }
        if number.is_multiple_of(25) {
            log.compact_to_history(3).unwrap();
        }
    }
}

/// Fills a small disk, reopens the log while the disk is full, frees space, and continues.
fn fill_and_free(directory: &Path) {
    print_now("mounted");
    let ballast = directory.join("ballast");
    std::fs::write(&ballast, vec![1; 1 << 20]).unwrap();
    let state = directory.join("state");
    append_until(&state, 5_000, u64::MAX);
    match kit::open_log(&state) {
        Ok(_) => print_now("full, and opened"),
        Err(LogError::DiskFull { .. }) => print_now("full, and refused"),
        Err(error) => print_now(format!("full, and {error:?}")),
    }
    std::fs::remove_file(ballast).unwrap();
    let log = kit::open_log(&state).unwrap();
    let loaded = log.load_as::<Event>(operation(1)).unwrap();
    print_now(format!("kept {}, {} reports", loaded.last_sequence, log.damage().len()));
    log.append_all(event_group(loaded.last_sequence + 1, 0)).unwrap();
    print_now("went on");
}

/// Returns a command that runs `task` in `directory`, prefixed with `program`.
pub fn command(task: &str, directory: &Path, program: &[&str]) -> Command {
    command_for_copy(&env::current_exe().unwrap(), task, directory, program)
}

/// Creates a copy of this program that other users may start.
///
/// A separate process makes the copy. A file that is open for writing can't be executed (`ETXTBSY`), and a
/// process started by another test could inherit the open file.
pub fn copy_program(folder: &Path) -> PathBuf {
    let program = folder.join("program");
    let this = env::current_exe().unwrap();
    assert!(Command::new("cp").arg(this).arg(&program).status().unwrap().success());
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    program
}

/// Like [`command`], but for a copy of this program.
pub fn command_for_copy(this: &Path, task: &str, directory: &Path, program: &[&str]) -> Command {
    let mut command = match program.split_first() {
        Some((program, arguments)) => {
            let mut command = Command::new(program);
            command.args(arguments).arg(this);
            command
        }
        None => Command::new(this),
    };
    command.args([TEST_NAME, "--exact", "--nocapture", "--test-threads=1"]);
    command.env(TASK_VARIABLE, format!("{task} {}", directory.display())).stdout(Stdio::piped());
    command
}

/// Runs a command to its end and returns its output lines. Retries while a copied program is busy: a process
/// started in the meantime has the copy open until it calls `exec`.
pub fn output_lines(mut command: Command) -> Vec<String> {
    command.stderr(Stdio::piped());
    let output = loop {
        match command.output() {
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => thread::yield_now(),
            ended => break ended.unwrap(),
        }
    };
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// A process that appends a group for each input line.
pub struct AppendProcess {
    child: Child,
    output: Lines<BufReader<ChildStdout>>,
}

impl AppendProcess {
    pub fn start(directory: &Path) -> Self {
        let mut child = command("append-on-request", directory, &[]).stdin(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, output }
    }

    /// Requests groups without waiting for them.
    pub fn request_groups(&mut self, groups: usize) {
        self.child.stdin.as_mut().unwrap().write_all(&b"\n".repeat(groups)).unwrap();
    }

    /// Waits until the process has acknowledged a group.
    pub fn await_acknowledged(&mut self, number: u64) {
        let wanted = format!("ack {number}");
        assert!(self.output.any(|line| line.unwrap() == wanted), "the process ended before {wanted}");
    }

    /// Waits for the rest of the output and the end of the process.
    pub fn wait_for_end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.output.all(|line| !line.unwrap().starts_with("failed")));
        assert!(self.child.wait().unwrap().success());
    }
}

/// Kills an appending process after it has acknowledged `acks` groups. Returns the last acknowledged group.
pub fn kill_after(task: &str, directory: &Path, acks: usize) -> Option<u64> {
    let mut child = command(task, directory, &[]).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut last = None;
    let mut seen = 0;
    let mut ack = |line: String| {
        assert!(!line.starts_with("failed"), "{line}");
        assert!(
            !line.starts_with("reports") || line == "reports 0",
            "killing the process must not cause damage: {line}"
        );
        if let Some(number) = line.strip_prefix("ack ") {
            last = Some(number.parse().unwrap());
            seen += 1;
        }
        seen
    };
    // Wait until the process has opened the log and acknowledged the groups.
    for line in said.by_ref() {
        let opened = line.starts_with("reports");
        if ack(line) >= acks && (opened || acks > 0) {
            break;
        }
    }
    child.kill().unwrap();
    // The process may have acknowledged more groups before it was killed.
    said.for_each(|line| {
        ack(line);
    });
    child.wait().unwrap();
    last
}
