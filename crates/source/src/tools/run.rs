//! Calls of Helm and Kustomize in a private folder.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::thread::available_parallelism;

use tidegate_program::{Limits, ProgramOutput, Sandbox, StopReason};

use super::{Tool, ToolLimits, Tools, WorkingFolder};
use crate::remote;

/// A nonexistent proxy. It makes requests fail immediately even where the kernel can't block network access.
const UNREACHABLE_PROXY: &str = "http://127.0.0.1:9";

/// A call of a tool.
pub(crate) struct ToolCall<'c> {
    pub tool: &'c Tool,
    pub arguments: Vec<OsString>,
    pub workshop: &'c WorkingFolder,
    /// Name of the Application that the tool renders.
    pub application: &'c str,
}

/// Reason for a failed call of a tool.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RunError {
    /// The tool exited with an error. Holds its standard error.
    #[error("{0}")]
    Failed(String),
    /// The tool couldn't be started, or was stopped.
    #[error(transparent)]
    Stopped(#[from] tidegate_program::RunError),
}

/// Runs a tool to completion and returns its standard output.
pub(crate) fn run_tool(tools: &Tools, call: ToolCall<'_>) -> Result<Vec<u8>, RunError> {
    let place = tools.slots.acquire(call.application, tools.limits.concurrency);
    let attempt = tools.attempts.start(tools.limits.time);
    let stop = || {
        attempt.end_reason().map(|over| match over {
            remote::AttemptEnd::TimedOut(limit) => StopReason::Timeout(limit),
            remote::AttemptEnd::Stopped => StopReason::Canceled,
        })
    };
    let limits = Limits { memory: tools.limits.memory, output: tools.limits.output };
    let cores = available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX));
    let sandbox = Sandbox {
        readable: vec![call.tool.program.clone()],
        writable: vec![call.workshop.path().to_owned()],
        cpu_time: tools.limits.time.saturating_mul(cores),
    };
    use tidegate_program::RunError::{Memory, Output, Timeout};
    let result =
        tidegate_program::run_confined(&mut tool_command(&call, &tools.limits), &sandbox, &limits, stop);
    place.release(matches!(result, Err(Timeout(_) | Memory(_) | Output(_))));
    let ProgramOutput { status, stdout, stderr } = result?;
    if status.success() {
        return Ok(stdout);
    }
    let stderr = call.workshop.remove_folder_path(&String::from_utf8_lossy(&stderr));
    Err(RunError::Failed(if stderr.trim().is_empty() { status.to_string() } else { stderr }))
}

fn tool_command(call: &ToolCall<'_>, limits: &ToolLimits) -> Command {
    let (home, mut command) = (call.workshop.home(), Command::new(&call.tool.program));
    command.args(&call.arguments).current_dir(call.workshop.source());
    command.env_clear();
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
        // Keeps the tool from finding other programs.
        ("PATH", "none"),
    ] {
        set(&mut command, name, &home.join(folder));
    }
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"] {
        command.env(name, UNREACHABLE_PROXY);
    }
    // Near this soft limit, Go collects garbage more often, which makes hitting the hard limit less likely.
    let soft = limits.memory.saturating_div(4).saturating_mul(3);
    command.env("GOMEMLIMIT", soft.to_string()).env("LC_ALL", "C").env("TZ", "UTC");
    command
}
