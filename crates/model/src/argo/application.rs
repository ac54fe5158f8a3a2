use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    ApplicationSource, ApplicationStatus, Info, ObjectMeta, OperationRequest, ResourceIgnoreDifferences,
    Rest, SyncPolicy,
};

/// The API group of the custom resources.
pub const GROUP: &str = "argoproj.io";
/// The API version of the custom resources.
pub const API_VERSION: &str = "argoproj.io/v1alpha1";
/// The namespace of the control plane: applications in it, or in none, go by their plain name.
pub const CONTROL_NAMESPACE: &str = "argocd";

/// `apiVersion` of a resource; always [`API_VERSION`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ResourceVersion {
    /// The only one there is.
    #[default]
    #[serde(rename = "argoproj.io/v1alpha1")]
    V1Alpha1,
}

/// `kind` of an [`Application`]; nothing else is taken for one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ApplicationKind {
    /// The only one there is.
    #[default]
    Application,
}

/// What is to be deployed, from where, and to where.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Application {
    /// Always `argoproj.io/v1alpha1` ([`API_VERSION`]).
    pub api_version: ResourceVersion,
    /// Always `Application`: anything else is refused.
    pub kind: ApplicationKind,
    /// Its name, its namespace, its labels, and annotations such as `argocd.argoproj.io/refresh`.
    pub metadata: ObjectMeta,
    /// What is to be deployed, from where, to where, and when.
    pub spec: ApplicationSpec,
    /// An operation that is asked for, or under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<OperationRequest>,
    /// What was found out and done: written by the control plane, and made again where it is lost.
    #[serde(default, skip_serializing_if = "ApplicationStatus::is_empty")]
    pub status: ApplicationStatus,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

impl Application {
    /// Where its manifests come from: the list, where there is one, or else the only source.
    pub fn sources(&self) -> &[ApplicationSource] {
        if self.spec.sources.is_empty() { self.spec.source.as_slice() } else { &self.spec.sources }
    }

    /// The value of an annotation.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.metadata.annotations.get(name).map(String::as_str)
    }

    /// Whether somebody asked for its deletion.
    pub fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}

/// What is to be deployed, from where, to where, and when: `spec` of an [`Application`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
// Argo CD cannot do without a project; in a file, `default` is meant.
#[schemars(extend("required" = ["destination", "project"]))]
pub struct ApplicationSpec {
    /// Name of its project; empty means `default`.
    #[serde(default)]
    pub project: String,
    /// Where its objects go.
    pub destination: ApplicationDestination,
    /// Where its manifests come from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<ApplicationSource>,
    /// Where they come from, when from several places; then `source` does not count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<ApplicationSource>,
    /// Whether it is synced without being asked, and what holds for each sync; if not said, only when somebody asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_policy: Option<SyncPolicy>,
    /// Differences that do not count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore_differences: Vec<ResourceIgnoreDifferences>,
    /// Remarks for people, such as links; nothing is decided by them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub info: Vec<Info>,
    /// How many syncs are remembered; 10 if not said, none if negative.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision_history_limit: Option<i64>,
    /// Everything else, such as `sourceHydrator`.
    #[serde(flatten)]
    pub rest: Rest,
}

/// `spec.destination`: a cluster by URL or by name, and a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApplicationDestination {
    /// URL of the API server.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub server: String,
    /// Name of the cluster, instead of its URL.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Where namespaced objects without a namespace go.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}
