//! ApplicationSets in one line each, as events and metrics show them. The field names are a stable interface.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use tidegate_application::credentials::text_without_credentials;
use tidegate_lifecycle::rollout::{WaitReason, Waiting};
use tidegate_model::HealthStatus;
use tidegate_model::argo::{
    ApplicationSet, ApplicationSetApplicationStatus, ApplicationSetCondition, MemberStatus, Time,
};

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
    /// Who holds its progressive sync or its deletion, or what that has awaited for longest, in words; absent while nothing is.
    pub awaits: Option<String>,
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
    /// How many Applications have which status, in Argo CD's words.
    pub members: BTreeMap<String, u32>,
    /// How many of those that are `Healthy` in these words are not: somebody has gone on without them.
    pub skipped: u32,
}

impl SetLine {
    /// The line of a set, with so many of its Applications that somebody has gone on without, and what it awaits.
    pub(super) fn new(set: &ApplicationSet, skipped: u32, awaits: Option<String>) -> Self {
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
            rollout: condition("RolloutProgressing").map(|one| rollout(set, one, skipped)),
            deleting: set.metadata.deletion_timestamp.is_some(),
            awaits,
        }
    }
}

/// What an Application of a set waits for in its progressive sync, of which the current step waits for something itself.
pub(super) fn awaits(set: &ApplicationSet, current: Option<Waiting>, application: &str) -> Option<String> {
    let of_it = set.status.application_status.iter().find(|one| one.application == application)?;
    let progresses = |one: &ApplicationSetApplicationStatus| {
        let progress = set.status.conditions.iter().find(|one| one.kind == "RolloutProgressing");
        one.status == MemberStatus::Waiting && progress.is_some_and(|progress| progress.status == "True")
    };
    let step: u32 = of_it.step.parse().ok().filter(|_| progresses(of_it))?;
    let name = &set.metadata.name;
    let waits = format!("waits for step {step} of {name}");
    Some(match current {
        Some(current) if current.step == step => match current.reason {
            WaitReason::Approval | WaitReason::Gate | WaitReason::Soak | WaitReason::Paused => {
                format!("{waits}: {}", current.reason)
            }
            WaitReason::Manual => format!("waits in step {step} of {name} until somebody syncs it"),
            _ => format!("waits for its turn in step {step} of {name}"),
        },
        Some(current) => format!("{waits}; step {} waits for: {}", current.step, current.reason),
        None => waits,
    })
}

fn rollout(set: &ApplicationSet, condition: &ApplicationSetCondition, skipped: u32) -> RolloutLine {
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
        skipped,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests stop at the first surprise")]
mod tests {
    use serde_json::json;
    use tidegate_model::Timestamp;

    use super::*;

    #[test]
    fn an_application_that_waits_says_for_which_step_and_why_that_does_not_begin() {
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
        let at = |step, reason| Some(Waiting { step, reason, since: Timestamp::default() });
        let two = |current| awaits(&set, current, "two");
        for (current, expected) in [
            (at(2, WaitReason::Approval), "waits for step 2 of shops: approval"),
            (at(2, WaitReason::Sync), "waits for its turn in step 2 of shops"),
            (at(2, WaitReason::Manual), "waits in step 2 of shops until somebody syncs it"),
            (at(1, WaitReason::Health), "waits for step 2 of shops; step 1 waits for: health"),
            (None, "waits for step 2 of shops"),
        ] {
            assert_eq!(two(current).as_deref(), Some(expected));
        }
        for other in ["one", "left", "nobody"] {
            assert_eq!(awaits(&set, None, other), None, "{other}");
        }
        let mut over = set.clone();
        over.status.conditions[0].status = "False".to_owned();
        assert_eq!(awaits(&over, None, "two"), None, "a rollout that is over brings it nowhere");
    }
}
