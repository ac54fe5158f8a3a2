use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::argo::{HealthState, ResourceStatus, Time, UnknownFields, is_zero};

/// Observed state of an ApplicationSet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationSetStatus {
    /// Current conditions of the ApplicationSet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ApplicationSetCondition>,
    /// Status of each Application in the progressive sync.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub application_status: Vec<ApplicationSetApplicationStatus>,
    /// The ApplicationSet's Applications. The length of the list is limited.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<ResourceStatus>,
    /// Total number of Applications.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub resources_count: i64,
    /// Health of the ApplicationSet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<HealthState>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

impl ApplicationSetStatus {
    /// Returns true if all fields are unset.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Condition of an ApplicationSet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["message", "reason", "status", "type"]))]
pub struct ApplicationSetCondition {
    /// Type: `ErrorOccurred`, `ParametersGenerated`, `ResourcesUpToDate` or `RolloutProgressing`.
    #[serde(default, rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    #[serde(default)]
    pub status: String,
    /// Machine-readable reason, in CamelCase.
    #[serde(default)]
    pub reason: String,
    /// Human-readable reason.
    #[serde(default)]
    pub message: String,
    /// Time of the last change to `status`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Status of one Application in a progressive sync.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["application", "message", "status", "step", "targetRevisions"]))]
pub struct ApplicationSetApplicationStatus {
    /// Name of the Application.
    #[serde(default)]
    pub application: String,
    /// Status: `Waiting`, `Pending`, `Progressing`, `Healthy` or `RolledBack`.
    #[serde(default)]
    pub status: MemberStatus,
    /// Human-readable reason for the status.
    #[serde(default)]
    pub message: String,
    /// Number of the step, starting at 1. `-1` if the Application isn't in any step.
    #[serde(default)]
    pub step: String,
    /// Target revisions, one for each source. Older versions of the controller wrote null.
    #[serde(default, deserialize_with = "null_as_empty")]
    pub target_revisions: Vec<String>,
    /// Time of the last change to `status`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

fn null_as_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Status of an Application in a progressive sync.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MemberStatus {
    /// The Application's step has not started.
    #[default]
    Waiting,
    /// The Application's sync has not started.
    Pending,
    /// The Application's sync is running, or the Application is not healthy yet.
    Progressing,
    /// The Application is synced and healthy.
    Healthy,
    /// The Application was rolled back to its previous revision after a step failed.
    RolledBack,
    /// Any other status.
    #[serde(untagged)]
    Other(String),
}

impl fmt::Display for MemberStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other(name) => f.write_str(name),
            known => fmt::Debug::fmt(known, f),
        }
    }
}
