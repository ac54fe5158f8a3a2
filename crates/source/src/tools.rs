//! Helm and Kustomize: finding, limiting and running these programs.
//!
//! ```text
//! Tools ── find_tool ─▶ Tool ── run_tool (in a WorkingFolder with everything that it may read) ─▶ output
//! ```
//!
//! The programs run without a shell, without inherited environment variables, and without network access.
//! Their time, memory and output are limited.

mod memory_limit;
mod run;
mod slots;
mod working_folder;

use std::env;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::SourceError;
use crate::remote::Attempts;
pub(crate) use run::{RunError, ToolCall, run_tool};
use slots::ToolSlots;
use working_folder::WorkingFolders;
pub(crate) use working_folder::{SOURCE_FOLDER, WorkingFolder, file_paths, visit_files};

/// Resource limits for one call of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolLimits {
    /// Maximum duration of a call. After that, the tool is killed.
    pub time: Duration,
    /// Maximum memory of the tool, in bytes.
    pub memory: u64,
    /// Maximum size of the tool's output, in bytes.
    pub output: u64,
    /// Maximum number of concurrent calls. Further calls wait.
    pub concurrency: usize,
}

/// Maximum time for killed tools to exit, which can be slow on a busy system.
const STOP_WITHIN: Duration = Duration::from_secs(5);
/// Maximum memory of a tool without a container limit, in bytes.
const MEMORY: u64 = 1 << 30;
/// Minimum memory that the tools need, in bytes.
const MEMORY_MIN: u64 = 128 << 20;

impl Default for ToolLimits {
    /// Returns Argo CD's time limit, and ten times what the largest charts in use need for everything else.
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        let (memory, at_once) = share_resources(memory_limit::container_memory_limit(), cores);
        Self { time: Duration::from_secs(90), memory, output: 64 << 20, concurrency: at_once }
    }
}

/// Returns the maximum memory per tool and the maximum number of concurrent calls. If the container's memory
/// is limited, all tools together get at most half of it, or else the kernel might kill this process as well.
/// One tool always gets at least `MEMORY_MIN`.
fn share_resources(container: Option<u64>, cores: usize) -> (u64, usize) {
    let Some(half) = container.map(|bytes| bytes / 2).filter(|bytes| *bytes > 0) else {
        return (MEMORY, cores);
    };
    let memory = half.clamp(MEMORY_MIN, MEMORY);
    let fitting = half.checked_div(memory).and_then(|count| usize::try_from(count).ok());
    (memory, fitting.unwrap_or(cores).clamp(1, cores.max(1)))
}

/// Paths, limits and working folders of Helm and Kustomize.
#[derive(Clone, Default)]
pub struct Tools {
    /// Path of `helm`. If `None`, `helm` is looked up on the `PATH`.
    pub helm: Option<PathBuf>,
    /// Path of `kustomize` or `kubectl`. If `None`, both are looked up on the `PATH`.
    pub kustomize: Option<PathBuf>,
    /// Parent of the working folders, not to be shared with another process.
    pub folder: PathBuf,
    /// Resource limits for one call of a tool.
    pub limits: ToolLimits,
    pub(crate) attempts: Arc<Attempts>,
    slots: Arc<ToolSlots>,
    workshops: Arc<WorkingFolders>,
}

/// A program found on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tool {
    pub program: PathBuf,
    /// Identity of the program, which changes if the program is replaced.
    pub identity: String,
}

impl Tools {
    /// Creates tools that are looked up on the `PATH` and work in `folder`.
    pub fn new(folder: PathBuf) -> Self {
        working_folder::delete_stale_folders(&folder);
        Self { folder, ..Self::default() }
    }

    /// Returns true if the operating system can restrict the tools' file access.
    pub fn are_confined() -> bool {
        tidegate_program::confines_files()
    }

    /// Kills running tools and waits until they have exited and their folders are gone. Later calls fail
    /// immediately.
    pub fn stop(&self) {
        self.attempts.stop();
        self.workshops.wait_until_closed(STOP_WITHIN);
    }

    pub(crate) fn helm(&self, path: &str) -> Result<Tool, SourceError> {
        find_tool(self.helm.as_deref(), &["helm"]).ok_or_else(|| SourceError::NoTool {
            path: path.to_owned(),
            what: "a Helm chart",
            program: "helm",
            given: self.helm.clone(),
            advice: "install Helm 3.8 or newer in a directory on the PATH of `tidegate serve`, or set the path to helm with --helm or TIDEGATE_HELM",
        })
    }

    pub(crate) fn kustomize(&self, path: &str) -> Result<Tool, SourceError> {
        find_tool(self.kustomize.as_deref(), &["kustomize", "kubectl"]).ok_or_else(|| SourceError::NoTool {
            path: path.to_owned(),
            what: "a kustomization",
            program: "kustomize or kubectl",
            given: self.kustomize.clone(),
            advice: "install kustomize or kubectl in a directory on the PATH of `tidegate serve`, or set the path with --kustomize or TIDEGATE_KUSTOMIZE",
        })
    }
}

/// Returns the configured program, or the first match on the `PATH`. Not cached, because the program may be
/// installed later.
fn find_tool(given: Option<&Path>, names: &[&str]) -> Option<Tool> {
    if let Some(given) = given {
        return tool_at(given);
    }
    let path = env::var_os("PATH")?;
    let folders: Vec<PathBuf> = env::split_paths(&path).filter(|folder| folder.is_absolute()).collect();
    names.iter().find_map(|name| folders.iter().find_map(|folder| tool_at(&folder.join(name))))
}

fn tool_at(program: &Path) -> Option<Tool> {
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
    fn tools_fit_into_the_memory_limit() {
        const GIB: u64 = 1 << 30;
        for (container, cores, expected) in [
            (None, 2, (GIB, 2)),
            (Some(GIB), 4, (GIB / 2, 1)),
            (Some(2 * GIB), 4, (GIB, 1)),
            (Some(6 * GIB), 4, (GIB, 3)),
            (Some(64 * GIB), 4, (GIB, 4)),
            (Some(1 << 20), 4, (MEMORY_MIN, 1)),
        ] {
            assert_eq!(share_resources(container, cores), expected, "{container:?}");
        }
    }
}
