use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    ApplicationDestination, ApplicationSource, OperationRequest, Time, UnknownFields, is_false, is_zero,
};
use crate::argo::{ManagedNamespaceMetadata, ResourceIgnoreDifferences};
use crate::{HealthStatus, OperationPhase};

/// Observed state of an Application.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationStatus {
    /// Result of comparing the cluster with the manifests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync: Option<SyncStatus>,
    /// Health of the Application.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<HealthState>,
    /// Resources in the manifests, and resources in the cluster that belong to the Application.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<ResourceStatus>,
    /// Current problems of the Application.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ApplicationCondition>,
    /// History of successful syncs, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<RevisionHistory>,
    /// State of the running or most recent operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_state: Option<OperationState>,
    /// Time of the last comparison with the newest revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reconciled_at: Option<Time>,
    /// Deprecated: written by older versions of Argo CD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_at: Option<Time>,
    /// Tool that renders the manifests: `Directory`, `Helm`, `Kustomize` or `Plugin`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source_type: String,
    /// Tools that render the manifests of an Application with multiple sources, in the order of the sources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source_types: Vec<String>,
    /// The Application's images and URLs.
    #[serde(default, skip_serializing_if = "ApplicationSummary::is_empty")]
    pub summary: ApplicationSummary,
    /// Field that contains the health of the resources. Empty means `resources`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub resource_health_source: String,
    /// Namespace of the control plane that manages the Application.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub controller_namespace: String,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

impl ApplicationStatus {
    /// Returns true if all fields are unset.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Result of comparing the cluster with the manifests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SyncStatus {
    /// Sync status of the Application. `OutOfSync` if any resource differs from its manifest.
    pub status: SyncStatusCode,
    /// Sources and destination of the last comparison. If the spec has changed since then, the result is
    /// outdated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compared_to: Option<ComparedTo>,
    /// Revision that was compared.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub revision: String,
    /// Revisions of an Application with multiple sources, in the order of the sources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub revisions: Vec<String>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Result of comparing the cluster with the manifests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SyncStatusCode {
    /// The comparison was not possible. Argo CD writes an empty string before the first comparison.
    #[default]
    #[serde(alias = "")]
    Unknown,
    /// There are no differences except ignored ones.
    Synced,
    /// An object differs, is missing, or exists only in the cluster.
    OutOfSync,
}

impl fmt::Display for SyncStatusCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Sources and destination that were compared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComparedTo {
    /// Source of an Application with a single source. Not set if there are multiple sources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<ApplicationSource>,
    /// Sources of an Application with multiple sources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<ApplicationSource>,
    /// Cluster and namespace that the manifests were compared with.
    pub destination: ApplicationDestination,
    /// Differences that were ignored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore_differences: Vec<ResourceIgnoreDifferences>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Health of an Application or of one of its resources.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthState {
    /// Health status. An Application has the worst status of its resources. Argo CD omits the field if the
    /// status is unknown.
    #[serde(default = "unknown")]
    pub status: HealthStatus,
    /// Human-readable reason for the status. May be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Time of the last change to `status`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

const fn unknown() -> HealthStatus {
    HealthStatus::Unknown
}

/// State of one resource of an Application.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceStatus {
    /// API group. Empty for the core API group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// API version of the manifest, without the group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Kind of the resource.
    #[serde(default)]
    pub kind: String,
    /// Namespace. Empty for cluster-scoped resources.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name of the resource.
    #[serde(default)]
    pub name: String,
    /// Result of comparing the resource with its manifest. Not set for resources that are not compared, such
    /// as hooks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<SyncStatusCode>,
    /// Health of the resource. Not set for kinds without a health status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<HealthState>,
    /// True if the resource is a hook, which is not compared with its manifest.
    #[serde(default, skip_serializing_if = "is_false")]
    pub hook: bool,
    /// True if the resource is no longer in the manifests.
    #[serde(default, skip_serializing_if = "is_false")]
    pub requires_pruning: bool,
    /// True if a user must approve the deletion of the resource.
    #[serde(default, skip_serializing_if = "is_false")]
    pub requires_deletion_confirmation: bool,
    /// Sync wave (default: 0).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub sync_wave: i64,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Problem with an Application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationCondition {
    /// Type of the condition.
    #[serde(rename = "type")]
    pub kind: ConditionType,
    /// Human-readable description of the problem.
    pub message: String,
    /// Time at which the condition first had this message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
}

/// Type of an Application condition. Errors are listed first, then warnings.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum ConditionType {
    /// The manifests could not be read or compared.
    ComparisonError,
    /// The Application could not be deleted.
    DeletionError,
    /// The specification is invalid.
    InvalidSpecError,
    /// An automated sync failed or was not started.
    SyncError,
    /// An error of a different type occurred.
    UnknownError,
    /// A resource's kind is excluded from observation.
    ExcludedResourceWarning,
    /// The cluster contains orphaned objects.
    OrphanedResourceWarning,
    /// The manifests contain an object more than once.
    RepeatedResourceWarning,
    /// An object belongs to another Application.
    SharedResourceWarning,
    /// A type that is not listed here.
    #[serde(untagged)]
    Other(String),
}

impl ConditionType {
    /// Returns true for errors and false for warnings.
    pub fn is_error(&self) -> bool {
        match self {
            Self::Other(name) => name.ends_with("Error"),
            known => *known <= Self::UnknownError,
        }
    }
}

impl fmt::Display for ConditionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other(name) => f.write_str(name),
            known => fmt::Debug::fmt(known, f),
        }
    }
}

/// Successful sync in the history.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RevisionHistory {
    /// Sequence number, incremented on every sync.
    pub id: i64,
    /// Deployed revision of an Application with a single source.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub revision: String,
    /// Revisions of an Application with multiple sources, in the order of the sources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub revisions: Vec<String>,
    /// Source of an Application with a single source. Not set if there are multiple sources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<ApplicationSource>,
    /// Sources of an Application with multiple sources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<ApplicationSource>,
    /// Time at which the sync started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deploy_started_at: Option<Time>,
    /// Time at which the sync succeeded.
    pub deployed_at: Time,
    /// Requester of the sync: a user, or the Application's sync policy.
    #[serde(default, skip_serializing_if = "super::OperationInitiator::is_nobody")]
    pub initiated_by: super::OperationInitiator,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// State of the running or most recent operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperationState {
    /// The operation as requested.
    pub operation: OperationRequest,
    /// Phase of the operation: `Running`, `Terminating`, or its final phase.
    pub phase: OperationPhase,
    /// Human-readable progress or result of the operation.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Time at which the operation started.
    pub started_at: Time,
    /// Time at which the operation ended. Not set while it is running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
    /// Number of retries so far.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retry_count: i64,
    /// Result of the sync.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_result: Option<SyncOperationResult>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Result of a sync.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["revision"]))]
pub struct SyncOperationResult {
    /// Revision that was synced.
    #[serde(default)]
    pub revision: String,
    /// Revisions of an Application with multiple sources, in the order of the sources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub revisions: Vec<String>,
    /// Source of an Application with a single source. Not set if there are multiple sources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<ApplicationSource>,
    /// Sources of an Application with multiple sources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<ApplicationSource>,
    /// Labels and annotations of the namespace that the sync created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed_namespace_metadata: Option<ManagedNamespaceMetadata>,
    /// Results for individual objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<SyncResource>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Result of a sync for one object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SyncResource {
    /// API group. Empty for the core API group.
    pub group: String,
    /// API version of the manifest, without the group.
    pub version: String,
    /// Kind of the object.
    pub kind: String,
    /// Namespace. Empty for cluster-scoped objects.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// Result: `Synced`, `SyncFailed`, `Pruned` or `PruneSkipped`. Empty for a hook.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub status: String,
    /// Message from the API server, or the health message of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Type of the hook, such as `PreSync` or `Sync`. Empty for a resource that is not a hook.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hook_type: String,
    /// Phase of the hook, or health of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hook_phase: String,
    /// Sync phase in which the object was applied, run or pruned, such as `PreSync` or `Sync`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sync_phase: String,
    /// Images of the containers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Images and URLs of an Application.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApplicationSummary {
    /// Images of the running containers, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// URLs at which the Application is reachable from outside the cluster.
    #[serde(default, rename = "externalURLs", skip_serializing_if = "Vec::is_empty")]
    pub external_urls: Vec<String>,
    /// True if the Application manages other Applications.
    #[serde(default, rename = "isAppOfApps", skip_serializing_if = "is_false")]
    pub is_app_of_apps: bool,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

impl ApplicationSummary {
    /// Returns true if all fields are unset.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
