//! Result of a comparison.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_application::comparison::ComparisonOutcome;
use tidegate_application::machine::OperationRelation;
use tidegate_model::ObjectKey;
use tidegate_planner::ComparedPlan;
use tokio::sync::OwnedSemaphorePermit;

use super::comparison_cache::ComparisonCache;
use super::watches::{TrackedObject, WatchPosition};

/// Maximum number of plans that comparisons keep in memory for the operations that follow. All other
/// operations compute their plan again.
pub const RETAINED_PLANS_MAX: usize = 16;

/// Plan of a comparison, kept for the operation that follows.
pub struct RetainedPlan {
    pub plan: Arc<ComparedPlan>,
    pub _permit: OwnedSemaphorePermit,
}

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
    /// Plan for an automated sync.
    pub plan: Option<RetainedPlan>,
}
