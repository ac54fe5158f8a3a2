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

/// Restrictions on a group of Applications.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppProject {
    /// Always `argoproj.io/v1alpha1`.
    pub api_version: ResourceVersion,
    /// Always `AppProject`. Other kinds are rejected.
    pub kind: AppProjectKind,
    /// Standard object metadata. Applications refer to the project by its name.
    pub metadata: ObjectMeta,
    /// Restrictions on the Applications of the project.
    pub spec: AppProjectSpec,
    /// Other fields, such as `status`, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Restrictions on the Applications of an [`AppProject`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppProjectSpec {
    /// Description of the project.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 255))]
    pub description: String,
    /// Glob patterns of the permitted repositories.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source_repos: Vec<String>,
    /// Namespaces that may contain Applications of the project, in addition to the namespace of the control plane.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source_namespaces: Vec<String>,
    /// Glob patterns of the permitted destinations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub destinations: Vec<ProjectDestination>,
    /// Service accounts that are impersonated for each destination.
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
    /// GnuPG keys that commits must be signed with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signature_keys: Vec<SignatureKey>,
    /// Required proofs of the integrity of commits.
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
    /// Glob pattern of the namespaces.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Service account that is impersonated for a destination.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DestinationServiceAccount {
    /// Glob pattern of the URL of the API server.
    pub server: String,
    /// Glob pattern of the namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name of the service account, or `NAMESPACE:NAME`.
    pub default_service_account: String,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Glob patterns of cluster-scoped kinds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterResource {
    /// API group. Empty for the core API group.
    pub group: String,
    /// Glob pattern of the kinds. `*` matches all kinds.
    pub kind: String,
    /// Name (default: all names).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Glob patterns of namespaced kinds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NamespaceResource {
    /// API group. Empty for the core API group.
    pub group: String,
    /// Glob pattern of the kinds. `*` matches all kinds.
    pub kind: String,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// GnuPG key that commits must be signed with.
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
    /// Start of the window as a cron schedule with five fields.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub schedule: String,
    /// Duration of the window, such as `8h`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub duration: String,
    /// Glob patterns of the names of the affected Applications.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub applications: Vec<String>,
    /// Glob patterns of the destination namespaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// Glob patterns of the names or URLs of the destination clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<String>,
    /// True if syncs requested by a user are allowed regardless of the window.
    #[serde(default, skip_serializing_if = "is_false")]
    pub manual_sync: bool,
    /// Time zone of the schedule, such as `Europe/Berlin` (default: UTC).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub time_zone: String,
    /// True if applications, namespaces and clusters must all match, as far as they are set. Otherwise one match suffices.
    #[serde(default, skip_serializing_if = "is_false")]
    pub and_operator: bool,
    /// True if a sync may continue if it was allowed when it started.
    #[serde(default, skip_serializing_if = "is_false")]
    pub sync_overrun: bool,
    /// Description of the window.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}
