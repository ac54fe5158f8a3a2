//! The programs that make manifests: where they are, what they may take, and how they are run.
//!
//! ```text
//! Tools ── find ─▶ Tool ── run (in a Workshop: a private folder with all it may see) ─▶ what it prints
//! ```
//!
//! They are started without a shell, with nothing of our environment, without a network, and with
//! limits of time, memory and output.

mod container;
mod places;
mod run;
mod workshop;

use std::env;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::SourceError;
use crate::remote::Attempts;
use places::Places;
pub(crate) use run::{Call, RunError, run};
use workshop::Workshops;
pub(crate) use workshop::{SOURCE, Workshop, each_file, file_paths};

/// What a program may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolLimits {
    /// Longest time from its start to its end; it is killed then.
    pub time: Duration,
    /// Bytes of memory that it may have.
    pub memory: u64,
    /// Bytes that it prints.
    pub output: u64,
    /// Programs at work at the same time; others wait.
    pub at_once: usize,
}

/// What is ended is gone at once; a busy system takes a moment.
const STOP_WITHIN: Duration = Duration::from_secs(5);
/// Memory of a program where nothing limits it further.
const MEMORY: u64 = 1 << 30;
/// With less neither does anything.
const MEMORY_MIN: u64 = 128 << 20;

impl Default for ToolLimits {
    /// As long as Argo CD waits; the largest charts in use take a tenth of the rest.
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        let (memory, at_once) = share(container::memory(), cores);
        Self { time: Duration::from_secs(90), memory, output: 64 << 20, at_once }
    }
}

/// The memory of one program, and how many are at work at once. In a container with a limit they take half of it together: beyond it
/// the system would end this process as well.
fn share(container: Option<u64>, cores: usize) -> (u64, usize) {
    let Some(half) = container.map(|bytes| bytes / 2).filter(|bytes| *bytes > 0) else {
        return (MEMORY, cores);
    };
    let memory = half.clamp(MEMORY_MIN, MEMORY);
    let fitting = half.checked_div(memory).and_then(|count| usize::try_from(count).ok());
    (memory, fitting.unwrap_or(cores).clamp(1, cores.max(1)))
}

/// The programs that make manifests.
#[derive(Clone, Default)]
pub struct Tools {
    /// `helm`, where it is not to be looked for on the `PATH`.
    pub helm: Option<PathBuf>,
    /// `kustomize`, or `kubectl`, where neither is to be looked for on the `PATH`.
    pub kustomize: Option<PathBuf>,
    /// The folder in which they work. It belongs to this process alone.
    pub folder: PathBuf,
    /// What they may take.
    pub limits: ToolLimits,
    pub(crate) attempts: Arc<Attempts>,
    places: Arc<Places>,
    workshops: Arc<Workshops>,
}

/// A program that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tool {
    pub program: PathBuf,
    /// Another one at the same place has another one.
    pub identity: String,
}

impl Tools {
    /// Those on the `PATH`, working in a folder.
    pub fn new(folder: PathBuf) -> Self {
        workshop::sweep(&folder);
        Self { folder, ..Self::default() }
    }

    /// Whether the system sees to it that they read nothing but what they are given.
    pub fn are_confined() -> bool {
        tidegate_program::confines_files()
    }

    /// Ends the programs at work, and returns when they and their folders are gone; later ones end at once.
    pub fn stop(&self) {
        self.attempts.stop();
        self.workshops.closed(STOP_WITHIN);
    }

    pub(crate) fn helm(&self, path: &str) -> Result<Tool, SourceError> {
        find(self.helm.as_deref(), &["helm"]).ok_or_else(|| SourceError::NoTool {
            path: path.to_owned(),
            what: "a Helm chart",
            program: "helm",
            given: self.helm.clone(),
            advice: "install Helm 3.8 or newer on the PATH of `tidegate serve`, or name its program with --helm or TIDEGATE_HELM",
        })
    }

    pub(crate) fn kustomize(&self, path: &str) -> Result<Tool, SourceError> {
        find(self.kustomize.as_deref(), &["kustomize", "kubectl"]).ok_or_else(|| SourceError::NoTool {
            path: path.to_owned(),
            what: "a folder for Kustomize",
            program: "kustomize or kubectl",
            given: self.kustomize.clone(),
            advice: "install one of them on the PATH of `tidegate serve`, or name its program with --kustomize or TIDEGATE_KUSTOMIZE",
        })
    }
}

/// The program that is named, or the first one on the `PATH`. It is looked for anew each time: it may come and go.
fn find(given: Option<&Path>, names: &[&str]) -> Option<Tool> {
    if let Some(given) = given {
        return tool(given);
    }
    let path = env::var_os("PATH")?;
    let folders: Vec<PathBuf> = env::split_paths(&path).filter(|folder| folder.is_absolute()).collect();
    names.iter().find_map(|name| folders.iter().find_map(|folder| tool(&folder.join(name))))
}

fn tool(program: &Path) -> Option<Tool> {
    let found = fs::metadata(program).ok()?;
    let is_program = found.is_file() && found.permissions().mode() & 0o111 != 0;
    let program = fs::canonicalize(program).ok().filter(|_| is_program)?;
    let identity = format!("{} {} {} {}", program.display(), found.len(), found.mtime(), found.mtime_nsec());
    Some(Tool { program, identity })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_fit_into_the_container() {
        const GIB: u64 = 1 << 30;
        for (container, cores, expected) in [
            (None, 2, (GIB, 2)),
            (Some(GIB), 4, (GIB / 2, 1)),
            (Some(2 * GIB), 4, (GIB, 1)),
            (Some(6 * GIB), 4, (GIB, 3)),
            (Some(64 * GIB), 4, (GIB, 4)),
            (Some(1 << 20), 4, (MEMORY_MIN, 1)),
        ] {
            assert_eq!(share(container, cores), expected, "{container:?}");
        }
    }
}
