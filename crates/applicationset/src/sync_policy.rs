//! Changes that an ApplicationSet may make to its Applications.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_model::argo::{ApplicationSet, ApplicationsSync, RolloutStep};

use crate::max_deletions::MaxDeletions;

/// Default maximum number of entries in `status.resources`.
pub const RESOURCES_MAX: usize = 5000;
/// Default interval for generators that read Git repositories or resources.
pub const REQUEUE_AFTER: Duration = Duration::from_secs(180);

/// Service-wide options for ApplicationSets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(rename = "ApplicationSetOptions")]
pub struct AppSetRuleOptions {
    /// Service-wide policy for the Applications of all ApplicationSets. If `None`, each ApplicationSet uses
    /// its own policy, which by default allows updates and deletions.
    pub policy: Option<ApplicationsSync>,
    /// True if an ApplicationSet may override the service-wide policy. If `None`, ApplicationSets may set a
    /// policy only if there is no service-wide policy.
    pub policy_override: Option<bool>,
    /// Annotations that all ApplicationSets preserve on their Applications.
    pub preserved_annotations: Vec<String>,
    /// Labels that all ApplicationSets preserve on their Applications.
    pub preserved_labels: Vec<String>,
    /// True if the `RollingSync` strategy is enabled.
    pub progressive_syncs: bool,
    /// Maximum number of entries in `status.resources`; 0 means no limit.
    pub resources_max: usize,
    /// Default interval for generators that read Git repositories or resources.
    #[serde(skip)]
    pub requeue_after: Duration,
    /// Default maximum number of an ApplicationSet's Applications that may be deleted at once because they
    /// are no longer generated. `None` means no limit.
    pub max_deletions: Option<MaxDeletions>,
}

impl Default for AppSetRuleOptions {
    fn default() -> Self {
        Self {
            policy: None,
            policy_override: None,
            preserved_annotations: Vec::new(),
            preserved_labels: Vec::new(),
            progressive_syncs: true,
            resources_max: RESOURCES_MAX,
            requeue_after: REQUEUE_AFTER,
            max_deletions: None,
        }
    }
}

/// Changes that may be made to existing Applications. Missing Applications are always created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllowedChanges {
    /// True if updates are allowed.
    pub update: bool,
    /// True if deletions are allowed.
    pub delete: bool,
}

/// Returns the changes that an ApplicationSet may make to its Applications.
pub fn allowed_changes(set: &ApplicationSet, options: &AppSetRuleOptions) -> AllowedChanges {
    let (update, delete) = match effective_policy(set, options).0 {
        ApplicationsSync::CreateOnly => (false, false),
        ApplicationsSync::CreateUpdate => (true, false),
        ApplicationsSync::CreateDelete => (false, true),
        ApplicationsSync::Sync => (true, true),
    };
    AllowedChanges { update, delete }
}

/// Returns the effective policy and its source.
fn effective_policy(set: &ApplicationSet, options: &AppSetRuleOptions) -> (ApplicationsSync, &'static str) {
    let own = set.spec.sync_policy.as_ref().and_then(|policy| policy.applications_sync);
    let may_override = options.policy_override.unwrap_or(options.policy.is_none());
    let own = own.filter(|_| may_override).map(|own| (own, "spec.syncPolicy.applicationsSync"));
    let of_all = options.policy.map(|of_all| (of_all, "the policy for all ApplicationSets"));
    own.or(of_all).unwrap_or_default()
}

/// Returns the reason an ApplicationSet's Applications must not be deleted, or `None` if they may be.
pub(crate) fn deletion_refusal(set: &ApplicationSet, options: &AppSetRuleOptions) -> Option<String> {
    let (policy, who) = effective_policy(set, options);
    let word = serde_json::to_value(policy).ok()?.as_str()?.to_owned();
    (!allowed_changes(set, options).delete).then(|| format!("{who} is {word}"))
}

/// Returns true if an ApplicationSet's strategy is `RollingSync`, with or without steps.
pub fn is_rolling_sync(set: &ApplicationSet) -> bool {
    set.spec
        .strategy
        .as_ref()
        .is_some_and(|strategy| strategy.kind == "RollingSync" && strategy.rolling_sync.is_some())
}

/// Returns true if an ApplicationSet's Applications are synced step by step instead of automatically.
pub fn is_progressive(set: &ApplicationSet, options: &AppSetRuleOptions) -> bool {
    options.progressive_syncs && !rolling_steps(set).is_empty()
}

/// Returns the steps of an ApplicationSet's progressive sync. Empty for other strategies.
pub(crate) fn rolling_steps(set: &ApplicationSet) -> &[RolloutStep] {
    let strategy = set.spec.strategy.as_ref().filter(|_| is_rolling_sync(set));
    let rolling = strategy.and_then(|strategy| strategy.rolling_sync.as_ref());
    rolling.map(|rolling| rolling.steps.as_slice()).unwrap_or_default()
}
