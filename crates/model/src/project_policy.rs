use serde::{Deserialize, Serialize};

/// Snapshot of a project's rules, and of the data that each write is checked against. The snapshot is stored
/// with the operation, so the same rules apply if another process resumes the operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProjectPolicy {
    /// Name of the project.
    pub project: String,
    /// True if the project is not declared, so the operation isn't restricted.
    #[serde(default)]
    pub is_implicit: bool,
    /// True if an automated sync started the operation, rather than a request.
    #[serde(default)]
    pub is_automated: bool,
    /// Namespace of the Application. Empty for the namespace of the control plane.
    #[serde(default)]
    pub namespace: String,
    /// Repositories that the manifests come from, without credentials.
    pub repositories: Vec<String>,
    /// Cluster and namespace that the objects are deployed to.
    pub target: DeployTarget,
    /// User that writes the objects. Empty for the user that runs the operation.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub user: String,
}

/// Cluster and namespace in the form that project rules use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeployTarget {
    /// URLs of the cluster, with the preferred URL first.
    pub servers: Vec<String>,
    /// Name of the cluster.
    #[serde(default)]
    pub name: String,
    /// Project that the cluster is reserved for. Empty if all projects may use it.
    #[serde(default)]
    pub project: String,
    /// Namespace for objects that don't specify one.
    pub namespace: String,
}
