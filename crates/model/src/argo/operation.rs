use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ApplicationSource, Retry, UnknownFields, is_false, is_zero};

/// Requested operation: the `operation` field of an Application. It is copied to the status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperationRequest {
    /// Sync to run. No other types of operation exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync: Option<SyncOperation>,
    /// Requester of the operation: a user, or the Application's sync policy.
    #[serde(default, skip_serializing_if = "OperationInitiator::is_nobody")]
    pub initiated_by: OperationInitiator,
    /// Informational entries for users and programs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub info: Vec<Info>,
    /// Retry policy for failed attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

impl OperationRequest {
    /// Returns true if the operation is a dry run, which doesn't write to the cluster.
    pub fn is_dry_run(&self) -> bool {
        self.sync.as_ref().is_some_and(|sync| sync.dry_run)
    }

    /// Returns the value of the informational entry with the given name, if present.
    pub fn info_value(&self, name: &str) -> Option<&str> {
        self.info.iter().find(|info| info.name == name).map(|info| info.value.as_str())
    }

    /// Sets an informational entry, replacing all entries with the same name.
    pub fn set_info(&mut self, name: &str, value: impl Into<String>) {
        self.info.retain(|info| info.name != name);
        self.info.push(Info { name: name.to_owned(), value: value.into() });
    }
}

/// Informational entry: a name and a value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Info {
    /// Name of the entry.
    pub name: String,
    /// Value of the entry.
    pub value: String,
}

/// User or sync policy that requested an operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperationInitiator {
    /// Name of the user. Empty if no user requested the operation.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub username: String,
    /// True if the Application's sync policy started the operation.
    #[serde(default, skip_serializing_if = "is_false")]
    pub automated: bool,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

impl OperationInitiator {
    /// Requester name for operations started by the Application's sync policy.
    pub const AUTOMATED_USERNAME: &str = "automated";

    /// Returns the requester's name. This is the user's name if set, even if the sync policy acts on the
    /// user's behalf. Otherwise, it is `automated` if the sync policy acts alone, or else an empty string.
    pub fn name(&self) -> &str {
        match self.username.as_str() {
            "" if self.automated => Self::AUTOMATED_USERNAME,
            name => name,
        }
    }

    /// Returns true if all fields are unset.
    pub fn is_nobody(&self) -> bool {
        *self == Self::default()
    }
}

/// Requested sync.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SyncOperation {
    /// Revision to sync to. Empty means the target revision of the source.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub revision: String,
    /// Revisions to sync to, for an Application with multiple sources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub revisions: Vec<String>,
    /// True if objects that are no longer in the manifests are deleted.
    #[serde(default, skip_serializing_if = "is_false")]
    pub prune: bool,
    /// True if the API server validates all writes without persisting them.
    #[serde(default, skip_serializing_if = "is_false")]
    pub dry_run: bool,
    /// Resources to sync. Empty selects all resources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<OperationResource>,
    /// Source that replaces the Application's source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<ApplicationSource>,
    /// Sources that replace the Application's sources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<ApplicationSource>,
    /// Manifests that the requester supplies. They replace the manifests from all sources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifests: Vec<String>,
    /// Sync options, such as `CreateNamespace=true`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sync_options: Vec<String>,
    /// Strategy for writing objects, with or without hooks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_strategy: Option<SyncStrategy>,
    /// Number of consecutive self-heal attempts since the manifests last changed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub auto_heal_attempts_count: i64,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Resource to include in a selective sync.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OperationResource {
    /// API group. Empty for the core API group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Kind of the resource.
    pub kind: String,
    /// Name of the resource.
    pub name: String,
    /// Namespace. Empty matches every namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Strategy for writing objects. Hooks run unless `apply` is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SyncStrategy {
    /// Applies the manifests without running hooks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apply: Option<Strategy>,
    /// Applies the manifests and runs hooks (the default strategy).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook: Option<Strategy>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Options for either strategy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Strategy {
    /// True if objects that cannot be updated are deleted and recreated.
    #[serde(default, skip_serializing_if = "is_false")]
    pub force: bool,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}
