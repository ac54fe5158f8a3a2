use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{OverrideRecord, Phase};

/// Phase of an operation or of one of its tasks, named as in Argo CD.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum OperationPhase {
    /// The operation or task is running or waiting.
    Running,
    /// Termination was requested, and hooks are being stopped.
    Terminating,
    /// The cluster rejected an object, or a hook failed.
    Failed,
    /// The engine encountered an internal error.
    Error,
    /// The operation or task completed as requested.
    Succeeded,
}

impl OperationPhase {
    /// Returns true if the operation has finished.
    pub fn is_completed(self) -> bool {
        matches!(self, Self::Failed | Self::Error | Self::Succeeded)
    }

    /// Returns true if the operation failed or encountered an error.
    pub fn is_unsuccessful(self) -> bool {
        matches!(self, Self::Failed | Self::Error)
    }
}

impl fmt::Display for OperationPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Prefix of a superseded operation's message.
pub const SUPERSEDED_PREFIX: &str = "Operation terminated, superseded by ";

/// Prefix of the error if the cluster has changed in fields outside the plan.
pub const OUTDATED_PLAN_MESSAGE: &str = "the cluster has changed since plan ";
/// Part of the error if the cluster has changed in fields that the plan covers.
pub const INVALID_PLAN_MESSAGE: &str = " is no longer valid: ";

/// Returns true if an operation's message reports that its plan was outdated.
pub fn is_outdated_plan_message(message: &str) -> bool {
    message.contains(OUTDATED_PLAN_MESSAGE) || message.contains(INVALID_PLAN_MESSAGE)
}

/// State or result of an operation, as shown in lists and metrics. Matches the phase, except that a
/// superseded operation has the phase Failed, as in Argo CD, but doesn't count as failed.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum OperationOutcome {
    /// The operation is running or waiting.
    #[default]
    Running,
    /// Termination was requested, and hooks are being stopped.
    Terminating,
    /// The cluster rejected an object, or a hook failed.
    Failed,
    /// The engine encountered an internal error.
    Error,
    /// The operation completed as requested.
    Succeeded,
    /// Another operation superseded this operation.
    Superseded,
}

impl OperationOutcome {
    /// Returns the outcome of an operation with this phase and message.
    pub fn from_phase(phase: OperationPhase, message: &str) -> Self {
        match phase {
            OperationPhase::Running => Self::Running,
            OperationPhase::Terminating => Self::Terminating,
            OperationPhase::Failed if message.starts_with(SUPERSEDED_PREFIX) => Self::Superseded,
            OperationPhase::Failed => Self::Failed,
            OperationPhase::Error => Self::Error,
            OperationPhase::Succeeded => Self::Succeeded,
        }
    }

    /// Returns true if the operation failed or encountered an error. Superseded operations don't count.
    pub fn is_unsuccessful(self) -> bool {
        matches!(self, Self::Failed | Self::Error)
    }
}

impl fmt::Display for OperationOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Result for one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ResultCode {
    /// The resource was applied, or the hook has run.
    Synced,
    /// The apply, prune or hook failed.
    SyncFailed,
    /// The resource was deleted, or is being deleted.
    Pruned,
    /// The resource requires pruning but was not pruned.
    PruneSkipped,
    /// A user skipped the resource.
    Skipped,
    /// A user marked the resource as done.
    MarkedDone,
}

impl fmt::Display for ResultCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Result of an operation for one resource. Field names match Argo CD's `syncResult.resources`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceResult {
    /// API group, empty for the core API.
    pub group: String,
    /// API version of the manifest, without the group.
    pub version: String,
    /// Kind of the resource.
    pub kind: String,
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: String,
    /// `metadata.name` of the resource.
    pub name: String,
    /// Phase in which the resource was applied, run or pruned.
    pub sync_phase: Phase,
    /// Wave in which the resource was synced.
    pub wave: i64,
    /// Phase of a hook. Absent for resources that are not hooks.
    pub hook_type: Option<Phase>,
    /// Result for the resource. Absent while there is no result.
    pub status: Option<ResultCode>,
    /// Phase of the resource's task. Also set for resources that are not hooks.
    pub hook_phase: Option<OperationPhase>,
    /// Message from the cluster, or the resource's health message.
    pub message: String,
    /// Container images, excluding init containers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// Number of the result, starting at 1, without gaps. Results are numbered when they are first recorded.
    pub order: u32,
    /// Reason why the resource is unhealthy, derived from its pods, such as `api-7f is crash-looping (exit 1,
    /// restarted 4 times)`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Warnings from the API server when it accepted the manifest, such as a deprecation warning.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Manual override that a user made during the operation.
    #[serde(default, rename = "override", skip_serializing_if = "Option::is_none")]
    pub overridden: Option<OverrideRecord>,
}
