//! `health`, and the scripts it and others judge by.

use std::path::PathBuf;

use clap::Args;

use super::Format;

/// Scripts that judge health in front of the built-in rules.
#[derive(Clone, Debug, Default, Args)]
pub struct CustomizationArgs {
    /// Health scripts in Lua as Argo CD has them: a folder with GROUP/KIND/health.lua (_ is any text), or a file
    /// with a ConfigMap whose keys are resource.customizations.health.GROUP_KIND
    #[arg(long, value_name = "PATH", env = "TIDEGATE_CUSTOMIZATIONS", hide_env_values = true)]
    pub customizations: Option<PathBuf>,
}

/// Judges objects in files.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Looks at nothing but the files: objects with their status, as `kubectl get -o yaml` prints them.
With -o json or yaml, one object gives {\"status\", \"message\"}; several give a list, with names.
The status of a kind without a health rule is null: nothing waits for it.

Examples:
  tidegate health -f certificate.yaml --customizations ./resource_customizations
  kubectl get widgets -o yaml | tidegate health -f - --customizations argocd-cm.yaml -o json")]
pub struct HealthArgs {
    /// Files and folders with objects; - reads standard input; repeat it for more
    #[arg(short = 'f', long = "file", value_name = "FILE", required = true, num_args = 1..)]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub scripts: CustomizationArgs,
    /// How the result is printed
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub output: Format,
}
