//! Arguments for `health`, and the options for health rules.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::common::Format;

/// Health rules that override or supplement the built-in rules.
#[derive(Clone, Debug, Default, Args)]
pub struct CustomizationArgs {
    /// File or folder with health rules. The files in a folder must be named GROUP/KIND/health.lua (Lua, as in
    /// Argo CD) or GROUP/KIND/health.yaml (CEL, as in Flux), where _ matches any text. A single file must be a
    /// ConfigMap with keys of the form resource.customizations.health.GROUP_KIND or tidegate.health.GROUP_KIND,
    /// or a Flux Kustomization with healthCheckExprs
    #[arg(long, value_name = "PATH", env = "TIDEGATE_CUSTOMIZATIONS", hide_env_values = true)]
    pub customizations: Option<PathBuf>,
    /// Use the kstatus conventions for the health of custom resources that have no health rule [default: on]
    #[arg(long, value_enum, value_name = "SWITCH")]
    pub health_convention: Option<Switch>,
}

/// A setting that is on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    On,
    Off,
}

/// Evaluates the health of objects in files.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
The command reads only the specified files. They must contain objects with their status, as printed \
by `kubectl get -o yaml`. With -o json or yaml, it prints {\"status\", \"message\"} for one object, \
and a list with names for several objects. If there is no health rule for an object's kind, the \
status is null, and waves do not wait for the object.

Examples:
  tidegate health -f certificate.yaml --customizations ./resource_customizations
  kubectl get widgets -o yaml | tidegate health -f - --customizations argocd-cm.yaml -o json")]
pub struct HealthArgs {
    /// Files and folders with objects, or - for standard input (repeatable)
    #[arg(short = 'f', long = "file", value_name = "FILE", required = true, num_args = 1..)]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub scripts: CustomizationArgs,
    /// Output format
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub output: Format,
}
