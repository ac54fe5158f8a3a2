use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    ApplicationDestination, ApplicationSource, ApplicationStatus, Info, ObjectMeta, OperationRequest,
    ResourceIgnoreDifferences, ResourceVersion, SpecProblem, SyncPolicy, UnknownFields,
};

/// `kind` of an [`Application`]; other values are rejected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ApplicationKind {
    /// The only valid kind.
    #[default]
    Application,
}

/// Application: a set of objects that Tidegate deploys from one or more sources to one destination.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Application {
    /// Always `argoproj.io/v1alpha1`.
    pub api_version: ResourceVersion,
    /// Always `Application`. Other kinds are rejected.
    pub kind: ApplicationKind,
    /// Standard object metadata, with annotations such as `argocd.argoproj.io/refresh`.
    pub metadata: ObjectMeta,
    /// Desired state of the Application: its sources, its destination and its sync policy.
    pub spec: ApplicationSpec,
    /// Requested or running operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<OperationRequest>,
    /// Observed state of the Application. Written by the control plane, and rebuilt if lost.
    #[serde(default, skip_serializing_if = "ApplicationStatus::is_empty")]
    pub status: ApplicationStatus,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

impl Application {
    /// Returns the manifest sources: `spec.sources` unless it is empty, otherwise `spec.source`.
    pub fn sources(&self) -> &[ApplicationSource] {
        if self.spec.sources.is_empty() { self.spec.source.as_slice() } else { &self.spec.sources }
    }

    /// Returns an annotation's value.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.metadata.annotations.get(name).map(String::as_str)
    }

    /// Returns true if deletion of the Application was requested.
    pub fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}

/// Desired state of an [`Application`]: its sources, its destination and its sync policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
// Argo CD requires a project. In Tidegate, a missing project means `default`.
#[schemars(extend("required" = ["destination", "project"]))]
pub struct ApplicationSpec {
    /// Name of the AppProject. Empty means `default`.
    #[serde(default)]
    pub project: String,
    /// Cluster and namespace that the objects are deployed to.
    pub destination: ApplicationDestination,
    /// Source of the manifests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<ApplicationSource>,
    /// Sources of the manifests, if there are multiple. Must not be combined with `source`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<ApplicationSource>,
    /// Settings for automated syncs, and options for every sync (default: syncs run only on request).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_policy: Option<SyncPolicy>,
    /// Differences to ignore when the cluster is compared with the manifests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore_differences: Vec<ResourceIgnoreDifferences>,
    /// Informational entries for users, such as links. They have no effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub info: Vec<Info>,
    /// Maximum number of syncs in the history (default: 10). Zero or a negative value disables the history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision_history_limit: Option<i64>,
    /// Unknown fields, such as `sourceHydrator`, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

impl ApplicationSpec {
    /// Checks that the sources are complete, and that `source` and `sources` aren't both set.
    ///
    /// # Errors
    ///
    /// Returns an error that identifies the missing, invalid or ineffective field and explains how to fix it.
    pub fn check_sources(&self) -> Result<(), SpecProblem> {
        const SOURCES: &str = "spec.sources";
        match (&self.source, self.sources.is_empty()) {
            (Some(_), false) => Err(SpecProblem::new(
                SOURCES,
                "spec.source and spec.sources are both set; remove one of them",
            )),
            (None, true) => Err(SpecProblem::new(
                "spec.source",
                "spec.source is missing; set it to the location of the manifests",
            )),
            (Some(source), true) => source.check("spec.source", false),
            (None, false) => {
                for (index, source) in self.sources.iter().enumerate() {
                    source.check(&format!("spec.sources[{index}]"), true)?;
                }
                let mut names = BTreeSet::new();
                let mut given = self.sources.iter().map(|source| source.reference.as_str());
                match given.find(|name| !name.is_empty() && !names.insert(*name)) {
                    Some(name) => Err(SpecProblem::new(
                        SOURCES,
                        format!(
                            "two entries in spec.sources have the same ref {name:?}; use a different ref for each"
                        ),
                    )),
                    None => Ok(()),
                }
            }
        }
    }
}
