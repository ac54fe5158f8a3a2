//! Documents that describe differences.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tidegate_executor::effects::{ObjectDifference, ObjectStatus};
use tidegate_model::Warning;

/// Differences between objects and their manifests. Secret values are masked.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Differences {
    /// Objects, in sync order.
    pub objects: Vec<DifferingObject>,
    /// Warnings found during the comparison.
    pub warnings: Vec<Warning>,
}

/// An object, with its differences from the manifest.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DifferingObject {
    /// API group; empty for the core API.
    pub group: String,
    /// API version.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// `same`, `modified`, `added` or `extra`.
    pub status: &'static str,
    /// True if the object's annotations exclude it from the sync status.
    pub ignored: bool,
    /// Fields that differ.
    pub changes: Vec<ChangedField>,
    /// Reason why the API server rejects the manifest.
    pub error: Option<String>,
    /// True if the changes are only an estimate.
    pub estimate: bool,
}

/// Field that differs between the cluster and the manifest.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ChangedField {
    /// JSON pointer to the field; empty for the whole object.
    pub path: String,
    /// Current value.
    pub before: Option<Value>,
    /// Value after a sync.
    pub after: Option<Value>,
}

/// Returns a document with the differences of all objects.
pub fn build_document(objects: &[ObjectDifference], warnings: &[Warning]) -> Differences {
    Differences { objects: objects.iter().map(object_document).collect(), warnings: warnings.to_vec() }
}

fn object_document(object: &ObjectDifference) -> DifferingObject {
    let task = &object.task;
    let changes = object.difference.changes.iter().map(|change| ChangedField {
        path: change.path.clone(),
        before: change.before.clone(),
        after: change.after.clone(),
    });
    DifferingObject {
        group: task.gvk.group.clone(),
        version: task.gvk.version.clone(),
        kind: task.gvk.kind.clone(),
        namespace: task.namespace.clone(),
        name: task.name.clone(),
        status: match object.status {
            ObjectStatus::Same => "same",
            ObjectStatus::Modified => "modified",
            ObjectStatus::Added => "added",
            ObjectStatus::Extra => "extra",
        },
        ignored: object.ignored,
        changes: changes.collect(),
        error: object.refused.clone(),
        estimate: object.estimate || object.refused.is_some(),
    }
}
