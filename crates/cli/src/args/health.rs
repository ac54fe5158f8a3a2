//! `health`, and the scripts it and others judge by.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::common::Format;

/// Rules that judge health in front of the built-in ones and after them.
#[derive(Clone, Debug, Default, Args)]
pub struct CustomizationArgs {
    /// Health rules: a folder with GROUP/KIND/health.lua (Lua, as for Argo CD) or health.yaml (CEL, as for Flux), where
    /// _ is any text; or a file with a ConfigMap whose keys are resource.customizations.health.GROUP_KIND or
    /// tidegate.health.GROUP_KIND
    #[arg(long, value_name = "PATH", env = "TIDEGATE_CUSTOMIZATIONS", hide_env_values = true)]
    pub customizations: Option<PathBuf>,
    /// Whether custom resources without a rule are judged by the general convention for their status [default: on]
    #[arg(long, value_enum, value_name = "SWITCH")]
    pub health_convention: Option<Switch>,
}

/// Something that is there or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    // Yes.
    On,
    // No.
    Off,
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
