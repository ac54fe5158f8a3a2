use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// API group of the custom resources.
pub const GROUP: &str = "argoproj.io";
/// API version of the custom resources.
pub const API_VERSION: &str = "argoproj.io/v1alpha1";

/// `apiVersion` of a resource; always [`API_VERSION`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ResourceVersion {
    /// The only supported version.
    #[default]
    #[serde(rename = "argoproj.io/v1alpha1")]
    V1Alpha1,
}
