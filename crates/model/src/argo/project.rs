use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ObjectMeta, ResourceVersion, UnknownFields, is_false, schema_overrides};

/// `kind` of an [`AppProject`]; other values are rejected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AppProjectKind {
    /// The only valid kind.
    #[default]
    AppProject,
}

/// Restrictions that apply to a group of Applications.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppProject {
    /// Always `argoproj.io/v1alpha1`.
    pub api_version: ResourceVersion,
    /// Always `AppProject`. Other kinds are rejected.
    pub kind: AppProjectKind,
    /// Standard object metadata. Applications refer to the project by its name.
    pub metadata: ObjectMeta,
    /// Restrictions that apply to the project's Applications.
    pub spec: AppProjectSpec,
    /// Other fields, such as `status`, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Restrictions that apply to the Applications of an [`AppProject`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppProjectSpec {
    /// Description of the project.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 255))]
    pub description: String,
    /// Glob patterns for the permitted repositories.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source_repos: Vec<String>,
    /// Namespaces that may contain the project's Applications, in addition to the namespace of the control
    /// plane.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source_namespaces: Vec<String>,
    /// Glob patterns for the permitted destinations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub destinations: Vec<ProjectDestination>,
    /// Service accounts to impersonate, for each destination.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub destination_service_accounts: Vec<DestinationServiceAccount>,
    /// Cluster-scoped kinds that are permitted (default: none).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_resource_whitelist: Vec<ClusterResource>,
    /// Cluster-scoped kinds that are forbidden. Takes precedence over the whitelist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_resource_blacklist: Vec<ClusterResource>,
    /// Namespaced kinds that are permitted (default: all). An empty list permits none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_resource_whitelist: Option<Vec<NamespaceResource>>,
    /// Namespaced kinds that are forbidden. Takes precedence over the whitelist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespace_resource_blacklist: Vec<NamespaceResource>,
    /// True if only clusters that are declared for this project are permitted as destinations.
    #[serde(default, skip_serializing_if = "is_false")]
    pub permit_only_project_scoped_clusters: bool,
    /// GnuPG keys that may sign commits. Commits must be signed with one of these keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signature_keys: Vec<SignatureKey>,
    /// Required proofs of commit integrity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema_overrides::source_integrity")]
    pub source_integrity: Option<Value>,
    /// Time windows in which syncs are allowed or denied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sync_windows: Vec<SyncWindow>,
    /// Other fields, such as `roles` and `orphanedResources`, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Permitted destination.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProjectDestination {
    /// URL of the API server.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub server: String,
    /// Name of the cluster.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Glob pattern for the namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Service account to impersonate for a destination.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DestinationServiceAccount {
    /// Glob pattern for the API server's URL.
    pub server: String,
    /// Glob pattern for the namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name of the service account, or `NAMESPACE:NAME`.
    pub default_service_account: String,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Glob patterns for cluster-scoped kinds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterResource {
    /// API group. Empty for the core API group.
    pub group: String,
    /// Glob pattern for the kind. `*` matches every kind.
    pub kind: String,
    /// Name of the resource (default: every name).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Glob patterns for namespaced kinds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NamespaceResource {
    /// API group. Empty for the core API group.
    pub group: String,
    /// Glob pattern for the kind. `*` matches every kind.
    pub kind: String,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// GnuPG key that may sign commits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SignatureKey {
    /// ID of the key, as printed by GnuPG.
    #[serde(rename = "keyID")]
    pub key_id: String,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Time window in which syncs are allowed or denied.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SyncWindow {
    /// `allow` or `deny`. `deny` takes precedence if windows of both kinds are active.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Start times of the window as a cron schedule with five fields.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub schedule: String,
    /// Duration of the window, such as `8h`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub duration: String,
    /// Glob patterns for the names of the affected Applications.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub applications: Vec<String>,
    /// Glob patterns for the destination namespaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// Glob patterns for the names or URLs of the destination clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<String>,
    /// True if users may start syncs regardless of the window.
    #[serde(default, skip_serializing_if = "is_false")]
    pub manual_sync: bool,
    /// Time zone of the schedule, such as `Europe/Berlin` (default: UTC).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub time_zone: String,
    /// True if an Application must match every list that is set: applications, namespaces and clusters.
    /// If false, one matching list is sufficient.
    #[serde(default, skip_serializing_if = "is_false")]
    pub and_operator: bool,
    /// True if a sync that was allowed when it started may continue after the window closes.
    #[serde(default, skip_serializing_if = "is_false")]
    pub sync_overrun: bool,
    /// Description of the window.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}
