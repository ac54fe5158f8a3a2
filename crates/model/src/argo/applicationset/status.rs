use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::argo::{HealthState, ResourceStatus, Rest, Time, is_zero};

/// What was found out and done: `status` of an ApplicationSet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationSetStatus {
    /// What is true of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ApplicationSetCondition>,
    /// How each Application stands in the progressive sync.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub application_status: Vec<ApplicationSetApplicationStatus>,
    /// Its Applications; not more than a limit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<ResourceStatus>,
    /// How many they are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub resources_count: i64,
    /// How well it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<HealthState>,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

impl ApplicationSetStatus {
    /// Whether nothing is known yet.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Something that is, or is not, true of an ApplicationSet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["message", "reason", "status", "type"]))]
pub struct ApplicationSetCondition {
    /// What: `ErrorOccurred`, `ParametersGenerated`, `ResourcesUpToDate`, `RolloutProgressing`.
    #[serde(default, rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    #[serde(default)]
    pub status: String,
    /// Why, in one word.
    #[serde(default)]
    pub reason: String,
    /// Why, in a sentence for people.
    #[serde(default)]
    pub message: String,
    /// When `status` became what it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// How one Application stands in the progressive sync.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["application", "message", "status", "step", "targetRevisions"]))]
pub struct ApplicationSetApplicationStatus {
    /// `metadata.name` of the Application.
    #[serde(default)]
    pub application: String,
    /// Where it stands: `Waiting`, `Pending`, `Progressing` or `Healthy`.
    #[serde(default)]
    pub status: MemberStatus,
    /// Why, in a sentence for people.
    #[serde(default)]
    pub message: String,
    /// Number of its step, from 1; `-1` for an Application of no step.
    #[serde(default)]
    pub step: String,
    /// The revisions it is to have, one a source. Older programs wrote null.
    #[serde(default, deserialize_with = "null_as_empty")]
    pub target_revisions: Vec<String>,
    /// When `status` became what it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

fn null_as_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// How an Application stands in a progressive sync.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MemberStatus {
    /// Its step has not come.
    #[default]
    Waiting,
    /// It is to be synced.
    Pending,
    /// It is being synced, or not healthy yet.
    Progressing,
    /// It is what it should be.
    Healthy,
    /// One that is not known here.
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
