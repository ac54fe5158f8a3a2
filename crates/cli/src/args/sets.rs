//! What `serve` decides for all ApplicationSets.

use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use tidegate_applicationset::guard::MaxDeletions;
use tidegate_applicationset::policy::{Options, RESOURCES_MAX};
use tidegate_applicationset::requeue::{REQUEUE_AFTER, REQUEUE_AFTER_MAX, REQUEUE_AFTER_MIN};
use tidegate_lifecycle::rollout::{OnPending, Options as Cases};
use tidegate_model::argo::ApplicationsSync;
use tidegate_service::sets::SetOptions;

use super::providers::ProviderArgs;
use super::values;

/// What is decided for all ApplicationSets. The variables are those of Argo CD's controller.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "ApplicationSets")]
pub struct SetsArgs {
    /// Sync Applications step by step where the strategy is RollingSync [default: true]
    #[arg(
        long = "enable-progressive-syncs",
        value_name = "true|false",
        env = "ARGOCD_APPLICATIONSET_CONTROLLER_ENABLE_PROGRESSIVE_SYNCS",
        hide_env_values = true,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_parser = switch,
    )]
    pub progressive_syncs: Option<bool>,
    /// So long an Application may be Pending in a step; without it, as long as it takes. Sync windows are not counted
    #[arg(long, value_name = "D", value_parser = values::duration)]
    pub pending_timeout: Option<Duration>,
    /// What becomes then of one that is Pending for longer
    #[arg(long, value_enum, value_name = "OUTCOME", default_value_t, requires = "pending_timeout")]
    pub on_pending: PendingArg,
    /// What may be done with the Applications of all ApplicationSets; each says it if not said
    #[arg(
        long = "policy",
        value_enum,
        value_name = "POLICY",
        env = "ARGOCD_APPLICATIONSET_CONTROLLER_POLICY",
        hide_env_values = true
    )]
    pub policy: Option<PolicyArg>,
    /// Whether an ApplicationSet may say otherwise than --policy [default: only where there is none]
    #[arg(
        long = "enable-policy-override",
        value_name = "true|false",
        env = "ARGOCD_APPLICATIONSET_CONTROLLER_ENABLE_POLICY_OVERRIDE",
        hide_env_values = true,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_parser = switch,
    )]
    pub policy_override: Option<bool>,
    /// Annotations of Applications that are left alone
    #[arg(
        long,
        value_name = "KEY",
        value_delimiter = ',',
        env = "ARGOCD_APPLICATIONSET_CONTROLLER_GLOBAL_PRESERVED_ANNOTATIONS",
        hide_env_values = true
    )]
    pub preserved_annotations: Vec<String>,
    /// Labels of Applications that are left alone
    #[arg(
        long,
        value_name = "KEY",
        value_delimiter = ',',
        env = "ARGOCD_APPLICATIONSET_CONTROLLER_GLOBAL_PRESERVED_LABELS",
        hide_env_values = true
    )]
    pub preserved_labels: Vec<String>,
    /// How often generators look at Git and at resources that do not say it themselves [default: 3m]
    #[arg(
        long,
        value_name = "D",
        env = "ARGOCD_APPLICATIONSET_CONTROLLER_REQUEUE_AFTER",
        hide_env_values = true,
        value_parser = values::duration
    )]
    pub requeue_after: Option<Duration>,
    /// So many Applications of an ApplicationSet may be deleted at once because they drop out of it, or such a percentage of
    /// them, unless it says otherwise; with more, none is [default: any number]
    #[arg(long, value_name = "N|N%")]
    pub max_deletions: Option<MaxDeletions>,
    /// So many Applications are listed in the status of an ApplicationSet; 0 for all
    #[arg(
        long,
        value_name = "N",
        env = "ARGOCD_APPLICATIONSET_CONTROLLER_MAX_RESOURCES_STATUS_COUNT",
        hide_env_values = true,
        default_value_t = RESOURCES_MAX
    )]
    pub max_resources_status_count: usize,
    /// In patterns of Git files, * stays between two slashes and ** does not
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

/// What becomes of an Application that is Pending for too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PendingArg {
    #[default]
    Hold,
    Fail,
    Healthy,
}

/// What may be done with Applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PolicyArg {
    CreateOnly,
    CreateUpdate,
    CreateDelete,
    Sync,
}

/// `true` or `false`; a variable that is empty says nothing.
pub(super) fn switch(text: &str) -> Result<bool, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "1" | "t" => Ok(true),
        "false" | "0" | "f" | "" => Ok(false),
        _ => Err("write true or false".to_owned()),
    }
}

impl SetsArgs {
    /// What they mean. What a ConfigMap of the cluster says counts where nothing is said here.
    pub fn options(&self) -> SetOptions {
        let policy = self.policy.map(|policy| match policy {
            PolicyArg::CreateOnly => ApplicationsSync::CreateOnly,
            PolicyArg::CreateUpdate => ApplicationsSync::CreateUpdate,
            PolicyArg::CreateDelete => ApplicationsSync::CreateDelete,
            PolicyArg::Sync => ApplicationsSync::Sync,
        });
        let on_pending = match self.on_pending {
            PendingArg::Hold => OnPending::Hold,
            PendingArg::Fail => OnPending::Fail,
            PendingArg::Healthy => OnPending::Healthy,
        };
        let is_possible = |after: &Duration| (REQUEUE_AFTER_MIN..=REQUEUE_AFTER_MAX).contains(after);
        SetOptions {
            policy: Options {
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
