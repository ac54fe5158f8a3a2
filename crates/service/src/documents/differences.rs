//! Differences as a document.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tidegate_executor::effects::{ObjectDifference, ObjectStatus};
use tidegate_model::Warning;

/// How objects differ from their manifests; values of Secrets are masked.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Differences {
    /// In the order of a sync.
    pub objects: Vec<DifferingObject>,
    /// What was found beside.
    pub warnings: Vec<Warning>,
}

/// How one object differs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DifferingObject {
    /// API group, empty for the core API.
    pub group: String,
    /// API version.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// `same`, `modified`, `added` or `extra`.
    pub status: &'static str,
    /// It asks not to count.
    pub ignored: bool,
    /// The fields that differ.
    pub changes: Vec<ChangedField>,
    /// Why the server refuses the manifest.
    pub error: Option<String>,
    /// The changes are an estimate.
    pub estimate: bool,
}

/// A field that differs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ChangedField {
    /// Where, as a JSON pointer; empty for the whole object.
    pub path: String,
    /// What is there now.
    pub before: Option<Value>,
    /// What would be there.
    pub after: Option<Value>,
}

/// The differences of all objects.
pub fn document(objects: &[ObjectDifference], warnings: &[Warning]) -> Differences {
    Differences { objects: objects.iter().map(object).collect(), warnings: warnings.to_vec() }
}

fn object(object: &ObjectDifference) -> DifferingObject {
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
