//! The programs: how they are called, how long they take, and how much memory.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::cluster::Site;
use crate::input::Manifests;

/// How often memory is looked at. What is allocated and freed in between is seen all the same, because the kernel
/// keeps the peak; only the last moments before the exit are not.
const LOOK: Duration = Duration::from_millis(2);

/// A program with its arguments, ready to be run.
pub struct Program {
    command: Command,
    /// Where it says what went wrong.
    errors: PathBuf,
}

impl Program {
    fn new(name: &Path, verb: &str, site: &Site, namespace: &str) -> Self {
        let mut command = Command::new(name);
        command.env("KUBECONFIG", site.kubeconfig()).args([verb, "-n", namespace]).stdin(Stdio::null());
        Self { command, errors: site.folder().join("errors.txt") }
    }

    /// kubectl as it comes.
    pub fn kubectl(site: &Site, namespace: &str, manifests: &Manifests, options: &[&str]) -> Self {
        let mut program = Self::new(Path::new("kubectl"), "apply", site, namespace);
        program.command.args(options).arg("-f").arg(&manifests.folder);
        program
    }

    fn start(mut self) -> (std::process::Child, PathBuf) {
        let errors = std::fs::File::create(&self.errors).unwrap();
        let child = self.command.stdout(Stdio::null()).stderr(errors).spawn();
        (child.unwrap_or_else(|error| panic!("{:?}: {error}", self.command)), self.errors)
    }

    /// Time from start to exit.
    pub fn run(self) -> Duration {
        let begun = Instant::now();
        let (mut child, errors) = self.start();
        let status = child.wait().unwrap();
        let took = begun.elapsed();
        assert!(status.success(), "{status}: {}", std::fs::read_to_string(errors).unwrap());
        took
    }

    /// The peak of its resident memory.
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
            thread::sleep(LOOK);
        }
    }
}

fn high_water_kib(status: &str) -> Option<u32> {
    let text = std::fs::read_to_string(status).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches("kB").trim().parse().ok()
}

/// The program under test, with a state directory of its own.
pub struct Tidegate<'a> {
    site: &'a Site,
    namespace: String,
    program: PathBuf,
    state: PathBuf,
}

impl<'a> Tidegate<'a> {
    pub fn new(site: &'a Site, namespace: &str) -> Self {
        let state = site.folder().join(format!("state-{namespace}"));
        Self { site, namespace: namespace.to_owned(), program: program(), state }
    }

    /// A sync.
    pub fn sync(&self, manifests: &Manifests, options: &[&str]) -> Program {
        let mut program = Program::new(&self.program, "sync", self.site, &self.namespace);
        let command = &mut program.command;
        command.arg(&manifests.folder).args(["--app", &self.namespace]).args(options);
        command.arg("--state-dir").arg(&self.state);
        program
    }
}

/// The release build, which lies beside this benchmark.
fn program() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let program = here.parent().unwrap().parent().unwrap().join("tidegate");
    assert!(program.exists(), "{} is missing: cargo build --release makes it", program.display());
    program
}
