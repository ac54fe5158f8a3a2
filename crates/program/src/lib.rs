//! Runs external programs and captures their output, with limits on time, memory and output size. When a
//! program exits, even normally, its child processes are killed. Programs that read untrusted input run in a
//! [`Sandbox`].

mod sandbox;

use std::fs;
use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
pub use sandbox::confines_files;

/// Maximum stored size of standard error in bytes.
const STDERR_BYTES_MAX: u64 = 16 << 10;
/// Interval between checks of the exit status, the memory usage and the stop condition.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum time to read the output after the program has exited. A child process outside its group may still
/// hold the pipe open.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Resource limits for a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum resident memory in bytes.
    pub memory: u64,
    /// Maximum size of standard output in bytes.
    pub output: u64,
}

/// Access rights of a confined program. It has no network access, and the only system files that it can read
/// are programs, libraries and time zones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sandbox {
    /// Files and folders that the program can read and execute.
    pub readable: Vec<PathBuf>,
    /// Files and folders that the program can read and modify.
    pub writable: Vec<PathBuf>,
    /// Maximum CPU time, in whole seconds. Zero means no limit. Linux only: the kernel enforces it even if
    /// the caller crashes.
    pub cpu_time: Duration,
}

/// Reason to stop a running program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The program ran longer than this limit.
    Timeout(Duration),
    /// The caller doesn't need the result anymore.
    Canceled,
}

/// Reason why a program wasn't started or didn't run to completion.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// The program couldn't be started.
    #[error("failed to start the program: {0}")]
    NotStarted(String),
    /// The kernel can't block network access, so the program wasn't started.
    #[error("the program was not started because the kernel cannot block its network access: {0}")]
    NotConfined(String),
    /// The program exceeded its time limit.
    #[error("the program did not finish within {} s and was stopped", .0.as_secs_f64())]
    Timeout(Duration),
    /// The program exceeded its memory limit.
    #[error("the program was stopped because it used more than {} of memory", format_bytes(*.0))]
    Memory(u64),
    /// The program exceeded its output limit.
    #[error("the program was stopped because it printed more than {}", format_bytes(*.0))]
    Output(u64),
    /// The program exited, but a child process outside its group keeps the output open.
    #[error("the program exited but left a child process that keeps its output open")]
    OutputOpen,
    /// The caller canceled the run.
    #[error("the program was interrupted")]
    Canceled,
}

/// Exit status and output of a program that ran to completion.
#[derive(Debug)]
pub struct ProgramOutput {
    /// Exit status.
    pub status: ExitStatus,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error, truncated at 16 KiB.
    pub stderr: Vec<u8>,
}

/// Output stream of a program.
#[derive(Clone, Copy)]
enum Stream {
    Stdout,
    Stderr,
}

/// Contents of one output stream, up to its end or its limit.
type Capture = (Stream, Vec<u8>);

/// Runs a program to completion, polling `stop` while it is running. `stop` must not block.
///
/// # Errors
///
/// Returns an error if the program couldn't be started or had to be stopped.
pub fn run(
    command: &mut Command,
    limits: &Limits,
    stop: impl Fn() -> Option<StopReason>,
) -> Result<ProgramOutput, RunError> {
    let child = in_own_group(command).spawn().map_err(|error| not_started_error(&error))?;
    supervise(child, limits, stop)
}

/// Runs a program in a sandbox. On Linux, the program has no network access. If the kernel supports Landlock
/// ([`confines_files`]), it also can't read files outside the sandbox. On other systems, it isn't confined.
///
/// # Errors
///
/// Returns the same errors as [`run`]. On Linux, also returns [`RunError::NotConfined`] if the kernel can't
/// block network access.
pub fn run_confined(
    command: &mut Command,
    sandbox: &Sandbox,
    limits: &Limits,
    stop: impl Fn() -> Option<StopReason>,
) -> Result<ProgramOutput, RunError> {
    let child = sandbox::spawn(in_own_group(command), sandbox)?;
    supervise(child, limits, stop)
}

/// Puts the command in its own process group, so that its children can be killed with it, and captures its
/// output.
fn in_own_group(command: &mut Command) -> &mut Command {
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped())
}

/// Waits for the child to exit, enforces the limits, and kills the rest of its group.
fn supervise(
    mut child: Child,
    limits: &Limits,
    stop: impl Fn() -> Option<StopReason>,
) -> Result<ProgramOutput, RunError> {
    let (sender, receiver) = mpsc::channel();
    let (mut stdout, mut stderr) = (None, None);
    let mut store = |stream, content| match stream {
        Stream::Stdout => stdout = Some(content),
        Stream::Stderr => stderr = Some(content),
    };
    let mut outcome = start_readers(&mut child, limits, &sender);
    while outcome.is_ok() {
        if has_exited(&child) {
            break;
        }
        // `sender` is still open, so `recv_timeout` waits for the whole interval even after both readers have
        // finished.
        if let Some(error) = exceeded_limit(&child, limits, &stop) {
            outcome = Err(error);
        } else if let Ok((stream, content)) = receiver.recv_timeout(POLL_INTERVAL) {
            outcome = check_size(stream, &content, limits);
            store(stream, content);
        }
    }
    let status = kill_group(&mut child);
    drop(sender);
    outcome?;
    while let Ok((stream, content)) = receiver.recv_timeout(DRAIN_TIMEOUT) {
        check_size(stream, &content, limits)?;
        store(stream, content);
    }
    let (Some(stdout), Some(stderr)) = (stdout, stderr) else { return Err(RunError::OutputOpen) };
    Ok(ProgramOutput { status: status.map_err(|error| not_started_error(&error))?, stdout, stderr })
}

fn format_bytes(number: u64) -> String {
    if number < 1 << 20 { format!("{} KiB", number >> 10) } else { format!("{} MiB", number >> 20) }
}

/// Converts an I/O error from starting the program.
fn not_started_error(error: &io::Error) -> RunError {
    RunError::NotStarted(error.to_string())
}

/// Starts one reader thread for each output stream.
fn start_readers(child: &mut Child, limits: &Limits, sender: &Sender<Capture>) -> Result<(), RunError> {
    let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(RunError::NotStarted("failed to capture its output".to_owned()));
    };
    let stdout = read(Stream::Stdout, stdout, limits.output.saturating_add(1), sender.clone());
    let stderr = read(Stream::Stderr, stderr, STDERR_BYTES_MAX, sender.clone());
    stdout.and(stderr).map_err(|error| not_started_error(&error))
}

/// Reads a stream up to `limit` in its own thread. Beyond it, standard error is discarded and standard output
/// isn't read any further.
fn read(
    stream: Stream,
    mut from: impl Read + Send + 'static,
    limit: u64,
    sender: Sender<Capture>,
) -> io::Result<()> {
    let reader = move || {
        let mut content = Vec::new();
        let _ = from.by_ref().take(limit).read_to_end(&mut content);
        if matches!(stream, Stream::Stderr) {
            let _ = io::copy(&mut from, &mut io::sink());
        }
        let _ = sender.send((stream, content));
    };
    thread::Builder::new().name("program-output".to_owned()).spawn(reader).map(drop)
}

/// Returns an error if standard output exceeds its limit.
fn check_size(stream: Stream, content: &[u8], limits: &Limits) -> Result<(), RunError> {
    let is_too_large = u64::try_from(content.len()).unwrap_or(u64::MAX) > limits.output;
    match stream {
        Stream::Stdout if is_too_large => Err(RunError::Output(limits.output)),
        Stream::Stdout | Stream::Stderr => Ok(()),
    }
}

/// Returns the reason to stop the program, if any.
fn exceeded_limit(
    child: &Child,
    limits: &Limits,
    stop: &impl Fn() -> Option<StopReason>,
) -> Option<RunError> {
    match stop() {
        Some(StopReason::Timeout(limit)) => Some(RunError::Timeout(limit)),
        Some(StopReason::Canceled) => Some(RunError::Canceled),
        None if resident_memory(child.id()).is_some_and(|bytes| bytes > limits.memory) => {
            Some(RunError::Memory(limits.memory))
        }
        None => None,
    }
}

/// Returns the resident memory of a process in bytes, on systems with `/proc`.
fn resident_memory(id: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// Returns true if the process has exited. It stays a zombie, so its ID isn't reused before [`kill_group`].
fn has_exited(child: &Child) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(waitid(WaitId::Pid(Pid::from_child(child)), options), Ok(Some(_)) | Err(_))
}

/// Kills the process group, then reaps the child. The other way around, another group might already have
/// reused the ID.
fn kill_group(child: &mut Child) -> io::Result<ExitStatus> {
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    child.wait()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { memory: 1 << 30, output: 1 << 20 };

    fn shell(script: &str, stop: impl Fn() -> Option<StopReason>) -> Result<ProgramOutput, RunError> {
        run(Command::new("sh").args(["-c", script]), &LIMITS, stop)
    }

    /// Waits until a process is gone or a zombie. Returns true in both cases.
    fn wait_until_gone(id: &str) -> bool {
        while fs::read_to_string(format!("/proc/{}/stat", id.trim()))
            .is_ok_and(|state| state.rsplit(") ").next().is_some_and(|rest| !rest.starts_with(['Z', 'X'])))
        {
            thread::yield_now();
        }
        true
    }

    #[test]
    fn child_processes_end_after_a_normal_exit() {
        let output = shell("sleep 3600 & echo $!", || None).unwrap();
        assert!(output.status.success() && !output.stdout.is_empty());
        assert!(wait_until_gone(&String::from_utf8(output.stdout).unwrap()));
    }

    #[test]
    fn child_processes_end_when_the_program_is_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("id");
        let script = format!("sleep 3600 & echo $! > {0}.new; mv {0}.new {0}; wait", file.display());
        let stop = || file.exists().then_some(StopReason::Canceled);
        assert_eq!(shell(&script, stop).unwrap_err(), RunError::Canceled);
        assert!(wait_until_gone(&fs::read_to_string(&file).unwrap()));
    }

    #[test]
    fn stdout_and_stderr_are_captured_separately() {
        let output = shell("echo out; echo err >&2; exit 3", || None).unwrap();
        assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (&b"out\n"[..], &b"err\n"[..]));
        assert_eq!(output.status.code(), Some(3));
    }

    #[test]
    fn a_child_outside_the_group_that_keeps_the_output_open_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("id");
        let script = format!(
            "setsid sh -c 'echo $$ > {0}.new; mv {0}.new {0}; exec sleep 3600' & while [ ! -e {0} ]; do :; done",
            file.display()
        );
        assert_eq!(shell(&script, || None).unwrap_err(), RunError::OutputOpen);
        let remaining: i32 = fs::read_to_string(&file).unwrap().trim().parse().unwrap();
        rustix::process::kill_process(Pid::from_raw(remaining).unwrap(), Signal::KILL).unwrap();
    }
}
