//! Running a program, and ending it when it takes more than it may.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Sender};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::{Tool, ToolLimits, Tools, Workshop};
use crate::remote::Attempt;

/// So much of what a program says of itself is kept.
const WORDS_MAX: u64 = 16 << 10;
/// How often it is looked how much memory it has.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Nobody listens there: what is not to be asked over the network ends at once.
const NOWHERE: &str = "http://127.0.0.1:9";

/// How a program is called.
pub(crate) struct Call<'c> {
    pub tool: &'c Tool,
    pub arguments: Vec<OsString>,
    pub workshop: &'c Workshop,
}

/// Why a program has made nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RunError {
    /// It did not begin.
    #[error("the program cannot be started: {0}")]
    NotStarted(String),
    /// It says so itself.
    #[error("{0}")]
    Failed(String),
    /// It took too long.
    #[error("it was not over after {} s, and was ended", .0.as_secs_f64())]
    Late(Duration),
    /// It took too much memory.
    #[error("it took more than {} MiB of memory, and was ended", .0 >> 20)]
    Memory(u64),
    /// It printed too much.
    #[error("it printed more than {} MiB, and was ended", .0 >> 20)]
    Output(u64),
    /// Nobody wants to know any more.
    #[error("it was interrupted")]
    Stopped,
}

/// How many programs are at work.
#[derive(Debug, Default)]
pub(super) struct Places {
    taken: Mutex<usize>,
    freed: Condvar,
}

/// One place, for as long as it is held.
struct Taken<'p>(&'p Places);

impl Places {
    fn take(&self, limit: usize) -> Taken<'_> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.freed.wait_while(taken, |taken| *taken >= limit.max(1));
        let mut taken = waited.unwrap_or_else(PoisonError::into_inner);
        *taken = taken.saturating_add(1);
        Taken(self)
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut taken = self.0.taken.lock().unwrap_or_else(PoisonError::into_inner);
        *taken = taken.saturating_sub(1);
        self.0.freed.notify_one();
    }
}

/// Runs a program to its end; what it prints.
pub(crate) fn run(tools: &Tools, call: Call<'_>) -> Result<Vec<u8>, RunError> {
    let _place = tools.places.take(tools.limits.at_once);
    let attempt = tools.attempts.begin(tools.limits.time);
    let not_started = |error: io::Error| RunError::NotStarted(error.to_string());
    let mut child = command(&call, &tools.limits).spawn().map_err(not_started)?;
    let (Some(output), Some(words)) = (child.stdout.take(), child.stderr.take()) else {
        end(&mut child);
        return Err(RunError::NotStarted("it cannot be listened to".to_owned()));
    };
    let (tell, told) = mpsc::channel();
    let limit = tools.limits.output;
    let readers = read(output, limit.saturating_add(1), tell.clone())
        .and_then(|output| Ok((output, read(words, WORDS_MAX, tell.clone())?)));
    let (output, words) = match readers {
        Ok(readers) => readers,
        Err(error) => {
            end(&mut child);
            return Err(not_started(error));
        }
    };
    let ended = loop {
        match stop(&mut child, &attempt, &tools.limits) {
            Ok(Some(status)) => break Ok(status),
            Ok(None) => {}
            Err(error) => break Err(error),
        }
        // `tell` is ours as well, so that this waits for as long as it should. What was told is that a stream ended.
        if told.recv_timeout(LOOK_EVERY) == Ok(true) {
            break Err(RunError::Output(limit));
        }
    };
    drop(tell);
    end(&mut child);
    let (output, words) = (output.join().unwrap_or_default(), words.join().unwrap_or_default());
    let status = ended?;
    if u64::try_from(output.len()).unwrap_or(u64::MAX) > limit {
        return Err(RunError::Output(limit));
    }
    if status.success() {
        return Ok(output);
    }
    let words = call.workshop.hide(&String::from_utf8_lossy(&words));
    Err(RunError::Failed(if words.trim().is_empty() { status.to_string() } else { words }))
}

/// How it ended, or why it has to.
fn stop(child: &mut Child, attempt: &Attempt, limits: &ToolLimits) -> Result<Option<ExitStatus>, RunError> {
    if let Some(status) = child.try_wait().map_err(|error| RunError::NotStarted(error.to_string()))? {
        return Ok(Some(status));
    }
    match attempt.is_late() {
        Some(true) => Err(RunError::Late(limits.time)),
        Some(false) => Err(RunError::Stopped),
        None if memory(child.id()).is_some_and(|bytes| bytes > limits.memory) => {
            Err(RunError::Memory(limits.memory))
        }
        None => Ok(None),
    }
}

/// How much memory a process has, where the system says so.
fn memory(id: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// Reads up to a limit, and then lets the rest go by unless nothing more is wanted. Tells whether there was more.
fn read(
    mut from: impl Read + Send + 'static,
    limit: u64,
    tell: Sender<bool>,
) -> io::Result<JoinHandle<Vec<u8>>> {
    thread::Builder::new().name("tool-output".to_owned()).spawn(move || {
        let mut read = Vec::new();
        let _ = from.by_ref().take(limit).read_to_end(&mut read);
        let is_full = u64::try_from(read.len()).unwrap_or(u64::MAX) >= limit && limit > WORDS_MAX;
        let _ = tell.send(is_full);
        if !is_full {
            let _ = io::copy(&mut from, &mut io::sink());
        }
        read
    })
}

fn command(call: &Call<'_>, limits: &ToolLimits) -> Command {
    let (home, mut command) = (call.workshop.home(), Command::new(&call.tool.program));
    command.args(&call.arguments).current_dir(call.workshop.source());
    command.env_clear().process_group(0);
    let set = |command: &mut Command, name: &str, path: &Path| {
        command.env(name, path);
    };
    set(&mut command, "HOME", &home);
    for name in ["TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"] {
        set(&mut command, name, &home);
    }
    for (name, folder) in [
        ("HELM_CACHE_HOME", "cache"),
        ("HELM_CONFIG_HOME", "config"),
        ("HELM_DATA_HOME", "data"),
        ("HELM_PLUGINS", "plugins"),
        ("KUBECONFIG", "none"),
        // No other program is there to be found.
        ("PATH", "none"),
    ] {
        set(&mut command, name, &home.join(folder));
    }
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"] {
        command.env(name, NOWHERE);
    }
    // What is freed is looked for earlier than it is too much.
    let soft = limits.memory.saturating_div(4).saturating_mul(3);
    command.env("GOMEMLIMIT", soft.to_string()).env("LC_ALL", "C").env("TZ", "UTC");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}
