//! What almost every command takes.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use tidegate_service::state_dir::shell_word;

use super::values;

/// Where the operation log and the simulated cluster are kept.
#[derive(Clone, Debug, Default, Args)]
pub struct StateArgs {
    /// Folder of the operation log and the simulated cluster [default: $XDG_STATE_HOME/tidegate, or
    /// ~/.local/state/tidegate]
    #[arg(long, value_name = "DIR", env = "TIDEGATE_STATE_DIR", hide_env_values = true, value_parser = values::path())]
    pub state_dir: Option<PathBuf>,
}

/// Why something is wanted.
#[derive(Clone, Debug, Default, Args)]
#[group(skip)]
pub struct ReasonArgs {
    /// Why, for the record
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true, value_parser = values::reason)]
    pub reason: String,
}

/// Which service is asked: the one at work in a state directory, or one elsewhere.
#[derive(Clone, Debug, Default, Args)]
pub struct ServiceArgs {
    #[command(flatten)]
    pub state: StateArgs,
    /// Ask the `tidegate serve` at this URL instead, by its API: https://HOST:PORT
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// File with the token that it is asked with
    #[arg(long, value_name = "FILE", requires = "server", value_parser = values::path())]
    pub token_file: Option<PathBuf>,
    /// Certificates it is trusted by, in PEM [default: those this system trusts]
    #[arg(long, value_name = "FILE", requires = "server", value_parser = values::path())]
    pub ca: Option<PathBuf>,
}

impl ServiceArgs {
    /// What a suggested command needs to ask the same service elsewhere; nothing where none is asked.
    pub fn hint(&self) -> Option<String> {
        let server = self.server.as_deref()?;
        let files = [("--token-file", &self.token_file), ("--ca", &self.ca)];
        let files = files.into_iter().filter_map(|(flag, file)| {
            Some(format!(" {flag} {}", shell_word(&file.as_deref()?.to_string_lossy())))
        });
        Some(format!(" --server {}{}", shell_word(server), files.collect::<String>()))
    }
}

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    // For people.
    #[default]
    Text,
    // For programs.
    Json,
    // For programs.
    Yaml,
}

impl StateArgs {
    /// The folder, where one is named.
    pub fn named(&self) -> Option<&Path> {
        self.state_dir.as_deref()
    }
}

/// What each code means; help and `docs/cli.md` say the same.
pub const CODES: &str = "\
Exit codes:
  0  succeeded
  1  failed, or an error, such as a cluster that cannot be reached
  2  bad input or usage
  3  not finished: timed out, interrupted or paused; can be resumed
  4  refused: another operation is running, the state directory is in use, or the operation's state does not allow it";
