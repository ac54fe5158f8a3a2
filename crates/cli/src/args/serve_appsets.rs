//! Options of `serve` that apply to all ApplicationSets.

use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use tidegate_applicationset::deletion_limit::MaxDeletions;
use tidegate_applicationset::requeue::{REQUEUE_AFTER, REQUEUE_AFTER_MAX, REQUEUE_AFTER_MIN};
use tidegate_applicationset::sync_policy::{AppSetRuleOptions, RESOURCES_MAX};
use tidegate_appset_controller::AppSetOptions;
use tidegate_lifecycle::rollout::{OnPending, Options as Cases};
use tidegate_model::argo::ApplicationsSync;

use super::providers::ProviderArgs;
use super::values;

/// Options for all ApplicationSets. The environment variables have the same names as in Argo CD's controller.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "ApplicationSets")]
pub struct ServeAppSetArgs {
    /// Sync Applications step by step if their ApplicationSet uses the RollingSync strategy [default: true]
    #[arg(
        long = "enable-progressive-syncs",
        value_name = "true|false",
        env = "ARGOCD_APPLICATIONSET_CONTROLLER_ENABLE_PROGRESSIVE_SYNCS",
        hide_env_values = true,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_parser = values::parse_bool,
    )]
    pub progressive_syncs: Option<bool>,
    /// Maximum time that an Application may be Pending in a step, excluding the time when its sync windows
    /// are closed [default: unlimited]
    #[arg(long, value_name = "D", value_parser = values::parse_duration_arg)]
    pub pending_timeout: Option<Duration>,
    /// Action when --pending-timeout expires: keep waiting with a warning (hold), treat the Application as failed
    /// (fail), or treat it as healthy (healthy)
    #[arg(long, value_enum, value_name = "OUTCOME", default_value_t, requires = "pending_timeout")]
    pub on_pending: PendingArg,
    /// Changes that ApplicationSets may make to their Applications [default: each ApplicationSet's own policy]
    #[arg(
        long = "policy",
        value_enum,
        value_name = "POLICY",
        env = "ARGOCD_APPLICATIONSET_CONTROLLER_POLICY",
        hide_env_values = true
    )]
    pub policy: Option<AppSetPolicyArg>,
    /// Let ApplicationSets override --policy [default: true unless --policy is set]
    #[arg(
        long = "enable-policy-override",
        value_name = "true|false",
        env = "ARGOCD_APPLICATIONSET_CONTROLLER_ENABLE_POLICY_OVERRIDE",
        hide_env_values = true,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_parser = values::parse_bool,
    )]
    pub policy_override: Option<bool>,
    /// Annotations that ApplicationSets preserve on their Applications, separated by commas
    #[arg(
        long,
        value_name = "KEY",
        value_delimiter = ',',
        env = "ARGOCD_APPLICATIONSET_CONTROLLER_GLOBAL_PRESERVED_ANNOTATIONS",
        hide_env_values = true
    )]
    pub preserved_annotations: Vec<String>,
    /// Labels that ApplicationSets preserve on their Applications, separated by commas
    #[arg(
        long,
        value_name = "KEY",
        value_delimiter = ',',
        env = "ARGOCD_APPLICATIONSET_CONTROLLER_GLOBAL_PRESERVED_LABELS",
        hide_env_values = true
    )]
    pub preserved_labels: Vec<String>,
    /// Interval between runs of generators that do not set their own interval [default: 3m]
    #[arg(
        long,
        value_name = "D",
        env = "ARGOCD_APPLICATIONSET_CONTROLLER_REQUEUE_AFTER",
        hide_env_values = true,
        value_parser = values::parse_duration_arg
    )]
    pub requeue_after: Option<Duration>,
    /// Maximum number or percentage of an ApplicationSet's Applications to delete at once when they are no
    /// longer generated. Above this limit, the service deletes none of them until a user approves the
    /// deletions. An ApplicationSet can set its own limit [default: unlimited]
    #[arg(long, value_name = "N|N%")]
    pub max_deletions: Option<MaxDeletions>,
    /// Maximum number of Applications listed in an ApplicationSet's status; 0 means all
    #[arg(
        long,
        value_name = "N",
        env = "ARGOCD_APPLICATIONSET_CONTROLLER_MAX_RESOURCES_STATUS_COUNT",
        hide_env_values = true,
        default_value_t = RESOURCES_MAX
    )]
    pub max_resources_status_count: usize,
    /// In the path patterns of Git file generators, let * match only within a folder; ** matches across
    /// folders
    #[arg(
        long,
        env = "ARGOCD_APPLICATIONSET_CONTROLLER_ENABLE_NEW_GIT_FILE_GLOBBING",
        hide_env_values = true,
        action = ArgAction::SetTrue
    )]
    pub new_git_file_globbing: bool,
    #[command(flatten)]
    pub providers: ProviderArgs,
}

/// Action for an Application that has been Pending for too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PendingArg {
    #[default]
    Hold,
    Fail,
    Healthy,
}

/// Permitted changes to Applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AppSetPolicyArg {
    CreateOnly,
    CreateUpdate,
    CreateDelete,
    Sync,
}

impl ServeAppSetArgs {
    /// Returns the service's settings. Settings missing from the command line come from a ConfigMap in the
    /// cluster.
    pub fn options(&self) -> AppSetOptions {
        let policy = self.policy.map(|policy| match policy {
            AppSetPolicyArg::CreateOnly => ApplicationsSync::CreateOnly,
            AppSetPolicyArg::CreateUpdate => ApplicationsSync::CreateUpdate,
            AppSetPolicyArg::CreateDelete => ApplicationsSync::CreateDelete,
            AppSetPolicyArg::Sync => ApplicationsSync::Sync,
        });
        let on_pending = match self.on_pending {
            PendingArg::Hold => OnPending::Hold,
            PendingArg::Fail => OnPending::Fail,
            PendingArg::Healthy => OnPending::Healthy,
        };
        let is_possible = |after: &Duration| (REQUEUE_AFTER_MIN..=REQUEUE_AFTER_MAX).contains(after);
        AppSetOptions {
            policy: AppSetRuleOptions {
                policy,
                policy_override: self.policy_override,
                preserved_annotations: self.preserved_annotations.clone(),
                preserved_labels: self.preserved_labels.clone(),
                progressive_syncs: self.progressive_syncs.unwrap_or(true),
                resources_max: self.max_resources_status_count,
                max_deletions: self.max_deletions,
                requeue_after: self.requeue_after.filter(is_possible).unwrap_or(REQUEUE_AFTER),
            },
            cases: Cases { pending_timeout: self.pending_timeout, on_pending, ..Cases::default() },
            new_globbing: self.new_git_file_globbing,
        }
    }
}
