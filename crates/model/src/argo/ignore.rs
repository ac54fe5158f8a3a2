use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::UnknownFields;
use crate::IgnoreDifference;

/// Differences to ignore when the cluster is compared with the manifests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceIgnoreDifferences {
    /// API group, with the wildcards `*` and `?`. Empty for the core API group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Kind, with the wildcards `*` and `?`.
    pub kind: String,
    /// Name of the object. Empty matches every name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Namespace of the object. Empty matches every namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// JSON pointers (RFC 6901) to the fields to ignore.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub json_pointers: Vec<String>,
    /// jq path expressions that select the fields to ignore.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jq_path_expressions: Vec<String>,
    /// Names of field managers. Fields that they own in the cluster are ignored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub managed_fields_managers: Vec<String>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

impl From<&ResourceIgnoreDifferences> for IgnoreDifference {
    fn from(entry: &ResourceIgnoreDifferences) -> Self {
        let entry = entry.clone();
        Self {
            group: entry.group,
            kind: entry.kind,
            name: entry.name,
            namespace: entry.namespace,
            json_pointers: entry.json_pointers,
            jq_path_expressions: entry.jq_path_expressions,
            managed_fields_managers: entry.managed_fields_managers,
        }
    }
}
