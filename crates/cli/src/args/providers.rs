//! Options that restrict the HTTP servers for generators in managed ApplicationSets.

use clap::{ArgAction, Args};
use tidegate_app_controller::generator_inputs::{Policy, Providers};

use super::values;

/// Restrictions on the HTTP servers that generators may use. The environment variables have the same names as
/// in Argo CD's controller.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "ApplicationSets")]
pub struct ProviderArgs {
    /// Enable the scmProvider and pullRequest generators [default: true]
    #[arg(
        long = "enable-scm-providers",
        value_name = "true|false",
        env = "ARGOCD_APPLICATIONSET_CONTROLLER_ENABLE_SCM_PROVIDERS",
        hide_env_values = true,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_parser = values::parse_bool,
    )]
    pub are_enabled: Option<bool>,
    /// URLs that scmProvider and pullRequest generators may set in their api field, separated by commas [default: all]
    #[arg(
        long = "allowed-scm-providers",
        value_name = "URL",
        value_delimiter = ',',
        env = "ARGOCD_APPLICATIONSET_CONTROLLER_ALLOWED_SCM_PROVIDERS",
        hide_env_values = true
    )]
    pub allowed: Vec<String>,
    /// Read the tokens of the scmProvider and pullRequest generators only from Secrets with the label
    /// argocd.argoproj.io/secret-type=scm-creds
    #[arg(
        long = "tokenref-strict-mode",
        env = "ARGOCD_APPLICATIONSET_CONTROLLER_TOKENREF_STRICT_MODE",
        hide_env_values = true,
        action = ArgAction::SetTrue
    )]
    pub only_labelled_tokens: bool,
}

impl ProviderArgs {
    /// Returns the settings for the service.
    pub fn providers(&self) -> Providers {
        let allowed = self.allowed.iter().map(|one| one.trim().to_owned()).filter(|one| !one.is_empty());
        let policy = Policy { is_disabled: self.are_enabled == Some(false), allowed: allowed.collect() };
        Providers { policy, requires_label: self.only_labelled_tokens }
    }
}
