//! Programs with their arguments, run time and memory.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::cluster::Environment;
use crate::input::Manifests;

/// Polling interval for memory. The kernel records the peak, so only the last moments before the exit are
/// missed.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Program with its arguments, ready to run.
pub struct Program {
    command: Command,
    /// File for standard error.
    errors: PathBuf,
}

impl Program {
    fn new(name: &Path, verb: &str, environment: &Environment, namespace: &str) -> Self {
        let mut command = Command::new(name);
        command
            .env("KUBECONFIG", environment.kubeconfig())
            .args([verb, "-n", namespace])
            .stdin(Stdio::null());
        Self { command, errors: environment.folder().join("errors.txt") }
    }

    /// Returns `kubectl apply` with the given options and otherwise default settings.
    pub fn kubectl(
        environment: &Environment,
        namespace: &str,
        manifests: &Manifests,
        options: &[&str],
    ) -> Self {
        let mut program = Self::new(Path::new("kubectl"), "apply", environment, namespace);
        program.command.args(options).arg("-f").arg(&manifests.folder);
        program
    }

    fn start(mut self) -> (std::process::Child, PathBuf) {
        let errors = std::fs::File::create(&self.errors).unwrap();
        let child = self.command.stdout(Stdio::null()).stderr(errors).spawn();
        (child.unwrap_or_else(|error| panic!("{:?}: {error}", self.command)), self.errors)
    }

    /// Returns the time from start to exit.
    pub fn run(self) -> Duration {
        let started = Instant::now();
        let (mut child, errors) = self.start();
        let status = child.wait().unwrap();
        let took = started.elapsed();
        assert!(status.success(), "{status}: {}", std::fs::read_to_string(errors).unwrap());
        took
    }

    /// Returns the program's peak resident memory in MiB.
    pub fn peak_mib(self) -> f64 {
        let (mut child, errors) = self.start();
        let status = format!("/proc/{}/status", child.id());
        let mut peak = 0;
        loop {
            peak = high_water_kib(&status).unwrap_or(0).max(peak);
            if let Some(status) = child.try_wait().unwrap() {
                assert!(status.success(), "{status}: {}", std::fs::read_to_string(errors).unwrap());
                return f64::from(peak) / 1024.0;
            }
            thread::sleep(POLL_INTERVAL);
        }
    }
}

fn high_water_kib(status: &str) -> Option<u32> {
    let text = std::fs::read_to_string(status).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches("kB").trim().parse().ok()
}

/// The program under test, with its own state directory.
pub struct Tidegate<'a> {
    environment: &'a Environment,
    namespace: String,
    program: PathBuf,
    state: PathBuf,
}

impl<'a> Tidegate<'a> {
    pub fn new(environment: &'a Environment, namespace: &str) -> Self {
        let state = environment.folder().join(format!("state-{namespace}"));
        Self { environment, namespace: namespace.to_owned(), program: program_path(), state }
    }

    /// Returns the command for a sync.
    pub fn sync(&self, manifests: &Manifests, options: &[&str]) -> Program {
        let mut program = Program::new(&self.program, "sync", self.environment, &self.namespace);
        let command = &mut program.command;
        command.arg(&manifests.folder).args(["--app", &self.namespace]).args(options);
        command.arg("--state-dir").arg(&self.state);
        program
    }
}

/// Returns the release build, which is next to this benchmark.
fn program_path() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let program = here.parent().unwrap().parent().unwrap().join("tidegate");
    assert!(program.exists(), "{} is missing: run cargo build --release", program.display());
    program
}
