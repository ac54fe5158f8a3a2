use serde::{Deserialize, Serialize};

/// Snapshot of the project rules for an operation, and of the data that each write is checked against. It is
/// stored with the operation, so the same rules apply after another process resumes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProjectPolicy {
    /// Name of the project.
    pub project: String,
    /// True if the project was not declared, so the operation isn't restricted.
    #[serde(default)]
    pub is_implicit: bool,
    /// True if an automated sync started the operation, rather than a request.
    #[serde(default)]
    pub is_automated: bool,
    /// Namespace of the application. Empty for the control-plane namespace.
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
    /// URLs of the cluster, preferred URL first.
    pub servers: Vec<String>,
    /// Name of the cluster.
    #[serde(default)]
    pub name: String,
    /// Project that the cluster is restricted to. Empty if all projects may use it.
    #[serde(default)]
    pub project: String,
    /// Namespace for objects that don't specify a namespace.
    pub namespace: String,
}
