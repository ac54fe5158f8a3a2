use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ApplicationDestination, ApplicationSource, OperationRequest, Rest, Time, is_false, is_zero};
use crate::argo::{ManagedNamespaceMetadata, ResourceIgnoreDifferences};
use crate::{HealthStatus, OperationPhase};

/// What was found out and done: `status` of an application.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationStatus {
    /// How it stands to its manifests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync: Option<SyncStatus>,
    /// How well it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<HealthState>,
    /// Each resource of the manifests, and each in the cluster that is the application's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<ResourceStatus>,
    /// What is wrong with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ApplicationCondition>,
    /// Its syncs that succeeded, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<RevisionHistory>,
    /// The operation under way, or the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_state: Option<OperationState>,
    /// When it was last compared with the newest revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reconciled_at: Option<Time>,
    /// Written by older programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_at: Option<Time>,
    /// What makes its manifests: `Directory`, `Helm`, `Kustomize`, `Plugin`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source_type: String,
    /// The same, of several sources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source_types: Vec<String>,
    /// What runs in it.
    #[serde(default, skip_serializing_if = "ApplicationSummary::is_empty")]
    pub summary: ApplicationSummary,
    /// Where the health of its resources is kept; empty for here.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub resource_health_source: String,
    /// Namespace of the control plane that works on it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub controller_namespace: String,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

impl ApplicationStatus {
    /// Whether nothing is known yet.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// How an application stands to its manifests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SyncStatus {
    /// The verdict over all resources: one that differs makes the application `OutOfSync`.
    pub status: SyncStatusCode,
    /// Which manifests were compared with which place; a later change of the spec makes a new comparison due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compared_to: Option<ComparedTo>,
    /// The revision that was compared.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub revision: String,
    /// The revisions, of several sources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub revisions: Vec<String>,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Whether the cluster is as the manifests want it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SyncStatusCode {
    /// It could not be told; Argo CD writes an empty text until it has tried.
    #[default]
    #[serde(alias = "")]
    Unknown,
    /// Nothing differs that counts.
    Synced,
    /// Something differs, is missing, or is there and no longer wanted.
    OutOfSync,
}

impl fmt::Display for SyncStatusCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What was compared with the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComparedTo {
    /// The only source; nothing where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<ApplicationSource>,
    /// The sources, of several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<ApplicationSource>,
    /// The cluster and namespace that the manifests were compared with.
    pub destination: ApplicationDestination,
    /// Differences that did not count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore_differences: Vec<ResourceIgnoreDifferences>,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// How well an application, or one of its resources, does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthState {
    /// In one word; an application does as its worst resource. Argo CD writes nothing where it does not know.
    #[serde(default = "unknown")]
    pub status: HealthStatus,
    /// Why, for people; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When `status` became what it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

const fn unknown() -> HealthStatus {
    HealthStatus::Unknown
}

/// One resource of an application.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceStatus {
    /// API group, empty for the core API.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// API version of its manifest, without the group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// `kind` of the resource.
    #[serde(default)]
    pub kind: String,
    /// Namespace, empty for cluster-scoped resources.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// `metadata.name` of the resource.
    #[serde(default)]
    pub name: String,
    /// How it stands to its manifest; nothing for what is not compared, such as hooks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<SyncStatusCode>,
    /// How well it does; nothing for kinds without health.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<HealthState>,
    /// It is a hook, which is not compared with its manifest.
    #[serde(default, skip_serializing_if = "is_false")]
    pub hook: bool,
    /// It is no longer in the manifests.
    #[serde(default, skip_serializing_if = "is_false")]
    pub requires_pruning: bool,
    /// A person has to approve its deletion.
    #[serde(default, skip_serializing_if = "is_false")]
    pub requires_deletion_confirmation: bool,
    /// Number of its wave; 0 where nothing says so.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub sync_wave: i64,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What is wrong with an application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationCondition {
    /// What kind of wrong.
    #[serde(rename = "type")]
    pub kind: ConditionType,
    /// What is wrong, in a sentence for people.
    pub message: String,
    /// When it was first so, with this very message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
}

/// Kinds of conditions: errors, then warnings.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum ConditionType {
    /// The manifests could not be read, or not be compared.
    ComparisonError,
    /// It could not be deleted.
    DeletionError,
    /// What it asks for cannot be.
    InvalidSpecError,
    /// It is not synced by itself, or that failed.
    SyncError,
    /// Something else went wrong.
    UnknownError,
    /// A kind that is not looked at.
    ExcludedResourceWarning,
    /// Objects that belong to nobody.
    OrphanedResourceWarning,
    /// An object is in the manifests more than once.
    RepeatedResourceWarning,
    /// An object belongs to another application.
    SharedResourceWarning,
    /// One that is not known here.
    #[serde(untagged)]
    Other(String),
}

impl ConditionType {
    /// Whether it is an error, and no warning.
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

/// A sync that succeeded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RevisionHistory {
    /// Number; that of the next one is one more.
    pub id: i64,
    /// The revision that was deployed, of the only source.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub revision: String,
    /// The revisions, of several sources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub revisions: Vec<String>,
    /// The only source; nothing where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<ApplicationSource>,
    /// The sources, of several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<ApplicationSource>,
    /// When the sync began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deploy_started_at: Option<Time>,
    /// When the sync had succeeded.
    pub deployed_at: Time,
    /// Who asked for the sync: a person, or the policy of the application.
    #[serde(default, skip_serializing_if = "super::OperationInitiator::is_nobody")]
    pub initiated_by: super::OperationInitiator,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// The operation under way, or the last one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperationState {
    /// What was asked: the operation as it was begun.
    pub operation: OperationRequest,
    /// `Running`, `Terminating`, or what it has ended in.
    pub phase: OperationPhase,
    /// What it is doing or waiting for, or how it has ended.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When it was begun.
    pub started_at: Time,
    /// When it ended; nothing while it is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
    /// How many times it was tried again.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retry_count: i64,
    /// What became of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_result: Option<SyncOperationResult>,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What became of a sync.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["revision"]))]
pub struct SyncOperationResult {
    /// The revision that was synced to.
    #[serde(default)]
    pub revision: String,
    /// The revisions, of several sources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub revisions: Vec<String>,
    /// The only source; nothing where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<ApplicationSource>,
    /// The sources, of several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<ApplicationSource>,
    /// What the namespace that was made bears.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed_namespace_metadata: Option<ManagedNamespaceMetadata>,
    /// What became of each object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<SyncResource>,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What became of one object of a sync.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SyncResource {
    /// API group, empty for the core API.
    pub group: String,
    /// API version of the manifest, without the group.
    pub version: String,
    /// `kind` of the object.
    pub kind: String,
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: String,
    /// `metadata.name` of the object.
    pub name: String,
    /// `Synced`, `SyncFailed`, `Pruned`, `PruneSkipped`; empty for a hook.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub status: String,
    /// The cluster's words, or the health message.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// `PreSync`, `Sync` … for a hook; empty for a resource.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hook_type: String,
    /// How the hook, or the health of the object, stands.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hook_phase: String,
    /// Phase in which it was written, run or pruned: `PreSync`, `Sync` …
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sync_phase: String,
    /// Images of its containers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What runs in an application.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApplicationSummary {
    /// Images of its containers as they are in the cluster, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// Where it is reached from outside.
    #[serde(default, rename = "externalURLs", skip_serializing_if = "Vec::is_empty")]
    pub external_urls: Vec<String>,
    /// It makes applications.
    #[serde(default, rename = "isAppOfApps", skip_serializing_if = "is_false")]
    pub is_app_of_apps: bool,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

impl ApplicationSummary {
    /// Whether there is nothing to say.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
