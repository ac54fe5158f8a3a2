use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ObjectMeta, ResourceVersion, Rest};

/// `kind` of an [`AppProject`].
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
    /// Always `AppProject`.
    pub kind: AppProjectKind,
    /// Name, namespace, annotations …
    pub metadata: ObjectMeta,
    /// What they may do.
    pub spec: AppProjectSpec,
    /// Everything else, such as the status.
    #[serde(flatten)]
    pub rest: Rest,
}

/// `spec` of an [`AppProject`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppProjectSpec {
    /// For people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
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
    /// Everything else: rules for kinds, roles, sync windows.
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
    /// Namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}
