use serde::{Deserialize, Serialize};

/// Snapshot of a project's rules, and of the data to check each write against. Stored with the operation, so
/// the same rules apply if another process resumes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProjectPolicy {
    /// Name of the project.
    pub project: String,
    /// True if the project isn't declared, which leaves the operation unrestricted.
    #[serde(default)]
    pub is_implicit: bool,
    /// True if an automated sync started the operation, rather than a request.
    #[serde(default)]
    pub is_automated: bool,
    /// Namespace of the Application. If empty, the control plane's namespace.
    #[serde(default)]
    pub namespace: String,
    /// Repositories of the manifests, without credentials.
    pub repositories: Vec<String>,
    /// Cluster and namespace that the objects are deployed to.
    pub target: DeployTarget,
    /// User that writes the objects. If empty, the user that runs the operation writes them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub user: String,
}

/// Cluster and namespace as project rules refer to them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeployTarget {
    /// URLs of the cluster, the preferred one first.
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
