//! A progressive sync before it begins: what would be brought where, step by step.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_applicationset::policy::{Options, is_progressive};
use tidegate_applicationset::preview;
use tidegate_applicationset::rollout::{Standing, Targets, request};
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_lifecycle::rollout::{Options as Cases, RolloutView};
use tidegate_model::argo::{Application, ApplicationSet};

use super::key_of;
use super::standing::{Found, Standings};
use crate::applications::Shared;

/// A progressive sync of an ApplicationSet with the Applications it has now, were it begun now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutPreview {
    /// It, with nothing done yet; nothing where each Application is synced by its own policy.
    pub rollout: Option<RolloutView>,
    /// What its Applications have now, by name: one revision a source. Those that have nothing yet are not here.
    pub before: BTreeMap<String, Vec<String>>,
    /// Applications of which it is not known yet what they would be brought to, by name, and why.
    pub unknown: BTreeMap<String, String>,
}

/// What a progressive sync of a set would do. Nothing is begun, and no repository is asked that was looked at before.
pub(super) async fn foresee(
    shared: &Arc<Shared>,
    set: &ApplicationSet,
    members: &[Application],
    options: &Options,
) -> Result<RolloutPreview, String> {
    if !is_progressive(set, options) {
        return Ok(RolloutPreview::default());
    }
    let targets = Targets::of(set)
        .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
    let finding = Standings::default().find(shared, (&key_of(set), &targets), members, None, false).await;
    let Found { mut standing, unknown, .. } = finding;
    let has = |(name, one): (&String, &Standing)| {
        Some((name.clone(), one.before.as_ref()?.target.revisions.clone()))
    };
    let before = standing.iter().filter_map(has).collect();
    // They are shown in their steps all the same.
    standing.extend(unknown.keys().map(|name| (name.clone(), Standing::default())));
    let asked =
        request(set, &targets, members, &standing, Cases::default()).map_err(|why| why.to_string())?;
    let rollout = preview::rollout(asked, SystemClock.now()).map_err(|refused| refused.to_string())?;
    Ok(RolloutPreview { rollout: Some(rollout), before, unknown })
}
