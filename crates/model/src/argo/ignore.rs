use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Rest;
use crate::IgnoreDifference;

/// One entry of `spec.ignoreDifferences`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceIgnoreDifferences {
    /// API group, may hold `*` and `?`; empty for the core API.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Kind, may hold `*` and `?`.
    pub kind: String,
    /// Name; empty for any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Namespace; empty for any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Fields, as JSON pointers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub json_pointers: Vec<String>,
    /// Fields, as jq path expressions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jq_path_expressions: Vec<String>,
    /// Fields that these field managers own in the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub managed_fields_managers: Vec<String>,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
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
