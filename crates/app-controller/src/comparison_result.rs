//! Result of a comparison.

use std::collections::BTreeMap;

use tidegate_application::comparison::ComparisonOutcome;
use tidegate_application::machine::OperationRelation;
use tidegate_model::ObjectKey;

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
