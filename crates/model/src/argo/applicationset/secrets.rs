use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::argo::Rest;

/// User and password.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BasicAuth {
    /// Name of the user.
    pub username: String,
    /// The password.
    pub password_ref: SecretKey,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A token.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BearerToken {
    /// The token.
    pub token_ref: SecretKey,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Where something secret is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretKey {
    /// Name of the Secret.
    pub secret_name: String,
    /// The key in it.
    pub key: String,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Where a text is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapKey {
    /// Name of the ConfigMap.
    pub config_map_name: String,
    /// The key in it.
    pub key: String,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}
