use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{HelmSource, KustomizeSource, Rest, is_false, schemas};

/// Where manifests come from, and what makes them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationSource {
    /// Address of the repository.
    #[serde(rename = "repoURL")]
    pub repo_url: String,
    /// Folder in the repository.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Branch, tag, commit or version; empty for `HEAD`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub target_revision: String,
    /// Chart of a Helm repository, instead of a folder.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub chart: String,
    /// Name under which other sources use its files.
    #[serde(default, rename = "ref", skip_serializing_if = "String::is_empty")]
    pub reference: String,
    /// Name among several sources.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Only tags that begin like this, for a version constraint.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tag_prefix: String,
    /// The folder holds plain manifests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<Box<DirectorySource>>,
    /// The folder, or the chart, is for Helm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helm: Option<Box<HelmSource>>,
    /// The folder is for Kustomize.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kustomize: Option<Box<KustomizeSource>>,
    /// The folder is for a config management plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::plugin")]
    pub plugin: Option<Value>,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// How a folder of plain manifests is read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DirectorySource {
    /// Folders in it are read too.
    #[serde(default, skip_serializing_if = "is_false")]
    pub recurse: bool,
    /// Only files whose path matches this pattern.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub include: String,
    /// No files whose path matches this pattern.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub exclude: String,
    /// What Jsonnet files are given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::jsonnet")]
    pub jsonnet: Option<Value>,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}
