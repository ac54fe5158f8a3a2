use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CONTROL_NAMESPACE, Rest, Time};

/// `metadata` of a custom resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectMeta {
    /// `metadata.name`: no two objects of a kind have the same in one namespace.
    #[serde(default)]
    pub name: String,
    /// Namespace; empty for that of the control plane.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Identity given by the cluster.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Version given by the cluster.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// When it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Time>,
    /// When somebody asked for its deletion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<Time>,
    /// What selectors find it by.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// What people and programs note about it; those of `argocd.argoproj.io` and `tidegate.dev` are read here.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// What keeps it while it is being deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// Everything else, such as owners.
    #[serde(flatten)]
    pub rest: Rest,
}

impl ObjectMeta {
    /// Where it is: its namespace, or that of the control plane where it names none.
    pub fn home(&self) -> &str {
        match self.namespace.as_str() {
            "" => CONTROL_NAMESPACE,
            namespace => namespace,
        }
    }
}
