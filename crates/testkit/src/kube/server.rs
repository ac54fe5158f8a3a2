//! Server process that exits with the test process, however that exits.
//!
//! A shell runs between the two and holds one end of a pipe. When the test process closes the other end, on
//! purpose or by exiting, the shell kills the server.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::KubeError;

/// Guard script. `$1` is the log file, and the remaining arguments are the command. It prints the server's
/// PID first.
const GUARD_SCRIPT: &str = r#"
log=$1; shift
exec 3<&0
"$@" </dev/null >>"$log" 2>&1 3<&- &
server=$!
{ read -r _ <&3; kill -9 "$server"; } >/dev/null 2>&1 &
guard=$!
exec 3<&-
echo "$server"
exec >/dev/null 2>&1
wait "$server"
kill "$guard"
"#;

/// Script that removes a folder after the test process has exited. Servers that are shutting down may still
/// write to it for a moment.
const CLEANUP_SCRIPT: &str = r#"
read -r _
for _ in 1 2 3 4 5 6 7 8 9 10; do
  rm -rf "$1" && sleep 0.2 && [ ! -e "$1" ] && break
done
"#;

/// One of the three servers.
#[derive(Debug)]
pub(super) struct Server {
    name: &'static str,
    log: PathBuf,
    guard: Child,
    process_id: String,
}

impl Server {
    pub(super) fn start(
        name: &'static str,
        program: &Path,
        arguments: &[String],
        folder: &Path,
    ) -> Result<Self, KubeError> {
        let failed = |why| KubeError::Program { program: program.display().to_string(), why };
        let log = folder.join(format!("{name}.log"));
        let mut shell = Command::new("sh")
            .args(["-c", GUARD_SCRIPT, "guard"])
            .arg(&log)
            .arg(program)
            .args(arguments)
            .current_dir(folder)
            // Otherwise, the servers would spend much of their short life on garbage collection.
            .env("GOGC", "400")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let mut process = String::new();
        let stdout = shell.stdout.take().expect("stdout is a pipe");
        BufReader::new(stdout).read_line(&mut process).map_err(failed)?;
        Ok(Self { name, log, guard: shell, process_id: process.trim().to_owned() })
    }

    /// Returns an error if the server has exited.
    pub(super) fn check_running(&mut self) -> Result<(), KubeError> {
        match self.guard.try_wait() {
            Ok(None) => Ok(()),
            _ => Err(KubeError::Ended { server: self.name.to_owned(), log: self.log_tail() }),
        }
    }

    /// Sends a signal, `STOP` or `CONT`.
    pub(super) fn signal(&self, signal: &str) -> Result<(), KubeError> {
        let failed = |why| KubeError::Program { program: format!("kill -{signal} {}", self.name), why };
        let status =
            Command::new("kill").args([&format!("-{signal}"), &self.process_id]).status().map_err(failed)?;
        if status.success() { Ok(()) } else { Err(failed(std::io::Error::other(status.to_string()))) }
    }

    /// Returns true if all threads of the server are stopped. A stop signal reaches them one by one.
    pub(super) fn is_stopped(&self) -> bool {
        let Ok(threads) = fs::read_dir(format!("/proc/{}/task", self.process_id)) else { return false };
        threads.flatten().all(|thread| {
            let line = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            line.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with('T'))
        })
    }

    /// Kills the server and waits for it to exit.
    pub(super) fn kill(&mut self) {
        drop(self.guard.stdin.take());
        // Nothing to do if waiting for the shell fails.
        let _ = self.guard.wait();
    }

    pub(super) fn not_ready_error(&self, seconds: u64) -> KubeError {
        KubeError::NotReady { server: self.name.to_owned(), seconds, log: self.log_tail() }
    }

    fn log_tail(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Removes the folder on drop or when the test process exits.
#[derive(Debug)]
pub(super) struct FolderCleanup(Child);

impl FolderCleanup {
    pub(super) fn start(folder: &Path) -> Result<Self, KubeError> {
        let shell = Command::new("sh")
            .args(["-c", CLEANUP_SCRIPT, "sweep"])
            .arg(folder)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        shell.map(Self).map_err(|why| KubeError::Program { program: "sh".to_owned(), why })
    }
}

impl Drop for FolderCleanup {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
