use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Time, UnknownFields, control_namespace};

/// Metadata of a custom resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectMeta {
    /// Name of the object, unique among the objects of its kind in a namespace.
    #[serde(default)]
    pub name: String,
    /// Namespace of the object. Empty means the namespace of the control plane.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Unique identifier, assigned by the API server.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Resource version, assigned by the API server.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// Time of creation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Time>,
    /// Time at which deletion was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<Time>,
    /// Labels, for use in selectors.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations. Tidegate reads those in `argocd.argoproj.io` and `tidegate.dev`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Finalizers. The object is deleted only after all of them have been removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// Other fields, such as `ownerReferences`, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

impl ObjectMeta {
    /// Returns the namespace of the object, or that of the control plane if none is set.
    pub fn namespace_or_default(&self) -> &str {
        match self.namespace.as_str() {
            "" => control_namespace(),
            namespace => namespace,
        }
    }
}
