//! Whom the generators of served ApplicationSets may ask over HTTP.

use clap::{ArgAction, Args};
use tidegate_service::generating::{Policy, Providers};

use super::sets::switch;

/// Whom generators may ask over HTTP. The variables are those of Argo CD's controller.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "ApplicationSets")]
pub struct ProviderArgs {
    /// Whether scmProvider and pullRequest generators are asked [default: true]
    #[arg(
        long = "enable-scm-providers",
        value_name = "true|false",
        env = "ARGOCD_APPLICATIONSET_CONTROLLER_ENABLE_SCM_PROVIDERS",
        hide_env_values = true,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_parser = switch,
    )]
    pub are_asked: Option<bool>,
    /// Addresses that the api of these generators may be; without one, all
    #[arg(
        long = "allowed-scm-providers",
        value_name = "URL",
        value_delimiter = ',',
        env = "ARGOCD_APPLICATIONSET_CONTROLLER_ALLOWED_SCM_PROVIDERS",
        hide_env_values = true
    )]
    pub allowed: Vec<String>,
    /// Their tokens come from Secrets labelled argocd.argoproj.io/secret-type=scm-creds alone
    #[arg(
        long = "tokenref-strict-mode",
        env = "ARGOCD_APPLICATIONSET_CONTROLLER_TOKENREF_STRICT_MODE",
        hide_env_values = true,
        action = ArgAction::SetTrue
    )]
    pub only_labelled_tokens: bool,
}

impl ProviderArgs {
    /// What they mean.
    pub fn providers(&self) -> Providers {
        let allowed = self.allowed.iter().map(|one| one.trim().to_owned()).filter(|one| !one.is_empty());
        let policy = Policy { is_off: self.are_asked == Some(false), allowed: allowed.collect() };
        Providers { policy, only_labelled: self.only_labelled_tokens }
    }
}
