//! ApplicationSets in one line each, as events and metrics show them. The field names are a stable interface.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use tidegate_application::credentials::text_without_credentials;
use tidegate_model::HealthStatus;
use tidegate_model::argo::{ApplicationSet, ApplicationSetCondition, Time};

/// How an ApplicationSet stands, in one line.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SetLine {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// How well it does.
    pub health: HealthStatus,
    /// What is wrong with it; absent while nothing is.
    pub error: Option<String>,
    /// The reason of its condition `ResourcesUpToDate`; `Unknown` before the first look.
    pub resource_update_status: String,
    /// How many Applications it has.
    pub applications: u64,
    /// Its progressive sync; absent where it has none.
    pub rollout: Option<RolloutLine>,
    /// Somebody has asked for its deletion.
    pub deleting: bool,
}

/// A progressive sync in one line.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutLine {
    /// Whether it is under way.
    pub progressing: bool,
    /// Where it is, in words.
    pub message: String,
    /// Since when.
    pub since: Option<Time>,
    /// How many Applications have which status.
    pub members: BTreeMap<String, u32>,
}

impl From<&ApplicationSet> for SetLine {
    fn from(set: &ApplicationSet) -> Self {
        let status = &set.status;
        let condition = |kind: &str| status.conditions.iter().find(|one| one.kind == kind);
        let is_true = |one: &&ApplicationSetCondition| one.status == "True";
        let listed = u64::try_from(status.resources.len()).unwrap_or(u64::MAX);
        Self {
            namespace: set.metadata.home().to_owned(),
            name: set.metadata.name.clone(),
            health: status.health.as_ref().map_or(HealthStatus::Unknown, |health| health.status),
            error: condition("ErrorOccurred")
                .filter(is_true)
                .map(|one| text_without_credentials(&one.message)),
            resource_update_status: condition("ResourcesUpToDate")
                .map_or_else(|| "Unknown".to_owned(), |one| one.reason.clone()),
            // Not all of them may be listed.
            applications: u64::try_from(status.resources_count).unwrap_or_default().max(listed),
            rollout: condition("RolloutProgressing").map(|one| rollout(set, one)),
            deleting: set.metadata.deletion_timestamp.is_some(),
        }
    }
}

fn rollout(set: &ApplicationSet, condition: &ApplicationSetCondition) -> RolloutLine {
    let mut members = BTreeMap::<String, u32>::new();
    for member in &set.status.application_status {
        let count = members.entry(member.status.to_string()).or_default();
        *count = count.saturating_add(1);
    }
    RolloutLine {
        progressing: condition.status == "True",
        message: condition.message.clone(),
        since: condition.last_transition_time,
        members,
    }
}
