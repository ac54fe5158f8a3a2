use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{IntOrString, UnknownFields, is_false};

/// Options for rendering a Helm chart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelmSource {
    /// Name of the Helm release (default: the name of the Application).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub release_name: String,
    /// Values files, or glob patterns of values files. Later files take precedence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub value_files: Vec<String>,
    /// True if missing values files are ignored.
    #[serde(default, skip_serializing_if = "is_false")]
    pub ignore_missing_value_files: bool,
    /// Helm values as a YAML string. They take precedence over the values files.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub values: String,
    /// Helm values as an object. If set, `values` is ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<UnknownFields>")]
    pub values_object: Option<Value>,
    /// Individual values. They take precedence over all other values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<HelmParameter>,
    /// Individual values that are read from files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub file_parameters: Vec<HelmFileParameter>,
    /// True if credentials are sent to all servers that the chart repository refers to.
    #[serde(default, skip_serializing_if = "is_false")]
    pub pass_credentials: bool,
    /// True if the CustomResourceDefinitions in the chart's `crds` folder are skipped.
    #[serde(default, skip_serializing_if = "is_false")]
    pub skip_crds: bool,
    /// True if Helm tests are skipped.
    #[serde(default, skip_serializing_if = "is_false")]
    pub skip_tests: bool,
    /// True if values are not validated against the chart's schema.
    #[serde(default, skip_serializing_if = "is_false")]
    pub skip_schema_validation: bool,
    /// Helm version. Only `v3` is supported.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Kubernetes version that is passed to the templates.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kube_version: String,
    /// API versions that are passed to the templates, in addition to those built into Helm.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub api_versions: Vec<String>,
    /// Namespace of the Helm release (default: the namespace of the destination).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Individual value for a Helm chart, as with `helm --set`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelmParameter {
    /// Path of the value: its keys, separated by dots.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Value, in the syntax of `helm --set`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// True if the value is always a string.
    #[serde(default, skip_serializing_if = "is_false")]
    pub force_string: bool,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Individual value for a Helm chart that is read from a file, as with `helm --set-file`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HelmFileParameter {
    /// Path of the value: its keys, separated by dots.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Path of the file that contains the value. `$REF/…` refers to a file in another source.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Changes to make to a kustomization before it is built.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KustomizeSource {
    /// Prefix to add to all names.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name_prefix: String,
    /// Suffix to add to all names.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name_suffix: String,
    /// Namespace to set on all objects.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Image overrides, in the syntax of `kustomize edit set image`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// Replica counts that override those in the manifests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replicas: Vec<KustomizeReplicas>,
    /// Labels to add to all objects.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub common_labels: BTreeMap<String, String>,
    /// True if the labels replace existing labels of the same name.
    #[serde(default, skip_serializing_if = "is_false")]
    pub force_common_labels: bool,
    /// True if the labels are not added to selectors.
    #[serde(default, skip_serializing_if = "is_false")]
    pub label_without_selector: bool,
    /// True if the labels are added to pod templates even if they are not added to selectors.
    #[serde(default, skip_serializing_if = "is_false")]
    pub label_include_templates: bool,
    /// Annotations to add to all objects.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub common_annotations: BTreeMap<String, String>,
    /// True if build variables such as `$ARGOCD_APP_NAME` in annotation values are replaced.
    #[serde(default, skip_serializing_if = "is_false")]
    pub common_annotations_envsubst: bool,
    /// True if the annotations replace existing annotations of the same name.
    #[serde(default, skip_serializing_if = "is_false")]
    pub force_common_annotations: bool,
    /// Patches for the objects in the kustomization.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patches: Vec<KustomizePatch>,
    /// Paths of Kustomize components to add, relative to the path of the source.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<String>,
    /// True if missing components are ignored.
    #[serde(default, skip_serializing_if = "is_false")]
    pub ignore_missing_components: bool,
    /// Kubernetes version that is passed to charts in the kustomization.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kube_version: String,
    /// API versions that are passed to charts in the kustomization.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub api_versions: Vec<String>,
    /// Version of Kustomize. Must be one of the configured versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Replica count for workloads with a specific name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KustomizeReplicas {
    /// Name of the workloads.
    pub name: String,
    /// Number of replicas, as a number or a numeric string.
    #[schemars(with = "IntOrString")]
    pub count: Value,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Patch, and the objects that it applies to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KustomizePatch {
    /// Path of the patch file.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Inline patch: a strategic merge patch in YAML, or a JSON patch (RFC 6902).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub patch: String,
    /// Selector for the objects to patch (default: the object that the patch identifies).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<KustomizeSelector>,
    /// Options of the patch: `allowNameChange` and `allowKindChange`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, bool>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Selector for the objects to patch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KustomizeSelector {
    /// API group. Empty matches every group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// API version. Empty matches every version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Kind. Empty matches every kind.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Regular expression that the name must match.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Regular expression that the namespace must match.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Label selector, such as `app=shop,tier!=db`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label_selector: String,
    /// Annotation selector, such as `team=web`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub annotation_selector: String,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}
