use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::argo::UnknownFields;

/// Order in which Applications are synced and deleted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationSetStrategy {
    /// Type of the strategy: `AllAtOnce` (default) or `RollingSync`. The schema accepts any string.
    #[serde(default, rename = "type", skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Steps of the `RollingSync` strategy. Other strategies don't have steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolling_sync: Option<RolloutSteps>,
    /// Order of deletion: `AllAtOnce` (default), `Reverse` or `Custom`. The schema accepts any string.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub deletion_order: String,
    /// Steps of the `Custom` deletion order. Not part of Argo CD's definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_sync: Option<RolloutSteps>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Sequence of steps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RolloutSteps {
    /// Steps, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<RolloutStep>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Step of a rollout: selected Applications, and the maximum number of concurrent updates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStep {
    /// Requirements that an Application's labels must meet. All of them are required.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<MatchExpression>,
    /// Maximum number of concurrent updates, as a number or a percentage such as `10%` (default: all).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "IntOrString")]
    pub max_update: Option<IntOrString>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Requirement on a label.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MatchExpression {
    /// Name of the label.
    #[serde(default)]
    pub key: String,
    /// Operator: `In` or `NotIn`. Selectors also support `Exists` and `DoesNotExist`. The schema accepts any
    /// string.
    #[serde(default)]
    pub operator: String,
    /// Values that the operator compares the label with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// A number, or a string such as `10%`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum IntOrString {
    /// Number of Applications.
    Int(i64),
    /// Percentage of the Applications, such as `10%`.
    String(String),
}

impl fmt::Display for IntOrString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(number) => number.fmt(f),
            Self::String(text) => text.fmt(f),
        }
    }
}

impl JsonSchema for IntOrString {
    fn schema_name() -> Cow<'static, str> {
        "IntOrString".into()
    }

    /// Returns a schema that allows any value. With `x-kubernetes-int-or-string`, Kubernetes 1.20 ignores the
    /// schema during apply and treats each list as atomic. Other types are rejected when the resource is
    /// read.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"x-kubernetes-preserve-unknown-fields": true})
    }
}
