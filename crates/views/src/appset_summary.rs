//! Summaries of ApplicationSets for events and metrics. The field names are a stable interface.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use tidegate_application::credentials::text_without_credentials;
use tidegate_lifecycle::rollout::{StepWait, WaitReason};
use tidegate_model::HealthStatus;
use tidegate_model::argo::{
    ApplicationSet, ApplicationSetApplicationStatus, ApplicationSetCondition, MemberStatus, Time,
};

/// Summary of an ApplicationSet.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ApplicationSetLine")]
pub struct AppSetSummary {
    /// ApplicationSet namespace.
    pub namespace: String,
    /// ApplicationSet name.
    pub name: String,
    /// Health status.
    pub health: HealthStatus,
    /// Error message; absent if there is no error.
    pub error: Option<String>,
    /// Reason of the `ResourcesUpToDate` condition. `Unknown` before the first reconciliation.
    pub resource_update_status: String,
    /// Number of Applications.
    pub applications: u64,
    /// Progressive sync; absent if the ApplicationSet doesn't use progressive syncs.
    pub rollout: Option<RolloutSummary>,
    /// True if the deletion of the ApplicationSet was requested.
    pub deleting: bool,
    /// User who paused the progressive sync or deletion, or the item that it has waited for the longest.
    /// Absent if the progressive sync or deletion is neither paused nor waiting.
    #[serde(rename = "waitReason")]
    pub awaits: Option<String>,
}

/// Summary of a progressive sync.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutSummary {
    /// True if the progressive sync is running.
    pub progressing: bool,
    /// Description of the progress.
    pub message: String,
    /// Time of the `RolloutProgressing` condition's last transition.
    pub since: Option<Time>,
    /// Number of Applications with each of Argo CD's statuses.
    pub members: BTreeMap<String, u32>,
    /// Number of skipped Applications, which Argo CD would report as `Healthy`.
    pub skipped: u32,
}

impl AppSetSummary {
    /// Summarizes an ApplicationSet. `skipped` is the number of skipped Applications, and `awaits` describes
    /// what the ApplicationSet is waiting for.
    pub fn new(set: &ApplicationSet, skipped: u32, awaits: Option<String>) -> Self {
        let status = &set.status;
        let condition = |kind: &str| status.conditions.iter().find(|one| one.kind == kind);
        let is_true = |one: &&ApplicationSetCondition| one.status == "True";
        let listed = u64::try_from(status.resources.len()).unwrap_or(u64::MAX);
        Self {
            namespace: set.metadata.namespace_or_default().to_owned(),
            name: set.metadata.name.clone(),
            health: status.health.as_ref().map_or(HealthStatus::Unknown, |health| health.status),
            error: condition("ErrorOccurred")
                .filter(is_true)
                .map(|one| text_without_credentials(&one.message)),
            resource_update_status: condition("ResourcesUpToDate")
                .map_or_else(|| "Unknown".to_owned(), |one| one.reason.clone()),
            // The list may have been truncated.
            applications: u64::try_from(status.resources_count).unwrap_or_default().max(listed),
            rollout: condition("RolloutProgressing").map(|one| summarize_rollout(set, one, skipped)),
            deleting: set.metadata.deletion_timestamp.is_some(),
            awaits,
        }
    }
}

/// Describes an Application's wait in its ApplicationSet's progressive sync. `current` is the condition that
/// the current step waits for.
pub fn describe_awaited(
    set: &ApplicationSet,
    current: Option<StepWait>,
    application: &str,
) -> Option<String> {
    let of_it = set.status.application_status.iter().find(|one| one.application == application)?;
    let progresses = |one: &ApplicationSetApplicationStatus| {
        let progress = set.status.conditions.iter().find(|one| one.kind == "RolloutProgressing");
        one.status == MemberStatus::Waiting && progress.is_some_and(|progress| progress.status == "True")
    };
    let step: u32 = of_it.step.parse().ok().filter(|_| progresses(of_it))?;
    let name = &set.metadata.name;
    let waits = format!("waiting for step {step} of {name}");
    Some(match current {
        Some(current) if current.step == step => match current.reason {
            WaitReason::Approval | WaitReason::Gate | WaitReason::Soak | WaitReason::Paused => {
                format!("{waits}: {}", current.reason)
            }
            WaitReason::Manual => format!("waiting for a manual sync in step {step} of {name}"),
            _ => format!("waiting for its turn in step {step} of {name}"),
        },
        Some(current) => format!("{waits}; step {} is waiting for: {}", current.step, current.reason),
        None => waits,
    })
}

fn summarize_rollout(
    set: &ApplicationSet,
    condition: &ApplicationSetCondition,
    skipped: u32,
) -> RolloutSummary {
    let mut members = BTreeMap::<String, u32>::new();
    for member in &set.status.application_status {
        let count = members.entry(member.status.to_string()).or_default();
        *count = count.saturating_add(1);
    }
    RolloutSummary {
        progressing: condition.status == "True",
        message: condition.message.clone(),
        since: condition.last_transition_time,
        members,
        skipped,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may panic")]
mod tests {
    use serde_json::json;
    use tidegate_model::Timestamp;

    use super::*;

    #[test]
    fn a_waiting_application_names_its_step_and_what_blocks_it() {
        let mut set = ApplicationSet::default();
        set.metadata.name = "shops".to_owned();
        set.status = serde_json::from_value(json!({
            "conditions": [{"type": "RolloutProgressing", "status": "True", "reason": "", "message": ""}],
            "applicationStatus": [
                {"application": "one", "status": "Healthy", "step": "1", "message": ""},
                {"application": "two", "status": "Waiting", "step": "2", "message": ""},
                {"application": "left", "status": "Waiting", "step": "-1", "message": ""},
            ],
        }))
        .unwrap();
        let at = |step, reason| Some(StepWait { step, reason, since: Timestamp::default() });
        let two = |current| describe_awaited(&set, current, "two");
        for (current, expected) in [
            (at(2, WaitReason::Approval), "waiting for step 2 of shops: approval"),
            (at(2, WaitReason::Sync), "waiting for its turn in step 2 of shops"),
            (at(2, WaitReason::Manual), "waiting for a manual sync in step 2 of shops"),
            (at(1, WaitReason::Health), "waiting for step 2 of shops; step 1 is waiting for: health"),
            (None, "waiting for step 2 of shops"),
        ] {
            assert_eq!(two(current).as_deref(), Some(expected));
        }
        for other in ["one", "left", "nobody"] {
            assert_eq!(describe_awaited(&set, None, other), None, "{other}");
        }
        let mut over = set.clone();
        over.status.conditions[0].status = "False".to_owned();
        assert_eq!(describe_awaited(&over, None, "two"), None, "a finished rollout does not affect it");
    }
}
