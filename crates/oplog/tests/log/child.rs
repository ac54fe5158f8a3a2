//! This test program run again as a process of its own, to be killed, traced, or starved.
//!
//! What it does is told by the variable `TIDEGATE_OPLOG_CHILD`: a word and a directory. It reports on standard output,
//! a line each.

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
use crate::kit::{self, Append, Fact, Log, State, append, operation};

const VARIABLE: &str = "TIDEGATE_OPLOG_CHILD";
const TEST: &str = "child::child_process";

/// Operations that get a fact each in every group.
pub const OPERATIONS: u128 = 3;

/// How large the facts of the process that is killed are: several of sled's segments come together.
pub const PADDING: usize = 1_500;

/// Every so many groups holds a large fact.
pub const LARGE_EVERY: u64 = 7;

/// The `number`th fact of an operation.
pub fn fact(number: u64, padding: usize) -> Fact {
    let size = if number.is_multiple_of(LARGE_EVERY) { 20_000 } else { padding };
    Fact::Began {
        name: format!("{number:08}").repeat(size / 8),
        at: Timestamp::from_millis(i64::try_from(number).unwrap()),
    }
}

/// Not a test by itself: does nothing unless it is told what to do.
#[test]
fn child_process() {
    let Ok(task) = env::var(VARIABLE) else { return };
    let (word, directory) = task.split_once(' ').unwrap();
    let directory = PathBuf::from(directory);
    // The harness has begun a line.
    say("");
    match word {
        "append" => append_until(&directory, PADDING, u64::MAX),
        "append-and-compact" => append_and_compact(&directory),
        "append-20" => append_until(&directory, 0, 20),
        "append-on-request" => {
            let log = kit::open(&directory).unwrap();
            for (number, _) in (1..).zip(std::io::stdin().lines()) {
                append_to(&log, PADDING, number);
            }
        }
        "fill" => append_until(&directory, 5_000, u64::MAX),
        "fill-and-free" => fill_and_free(&directory),
        "open" => {
            say(match kit::open(&directory) {
                Ok(log) => format!("opened, {} reports", log.damage().len()),
                Err(error) => format!("refused {error:?}"),
            });
        }
        "read" => read(&directory),
        other => panic!("{other} is not a task"),
    }
}

/// Reads a log that may not be written, without its key.
fn read(directory: &Path) {
    let log = match Log::open_to_read(directory, None, kit::codecs()) {
        Ok(log) => log,
        Err(error) => return say(format!("refused {error:?}")),
    };
    say(format!("{} summaries, {} reports", log.lines().len(), log.damage().len()));
    for number in 1..=OPERATIONS {
        match log.all(operation(number)) {
            Ok(facts) => say(format!("{number}: {} facts", facts.len())),
            Err(error) => say(format!("{number}: {error:?}")),
        }
    }
}

/// One line, at once: nothing may be said before it is true, or be lost with the process.
fn say(line: impl Display) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

fn group(number: u64, padding: usize) -> Vec<Append> {
    let snapshot = number.is_multiple_of(5).then(|| State { waves: vec![], padding: number.to_string() });
    let of =
        |each| Append { snapshot: snapshot.clone(), ..append(each, number, vec![fact(number, padding)]) };
    (1..=OPERATIONS).map(of).collect()
}

/// Appends group after group and says which are acknowledged; ends at an error, which it says too.
fn append_until(directory: &Path, padding: usize, end: u64) {
    let log = kit::open(directory).unwrap();
    say(format!("reports {}", log.damage().len()));
    append_to(&log, padding, end);
}

/// How many facts an open operation keeps where it is compacted all the time.
pub const KEPT_FACTS: u64 = 12;

/// Appends, and compacts after each group; most of the time it is doing that.
fn append_and_compact(directory: &Path) {
    let log = kit::open(directory).unwrap();
    say(format!("reports {}", log.damage().len()));
    let first = log.load_as::<Fact>(operation(1)).map_or(1, |loaded| loaded.last_sequence + 1);
    for number in first.. {
        log.append_all(group(number, PADDING)).unwrap();
        say(format!("ack {number}"));
        let keep = Retention { open_facts: KEPT_FACTS, ..Retention::default() };
        log.compact(&keep, kit::NOW).unwrap();
    }
}

fn append_to(log: &Log, padding: usize, end: u64) {
    let first = log.load_as::<Fact>(operation(1)).map_or(1, |loaded| loaded.last_sequence + 1);
    for number in first..=end {
        match log.append_all(group(number, padding)) {
            Ok(()) => say(format!("ack {number}")),
            Err(error) => {
                say(format!("failed {error:?}"));
                say(format!("then {:?}", log.append_all(group(number, 0)).unwrap_err()));
                return;
            }
        }
        if number.is_multiple_of(25) {
            log.tidy(3).unwrap();
        }
    }
}

/// Fills a small disk up, opens the log again while it is full, makes room, and goes on.
fn fill_and_free(directory: &Path) {
    say("mounted");
    let ballast = directory.join("ballast");
    std::fs::write(&ballast, vec![1; 1 << 20]).unwrap();
    let state = directory.join("state");
    append_until(&state, 5_000, u64::MAX);
    match kit::open(&state) {
        Ok(_) => say("full, and opened"),
        Err(LogError::DiskFull { .. }) => say("full, and refused"),
        Err(error) => say(format!("full, and {error:?}")),
    }
    std::fs::remove_file(ballast).unwrap();
    let log = kit::open(&state).unwrap();
    let loaded = log.load_as::<Fact>(operation(1)).unwrap();
    say(format!("kept {}, {} reports", loaded.last_sequence, log.damage().len()));
    log.append_all(group(loaded.last_sequence + 1, 0)).unwrap();
    say("went on");
}

/// The command that does `task` in `directory`, to be started by `program` with `arguments` before it.
pub fn command(task: &str, directory: &Path, program: &[&str]) -> Command {
    command_of(&env::current_exe().unwrap(), task, directory, program)
}

/// A copy of this program that others may start.
///
/// Another process makes it: what is open to write cannot be started (`ETXTBSY`), and a process that another
/// test starts in this moment would for a while hold it open as well.
pub fn copy_of_program(folder: &Path) -> PathBuf {
    let program = folder.join("program");
    let this = env::current_exe().unwrap();
    assert!(Command::new("cp").arg(this).arg(&program).status().unwrap().success());
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    program
}

/// The same, with a copy of this program.
pub fn command_of(this: &Path, task: &str, directory: &Path, program: &[&str]) -> Command {
    let mut command = match program.split_first() {
        Some((program, arguments)) => {
            let mut command = Command::new(program);
            command.args(arguments).arg(this);
            command
        }
        None => Command::new(this),
    };
    command.args([TEST, "--exact", "--nocapture", "--test-threads=1"]);
    command.env(VARIABLE, format!("{task} {}", directory.display())).stdout(Stdio::piped());
    command
}

/// Runs a command to its end; returns the lines it said. A program that was just copied is busy as long as a process that was
/// begun meanwhile has the copy open, which is until that is another program.
pub fn lines(mut command: Command) -> Vec<String> {
    command.stderr(Stdio::piped());
    let output = loop {
        match command.output() {
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => thread::yield_now(),
            ended => break ended.unwrap(),
        }
    };
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// A process that appends a group for each line it is given.
pub struct Worker {
    child: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    pub fn start(directory: &Path) -> Self {
        let mut child = command("append-on-request", directory, &[]).stdin(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, said }
    }

    /// Asks for some groups, and does not wait for them.
    pub fn ask(&mut self, groups: usize) {
        self.child.stdin.as_mut().unwrap().write_all(&b"\n".repeat(groups)).unwrap();
    }

    /// Waits until it has acknowledged a group.
    pub fn await_acknowledged(&mut self, number: u64) {
        let wanted = format!("ack {number}");
        assert!(self.said.any(|line| line.unwrap() == wanted), "it ended before {wanted}");
    }

    /// Waits until it has said the rest.
    pub fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.said.all(|line| !line.unwrap().starts_with("failed")));
        assert!(self.child.wait().unwrap().success());
    }
}

/// Lets a process append until it has acknowledged `acks` groups, kills it, and returns the last it acknowledged.
pub fn kill_after(task: &str, directory: &Path, acks: usize) -> Option<u64> {
    let mut child = command(task, directory, &[]).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut last = None;
    let mut seen = 0;
    let mut ack = |line: String| {
        assert!(!line.starts_with("failed"), "{line}");
        assert!(!line.starts_with("reports") || line == "reports 0", "a kill is no damage: {line}");
        if let Some(number) = line.strip_prefix("ack ") {
            last = Some(number.parse().unwrap());
            seen += 1;
        }
        seen
    };
    // Until it has opened the log, and then some.
    for line in said.by_ref() {
        let opened = line.starts_with("reports");
        if ack(line) >= acks && (opened || acks > 0) {
            break;
        }
    }
    child.kill().unwrap();
    // What it said before it died was a promise too.
    said.for_each(|line| {
        ack(line);
    });
    child.wait().unwrap();
    last
}
