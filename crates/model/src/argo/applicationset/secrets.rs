use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::argo::Rest;

/// A user, and where their password is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BasicAuth {
    /// Name of the user.
    pub username: String,
    /// Where the password is.
    pub password_ref: SecretKey,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Where a token is that says by itself who asks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BearerToken {
    /// Where the token is.
    pub token_ref: SecretKey,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Where something secret is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretKey {
    /// `metadata.name` of the Secret.
    pub secret_name: String,
    /// Which of its entries: a key of its `data`.
    pub key: String,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Where a text is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapKey {
    /// `metadata.name` of the ConfigMap.
    pub config_map_name: String,
    /// Which of its entries: a key of its `data`.
    pub key: String,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}
