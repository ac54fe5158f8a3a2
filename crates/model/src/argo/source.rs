use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{HelmSource, KustomizeSource, SpecProblem, UnknownFields, is_false, schema_overrides};

/// Source of manifests and the options for rendering them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationSource {
    /// URL of the repository.
    #[serde(rename = "repoURL")]
    pub repo_url: String,
    /// Path of the folder in the repository.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Branch, tag, commit or version. Empty means `HEAD`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub target_revision: String,
    /// Name of a chart in a Helm repository. Used instead of `path`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub chart: String,
    /// Name by which other sources refer to this source's files.
    #[serde(default, rename = "ref", skip_serializing_if = "String::is_empty")]
    pub reference: String,
    /// Name that identifies the source among several sources.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Prefix of the tags to consider when resolving a version constraint.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tag_prefix: String,
    /// Options for a folder of plain manifests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<Box<DirectorySource>>,
    /// Options for Helm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helm: Option<Box<HelmSource>>,
    /// Options for Kustomize.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kustomize: Option<Box<KustomizeSource>>,
    /// Options for a config management plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema_overrides::plugin")]
    pub plugin: Option<Value>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

impl ApplicationSource {
    /// Checks the fields that locate the manifests. `field` is the path of the source within the Application,
    /// such as `spec.source`.
    ///
    /// # Errors
    ///
    /// Returns an error that identifies the missing, invalid or ineffective field and explains how to fix it.
    pub(super) fn check(&self, field: &str, is_one_of_several: bool) -> Result<(), SpecProblem> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        let wrong = |part: &str, message: String| Err(SpecProblem::new(format!("{field}{part}"), message));
        let Self { repo_url, path, chart, reference, .. } = self;
        if repo_url.trim().is_empty() {
            return wrong(".repoURL", format!("{field}.repoURL is empty; set the URL of a repository"));
        }
        if !reference.is_empty() && !is_one_of_several {
            return wrong(
                ".ref",
                format!("{field}.ref has no effect because there are no other sources; use spec.sources"),
            );
        }
        if !reference.chars().all(is_name) {
            return wrong(
                ".ref",
                format!(
                    "invalid {field}.ref {reference:?}: use only letters, digits, dashes and underscores"
                ),
            );
        }
        if !reference.is_empty() && !chart.is_empty() {
            return wrong(
                "",
                format!(
                    "{field} has both ref and chart; remove one of them, because only a Git repository can provide value files"
                ),
            );
        }
        // The whole repository must be selected explicitly as `.`. Otherwise a forgotten path could prune
        // existing objects.
        let is_chart = !chart.is_empty() || repo_url.starts_with("oci://");
        if path.is_empty() && !is_chart && reference.is_empty() {
            return wrong(
                "",
                format!(
                    "{field}.path is missing; set it to the folder that contains the manifests, or to `.` for the whole repository"
                ),
            );
        }
        if path.starts_with('/') {
            return wrong(
                ".path",
                format!(
                    "{field}.path {path:?} is absolute; use a path relative to the root of the repository"
                ),
            );
        }
        if leads_out(path) {
            return wrong(
                ".path",
                format!("{field}.path {path:?} is outside the repository; use a path inside it"),
            );
        }
        Ok(())
    }
}

/// Returns true if a relative path leaves its root folder, even if a later segment returns to it.
fn leads_out(path: &str) -> bool {
    let depth = path.split('/').try_fold(0_usize, |depth, part| match part {
        "" | "." => Some(depth),
        ".." => depth.checked_sub(1),
        _ => depth.checked_add(1),
    });
    depth.is_none()
}

/// Options for a folder of plain manifests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DirectorySource {
    /// True if subfolders are included.
    #[serde(default, skip_serializing_if = "is_false")]
    pub recurse: bool,
    /// Glob pattern for the paths of files to include.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub include: String,
    /// Glob pattern for the paths of files to exclude.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub exclude: String,
    /// Options for Jsonnet files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema_overrides::jsonnet")]
    pub jsonnet: Option<Value>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}
