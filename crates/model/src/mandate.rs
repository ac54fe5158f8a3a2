use serde::{Deserialize, Serialize};

/// What an operation was begun for: its project, and what the rules of that project are asked about whenever it writes.
/// Kept with the operation, so that they hold for one that is gone on with by another process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mandate {
    /// Name of the project.
    pub project: String,
    /// Nobody had written the project down, so that nothing was forbidden.
    #[serde(default)]
    pub is_implicit: bool,
    /// Nobody asked for the operation: the application is synced by itself.
    #[serde(default)]
    pub is_automated: bool,
    /// The namespace of the application; empty for that of the control plane.
    #[serde(default)]
    pub namespace: String,
    /// Where its manifests come from, without credentials.
    pub repositories: Vec<String>,
    /// Cluster and namespace that its objects go to.
    pub target: DeployTarget,
    /// The user that its objects are written as; empty for whoever carries it out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub user: String,
}

/// A cluster and a namespace, as the rules of projects name them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeployTarget {
    /// The URLs that the cluster goes by, the usual one first.
    pub servers: Vec<String>,
    /// The name that it goes by.
    #[serde(default)]
    pub name: String,
    /// The project that it is declared for; empty for all.
    #[serde(default)]
    pub project: String,
    /// Where objects go that name no namespace.
    pub namespace: String,
}
