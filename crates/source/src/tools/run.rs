//! Running a program that makes manifests, in its private folder.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::thread::available_parallelism;

use tidegate_program::{Limits, Over, Ran, Room, RunError as Ended};

use super::{Tool, ToolLimits, Tools, Workshop};
use crate::remote;

/// Nobody listens there: what is not to be asked over the network ends at once, also where the system does not see to that.
const NOWHERE: &str = "http://127.0.0.1:9";

/// How a program is called.
pub(crate) struct Call<'c> {
    pub tool: &'c Tool,
    pub arguments: Vec<OsString>,
    pub workshop: &'c Workshop,
    /// For whom.
    pub whose: &'c str,
}

/// Why a program has made nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RunError {
    /// It says so itself.
    #[error("{0}")]
    Failed(String),
    /// It did not begin, or had to be ended.
    #[error(transparent)]
    Ended(#[from] tidegate_program::RunError),
}

/// Runs a program to its end; what it prints.
pub(crate) fn run(tools: &Tools, call: Call<'_>) -> Result<Vec<u8>, RunError> {
    let place = tools.places.take(call.whose, tools.limits.at_once);
    let attempt = tools.attempts.begin(tools.limits.time);
    let over = || {
        attempt.over().map(|over| match over {
            remote::Over::Late(limit) => Over::Late(limit),
            remote::Over::Stopped => Over::Stopped,
        })
    };
    let limits = Limits { memory: tools.limits.memory, output: tools.limits.output };
    let cores = available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX));
    let room = Room {
        reads: vec![call.tool.program.clone()],
        writes: vec![call.workshop.path().to_owned()],
        processor: tools.limits.time.saturating_mul(cores),
    };
    let ran = tidegate_program::run_confined(&mut command(&call, &tools.limits), &room, &limits, over);
    place.leave(matches!(ran, Err(Ended::Late(_) | Ended::Memory(_) | Ended::Output(_))));
    let Ran { status, output, words } = ran?;
    if status.success() {
        return Ok(output);
    }
    let words = call.workshop.hide(&String::from_utf8_lossy(&words));
    Err(RunError::Failed(if words.trim().is_empty() { status.to_string() } else { words }))
}

fn command(call: &Call<'_>, limits: &ToolLimits) -> Command {
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
    command
}
