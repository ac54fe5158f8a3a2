//! The `ApplicationSet` resource, which generates Applications from a template.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ApplicationSpec, ObjectMeta, ResourceVersion, UnknownFields, is_false};

mod generators;
mod pull_requests;
mod scm;
mod secrets;
mod status;
mod strategy;
mod structs;
mod unknown_fields;

pub use generators::{
    ApplicationSetGenerator, ClusterDecisionResourceGenerator, ClusterGenerator, Generator, GitDirectory,
    GitFile, GitGenerator, LabelSelector, ListGenerator, MatrixGenerator, MergeGenerator, PluginConfigMap,
    PluginGenerator, PluginInput,
};
pub use pull_requests::{
    PullRequestAzureDevOps, PullRequestBitbucket, PullRequestBitbucketServer, PullRequestFilter,
    PullRequestGenerator, PullRequestGitea, PullRequestGithub, PullRequestGitlab,
};
pub use scm::{
    ScmAwsCodeCommit, ScmAzureDevOps, ScmBitbucket, ScmBitbucketServer, ScmFilter, ScmGenerator, ScmGitea,
    ScmGithub, ScmGitlab, TagFilter,
};
pub use secrets::{BasicAuth, BearerToken, ConfigMapKey, SecretKey};
pub use status::{
    ApplicationSetApplicationStatus, ApplicationSetCondition, ApplicationSetStatus, MemberStatus,
};
pub use strategy::{ApplicationSetStrategy, IntOrString, MatchExpression, RolloutStep, RolloutSteps};

/// `kind` of an [`ApplicationSet`]; other values are rejected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ApplicationSetKind {
    /// The only valid kind.
    #[default]
    ApplicationSet,
}

/// Template and generators. Tidegate creates an [`Application`](super::Application) for each parameter set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationSet {
    /// Always `argoproj.io/v1alpha1`.
    pub api_version: ResourceVersion,
    /// Always `ApplicationSet`. Other kinds are rejected.
    pub kind: ApplicationSetKind,
    /// Standard object metadata. The generated Applications are in the same namespace.
    pub metadata: ObjectMeta,
    /// Desired state of the ApplicationSet: its generators, its template and its policies.
    pub spec: ApplicationSetSpec,
    /// Observed state of the ApplicationSet. Written by the control plane.
    #[serde(default, skip_serializing_if = "ApplicationSetStatus::is_empty")]
    pub status: ApplicationSetStatus,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Desired state of an [`ApplicationSet`]: its generators, its template and its policies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationSetSpec {
    /// Generators of the parameter sets.
    pub generators: Vec<ApplicationSetGenerator>,
    /// Template of the Applications, rendered once for each parameter set.
    pub template: ApplicationSetTemplate,
    /// Template of a patch for each Application, in YAML or JSON. Use it for fields that are not strings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_patch: Option<String>,
    /// True if the templates use Go template syntax instead of `{{name}}`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub go_template: bool,
    /// Options for Go templates, such as `missingkey=error`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub go_template_options: Vec<String>,
    /// Has no effect: the selectors of nested generators are always applied.
    #[serde(default, skip_serializing_if = "is_false")]
    pub apply_nested_selectors: bool,
    /// Policy for updating and deleting the Applications.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_policy: Option<ApplicationSetSyncPolicy>,
    /// Order in which the Applications are synced and deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<ApplicationSetStrategy>,
    /// Annotations and labels to preserve on the Applications.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preserved_fields: Option<PreservedFields>,
    /// Application fields that users may change. Tidegate doesn't reset them to the template.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore_application_differences: Vec<IgnoreApplicationDifferences>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Template of an Application.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApplicationSetTemplate {
    /// Name, labels and annotations of each Application.
    pub metadata: TemplateMetadata,
    /// Specification of each Application. Its strings and map keys may contain template expressions.
    pub spec: ApplicationSpec,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Metadata of an [`ApplicationSetTemplate`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TemplateMetadata {
    /// Name of each Application. Must be unique for each parameter set.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Has no effect: Applications are created in the namespace of their ApplicationSet.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Labels of each Application. The steps of a progressive sync select Applications by label.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations of each Application.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Finalizers of each Application.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Policy for updating and deleting the Applications.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationSetSyncPolicy {
    /// True if an Application's objects are preserved when the Application is deleted.
    #[serde(default, skip_serializing_if = "is_false")]
    pub preserve_resources_on_deletion: bool,
    /// Allowed changes to existing Applications (default: updates and deletions).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applications_sync: Option<ApplicationsSync>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Allowed changes to existing Applications. Creation is always allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ApplicationsSync {
    /// Neither updates nor deletions.
    CreateOnly,
    /// Updates, but no deletions.
    CreateUpdate,
    /// Deletions, but no updates.
    CreateDelete,
    /// Updates and deletions.
    #[default]
    Sync,
}

/// Annotations and labels to preserve on the Applications, in addition to those that Argo CD preserves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PreservedFields {
    /// Names of annotations that are preserved if users add them to an Application.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub annotations: Vec<String>,
    /// Names of labels that are preserved if users add them to an Application.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Application fields that users may change. Tidegate doesn't reset them to the template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IgnoreApplicationDifferences {
    /// Name of the Application. Empty matches every Application.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// JSON pointers (RFC 6901) to the fields to ignore.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub json_pointers: Vec<String>,
    /// jq path expressions that select the fields to ignore.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jq_path_expressions: Vec<String>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}
