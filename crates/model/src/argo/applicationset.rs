//! The resource `ApplicationSet`: Applications that are generated from a template.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ApplicationSpec, ObjectMeta, ResourceVersion, Rest, is_false};

mod generators;
mod pull_requests;
mod scm;
mod secrets;
mod status;
mod strategy;
mod unknown;

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

/// `kind` of an [`ApplicationSet`]; nothing else is taken for one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ApplicationSetKind {
    /// The only one there is.
    #[default]
    ApplicationSet,
}

/// A template, and what to fill it with: each set of parameters makes an [`Application`](super::Application).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationSet {
    /// Always [`API_VERSION`](super::API_VERSION).
    pub api_version: ResourceVersion,
    /// Always `ApplicationSet`: anything else is refused.
    pub kind: ApplicationSetKind,
    /// Its name, its namespace, which is that of its Applications too, its labels and annotations.
    pub metadata: ObjectMeta,
    /// Which Applications there are to be, and what may be done with them.
    pub spec: ApplicationSetSpec,
    /// What was found out and done: written by the control plane.
    #[serde(default, skip_serializing_if = "ApplicationSetStatus::is_empty")]
    pub status: ApplicationSetStatus,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Which Applications there are to be, and what may be done with them: `spec` of an [`ApplicationSet`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationSetSpec {
    /// Where the sets of parameters come from.
    pub generators: Vec<ApplicationSetGenerator>,
    /// What each of them fills.
    pub template: ApplicationSetTemplate,
    /// A template of a patch of each Application, for what is no text: YAML or JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_patch: Option<String>,
    /// Templates are those of Go, instead of `{{name}}`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub go_template: bool,
    /// Options of Go's templates, such as `missingkey=error`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub go_template_options: Vec<String>,
    /// Without effect: selectors of nested generators always count.
    #[serde(default, skip_serializing_if = "is_false")]
    pub apply_nested_selectors: bool,
    /// What may be done with Applications.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_policy: Option<ApplicationSetSyncPolicy>,
    /// In which order they are synced and deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<ApplicationSetStrategy>,
    /// What of Applications is left alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preserved_fields: Option<PreservedFields>,
    /// Fields of Applications that others may change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore_application_differences: Vec<IgnoreApplicationDifferences>,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// An Application whose texts are templates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApplicationSetTemplate {
    /// Name, labels and annotations of each Application.
    pub metadata: TemplateMetadata,
    /// `spec` of each Application. Texts in it may be templates, keys of maps too.
    pub spec: ApplicationSpec,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// `metadata` of an [`ApplicationSetTemplate`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TemplateMetadata {
    /// Name of each Application: different sets of parameters must give different ones.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Without effect: Applications are in the namespace of their set.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Labels of each Application; a progressive sync finds its steps by them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations of each Application.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// What keeps it while it is being deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What may be done with Applications.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationSetSyncPolicy {
    /// Their objects stay when they are deleted.
    #[serde(default, skip_serializing_if = "is_false")]
    pub preserve_resources_on_deletion: bool,
    /// Whether they are updated and deleted; both if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applications_sync: Option<ApplicationsSync>,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Whether Applications are updated and deleted; they are always created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ApplicationsSync {
    /// They are neither updated nor deleted.
    CreateOnly,
    /// They are updated, and not deleted.
    CreateUpdate,
    /// They are deleted, and not updated.
    CreateDelete,
    /// They are updated and deleted.
    #[default]
    Sync,
}

/// What of Applications is left alone, besides what Argo CD leaves alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PreservedFields {
    /// Names of annotations that others give Applications, and that stay.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub annotations: Vec<String>,
    /// Names of labels that others give Applications, and that stay.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Fields of Applications that others may change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IgnoreApplicationDifferences {
    /// Name of the Application; empty for all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Fields, as JSON pointers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub json_pointers: Vec<String>,
    /// Fields, as jq path expressions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jq_path_expressions: Vec<String>,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}
