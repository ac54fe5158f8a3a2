use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ApplicationSetTemplate, MatchExpression, PullRequestGenerator, ScmGenerator};
use crate::argo::{Rest, is_false, schemas};

/// One entry of `generators`: the generator that is set, and which of its sets of parameters count.
///
/// Of an entry of `spec.generators` every generator that is set runs; inside of a matrix or a merge there can be one only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationSetGenerator {
    /// Sets that are written down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<ListGenerator>,
    /// One set for each cluster that is declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clusters: Option<ClusterGenerator>,
    /// One a folder or file of a Git repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<GitGenerator>,
    /// One a repository of an organisation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scm_provider: Option<ScmGenerator>,
    /// One a cluster that some resource has decided for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_decision_resource: Option<ClusterDecisionResourceGenerator>,
    /// One an open pull request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_request: Option<PullRequestGenerator>,
    /// Those of two generators, each with each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matrix: Option<Box<MatrixGenerator>>,
    /// Those of a generator, changed by those of others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge: Option<Box<MergeGenerator>>,
    /// What a program answers over HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin: Option<PluginGenerator>,
    /// Only sets of parameters that it matches count; all if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Everything else: generators that are not known here.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A generator of an [`ApplicationSetGenerator`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Generator<'g> {
    /// `list`
    List(&'g ListGenerator),
    /// `clusters`
    Clusters(&'g ClusterGenerator),
    /// `git`
    Git(&'g GitGenerator),
    /// `scmProvider`
    ScmProvider(&'g ScmGenerator),
    /// `clusterDecisionResource`
    ClusterDecisionResource(&'g ClusterDecisionResourceGenerator),
    /// `pullRequest`
    PullRequest(&'g PullRequestGenerator),
    /// `matrix`
    Matrix(&'g MatrixGenerator),
    /// `merge`
    Merge(&'g MergeGenerator),
    /// `plugin`
    Plugin(&'g PluginGenerator),
}

impl<'g> Generator<'g> {
    /// The name of its field.
    pub const fn name(self) -> &'static str {
        match self {
            Self::List(_) => "list",
            Self::Clusters(_) => "clusters",
            Self::Git(_) => "git",
            Self::ScmProvider(_) => "scmProvider",
            Self::ClusterDecisionResource(_) => "clusterDecisionResource",
            Self::PullRequest(_) => "pullRequest",
            Self::Matrix(_) => "matrix",
            Self::Merge(_) => "merge",
            Self::Plugin(_) => "plugin",
        }
    }

    /// What it says of the template.
    pub const fn template(self) -> Option<&'g ApplicationSetTemplate> {
        match self {
            Self::List(one) => one.template.as_ref(),
            Self::Clusters(one) => one.template.as_ref(),
            Self::Git(one) => one.template.as_ref(),
            Self::ScmProvider(one) => one.template.as_ref(),
            Self::ClusterDecisionResource(one) => one.template.as_ref(),
            Self::PullRequest(one) => one.template.as_ref(),
            Self::Matrix(one) => one.template.as_ref(),
            Self::Merge(one) => one.template.as_ref(),
            Self::Plugin(one) => one.template.as_ref(),
        }
    }
}

impl ApplicationSetGenerator {
    /// The generators that are set, always in the same order.
    pub fn generators(&self) -> impl Iterator<Item = Generator<'_>> {
        let all = [
            self.list.as_ref().map(Generator::List),
            self.clusters.as_ref().map(Generator::Clusters),
            self.git.as_ref().map(Generator::Git),
            self.scm_provider.as_ref().map(Generator::ScmProvider),
            self.cluster_decision_resource.as_ref().map(Generator::ClusterDecisionResource),
            self.pull_request.as_ref().map(Generator::PullRequest),
            self.matrix.as_deref().map(Generator::Matrix),
            self.merge.as_deref().map(Generator::Merge),
            self.plugin.as_ref().map(Generator::Plugin),
        ];
        all.into_iter().flatten()
    }
}

/// Which sets of parameters, clusters or resources count.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct LabelSelector {
    /// Labels and their values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Expressions; all must hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schemas::selector_expressions")]
    pub match_expressions: Vec<MatchExpression>,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Sets of parameters that are written down.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListGenerator {
    /// Each element is a set: an object, whose fields are the parameters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub elements: Vec<Value>,
    /// More of them, as a YAML list; mostly made by a template inside of a matrix.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub elements_yaml: String,
    /// What it says of the template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<ApplicationSetTemplate>,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A set of parameters for each cluster that is declared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterGenerator {
    /// By the labels of their declarations; all if empty, then with the local one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Further parameters, by name: `values.NAME` in templates.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, String>,
    /// One set for all of them, with the list `clusters`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub flat_list: bool,
    /// What it says of the template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<ApplicationSetTemplate>,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A set of parameters for each folder, or for each file, of a Git repository.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitGenerator {
    /// Address of the repository.
    #[serde(rename = "repoURL")]
    pub repo_url: String,
    /// Branch, tag or commit; empty for `HEAD`.
    pub revision: String,
    /// Patterns of folders; where there are any, `files` do not count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub directories: Vec<GitDirectory>,
    /// Patterns of files; each that matches gives the sets that it holds, as YAML or JSON.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<GitFile>,
    /// Parameters of the path are inside of one of this name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path_param_prefix: String,
    /// Further parameters, by name: `values.NAME` in templates.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, String>,
    /// How often it is looked at, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requeue_after_seconds: Option<i64>,
    /// What it says of the template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<ApplicationSetTemplate>,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A pattern of folders.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GitDirectory {
    /// The pattern; `*` stands for what is between two slashes.
    pub path: String,
    /// Folders that match do not count, whatever else says.
    #[serde(default, skip_serializing_if = "is_false")]
    pub exclude: bool,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A pattern of files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GitFile {
    /// The pattern; `*` stands for anything, slashes too.
    pub path: String,
    /// Files that match do not count, whatever else says.
    #[serde(default, skip_serializing_if = "is_false")]
    pub exclude: bool,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A set of parameters for each cluster that some resource has decided for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterDecisionResourceGenerator {
    /// Name of the ConfigMap that says how the resources are read.
    pub config_map_ref: String,
    /// Name of the resource; or else `labelSelector`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Labels of the resources; or else `name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// Further parameters, by name: `values.NAME` in templates.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, String>,
    /// How often it is looked at, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requeue_after_seconds: Option<i64>,
    /// What it says of the template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<ApplicationSetTemplate>,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// The sets of two generators, each with each.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MatrixGenerator {
    /// The two; the second is a template too, which the sets of the first fill.
    // The schema of a generator holds no schema of itself: `definitions` says how deep it goes.
    #[schemars(with = "Vec<Rest>")]
    pub generators: Vec<ApplicationSetGenerator>,
    /// What it says of the template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<ApplicationSetTemplate>,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// The sets of the first generator, changed by those of the others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MergeGenerator {
    /// The generators; later ones win.
    // The schema of a generator holds no schema of itself: `definitions` says how deep it goes.
    #[schemars(with = "Vec<Rest>")]
    pub generators: Vec<ApplicationSetGenerator>,
    /// Sets that have the same values of these parameters belong together.
    pub merge_keys: Vec<String>,
    /// What it says of the template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<ApplicationSetTemplate>,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What a program answers over HTTP.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PluginGenerator {
    /// Where the program is.
    pub config_map_ref: PluginConfigMap,
    /// What it is asked.
    #[serde(default, skip_serializing_if = "PluginInput::is_empty")]
    pub input: PluginInput,
    /// Further parameters, by name: `values.NAME` in templates.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, String>,
    /// How often it is asked, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requeue_after_seconds: Option<i64>,
    /// What it says of the template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<ApplicationSetTemplate>,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// The ConfigMap that says where a program is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PluginConfigMap {
    /// `metadata.name` of the ConfigMap, which holds the address and where the token is.
    pub name: String,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What a program is asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PluginInput {
    /// Any values, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schemas::any_values")]
    pub parameters: BTreeMap<String, Value>,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

impl PluginInput {
    /// Whether nothing is asked.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
