use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::argo::Rest;

/// `spec.strategy`: in which order Applications are synced and deleted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationSetStrategy {
    /// `AllAtOnce` (also if empty) or `RollingSync`; any text can be there.
    #[serde(default, rename = "type", skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The steps of the strategy `RollingSync`; others have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolling_sync: Option<RolloutSteps>,
    /// `AllAtOnce` (also if empty), `Reverse` or `Custom`; any text can be there.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub deletion_order: String,
    /// The steps of the deletion order `Custom`. Argo CD's own definition does not have them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_sync: Option<RolloutSteps>,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Steps, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RolloutSteps {
    /// The steps, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<RolloutStep>,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// One step: the Applications that it is about, and how many of them at once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStep {
    /// By their labels: all of these must hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<MatchExpression>,
    /// How many at once: a number, or a share such as `10%`; all if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "IntOrString")]
    pub max_update: Option<IntOrString>,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What is asked of one label.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MatchExpression {
    /// Name of the label.
    #[serde(default)]
    pub key: String,
    /// `In`, `NotIn`; in selectors `Exists` and `DoesNotExist` too. Any text can be there.
    #[serde(default)]
    pub operator: String,
    /// The values it is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A number, or a text such as `10%`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum IntOrString {
    /// A number of Applications.
    Int(i64),
    /// A text: a share of them, such as `10%`.
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

    /// Whatever it is: where a schema says `x-kubernetes-int-or-string`, Kubernetes 1.20 does without it when it applies a
    /// resource, and takes each list for one value. What is neither is refused when it is read.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"x-kubernetes-preserve-unknown-fields": true})
    }
}
