//! Test environment: a folder that contains a state directory, and the command that runs in it.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

/// Time limit of a command. Only a hang exceeds it, regardless of how busy the machine is.
const TIMEOUT: Duration = Duration::from_secs(600);

/// A folder that contains a state directory, in which commands run.
pub struct Bench {
    dir: TempDir,
    variables: Vec<(&'static str, PathBuf)>,
}

impl Bench {
    pub fn new() -> Self {
        Self { dir: TempDir::with_prefix("tidegate-e2e-").unwrap(), variables: Vec::new() }
    }

    /// Sets an environment variable for all later commands.
    #[allow(dead_code, reason = "used by the tests on a control plane")]
    pub fn set_variable(&mut self, name: &'static str, value: impl Into<PathBuf>) {
        self.variables.push((name, value.into()));
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn state(&self) -> PathBuf {
        self.path().join("state")
    }

    /// Writes a file and creates its folders.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// Writes a file as [`Self::write`] does, but makes it accessible only to its owner.
    #[allow(dead_code, reason = "unused by the tests on a control plane")]
    pub fn write_private(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.write(name, content);
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        path
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        for name in [
            "NO_COLOR",
            "TERM",
            "COLUMNS",
            "ARGOCD_SYNC_WAVE_DELAY",
            "TIDEGATE_LOG",
            "XDG_STATE_HOME",
            "TIDEGATE_CONTROL_NAMESPACE",
        ] {
            command.env_remove(name);
        }
        // The clusters of the user who runs the tests must not be used.
        for name in ["KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"] {
            command.env_remove(name);
        }
        command
            .args(args)
            .current_dir(self.path())
            .env("TIDEGATE_STATE_DIR", self.state())
            .env("USER", "tester")
            .env("HOME", self.path())
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs the command to completion.
    pub fn run(&self, args: &[&str]) -> CommandOutput {
        Running::start(self.command(args)).finish()
    }

    /// Runs the command with standard input.
    pub fn run_with_input(&self, args: &[&str], input: &str) -> CommandOutput {
        let mut command = self.command(args);
        command.stdin(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        CommandOutput {
            status: output.status,
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Starts the command.
    pub fn start(&self, args: &[&str]) -> Running {
        Running::start(self.command(args))
    }

    /// Runs the command, which must succeed, and parses its JSON output.
    pub fn json(&self, args: &[&str]) -> Value {
        let ran = self.run(args);
        assert_eq!(ran.code(), 0, "{args:?}: {ran:?}");
        serde_json::from_str(&ran.out).unwrap()
    }

    /// Returns the writes to the simulated cluster, without dry runs.
    pub fn writes(&self) -> Vec<Value> {
        let audit = self.json(&["sim", "audit", "-o", "json"]);
        audit.as_array().unwrap().iter().filter(|entry| entry["dryRun"] == false).cloned().collect()
    }

    /// Returns the number of creations of an object.
    pub fn creations(&self, kind: &str, name: &str) -> usize {
        self.writes()
            .iter()
            .filter(|entry| entry["kind"] == kind && entry["name"] == name && entry["code"] == 201)
            .count()
    }

    /// Returns the id of the newest operation.
    pub fn newest(&self) -> String {
        let list = self.json(&["ops", "list", "-o", "json"]);
        list.as_array().unwrap().last().unwrap()["id"].as_str().unwrap().to_owned()
    }

    /// Returns the id of the newest operation of an application.
    #[allow(dead_code, reason = "unused by the tests on a control plane")]
    pub fn newest_of(&self, app: &str) -> String {
        let list = self.json(&["ops", "list", "--app", app, "-o", "json"]);
        list.as_array().unwrap().last().unwrap()["id"].as_str().unwrap().to_owned()
    }
}

/// Exit status and output of a command.
#[derive(Debug)]
pub struct CommandOutput {
    pub status: ExitStatus,
    pub out: String,
    pub err: String,
}

impl CommandOutput {
    /// Returns the exit code. Fails if a signal ended the command.
    #[track_caller]
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| panic!("ended by a signal: {self:?}"))
    }

    #[track_caller]
    pub fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code(), code, "stdout:\n{}\nstderr:\n{}", self.out, self.err);
        self
    }
}

/// A running command.
pub struct Running {
    pub pid: u32,
    lines: Receiver<String>,
    lines_read: Vec<String>,
    out: thread::JoinHandle<String>,
    ended: Receiver<ExitStatus>,
}

impl Running {
    pub fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let stderr = child.stderr.take().unwrap();
        Self::watch_child(child, stderr)
    }

    /// Starts a command whose standard error is redirected elsewhere.
    pub fn start_without_stderr(mut command: Command) -> Self {
        let child = command.spawn().unwrap();
        // Drops the command, so that the started process is the only writer.
        drop(command);
        Self::watch_child(child, std::io::empty())
    }

    fn watch_child(mut child: Child, stderr: impl Read + Send + 'static) -> Self {
        let pid = child.id();
        let mut stdout = child.stdout.take().unwrap();
        let out = thread::spawn(move || {
            let mut text = String::new();
            stdout.read_to_string(&mut text).unwrap();
            text
        });
        let (send_line, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if send_line.send(line).is_err() {
                    break;
                }
            }
        });
        let (send_end, ended) = mpsc::channel();
        thread::spawn(move || send_end.send(child.wait().unwrap()));
        Self { pid, lines, lines_read: Vec::new(), out, ended }
    }

    /// Waits for a line on standard error.
    #[track_caller]
    pub fn wait_for_line(&mut self, part: &str) -> String {
        loop {
            match self.lines.recv_timeout(TIMEOUT) {
                Ok(line) => {
                    self.lines_read.push(line.clone());
                    if line.contains(part) {
                        return line;
                    }
                }
                Err(_) => panic!("no line with {part:?} in:\n{}", self.lines_read.join("\n")),
            }
        }
    }

    /// Returns the number of lines on standard error so far that contain a text. Doesn't wait.
    #[allow(dead_code, reason = "unused by the tests on the simulated cluster")]
    pub fn count_lines(&mut self, part: &str) -> usize {
        self.lines_read.extend(self.lines.try_iter());
        self.lines_read.iter().filter(|line| line.contains(part)).count()
    }

    /// Waits until the API is ready. Returns its host and port.
    #[track_caller]
    #[allow(dead_code, reason = "unused by the tests on a control plane")]
    pub fn wait_for_api(&mut self) -> String {
        let line = self.wait_for_line("the API is available");
        line.split("http://").nth(1).unwrap().split(';').next().unwrap().to_owned()
    }

    /// Sends a signal, such as `TERM` or `KILL`.
    pub fn signal(&self, name: &str) {
        // The process may have ended already.
        let kill = format!("kill -s {name} {} 2>/dev/null || true", self.pid);
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    /// Returns the exit status if the process ends within some time.
    pub fn wait_for_exit(&mut self, time: Duration) -> Option<ExitStatus> {
        match self.ended.recv_timeout(time) {
            Ok(status) => Some(status),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => panic!("no process waits for the command"),
        }
    }

    /// Kills the process some time after its start. The process must not have finished before.
    #[allow(dead_code, reason = "not all users of this module need it")]
    #[track_caller]
    pub fn kill_after(mut self, time: Duration, story: &str) {
        if let Some(status) = self.wait_for_exit(time) {
            panic!("{story}: it ended unexpectedly: {:?}", self.finish_with(status));
        }
        self.signal("KILL");
        self.finish();
    }

    /// Waits until the process has finished.
    #[track_caller]
    pub fn finish(mut self) -> CommandOutput {
        let Some(status) = self.wait_for_exit(TIMEOUT) else {
            self.signal("KILL");
            panic!("still running after {TIMEOUT:?}:\n{}", self.remaining_lines());
        };
        self.finish_with(status)
    }

    /// Returns the output as [`Running::finish`] does, for a process that has already finished.
    pub fn finish_with(mut self, status: ExitStatus) -> CommandOutput {
        let err = self.remaining_lines();
        CommandOutput { status, out: self.out.join().unwrap(), err }
    }

    fn remaining_lines(&mut self) -> String {
        self.lines_read.extend(self.lines.iter());
        self.lines_read.iter().map(|line| format!("{line}\n")).collect()
    }
}

/// Returns a folder of the repository's examples.
pub fn example(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").canonicalize().unwrap();
    root.join(name).to_str().unwrap().to_owned()
}

/// Returns the files below a folder.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

/// Sorts the rows of a table, because objects in the same wave are recorded in the order of the responses.
pub fn sorted(table: &str) -> String {
    let mut blocks: Vec<String> = Vec::new();
    for block in table.split("\n\n") {
        let mut lines: Vec<&str> = block.lines().collect();
        if lines.first().is_some_and(|head| head.starts_with("PHASE")) {
            lines[1..].sort_unstable();
        }
        blocks.push(lines.join("\n"));
    }
    blocks.join("\n\n")
}

/// Replaces parts of the output that differ between runs or when health rules change: IDs, times, durations,
/// the folder, and digests of rules.
pub fn redact(text: &str, bench: &Bench) -> String {
    let mut text = text.replace(bench.path().to_str().unwrap(), "DIR");
    text = text.replace(&example(""), "EXAMPLES/");
    let lines: Vec<String> = text.lines().map(redact_line).collect();
    format!("{}\n", lines.join("\n").trim_end())
}

fn redact_line(line: &str) -> String {
    let mut text = Vec::new();
    let mut pieces = line.split(' ').peekable();
    while let Some(word) = pieces.next() {
        let core = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        let is_id = core.len() == 36 && core.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
        let is_hex = core.chars().all(|c| c.is_ascii_hexdigit());
        let is_of_rules = text.last().is_some_and(|before: &String| before.trim_end_matches(':') == "rules");
        let is_digest = is_hex && (core.len() == 64 || core.len() == 12 && is_of_rules);
        let is_time = core.len() >= 20 && core.contains('T') && core.ends_with('Z');
        let is_number = !core.is_empty() && core.chars().all(|c| c.is_ascii_digit() || c == '.');
        let unit = pieces.peek().map(|next| next.trim_end_matches([',', ';', ':', ')', ']']));
        if is_id {
            text.push(word.replace(core, "ID"));
        } else if is_digest {
            text.push(word.replace(core, "DIGEST"));
        } else if is_time {
            text.push(word.replace(core, "TIME"));
        } else if is_number && matches!(unit, Some("ms" | "s" | "min")) {
            // `1 s` and `900 ms` are equal for a test.
            text.push(word.replace(core, "N"));
            let unit = pieces.next().unwrap();
            text.push(unit.replace("ms", "s"));
        } else {
            text.push(word.to_owned());
        }
    }
    text.join(" ")
}
