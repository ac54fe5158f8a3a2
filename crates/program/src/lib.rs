//! Runs a program of others and takes what it prints, within limits of time, memory and output. Whatever it has begun ends
//! with it, also when it ends by itself: nothing of it stays behind. One that reads what strangers have written is confined.

mod confined;

use std::fs;
use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Duration;

pub use confined::confines_files;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// So much of what a program says of itself is kept.
const WORDS_MAX: u64 = 16 << 10;
/// How often it is looked whether it is over, and how much memory it has.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// What was printed is all there when a program has ended; whoever has left its group may keep it from us.
const READ_WITHIN: Duration = Duration::from_secs(2);

/// What a program may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of memory that it may have.
    pub memory: u64,
    /// Bytes that it prints.
    pub output: u64,
}

/// What a confined program may touch. It has no network; of the system's files it may read programs and libraries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Files and folders that it may read and start.
    pub reads: Vec<PathBuf>,
    /// Files and folders that it may read and change.
    pub writes: Vec<PathBuf>,
    /// Processor time that it may take, which holds also when nobody watches it any more; on Linux, in whole seconds. None is no limit.
    pub processor: Duration,
}

/// Why a program has to end before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// It took longer than this.
    Late(Duration),
    /// Nobody wants to know any more.
    Stopped,
}

/// Why a program has printed nothing that counts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// It did not begin.
    #[error("the program cannot be started: {0}")]
    NotStarted(String),
    /// The system does not confine it, so it did not begin.
    #[error("the program is not started, because the system does not keep it from the network: {0}")]
    NotConfined(String),
    /// It took too long.
    #[error("it was not over after {} s, and was ended", .0.as_secs_f64())]
    Late(Duration),
    /// It took too much memory.
    #[error("it took more than {} of memory, and was ended", bytes(*.0))]
    Memory(u64),
    /// It printed too much.
    #[error("it printed more than {}, and was ended", bytes(*.0))]
    Output(u64),
    /// It has ended, but not all that it has begun.
    #[error("it has left something behind that keeps its output open")]
    Open,
    /// Nobody wants to know any more.
    #[error("it was interrupted")]
    Stopped,
}

/// How a program has ended by itself.
#[derive(Debug)]
pub struct Ran {
    /// Well or not.
    pub status: ExitStatus,
    /// What it has printed.
    pub output: Vec<u8>,
    /// What it has said of itself, to a limit.
    pub words: Vec<u8>,
}

/// Which stream a reader reads.
#[derive(Clone, Copy)]
enum Stream {
    Output,
    Words,
}

/// Runs a program to its end. `over` is asked again and again whether it has to end before; it takes no time itself.
///
/// # Errors
///
/// It did not begin, or had to be ended.
pub fn run(command: &mut Command, limits: &Limits, over: impl Fn() -> Option<Over>) -> Result<Ran, RunError> {
    let child = apart(command).spawn().map_err(|error| not_started(&error))?;
    attend(child, limits, over)
}

/// The same for one that is confined to a room, as far as the system does that: on Linux it has no network, and reads nothing
/// outside of the room where the kernel has Landlock ([`confines_files`]). Elsewhere it is not confined.
///
/// # Errors
///
/// As those of [`run`], and on Linux if the kernel does not keep it from the network.
pub fn run_confined(
    command: &mut Command,
    room: &Room,
    limits: &Limits,
    over: impl Fn() -> Option<Over>,
) -> Result<Ran, RunError> {
    let child = confined::spawn(apart(command), room)?;
    attend(child, limits, over)
}

/// In a group of its own, which ends as one, and listened to.
fn apart(command: &mut Command) -> &mut Command {
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped())
}

fn attend(mut child: Child, limits: &Limits, over: impl Fn() -> Option<Over>) -> Result<Ran, RunError> {
    let (tell, told) = mpsc::channel();
    let (mut output, mut words) = (None, None);
    let mut keep = |stream, read| match stream {
        Stream::Output => output = Some(read),
        Stream::Words => words = Some(read),
    };
    let mut ended = listen(&mut child, limits, &tell);
    while ended.is_ok() {
        if has_ended(&child) {
            break;
        }
        // `tell` is ours as well, so that what is told is waited for as long as it should.
        if let Some(why) = exceeded(&child, limits, &over) {
            ended = Err(why);
        } else if let Ok((stream, read)) = told.recv_timeout(LOOK_EVERY) {
            ended = check(stream, &read, limits);
            keep(stream, read);
        }
    }
    let status = end(&mut child);
    drop(tell);
    ended?;
    while let Ok((stream, read)) = told.recv_timeout(READ_WITHIN) {
        check(stream, &read, limits)?;
        keep(stream, read);
    }
    let (Some(output), Some(words)) = (output, words) else { return Err(RunError::Open) };
    Ok(Ran { status: status.map_err(|error| not_started(&error))?, output, words })
}

fn bytes(number: u64) -> String {
    if number < 1 << 20 { format!("{} KiB", number >> 10) } else { format!("{} MiB", number >> 20) }
}

fn not_started(error: &io::Error) -> RunError {
    RunError::NotStarted(error.to_string())
}

type Told = (Stream, Vec<u8>);

fn listen(child: &mut Child, limits: &Limits, tell: &Sender<Told>) -> Result<(), RunError> {
    let (Some(output), Some(words)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(RunError::NotStarted("it cannot be listened to".to_owned()));
    };
    let output = read(Stream::Output, output, limits.output.saturating_add(1), tell.clone());
    let words = read(Stream::Words, words, WORDS_MAX, tell.clone());
    output.and(words).map_err(|error| not_started(&error))
}

/// Reads up to a limit. What is said beyond it goes by; what is printed beyond it is not wanted any more.
fn read(
    stream: Stream,
    mut from: impl Read + Send + 'static,
    limit: u64,
    tell: Sender<Told>,
) -> io::Result<()> {
    let reading = move || {
        let mut read = Vec::new();
        let _ = from.by_ref().take(limit).read_to_end(&mut read);
        if matches!(stream, Stream::Words) {
            let _ = io::copy(&mut from, &mut io::sink());
        }
        let _ = tell.send((stream, read));
    };
    thread::Builder::new().name("program-output".to_owned()).spawn(reading).map(drop)
}

fn check(stream: Stream, read: &[u8], limits: &Limits) -> Result<(), RunError> {
    let is_too_much = u64::try_from(read.len()).unwrap_or(u64::MAX) > limits.output;
    match stream {
        Stream::Output if is_too_much => Err(RunError::Output(limits.output)),
        Stream::Output | Stream::Words => Ok(()),
    }
}

fn exceeded(child: &Child, limits: &Limits, over: &impl Fn() -> Option<Over>) -> Option<RunError> {
    match over() {
        Some(Over::Late(limit)) => Some(RunError::Late(limit)),
        Some(Over::Stopped) => Some(RunError::Stopped),
        None if memory(child.id()).is_some_and(|bytes| bytes > limits.memory) => {
            Some(RunError::Memory(limits.memory))
        }
        None => None,
    }
}

/// How much memory a process has, where the system says so.
fn memory(id: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// Whether it has ended. Its number stays its own until [`end`].
fn has_ended(child: &Child) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(waitid(WaitId::Pid(Pid::from_child(child)), options), Ok(Some(_)) | Err(_))
}

/// Ends it with all that it has begun. Its group is asked for while its number cannot be anybody else's.
fn end(child: &mut Child) -> io::Result<ExitStatus> {
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    child.wait()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { memory: 1 << 30, output: 1 << 20 };

    fn shell(script: &str, over: impl Fn() -> Option<Over>) -> Result<Ran, RunError> {
        run(Command::new("sh").args(["-c", script]), &LIMITS, over)
    }

    /// Returns when a process is gone, or waits only for somebody to notice.
    fn is_gone(id: &str) -> bool {
        while fs::read_to_string(format!("/proc/{}/stat", id.trim()))
            .is_ok_and(|state| state.rsplit(") ").next().is_some_and(|rest| !rest.starts_with(['Z', 'X'])))
        {
            thread::yield_now();
        }
        true
    }

    #[test]
    fn what_it_has_begun_ends_with_it() {
        let ran = shell("sleep 3600 & echo $!", || None).unwrap();
        assert!(ran.status.success() && !ran.output.is_empty());
        assert!(is_gone(&String::from_utf8(ran.output).unwrap()));
    }

    #[test]
    fn what_one_that_is_ended_has_begun_ends_as_well() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("id");
        let script = format!("sleep 3600 & echo $! > {0}.new; mv {0}.new {0}; wait", file.display());
        let over = || file.exists().then_some(Over::Stopped);
        assert_eq!(shell(&script, over).unwrap_err(), RunError::Stopped);
        assert!(is_gone(&fs::read_to_string(&file).unwrap()));
    }

    #[test]
    fn what_it_prints_and_says_is_kept_apart() {
        let ran = shell("echo out; echo words >&2; exit 3", || None).unwrap();
        assert_eq!((ran.output.as_slice(), ran.words.as_slice()), (&b"out\n"[..], &b"words\n"[..]));
        assert_eq!(ran.status.code(), Some(3));
    }

    #[test]
    fn one_that_left_its_group_and_holds_the_output_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("id");
        let script = format!(
            "setsid sh -c 'echo $$ > {0}.new; mv {0}.new {0}; exec sleep 3600' & while [ ! -e {0} ]; do :; done",
            file.display()
        );
        assert_eq!(shell(&script, || None).unwrap_err(), RunError::Open);
        let left: i32 = fs::read_to_string(&file).unwrap().trim().parse().unwrap();
        rustix::process::kill_process(Pid::from_raw(left).unwrap(), Signal::KILL).unwrap();
    }
}
