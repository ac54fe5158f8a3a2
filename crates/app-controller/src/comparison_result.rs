//! Result of a comparison, and the state that it started from.

use std::collections::BTreeMap;

use tidegate_application::comparison::ComparisonOutcome;
use tidegate_application::refresh::RefreshLevel;
use tidegate_application::rollout_operation::Deployment;
use tidegate_application::supersede::ManifestComparison;
use tidegate_model::argo::ComparedTo;
use tidegate_model::{ObjectKey, OperationId};

use super::comparison_cache::ComparisonCache;
use super::watches::{TrackedObject, WatchPosition};

/// Result of a comparison, with data that later comparisons use.
pub struct ComparisonResult {
    pub outcome: ComparisonOutcome,
    /// Compared objects. `None` if the comparison failed.
    pub objects: Option<BTreeMap<ObjectKey, TrackedObject>>,
    /// Watch position before the objects were read. `None` if no objects were read.
    pub read_since: Option<WatchPosition>,
    /// Cached results that the next comparison can reuse.
    pub cache: ComparisonCache,
    /// Relation between the compared manifests and those that the running operation is deploying.
    pub operation_relation: OperationRelation,
    /// True if the cluster denies access to the objects. No event reports when access is granted.
    pub is_access_denied: bool,
}

/// Relation between the compared manifests and those that the running operation is deploying.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperationRelation {
    /// The running operation, if any.
    pub operation: Option<OperationId>,
    /// Result of comparing the manifests. Unknown if the comparison has failed.
    pub newest: ManifestComparison,
}

/// State at the start of a comparison.
pub struct ComparisonStart {
    pub compared_to: ComparedTo,
    pub level: RefreshLevel,
    /// Value of the refresh annotation.
    pub refresh_annotation: Option<String>,
    /// Newest deployment.
    pub newest_deployment: Option<Deployment>,
    /// Number of operations that have finished.
    pub ended_operations: u64,
}
