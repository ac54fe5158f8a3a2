//! `appset`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::common::Format;
use super::values;

/// Shows what ApplicationSets make.
#[derive(Clone, Debug, Args)]
pub struct AppsetArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: AppsetCommand,
}

/// What can be done with ApplicationSets.
#[derive(Clone, Debug, Subcommand)]
pub enum AppsetCommand {
    /// Print the Applications that ApplicationSets in files make; touches nothing
    Generate(GenerateArgs),
}

/// Generates Applications.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
No cluster is asked. The Git generator reads repositories: https://host/path, git@host:path,
file:///path, an absolute path, or one relative to the folder of FILE: ./repo. The cluster generator
needs --clusters. The generators scmProvider, pullRequest, plugin and clusterDecisionResource are an
error that names them.

Examples:
  tidegate appset generate -f fleet.yaml
  tidegate appset generate -f fleet.yaml --clusters secrets/ -o json | jq -r '.items[].metadata.name'")]
pub struct GenerateArgs {
    /// File with ApplicationSets; - reads standard input; repeat it for more
    #[arg(short = 'f', long = "file", value_name = "FILE", required = true, num_args = 1..)]
    pub files: Vec<PathBuf>,
    /// How the result is printed: a list of Applications
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = Format::Yaml)]
    pub output: Format,
    /// Cluster Secrets as Argo CD has them: a file, or a folder of files
    #[arg(long, value_name = "PATH", value_parser = values::path())]
    pub clusters: Option<PathBuf>,
    /// Repository Secrets (and certificates and known hosts) as Argo CD has them: a file, or a folder of files
    #[arg(long, value_name = "PATH", value_parser = values::path())]
    pub repositories: Option<PathBuf>,
    /// In patterns of Git files, * stays between two slashes and ** does not
    #[arg(
        long,
        env = "ARGOCD_APPLICATIONSET_CONTROLLER_ENABLE_NEW_GIT_FILE_GLOBBING",
        hide_env_values = true
    )]
    pub new_git_file_globbing: bool,
}
