//! Options shared by most commands.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use tidegate_state::shell_words::quote_shell_word;

use super::values;

/// Location of the operation log and the simulated cluster.
#[derive(Clone, Debug, Default, Args)]
pub struct StateArgs {
    /// Directory for the operation log and the simulated cluster [default: $XDG_STATE_HOME/tidegate, or
    /// ~/.local/state/tidegate]
    #[arg(long, value_name = "DIR", env = "TIDEGATE_STATE_DIR", hide_env_values = true, value_parser = values::path_parser())]
    pub state_dir: Option<PathBuf>,
}

/// Reason for a request.
#[derive(Clone, Debug, Default, Args)]
#[group(skip)]
pub struct ReasonArgs {
    /// Reason for the request, recorded in the log
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true, value_parser = values::parse_reason)]
    pub reason: String,
}

/// Service that a command connects to: the one running in the state directory, or a remote one.
#[derive(Clone, Debug, Default, Args)]
pub struct ServiceArgs {
    #[command(flatten)]
    pub state: StateArgs,
    /// Use the API of a remote `tidegate serve` at this URL: https://HOST:PORT
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// File with the API token for --server
    #[arg(long, value_name = "FILE", requires = "server", value_parser = values::path_parser())]
    pub token_file: Option<PathBuf>,
    /// Trusted CA certificates for --server, in PEM format [default: the system's CA certificates]
    #[arg(long, value_name = "FILE", requires = "server", value_parser = values::path_parser())]
    pub ca: Option<PathBuf>,
}

impl ServiceArgs {
    /// Returns the options that select the same remote service in a suggested command, or `None` without a
    /// remote service.
    pub fn command_options(&self) -> Option<String> {
        let server = self.server.as_deref()?;
        let files = [("--token-file", &self.token_file), ("--ca", &self.ca)];
        let files = files.into_iter().filter_map(|(flag, file)| {
            Some(format!(" {flag} {}", quote_shell_word(&file.as_deref()?.to_string_lossy())))
        });
        Some(format!(" --server {}{}", quote_shell_word(server), files.collect::<String>()))
    }
}

/// Output format for results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    #[default]
    Text,
    Json,
    Yaml,
}

impl StateArgs {
    /// Returns the folder, if set.
    pub fn state_dir(&self) -> Option<&Path> {
        self.state_dir.as_deref()
    }
}

/// Exit codes; `docs/reference/exit-codes.md` has the same list.
pub const EXIT_CODES: &str = "\
Exit codes:
  0  succeeded
  1  failed, or an error occurred, such as an unreachable cluster
  2  invalid input or usage
  3  not finished: timed out, interrupted or paused; can be resumed
  4  refused: another operation is running, the state directory is in use, another service is the leader, or the operation's state does not allow the request";
