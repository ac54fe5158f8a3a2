use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ObjectMeta, ResourceVersion, Rest, is_false, schemas};

/// `kind` of an [`AppProject`]; nothing else is taken for one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AppProjectKind {
    /// The only one there is.
    #[default]
    AppProject,
}

/// What the applications of a project may do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppProject {
    /// Always [`API_VERSION`](super::API_VERSION).
    pub api_version: ResourceVersion,
    /// Always `AppProject`: anything else is refused.
    pub kind: AppProjectKind,
    /// Its name, by which applications name it, its namespace, its labels and annotations.
    pub metadata: ObjectMeta,
    /// What they may do.
    pub spec: AppProjectSpec,
    /// Everything else, such as the status.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What the applications of a project may do: `spec` of an [`AppProject`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppProjectSpec {
    /// What the project is for, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 255))]
    pub description: String,
    /// Repositories they may use, as patterns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source_repos: Vec<String>,
    /// Namespaces their applications may be in, besides that of the control plane.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source_namespaces: Vec<String>,
    /// Where they may deploy to, as patterns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub destinations: Vec<ProjectDestination>,
    /// On whose behalf they are deployed where.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub destination_service_accounts: Vec<DestinationServiceAccount>,
    /// Kinds of the cluster scope that they may have; none if not said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_resource_whitelist: Vec<ClusterResource>,
    /// Kinds of the cluster scope that they may not have, also where the whitelist has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_resource_blacklist: Vec<ClusterResource>,
    /// Kinds in namespaces that they may have; all if not said, none if it is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_resource_whitelist: Option<Vec<NamespaceResource>>,
    /// Kinds in namespaces that they may not have, also where the whitelist has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespace_resource_blacklist: Vec<NamespaceResource>,
    /// Only clusters that are declared for this project.
    #[serde(default, skip_serializing_if = "is_false")]
    pub permit_only_project_scoped_clusters: bool,
    /// Keys that commits must be signed with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signature_keys: Vec<SignatureKey>,
    /// What commits must prove.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::source_integrity")]
    pub source_integrity: Option<Value>,
    /// When they may be synced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sync_windows: Vec<SyncWindow>,
    /// Everything else: roles, orphaned resources.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A place a project may deploy to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProjectDestination {
    /// URL of the API server.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub server: String,
    /// Name of the cluster.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Namespaces there, as a pattern.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// On whose behalf is deployed to a place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DestinationServiceAccount {
    /// URL of the API server, as a pattern.
    pub server: String,
    /// Namespace, as a pattern.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The service account, or `NAMESPACE:NAME`.
    pub default_service_account: String,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Kinds of the cluster scope, as patterns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterResource {
    /// API group; empty for the core API.
    pub group: String,
    /// Kinds, as a pattern: `*` stands for all.
    pub kind: String,
    /// Name; all if not said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Kinds that live in namespaces, as patterns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NamespaceResource {
    /// API group; empty for the core API.
    pub group: String,
    /// Kinds, as a pattern: `*` stands for all.
    pub kind: String,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A key that commits must be signed with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SignatureKey {
    /// Id of the key, as GnuPG shows it.
    #[serde(rename = "keyID")]
    pub key_id: String,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// When applications of a project may be synced, or may not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SyncWindow {
    /// `allow` or `deny`; where windows of both kinds are active, `deny` counts.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// When it begins: five fields, as cron has them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub schedule: String,
    /// How long it lasts, such as `8h`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub duration: String,
    /// Names of applications it is about, as patterns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub applications: Vec<String>,
    /// Namespaces that are deployed to, as patterns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// Clusters that are deployed to, by name or URL, as patterns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<String>,
    /// Syncs that a person asks for may pass all the same.
    #[serde(default, skip_serializing_if = "is_false")]
    pub manual_sync: bool,
    /// The time zone of the schedule, such as `Europe/Berlin`; UTC if not said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub time_zone: String,
    /// All of applications, namespaces and clusters must match, as far as they are said, and not one of them.
    #[serde(default, skip_serializing_if = "is_false")]
    pub and_operator: bool,
    /// Syncs that were allowed when they began may go on.
    #[serde(default, skip_serializing_if = "is_false")]
    pub sync_overrun: bool,
    /// What the window is for, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}
