//! A folder, a state directory, and the command in it.

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

/// No command of the tests takes this long unless it hangs, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(600);

/// A folder with a state directory in it.
pub struct Bench {
    dir: TempDir,
    variables: Vec<(&'static str, PathBuf)>,
}

impl Bench {
    pub fn new() -> Self {
        Self { dir: TempDir::with_prefix("tidegate-e2e-").unwrap(), variables: Vec::new() }
    }

    /// Sets an environment variable for all commands from now on.
    #[allow(dead_code, reason = "for the tests on a control plane")]
    pub fn set(&mut self, name: &'static str, value: impl Into<PathBuf>) {
        self.variables.push((name, value.into()));
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn state(&self) -> PathBuf {
        self.path().join("state")
    }

    /// Writes a file, and the folders it is in.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// As [`Self::write`], closed to others.
    #[allow(dead_code, reason = "not for the tests on a control plane")]
    pub fn write_closed(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.write(name, content);
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        path
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        for name in
            ["NO_COLOR", "TERM", "COLUMNS", "ARGOCD_SYNC_WAVE_DELAY", "TIDEGATE_LOG", "XDG_STATE_HOME"]
        {
            command.env_remove(name);
        }
        // The clusters of whoever runs the tests are none of our business.
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

    /// Runs the command to its end.
    pub fn run(&self, args: &[&str]) -> Ran {
        Running::start(self.command(args)).finish()
    }

    /// Runs the command with something on its standard input.
    pub fn run_with_input(&self, args: &[&str], input: &str) -> Ran {
        let mut command = self.command(args);
        command.stdin(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        Ran {
            status: output.status,
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Begins the command.
    pub fn start(&self, args: &[&str]) -> Running {
        Running::start(self.command(args))
    }

    /// Runs the command, which must succeed, and reads the JSON it prints.
    pub fn json(&self, args: &[&str]) -> Value {
        let ran = self.run(args);
        assert_eq!(ran.code(), 0, "{args:?}: {ran:?}");
        serde_json::from_str(&ran.out).unwrap()
    }

    /// What the simulated cluster was asked to write for good.
    pub fn writes(&self) -> Vec<Value> {
        let audit = self.json(&["sim", "audit", "-o", "json"]);
        audit.as_array().unwrap().iter().filter(|entry| entry["dryRun"] == false).cloned().collect()
    }

    /// How often an object was created.
    pub fn creations(&self, kind: &str, name: &str) -> usize {
        self.writes()
            .iter()
            .filter(|entry| entry["kind"] == kind && entry["name"] == name && entry["code"] == 201)
            .count()
    }

    /// The id of the newest operation.
    pub fn newest(&self) -> String {
        let list = self.json(&["ops", "list", "-o", "json"]);
        list.as_array().unwrap().last().unwrap()["id"].as_str().unwrap().to_owned()
    }

    /// The id of the newest operation of an application.
    #[allow(dead_code, reason = "not for the tests on a control plane")]
    pub fn newest_of(&self, app: &str) -> String {
        let list = self.json(&["ops", "list", "--app", app, "-o", "json"]);
        list.as_array().unwrap().last().unwrap()["id"].as_str().unwrap().to_owned()
    }
}

/// How a command ended, and what it said.
#[derive(Debug)]
pub struct Ran {
    pub status: ExitStatus,
    pub out: String,
    pub err: String,
}

impl Ran {
    /// The exit code; a signal is none.
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

/// A command at work.
pub struct Running {
    pub pid: u32,
    lines: Receiver<String>,
    seen: Vec<String>,
    out: thread::JoinHandle<String>,
    ended: Receiver<ExitStatus>,
}

impl Running {
    pub fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let stderr = child.stderr.take().unwrap();
        Self::attend(child, stderr)
    }

    /// The same for a command whose standard error goes elsewhere.
    pub fn start_unheard(mut command: Command) -> Self {
        let child = command.spawn().unwrap();
        // The command is the only one that writes there.
        drop(command);
        Self::attend(child, std::io::empty())
    }

    fn attend(mut child: Child, stderr: impl Read + Send + 'static) -> Self {
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
        Self { pid, lines, seen: Vec::new(), out, ended }
    }

    /// Waits for a line on standard error.
    #[track_caller]
    pub fn await_line(&mut self, part: &str) -> String {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => {
                    self.seen.push(line.clone());
                    if line.contains(part) {
                        return line;
                    }
                }
                Err(_) => panic!("no line with {part:?} in:\n{}", self.seen.join("\n")),
            }
        }
    }

    /// Waits until its API is there: host and port.
    #[track_caller]
    #[allow(dead_code, reason = "not for the tests on a control plane")]
    pub fn await_api(&mut self) -> String {
        let line = self.await_line("the API is at");
        line.split("http://").nth(1).unwrap().split(' ').next().unwrap().to_owned()
    }

    /// Sends a signal, such as `TERM` or `KILL`.
    pub fn signal(&self, name: &str) {
        // A process that is over already is none of our business.
        let kill = format!("kill -s {name} {} 2>/dev/null || true", self.pid);
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    /// Whether it is over within some time.
    pub fn is_over_within(&mut self, time: Duration) -> Option<ExitStatus> {
        match self.ended.recv_timeout(time) {
            Ok(status) => Some(status),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => panic!("nobody waits for the command"),
        }
    }

    /// Kills it some time after its beginning; it must not have ended by itself.
    #[allow(dead_code, reason = "not for all who share this")]
    #[track_caller]
    pub fn kill_after(mut self, time: Duration, story: &str) {
        if let Some(status) = self.is_over_within(time) {
            panic!("{story}: it has ended by itself: {:?}", self.finish_with(status));
        }
        self.signal("KILL");
        self.finish();
    }

    /// Waits for the end.
    #[track_caller]
    pub fn finish(mut self) -> Ran {
        let Some(status) = self.is_over_within(PATIENCE) else {
            self.signal("KILL");
            panic!("still at work after {PATIENCE:?}:\n{}", self.rest());
        };
        self.finish_with(status)
    }

    /// As [`Running::finish`], when it is known to be over.
    pub fn finish_with(mut self, status: ExitStatus) -> Ran {
        let err = self.rest();
        Ran { status, out: self.out.join().unwrap(), err }
    }

    fn rest(&mut self) -> String {
        self.seen.extend(self.lines.iter());
        self.seen.iter().map(|line| format!("{line}\n")).collect()
    }
}

/// A folder of the repository's examples.
pub fn example(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").canonicalize().unwrap();
    root.join(name).to_str().unwrap().to_owned()
}

/// The rows of a table in order of their text: objects of one wave are recorded in the order of the answers.
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

/// Output without what differs from run to run, and with every change of a health rule: ids, times, durations, the folder,
/// digests of rules.
pub fn redact(text: &str, bench: &Bench) -> String {
    let mut text = text.replace(bench.path().to_str().unwrap(), "DIR");
    text = text.replace(&example(""), "EXAMPLES/");
    let lines: Vec<String> = text.lines().map(redact_line).collect();
    format!("{}\n", lines.join("\n").trim_end())
}

fn redact_line(line: &str) -> String {
    let mut words = Vec::new();
    let mut pieces = line.split(' ').peekable();
    while let Some(word) = pieces.next() {
        let core = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        let is_id = core.len() == 36 && core.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
        let is_hex = core.chars().all(|c| c.is_ascii_hexdigit());
        let is_of_rules = words.last().is_some_and(|before: &String| before.trim_end_matches(':') == "rules");
        let is_digest = is_hex && (core.len() == 64 || core.len() == 12 && is_of_rules);
        let is_time = core.len() >= 20 && core.contains('T') && core.ends_with('Z');
        let is_number = !core.is_empty() && core.chars().all(|c| c.is_ascii_digit() || c == '.');
        let unit = pieces.peek().map(|next| next.trim_end_matches([',', ';', ':', ')', ']']));
        if is_id {
            words.push(word.replace(core, "ID"));
        } else if is_digest {
            words.push(word.replace(core, "DIGEST"));
        } else if is_time {
            words.push(word.replace(core, "TIME"));
        } else if is_number && matches!(unit, Some("ms" | "s" | "min")) {
            // `1 s` and `900 ms` are the same to a test.
            words.push(word.replace(core, "N"));
            let unit = pieces.next().unwrap();
            words.push(unit.replace("ms", "s"));
        } else {
            words.push(word.to_owned());
        }
    }
    words.join(" ")
}
