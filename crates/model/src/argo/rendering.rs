use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{IntOrString, Rest, is_false};

/// What Helm is told of a chart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelmSource {
    /// Name of the release; that of the application, if not said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub release_name: String,
    /// Files of values, or patterns of them; later ones win.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub value_files: Vec<String>,
    /// Files of values that are not there are left out.
    #[serde(default, skip_serializing_if = "is_false")]
    pub ignore_missing_value_files: bool,
    /// Values, as a text; they win over those of files.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub values: String,
    /// Values; then `values` do not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Rest>")]
    pub values_object: Option<Value>,
    /// Single values; they win over all others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<HelmParameter>,
    /// Single values that are contents of files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub file_parameters: Vec<HelmFileParameter>,
    /// Credentials are shown to all servers that the repository of a chart names.
    #[serde(default, skip_serializing_if = "is_false")]
    pub pass_credentials: bool,
    /// Definitions in `crds` are left out.
    #[serde(default, skip_serializing_if = "is_false")]
    pub skip_crds: bool,
    /// Tests are left out.
    #[serde(default, skip_serializing_if = "is_false")]
    pub skip_tests: bool,
    /// Values are not held against the schema of the chart.
    #[serde(default, skip_serializing_if = "is_false")]
    pub skip_schema_validation: bool,
    /// Version of Helm: `v3`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Version of Kubernetes that templates see.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kube_version: String,
    /// API versions that templates see beside those of Helm.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub api_versions: Vec<String>,
    /// Namespace of the release; that of the destination, if not said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A single value of a chart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelmParameter {
    /// Which, as a path with dots.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its value, as `helm --set` takes it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// It is a text, whatever it looks like.
    #[serde(default, skip_serializing_if = "is_false")]
    pub force_string: bool,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A single value of a chart that is the content of a file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HelmFileParameter {
    /// Which, as a path with dots.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The file whose content is the value; `$REF/…` names one of another source.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What is changed in the kustomization of a folder before it is built.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KustomizeSource {
    /// Stands before all names.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name_prefix: String,
    /// Stands after all names.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name_suffix: String,
    /// Namespace of all objects.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Images, as `kustomize edit set image` takes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// How many replicas workloads have, whatever their manifests say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replicas: Vec<KustomizeReplicas>,
    /// Labels of all objects.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub common_labels: BTreeMap<String, String>,
    /// They take the place of labels of the same name.
    #[serde(default, skip_serializing_if = "is_false")]
    pub force_common_labels: bool,
    /// Selectors do not get them.
    #[serde(default, skip_serializing_if = "is_false")]
    pub label_without_selector: bool,
    /// Templates of pods get them, where selectors do not.
    #[serde(default, skip_serializing_if = "is_false")]
    pub label_include_templates: bool,
    /// Annotations of all objects.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub common_annotations: BTreeMap<String, String>,
    /// Variables in annotations are replaced.
    #[serde(default, skip_serializing_if = "is_false")]
    pub common_annotations_envsubst: bool,
    /// They take the place of annotations of the same name.
    #[serde(default, skip_serializing_if = "is_false")]
    pub force_common_annotations: bool,
    /// Patches of the objects that the folder makes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patches: Vec<KustomizePatch>,
    /// Folders of Kustomize components that are put in, by paths from the folder of the source.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<String>,
    /// Components that are not there are left out.
    #[serde(default, skip_serializing_if = "is_false")]
    pub ignore_missing_components: bool,
    /// Version of Kubernetes that charts in a kustomization see.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kube_version: String,
    /// API versions that charts in a kustomization see.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub api_versions: Vec<String>,
    /// Version of Kustomize, among those that were set up.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// How many replicas the workloads of a name have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KustomizeReplicas {
    /// `metadata.name` of the workloads.
    pub name: String,
    /// How many: a number, or a text that is one.
    #[schemars(with = "IntOrString")]
    pub count: Value,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A patch of objects, and which they are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KustomizePatch {
    /// A file of it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Or the patch itself: YAML, merged strategically, or a list of operations as RFC 6902 has them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub patch: String,
    /// Which objects it is for; if not said, the one that the patch names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<KustomizeSelector>,
    /// `allowNameChange`, `allowKindChange`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, bool>,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Which objects a patch is for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KustomizeSelector {
    /// API group; empty for any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// API version; empty for any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Kind; empty for any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Name, a regular expression.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Namespace, a regular expression.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Labels that they have: `app=shop,tier!=db`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label_selector: String,
    /// Annotations that they have: `team=web`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub annotation_selector: String,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}
