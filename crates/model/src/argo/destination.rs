use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{SpecProblem, UnknownFields};

/// Destination of the objects: a cluster, by URL or by name, and a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApplicationDestination {
    /// URL of the cluster's API server.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub server: String,
    /// Name of the cluster. Used instead of `server`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Namespace for namespaced objects whose manifests don't specify one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

impl ApplicationDestination {
    /// Checks that either the URL or the name of the cluster is set.
    ///
    /// # Errors
    ///
    /// Returns an error if both are set, or if neither is set.
    pub fn check(&self) -> Result<(), SpecProblem> {
        let message = match (self.server.trim_end_matches('/').is_empty(), self.name.is_empty()) {
            (true, true) => "spec.destination has neither server nor name; set one of them",
            (false, false) => "spec.destination has both a name and a server; set only one of them",
            _ => return Ok(()),
        };
        Err(SpecProblem::new("spec.destination", message))
    }
}
