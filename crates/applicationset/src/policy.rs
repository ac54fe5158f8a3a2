//! What may be done with the Applications of a set?

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_model::argo::{ApplicationSet, ApplicationsSync, RolloutStep};

use crate::guard::MaxDeletions;

/// Entries of `status.resources`, where nobody says otherwise.
pub const RESOURCES_MAX: usize = 5000;

/// What a service decides for all of its sets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(rename = "ApplicationSetOptions")]
pub struct Options {
    /// What may be done with the Applications of all sets. `None`: each set says it, and both where it does not.
    pub policy: Option<ApplicationsSync>,
    /// Whether a set may say otherwise. `None`: only where nothing is said for all of them.
    pub policy_override: Option<bool>,
    /// Annotations of Applications that every set leaves alone.
    pub preserved_annotations: Vec<String>,
    /// Labels of Applications that every set leaves alone.
    pub preserved_labels: Vec<String>,
    /// The strategy `RollingSync` has an effect.
    pub progressive_syncs: bool,
    /// Entries of `status.resources`; 0 for any number.
    pub resources_max: usize,
    /// How often generators are asked that look at Git or at resources, where they do not say it.
    #[serde(skip)]
    pub requeue_after: std::time::Duration,
    /// So many Applications of a set may be deleted at once because they drop out of it, where it does not say it. `None`: any
    /// number.
    pub max_deletions: Option<MaxDeletions>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            policy: None,
            policy_override: None,
            preserved_annotations: Vec::new(),
            preserved_labels: Vec::new(),
            progressive_syncs: true,
            resources_max: RESOURCES_MAX,
            requeue_after: crate::requeue::REQUEUE_AFTER,
            max_deletions: None,
        }
    }
}

/// What may be done with Applications that are there already; missing ones are always created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// They may be changed.
    pub update: bool,
    /// They may be deleted.
    pub delete: bool,
}

/// What may be done with the Applications of a set.
pub fn allowed(set: &ApplicationSet, options: &Options) -> Allowed {
    let (update, delete) = match effective(set, options).0 {
        ApplicationsSync::CreateOnly => (false, false),
        ApplicationsSync::CreateUpdate => (true, false),
        ApplicationsSync::CreateDelete => (false, true),
        ApplicationsSync::Sync => (true, true),
    };
    Allowed { update, delete }
}

/// The policy that counts, and who says it.
fn effective(set: &ApplicationSet, options: &Options) -> (ApplicationsSync, &'static str) {
    let own = set.spec.sync_policy.as_ref().and_then(|policy| policy.applications_sync);
    let may_override = options.policy_override.unwrap_or(options.policy.is_none());
    let own = own.filter(|_| may_override).map(|own| (own, "spec.syncPolicy.applicationsSync"));
    let of_all = options.policy.map(|of_all| (of_all, "the policy for all ApplicationSets"));
    own.or(of_all).unwrap_or_default()
}

/// Why no Application of a set may be deleted; `None` where they may.
pub(crate) fn why_kept(set: &ApplicationSet, options: &Options) -> Option<String> {
    let (policy, who) = effective(set, options);
    let word = serde_json::to_value(policy).ok()?.as_str()?.to_owned();
    (!allowed(set, options).delete).then(|| format!("{who} is {word}"))
}

/// Whether the strategy of a set is a progressive sync, with or without steps.
pub fn is_rolling_sync(set: &ApplicationSet) -> bool {
    set.spec
        .strategy
        .as_ref()
        .is_some_and(|strategy| strategy.kind == "RollingSync" && strategy.rolling_sync.is_some())
}

/// Whether the Applications of a set are synced step by step, instead of by themselves.
pub fn is_progressive(set: &ApplicationSet, options: &Options) -> bool {
    options.progressive_syncs && !rolling_steps(set).is_empty()
}

/// The steps of the progressive sync of a set; none where its strategy is another one.
pub(crate) fn rolling_steps(set: &ApplicationSet) -> &[RolloutStep] {
    let strategy = set.spec.strategy.as_ref().filter(|_| is_rolling_sync(set));
    let rolling = strategy.and_then(|strategy| strategy.rolling_sync.as_ref());
    rolling.map(|rolling| rolling.steps.as_slice()).unwrap_or_default()
}
