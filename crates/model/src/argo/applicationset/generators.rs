use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::structs::generator_structs;
use super::{ApplicationSetTemplate, MatchExpression, PullRequestGenerator, ScmGenerator};
use crate::argo::{UnknownFields, is_false, schema_overrides};

/// Entry of `generators`: a generator, and a selector for its parameter sets.
///
/// An entry of `spec.generators` may contain several generators, and all of them run. An entry inside a
/// matrix or merge generator must contain exactly one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationSetGenerator {
    /// Generates the listed parameter sets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<ListGenerator>,
    /// Generates a parameter set for each declared cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clusters: Option<ClusterGenerator>,
    /// Generates a parameter set for each folder or file in a Git repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<GitGenerator>,
    /// Generates a parameter set for each repository in an organization.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scm_provider: Option<ScmGenerator>,
    /// Generates a parameter set for each cluster that is selected by a resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_decision_resource: Option<ClusterDecisionResourceGenerator>,
    /// Generates a parameter set for each open pull request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_request: Option<PullRequestGenerator>,
    /// Generates every combination of the parameter sets of two generators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matrix: Option<Box<MatrixGenerator>>,
    /// Generates the parameter sets of one generator, overridden by those of other generators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge: Option<Box<MergeGenerator>>,
    /// Generates the parameter sets that an HTTP service returns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin: Option<PluginGenerator>,
    /// Selector for the parameter sets (default: all).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Unknown fields, such as unknown generators, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// One generator of an [`ApplicationSetGenerator`], borrowed from its field.
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
    /// Returns the name of the generator's field.
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

    /// Returns the generator's own template. Its fields override those of `spec.template`.
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
    /// Returns the generators that are set, in a fixed order.
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

/// Label selector for parameter sets, clusters or resources.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct LabelSelector {
    /// Labels that must have exactly these values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Label requirements. All of them must be met.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema_overrides::selector_expressions")]
    pub match_expressions: Vec<MatchExpression>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

generator_structs! {
    /// Generator of a fixed list of parameter sets.
    pub struct ListGenerator {
        /// Parameter sets. The fields of each element are its parameters.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub elements: Vec<Value>,
        /// Additional elements as a YAML list, usually templated inside a matrix generator.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        pub elements_yaml: String,
        ..template,
    }

    /// Generator of one parameter set for each declared cluster.
    pub struct ClusterGenerator {
        /// Label selector for the clusters. Empty selects all clusters, including the local one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub selector: Option<LabelSelector>,
        ..values,
        /// True if the generator returns a single parameter set that lists all clusters as `clusters`.
        #[serde(default, skip_serializing_if = "is_false")]
        pub flat_list: bool,
        ..template,
    }

    /// Generator of one parameter set for each folder or file in a Git repository.
    pub struct GitGenerator {
        /// URL of the repository.
        #[serde(rename = "repoURL")]
        pub repo_url: String,
        /// Branch, tag or commit. Empty means `HEAD`.
        pub revision: String,
        /// Folder patterns. If set, `files` is ignored.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub directories: Vec<GitDirectory>,
        /// File patterns. Each matching file contains parameter sets in YAML or JSON.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub files: Vec<GitFile>,
        /// Name of the parameter that contains the path parameters.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        pub path_param_prefix: String,
        ..values,
        ..requeue_after_seconds,
        ..template,
    }

    /// Folder pattern.
    pub struct GitDirectory {
        /// Glob pattern for the path. `*` does not match slashes.
        pub path: String,
        /// True if matching folders are excluded, even if another pattern includes them.
        #[serde(default, skip_serializing_if = "is_false")]
        pub exclude: bool,
    }

    /// File pattern.
    pub struct GitFile {
        /// Glob pattern for the path. `*` also matches slashes.
        pub path: String,
        /// True if matching files are excluded, even if another pattern includes them.
        #[serde(default, skip_serializing_if = "is_false")]
        pub exclude: bool,
    }

    /// Generator of one parameter set for each cluster that is selected by a resource.
    pub struct ClusterDecisionResourceGenerator {
        /// Name of the ConfigMap that describes how to read the resources.
        pub config_map_ref: String,
        /// Name of the resource. Must be empty if `labelSelector` is set.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        pub name: String,
        /// Label selector for the resources. Used instead of `name`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub label_selector: Option<LabelSelector>,
        ..values,
        ..requeue_after_seconds,
        ..template,
    }

    /// Generator that combines every parameter set of one generator with every parameter set of another.
    pub struct MatrixGenerator {
        /// Two generators. The second is a template that is rendered with the first generator's parameters.
        // A generator's schema can't contain itself, so `all_crds` adds the nested schemas.
        #[schemars(with = "Vec<UnknownFields>")]
        pub generators: Vec<ApplicationSetGenerator>,
        ..template,
    }

    /// Generator that overrides the parameter sets of one generator with those of other generators.
    pub struct MergeGenerator {
        /// Generators to merge. Later generators take precedence.
        // A generator's schema can't contain itself, so `all_crds` adds the nested schemas.
        #[schemars(with = "Vec<UnknownFields>")]
        pub generators: Vec<ApplicationSetGenerator>,
        /// Names of the parameters that identify the sets to merge.
        pub merge_keys: Vec<String>,
        ..template,
    }

    /// Generator of the parameter sets that an HTTP service returns.
    pub struct PluginGenerator {
        /// Reference to the ConfigMap that contains the address of the service.
        pub config_map_ref: PluginConfigMap,
        /// Input to send to the service.
        #[serde(default, skip_serializing_if = "PluginInput::is_empty")]
        pub input: PluginInput,
        ..values,
        ..requeue_after_seconds,
        ..template,
    }

    /// Reference to the ConfigMap that contains the address of an HTTP service.
    pub struct PluginConfigMap {
        /// Name of the ConfigMap. It contains the address and a reference to the token.
        pub name: String,
    }

    /// Input to send to an HTTP service.
    pub struct PluginInput {
        /// Parameters by name. Their values may have any type.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        #[schemars(schema_with = "schema_overrides::any_values")]
        pub parameters: BTreeMap<String, Value>,
    }
}

impl PluginInput {
    /// Returns true if all fields are unset.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
